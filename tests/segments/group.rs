//! [`Group`]: a memory control group of a test's own, of either version.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Removed when dropped, by when its processes have ended.
pub struct Group {
    folder: PathBuf,
}

impl Group {
    /// A group that allows so many bytes, or why there is none.
    pub fn new(name: &str, bytes: u64) -> Result<Group, String> {
        let is_first = Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists();
        let (root, limit) = match is_first {
            true => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            false => ("/sys/fs/cgroup", "memory.max"),
        };
        let folder = Path::new(root).join(format!("hcomm-test-{name}-{}", std::process::id()));
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir(&folder).map_err(failed)?;
        let group = Group { folder: folder.clone() };
        fs::write(folder.join(limit), bytes.to_string()).map_err(failed)?;
        Ok(group)
    }

    /// The words that put a program into the group.
    pub fn prefix(&self) -> Vec<String> {
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.folder.display());
        ["sh", "-c", &script, "sh"].map(str::to_owned).into()
    }

    /// How many processes the kernel has ended for want of memory.
    pub fn kills(&self) -> u64 {
        let read = |name: &str| fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        let text = read("memory.events") + &read("memory.oom_control");
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.expect("the kernel counts").trim().parse().expect("a number")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended is in it for a moment.
        for _ in 0..200 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
