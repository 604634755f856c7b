//! The folder in which rank 0 leaves its address and token: this user's own, closed to others, and the same for all ranks of the host.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::MeetingError;

/// Where it may be, best first: the user's runtime folder, which ends with the session; shared memory, which ends with the machine; `/tmp`.
pub fn candidates() -> Vec<PathBuf> {
    let user = geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let own = runtime.map(|path| path.join("hcomm"));
    let shared = ["/dev/shm", "/tmp"].map(|path| Path::new(path).join(format!("hcomm-{user}")));
    own.into_iter().chain(shared).collect()
}

/// The first that serves; it is made if it is not there.
pub fn make() -> Result<PathBuf, MeetingError> {
    let mut tried = Vec::new();
    for folder in candidates() {
        let made = match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error.to_string()),
            _ => check(&folder).and_then(|()| try_writing(&folder)),
        };
        match made {
            Ok(()) => return Ok(folder),
            Err(cause) => tried.push(format!("{}: {cause}", folder.display())),
        }
    }
    Err(MeetingError::NoFolder { tried: tried.join("; ") })
}

/// Whether a folder is this user's alone; in one of somebody else's, somebody else could leave a token of his.
pub fn check(folder: &Path) -> Result<(), String> {
    let about = fs::symlink_metadata(folder).map_err(|error| error.to_string())?;
    match () {
        () if !about.is_dir() => Err("it is no folder".to_owned()),
        () if about.uid() != geteuid().as_raw() => Err(format!("it is of user {}", about.uid())),
        () if about.mode() & 0o077 != 0 => {
            Err(format!("others may enter it (mode {:o})", about.mode() & 0o777))
        }
        () => Ok(()),
    }
}

fn try_writing(folder: &Path) -> Result<(), String> {
    let access = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
    access.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_a_folder_of_ones_own_serves() {
        let base = std::env::temp_dir().join(format!("hcomm-folders-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&base).expect("it can be made");
        assert_eq!(check(&base), Ok(()));
        let link = base.join("link");
        symlink(&base, &link).expect("it can be made");
        assert_eq!(check(&link), Err("it is no folder".to_owned()));
        assert!(check(&base.join("missing")).is_err());
        fs::set_permissions(&base, PermissionsExt::from_mode(0o750)).expect("it is ours");
        assert_eq!(check(&base), Err("others may enter it (mode 750)".to_owned()));
        fs::remove_dir_all(&base).expect("it was made above");
        if geteuid().is_root() {
            return;
        }
        assert_eq!(check(Path::new("/")), Err("it is of user 0".to_owned()));
    }

    #[test]
    fn there_is_one_here() {
        let folder = make().expect("a folder in /tmp at least");
        assert!(candidates().contains(&folder));
        assert_eq!(check(&folder), Ok(()));
    }
}
