//! [`Starter`]: the process that started this rank and those beside it, found among this process's ancestors. Its number and its start tell one
//! job from another where a launcher sets no variable that does.

use std::fs;

/// The process of a launcher on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starter {
    /// Its process number.
    pub pid: u32,
    /// When it started, in the system's ticks since boot: numbers are given again.
    pub started: u64,
    /// Its command line.
    pub arguments: Vec<String>,
}

impl Starter {
    /// What follows an option on its command line.
    pub fn option(&self, name: &str) -> Option<&str> {
        let at = self.arguments.iter().position(|argument| argument == name)?;
        self.arguments.get(at + 1).map(String::as_str)
    }
}

/// Ancestors that are looked at.
const MOST_ANCESTORS: usize = 64;
/// Whoever loses its parent is given to this process, so that it started nobody in particular.
const INIT: u32 = 1;

/// The nearest ancestor with one of the names `daemons`; else the nearest that was itself started without the variable `rank`: wrappers
/// between it and this process inherit that.
pub fn find(daemons: &[&str], rank: &str) -> Option<Starter> {
    let mut ancestors = Vec::new();
    let mut pid = stat(std::process::id())?.parent;
    while pid > INIT && ancestors.len() < MOST_ANCESTORS {
        let stat = stat(pid)?;
        let parent = stat.parent;
        ancestors.push((pid, stat));
        pid = parent;
    }
    let is_daemon = |(_, stat): &&(u32, Stat)| daemons.contains(&stat.name.as_str());
    let is_outside = |(pid, _): &&(u32, Stat)| !has_variable(*pid, rank);
    let (pid, stat) = ancestors.iter().find(is_daemon).or_else(|| ancestors.iter().find(is_outside))?;
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let arguments = arguments.split(|&byte| byte == 0).map(|part| String::from_utf8_lossy(part).into_owned());
    Some(Starter { pid: *pid, started: stat.started, arguments: arguments.collect() })
}

/// When a process that runs started; `None` where there is none of that number, or it has ended.
pub fn start_of(pid: u32) -> Option<u64> {
    stat(pid).filter(|stat| !stat.has_ended).map(|stat| stat.started)
}

/// Whether a process was started with a variable; a process of somebody else, whose environment cannot be read, counts as one without.
fn has_variable(pid: u32, name: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut pairs = environment.split(|&byte| byte == 0);
    pairs.any(|pair| pair.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
}

/// What the system says of a process.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    parent: u32,
    started: u64,
    has_ended: bool,
}

fn stat(pid: u32) -> Option<Stat> {
    parse(&String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
}

/// Reads `27 (a name) S 1 ...`: the state is the third field, the parent the fourth, the start the twenty-second. A name may have anything in it.
fn parse(text: &str) -> Option<Stat> {
    let (name, rest) = text.split_once('(')?.1.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Stat {
        name: name.to_owned(),
        has_ended: matches!(*fields.first()?, "Z" | "X" | "x"),
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_anything_in_them() {
        let numbers: Vec<String> = (5..=30).map(|n| n.to_string()).collect();
        let text = format!("27 (a) b) Z 4 {}", numbers.join(" "));
        let stat = parse(&text).expect("a good text");
        assert_eq!(stat, Stat { name: "a) b".into(), parent: 4, started: 22, has_ended: true });
        for bad in ["", "27", "27 (a", "27 (a) S", "27 (a) S x"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_process_that_started_this_one_is_found() {
        let parent = std::os::unix::process::parent_id();
        // Nobody has this variable, so the nearest ancestor is outside; everybody has none of these names.
        let found = find(&["no such daemon"], "HCOMM_NO_SUCH_VARIABLE");
        assert_eq!(found.as_ref().map(|starter| starter.pid), (parent > INIT).then_some(parent));
        if let Some(starter) = found {
            assert_eq!(start_of(starter.pid), Some(starter.started));
        }
        assert_eq!(start_of(0), None);
    }

    #[test]
    fn options_are_what_follows_their_names() {
        let arguments = ["proxy", "--port", "vm:1"].map(str::to_owned).to_vec();
        let starter = Starter { pid: 2, started: 3, arguments };
        assert_eq!((starter.option("--port"), starter.option("vm:1")), (Some("vm:1"), None));
    }
}
