//! [`InterfaceFilter`]: which network interfaces the data sockets use, in NCCL's syntax.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A list of interface names: `eth,ib` takes those that begin with one of them, `=eth0` those that are named so, `^docker,lo` all but
/// those, `^=eth3` all but exactly that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceFilter {
    names: Vec<String>,
    is_exact: bool,
    excludes: bool,
}

/// A filter that cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the interface list {text:?} {fault}; expected names such as eth0,ib, perhaps after ^ (all but) or = (exactly)"
)]
pub struct BadFilter {
    text: String,
    fault: &'static str,
}

impl InterfaceFilter {
    /// Whether it says nothing, so that the system's routes decide.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether it takes the interface.
    pub fn takes(&self, interface: &str) -> bool {
        let is_named = |name: &String| {
            if self.is_exact { interface == name } else { interface.starts_with(name.as_str()) }
        };
        self.is_empty() || self.names.iter().any(is_named) != self.excludes
    }

    /// Of the interfaces given, the addresses that it takes; loopback ones only where it takes no other.
    pub(super) fn select(&self, interfaces: &[(String, IpAddr)]) -> Vec<IpAddr> {
        let taken = interfaces.iter().filter(|(name, _)| self.takes(name)).map(|&(_, address)| address);
        let (loopback, others): (Vec<_>, Vec<_>) = taken.partition(IpAddr::is_loopback);
        if others.is_empty() { loopback } else { others }
    }
}

impl FromStr for InterfaceFilter {
    type Err = BadFilter;

    fn from_str(text: &str) -> Result<Self, BadFilter> {
        let bad = |fault| BadFilter { text: text.to_owned(), fault };
        let rest = text.trim();
        let (excludes, rest) = strip(rest, '^');
        let (is_exact, rest) = strip(rest, '=');
        let names: Vec<String> =
            rest.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
        match () {
            () if names.is_empty() && (excludes || is_exact) => Err(bad("names no interface")),
            () if names.iter().any(|name| name.contains(['^', '=', ' '])) => {
                Err(bad("has ^, = or a space within a name"))
            }
            () => Ok(InterfaceFilter { names, is_exact, excludes }),
        }
    }
}

impl fmt::Display for InterfaceFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (excludes, exact) = (if self.excludes { "^" } else { "" }, if self.is_exact { "=" } else { "" });
        write!(f, "{excludes}{exact}{}", self.names.join(","))
    }
}

/// The addresses of the interfaces that are up, link-local ones apart (they mean nothing without an interface).
pub(super) fn interfaces_of_host() -> std::io::Result<Vec<(String, IpAddr)>> {
    let all = if_addrs::get_if_addrs()?;
    let usable = all.into_iter().filter(|interface| interface.is_oper_up() && !interface.is_link_local());
    Ok(usable.map(|interface| (interface.name.clone(), interface.ip())).collect())
}

/// The addresses of this host's interfaces that are up and that a filter takes; loopback ones only where it takes no other.
///
/// # Errors
/// Where the system does not list its interfaces.
pub fn addresses_of_host(filter: &InterfaceFilter) -> std::io::Result<Vec<IpAddr>> {
    Ok(filter.select(&interfaces_of_host()?))
}

fn strip(text: &str, mark: char) -> (bool, &str) {
    text.strip_prefix(mark).map_or((false, text), |rest| (true, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(filter: &str) -> Vec<&'static str> {
        let filter: InterfaceFilter = filter.parse().unwrap();
        ["lo", "eth0", "eth01", "ib0", "docker0"].into_iter().filter(|name| filter.takes(name)).collect()
    }

    #[test]
    fn prefixes_exact_names_and_exclusions() {
        assert_eq!(taken("eth,ib"), ["eth0", "eth01", "ib0"]);
        assert_eq!(taken("=eth0"), ["eth0"]);
        assert_eq!(taken("=eth0,ib0"), ["eth0", "ib0"]);
        assert_eq!(taken("^docker,lo"), ["eth0", "eth01", "ib0"]);
        assert_eq!(taken("^=eth0"), ["lo", "eth01", "ib0", "docker0"]);
        assert_eq!(taken(" "), ["lo", "eth0", "eth01", "ib0", "docker0"]);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_text() {
        for text in ["^", "=", "^=", "eth0,=ib0", "a b"] {
            let error = text.parse::<InterfaceFilter>().unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
        assert_eq!("^=eth0,ib".parse::<InterfaceFilter>().unwrap().to_string(), "^=eth0,ib");
    }

    #[test]
    fn loopback_is_the_last_choice() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let all = [("lo".to_owned(), address("127.0.0.1")), ("eth0".to_owned(), address("10.0.0.1"))];
        assert_eq!(InterfaceFilter::default().select(&all), [address("10.0.0.1")]);
        assert_eq!("lo".parse::<InterfaceFilter>().unwrap().select(&all), [address("127.0.0.1")]);
        assert!("ib".parse::<InterfaceFilter>().unwrap().select(&all).is_empty());
    }
}
