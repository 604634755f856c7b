//! How much memory this process may still take, so that a shortage is an error and not the kernel's end of a process.

use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

/// Kept free for all else that a process allocates, and for others that allocate within the same limit at the same time.
const KEPT_BYTES: u64 = 32 << 20;

/// How much shared memory there is room for, and within what limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes left, less 32 MiB that are kept free.
    pub left: u64,
    /// The limit, as the end of a sentence that says how many bytes are left.
    pub limit: String,
}

impl Room {
    /// The tightest of the machine's free memory, the limits of this process's control groups and that on the size of a file.
    /// What cannot be read limits nothing.
    pub fn left() -> Room {
        let machine = read(Path::new("/proc/meminfo")).and_then(|text| of_machine(&text));
        let groups = group_folders(&read(Path::new("/proc/self/cgroup")).unwrap_or_default());
        let group_rooms = groups.iter().filter_map(|folder| of_group(folder));
        let none = Room { left: u64::MAX, limit: "as far as can be told".into() };
        let all = machine.into_iter().chain(group_rooms).chain(of_files());
        all.min_by_key(|room| room.left).unwrap_or(none)
    }

    /// What so many ranks of this host may come to need for one communicator, as a sentence, where that is more than there is.
    pub fn why_too_little(&self, inbox_bytes: u64, ranks: usize) -> Option<String> {
        let all = inbox_bytes.saturating_mul(ranks as u64);
        let Room { left, limit } = self;
        (all > *left).then(|| {
            format!(
                "the {ranks} ranks of this host may come to need {all} bytes of shared memory for this communicator, {inbox_bytes} each, and {left} \
                 are left {limit}; a smaller HCOMM_BUFFER_SIZE or HCOMM_DEPTH makes that less"
            )
        })
    }

    fn less_kept(left: u64, limit: String) -> Room {
        Room { left: left.saturating_sub(KEPT_BYTES), limit }
    }
}

fn of_machine(meminfo: &str) -> Option<Room> {
    let kib = field(meminfo, "MemAvailable:")?;
    let limit = format!("on this machine (MemAvailable, less {KEPT_BYTES} that are kept free)");
    Some(Room::less_kept(kib.saturating_mul(1024), limit))
}

/// A file that grows past this limit does not only fail: the kernel ends the process.
fn of_files() -> Option<Room> {
    let left = getrlimit(Resource::Fsize).current?;
    Some(Room { left, limit: "for a file by this process's limit on their size (ulimit -f)".into() })
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
    let left = limit.saturating_sub(used.saturating_sub(reclaimable(&stat)));
    let folder = folder.display();
    let limit = format!("of the {limit} that {folder} allows (less {KEPT_BYTES} that are kept free)");
    Some(Room::less_kept(left, limit))
}

/// What the kernel drops before it ends a process: the cache of files that are as they are on disk. Version 1 counts what the
/// groups below a group hold apart, under names with `total_`; its limit holds for all.
fn reclaimable(stat: &str) -> u64 {
    let number = |name: &str| field(stat, &format!("total_{name}")).or_else(|| field(stat, name));
    let sum = |names: &[&str]| names.iter().filter_map(|name| number(name)).fold(0, u64::saturating_add);
    let cache = sum(&["inactive_file", "active_file"]);
    cache.saturating_sub(sum(&["dirty", "writeback", "file_dirty", "file_writeback"]))
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
        let room = of_machine("MemTotal:  100 kB\nMemAvailable:   40000 kB\n").unwrap();
        assert_eq!(room.left, 40_960_000 - KEPT_BYTES);
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
        write("memory.max", "100000000\n");
        write("memory.current", "70000000\n");
        write("memory.stat", "anon 500\ninactive_file 11000000\nactive_file 4100000\nfile_dirty 100000\n");
        let room = of_group(&folder);
        write("memory.max", "max\n");
        let unlimited = of_group(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(room.unwrap().left, 45_000_000 - KEPT_BYTES);
        assert_eq!(unlimited, None);
    }

    #[test]
    fn version_1_counts_the_groups_below_under_other_names() {
        let stat =
            "inactive_file 1\ndirty 0\ntotal_inactive_file 700\ntotal_active_file 50\ntotal_dirty 20\n";
        assert_eq!(reclaimable(stat), 730);
        assert_eq!(reclaimable("dirty 5\n"), 0);
    }

    #[test]
    fn a_world_that_may_need_more_than_there_is_is_foreseen() {
        let room = Room { left: 1000, limit: "here".into() };
        assert_eq!(room.why_too_little(500, 2), None);
        let text = room.why_too_little(501, 2).unwrap();
        assert!(
            text.contains("2 ranks") && text.contains("1002 bytes") && text.contains("1000 are left here"),
            "{text}"
        );
    }

    #[test]
    fn this_process_has_some_room() {
        let room = Room::left();
        assert!(room.left > 1 << 20 && room.left < u64::MAX, "{room:?}");
    }
}
