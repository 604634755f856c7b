//! [`NameFilter`]: which interfaces or devices may be used, in NCCL's syntax.

use super::Value;

/// A list of names. `eth` admits every name that begins with it; a leading `=` asks for whole names; a leading `^` excludes
/// instead of admitting (`^=eth0` excludes exactly eth0). Names are joined by commas and may carry a port, `mlx5_0:1`.
/// The empty list admits everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NameFilter {
    excludes: bool,
    exact: bool,
    names: Vec<Name>,
}

/// One name of the list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Name {
    name: String,
    port: Option<u16>,
}

impl NameFilter {
    /// Reads the syntax above; `None` where a name is empty or a port is no number.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (excludes, text) = strip(text, '^');
        let (exact, text) = strip(text, '=');
        if text.is_empty() {
            return (!excludes && !exact).then(NameFilter::default);
        }
        let names: Option<Vec<Name>> = text.split(',').map(|part| Name::parse(part.trim())).collect();
        Some(NameFilter { excludes, exact, names: names? })
    }

    /// Whether the list is empty, so that everything is admitted.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether a device of this name may be used.
    pub fn admits(&self, name: &str) -> bool {
        self.is_empty() || self.excludes != self.names.iter().any(|n| n.fits(name, self.exact))
    }

    /// Whether this port of a device may be used.
    pub fn admits_port(&self, name: &str, port: u16) -> bool {
        let fits = |n: &Name| n.fits(name, self.exact) && n.port.is_none_or(|p| p == port);
        self.is_empty() || self.excludes != self.names.iter().any(fits)
    }
}

impl Name {
    fn parse(text: &str) -> Option<Self> {
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, Some(port.parse().ok()?)),
            None => (text, None),
        };
        let is_plain = !name.is_empty() && !name.contains(['^', '=', ':']) && name == name.trim();
        is_plain.then(|| Name { name: name.to_owned(), port })
    }

    fn fits(&self, name: &str, exact: bool) -> bool {
        if exact { name == self.name } else { name.starts_with(&self.name) }
    }
}

fn strip(text: &str, mark: char) -> (bool, &str) {
    match text.strip_prefix(mark) {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

impl Value for NameFilter {
    fn read(&mut self, text: &str) -> bool {
        NameFilter::parse(text).map(|value| *self = value).is_some()
    }

    fn show(&self) -> String {
        let marks = [(self.excludes, "^"), (self.exact, "=")];
        let mark: String = marks.iter().filter(|(set, _)| *set).map(|(_, mark)| *mark).collect();
        let names: Vec<String> = self.names.iter().map(Name::show).collect();
        mark + &names.join(",")
    }

    fn form(&self) -> String {
        "a list of names such as eth,ib0 (prefixes), =eth0 (exact) or ^docker,lo (all but these), or nothing"
            .to_owned()
    }
}

impl Name {
    fn show(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.name),
            None => self.name.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> NameFilter {
        NameFilter::parse(text).expect("legal")
    }

    #[test]
    fn prefixes_exact_names_and_exclusion() {
        let cases = [
            ("", "anything", true),
            ("eth", "eth0", true),
            ("eth", "ib0", false),
            ("eth,ib", "ib0", true),
            ("=eth0", "eth0", true),
            ("=eth0", "eth01", false),
            ("^docker,lo", "docker0", false),
            ("^docker,lo", "eth0", true),
            ("^=eth0", "eth01", true),
            ("^=eth0", "eth0", false),
        ];
        for (text, name, admitted) in cases {
            assert_eq!(filter(text).admits(name), admitted, "{text} {name}");
        }
    }

    #[test]
    fn ports() {
        assert!(filter("mlx5_0:1").admits_port("mlx5_0", 1));
        assert!(!filter("mlx5_0:1").admits_port("mlx5_0", 2));
        assert!(filter("^mlx5_0:1").admits_port("mlx5_0", 2));
        assert!(filter("mlx5_0").admits_port("mlx5_0", 2));
    }

    #[test]
    fn refuses_marks_without_names_and_bad_ports() {
        for text in ["^", "=", "=^a", "a,,b", "a:x", "a:70000", ":1", "a,^b"] {
            assert_eq!(NameFilter::parse(text), None, "{text}");
        }
    }
}
