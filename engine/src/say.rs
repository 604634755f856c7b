//! [`say`]: the one place where hcomm writes to standard error. What it says there is for people; whether anybody can read it
//! decides nothing, so a closed or full standard error fails no call. Clippy's print lints keep `eprintln!`, which panics then, out of every crate.

use std::io::{self, Write};

/// Writes a line to standard error at once, or not at all: that it is closed, full or a pipe without a reader is ignored.
pub fn say(line: &str) {
    let text = format!("{line}\n");
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::{Command, Stdio};

    use super::*;

    const MARK: &str = "HCOMM_TEST_SAYS";
    const SAID: i32 = 7;

    /// Where the variable is set, this is the child of the test below.
    #[test]
    fn child_that_says_something() {
        if std::env::var_os(MARK).is_some() {
            say("nobody reads this");
            std::process::exit(SAID);
        }
    }

    #[test]
    fn no_state_of_standard_error_fails_whoever_writes_there() {
        let (unread, closed) = io::pipe().expect("a pipe");
        drop(unread);
        let full = File::options().write(true).open("/dev/full").expect("Linux has it");
        let unwritable = File::open("/dev/null").expect("Linux has it");
        for stderr in [Stdio::from(closed), Stdio::from(full), Stdio::from(unwritable)] {
            let mut child = Command::new(std::env::current_exe().expect("the test's own path"));
            child.args(["--exact", "say::tests::child_that_says_something", "--nocapture"]);
            let status = child.env(MARK, "1").stderr(stderr).stdout(Stdio::null()).status();
            assert_eq!(status.expect("the child starts").code(), Some(SAID));
        }
    }
}
