//! Open files: as many as this process may have, how many that is, and errors that say so.

use std::io;
use std::sync::Once;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Beyond so many no rank needs more, and programs that walk through all numbers of files would take long.
const MOST: u64 = 1 << 20;

/// Raises the soft limit of open files to the hard one, once in a process. A limit that cannot be raised stays.
pub fn raise_limit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let wanted = maximum.unwrap_or(MOST).min(MOST);
        if current.is_some_and(|current| current < wanted) {
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
        }
    });
}

/// How many files this process may have open at once; `None` where there is no limit.
pub fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// How many it has open, as far as the system says.
pub fn open() -> Option<u64> {
    // The folder itself is open while it is read.
    std::fs::read_dir("/proc/self/fd").ok().map(|files| files.count().saturating_sub(1) as u64)
}

/// An error's text; where the process or the machine is out of files, with the limit that was met.
pub fn explain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EMFILE) => out_of_files(),
        Some(libc::ENFILE) => "the machine has no more open files to give (fs.file-max)".to_owned(),
        _ => error.to_string(),
    }
}

/// That this process may open no more, and how many it may.
pub fn out_of_files() -> String {
    let limit = limit().map_or_else(|| "no more".to_owned(), |limit| format!("at most {limit}"));
    format!("this process may have {limit} files open at once; raise the limit (ulimit -n, LimitNOFILE)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_as_high_as_it_may_be() {
        raise_limit();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert!(current >= maximum.map(|most| most.min(MOST)), "{current:?} of {maximum:?}");
        assert!(open().unwrap() >= 3);
    }

    #[test]
    fn errors_of_too_many_files_name_the_limit() {
        let text = explain(&io::Error::from_raw_os_error(libc::EMFILE));
        assert!(text.contains(&limit().unwrap().to_string()) && text.contains("ulimit -n"), "{text}");
        assert!(explain(&io::ErrorKind::TimedOut.into()).contains("timed out"));
    }
}
