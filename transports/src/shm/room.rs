//! How much memory this process may still take, so that a shortage is an error and not the kernel's end of a process.

use std::path::{Path, PathBuf};

/// What is left, and within what limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) left: u64,
    pub(super) limit: String,
}

/// The tightest of the machine's free memory and the limits of this process's control groups. What cannot be read limits nothing.
pub(super) fn left() -> Room {
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| of_machine(&text));
    let groups = group_folders(&read(Path::new("/proc/self/cgroup")).unwrap_or_default());
    let group_rooms = groups.iter().filter_map(|folder| of_group(folder));
    let none = Room { left: u64::MAX, limit: "as far as can be told".into() };
    machine.into_iter().chain(group_rooms).min_by_key(|room| room.left).unwrap_or(none)
}

fn of_machine(meminfo: &str) -> Option<Room> {
    let kib = field(meminfo, "MemAvailable:")?;
    Some(Room { left: kib * 1024, limit: "on this machine (MemAvailable)".into() })
}

/// The folders of the process's control groups up to their roots, of version 2 and of version 1's memory controller.
fn group_folders(cgroup: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in cgroup.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let root = match controllers {
            "" => Path::new("/sys/fs/cgroup"),
            some if some.split(',').any(|name| name == "memory") => Path::new("/sys/fs/cgroup/memory"),
            _ => continue,
        };
        let path = Path::new(path.trim_start_matches('/'));
        folders.extend(path.ancestors().map(|part| root.join(part)));
    }
    folders
}

fn of_group(folder: &Path) -> Option<Room> {
    let number = |name: &str| read(&folder.join(name))?.trim().parse::<u64>().ok();
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let stat = read(&folder.join("memory.stat")).unwrap_or_default();
    let cache = field(&stat, "inactive_file").unwrap_or(0);
    let left = limit.saturating_sub(used.saturating_sub(cache));
    Some(Room { left, limit: format!("of the {limit} bytes that {} allows", folder.display()) })
}

/// The number that follows a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name).filter(|rest| rest.starts_with(' ')))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_what_is_available() {
        let room = of_machine("MemTotal:  100 kB\nMemAvailable:   40 kB\n").unwrap();
        assert_eq!(room.left, 40_960);
        assert_eq!(of_machine("MemAvailable: many kB"), None);
    }

    #[test]
    fn groups_of_both_versions_are_found_up_to_the_root() {
        let folders = group_folders("0::/a/b\n4:cpu,memory:/c\n3:cpu:/d\nnonsense");
        let expected = ["/a/b", "/a", "/", "/memory/c", "/memory/"];
        let expected: Vec<_> =
            expected.iter().map(|end| PathBuf::from(format!("/sys/fs/cgroup{end}"))).collect();
        assert_eq!(folders, expected);
    }

    #[test]
    fn a_group_leaves_its_limit_less_what_is_used_for_good() {
        let folder = std::env::temp_dir().join(format!("hcomm-room-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        write("memory.max", "1000\n");
        write("memory.current", "700\n");
        write("memory.stat", "anon 500\ninactive_file 150\n");
        let room = of_group(&folder);
        write("memory.max", "max\n");
        let unlimited = of_group(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(room.unwrap().left, 450);
        assert_eq!(unlimited, None);
    }

    #[test]
    fn this_process_has_some_room() {
        let room = left();
        assert!(room.left > 1 << 20 && room.left < u64::MAX, "{room:?}");
    }
}
