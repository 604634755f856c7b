//! [`Host`]: what tells whether two ranks can share memory and see each other's processes.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity};

/// Where a rank runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Host {
    /// Its name, for people; two containers of one machine may have different ones.
    pub name: String,
    /// Differs from machine to machine and boot to boot.
    pub boot: String,
    /// The network namespace: Unix sockets without a file reach as far as it does.
    pub network: String,
    /// The process namespace: process numbers mean the same as far as it reaches.
    pub processes: String,
}

/// Where the system tells one boot of one machine from all others.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

impl Host {
    /// Where this process runs. What the system does not tell is empty, and then equal to nobody's.
    pub fn of_this_process() -> Self {
        Host {
            name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            boot: fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned(),
            network: namespace("net"),
            processes: namespace("pid"),
        }
    }

    /// Whether the two run on one machine.
    pub fn shares_machine(&self, other: &Host) -> bool {
        !self.boot.is_empty() && self.boot == other.boot
    }

    /// Why the two cannot try each other's Unix socket, if so.
    pub(super) fn why_no_unix_socket(&self, other: &Host) -> Option<String> {
        if !self.shares_machine(other) {
            return Some(self.why_apart(other));
        }
        let shares_network = !self.network.is_empty() && self.network == other.network;
        (!shares_network).then(|| "their network namespaces differ".to_owned())
    }

    fn why_apart(&self, other: &Host) -> String {
        let (own, theirs) = (&self.name, &other.name);
        match () {
            () if self.boot.is_empty() || other.boot.is_empty() => {
                format!(
                    "it cannot be told whether {own} and {theirs} are one machine ({BOOT_ID} cannot be read)"
                )
            }
            () if own == theirs => format!("they are on different machines, which are both called {own}"),
            () => format!("they are on different machines ({own} and {theirs})"),
        }
    }

    /// Whether a process number of the one means the same to the other.
    pub(super) fn shares_processes(&self, other: &Host) -> bool {
        self.shares_machine(other) && !self.processes.is_empty() && self.processes == other.processes
    }
}

/// The processors that this thread may run on; none where the system does not say.
pub(super) fn allowed_processors() -> Vec<u32> {
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).map(|cpu| cpu as u32).collect()
}

fn namespace(kind: &str) -> String {
    fs::read_link(format!("/proc/self/ns/{kind}"))
        .map(|link| link.to_string_lossy().into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_of_one_machine_are_told_apart() {
        let here =
            Host { name: "a".into(), boot: "1".into(), network: "net:1".into(), processes: "pid:1".into() };
        let other = Host { network: "net:2".into(), processes: "pid:2".into(), ..here.clone() };
        assert_eq!(here.why_no_unix_socket(&here), None);
        assert_eq!(here.why_no_unix_socket(&other).unwrap(), "their network namespaces differ");
        assert!(!here.shares_processes(&other));
        let far = Host { name: "b".into(), boot: "2".into(), ..here.clone() };
        assert_eq!(here.why_no_unix_socket(&far).unwrap(), "they are on different machines (a and b)");
        let twin = Host { boot: "2".into(), ..here.clone() };
        let text = here.why_no_unix_socket(&twin).unwrap();
        assert_eq!(text, "they are on different machines, which are both called a");
        let unknown = Host { boot: String::new(), ..here.clone() };
        let text = here.why_no_unix_socket(&unknown).unwrap();
        assert!(text.starts_with("it cannot be told whether a and a are one machine"), "{text}");
    }

    #[test]
    fn an_unknown_machine_is_nobodys() {
        assert!(!Host::default().shares_machine(&Host::default()));
    }
}
