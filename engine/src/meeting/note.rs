//! [`Note`]: the file's contents, one line each, and who wrote it.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::process::geteuid;

use crate::environment::starter::start_of;
use crate::environment::{Address, Token};

/// The first line.
const FORMAT: &str = "hcomm meeting 1";
/// More is no note.
const MOST_BYTES: u64 = 4096;

/// Where rank 0 listens, what it must be shown, and which process it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub address: Address,
    pub token: Token,
    pub pid: u32,
    /// In the system's ticks since boot; process numbers are given again.
    pub started: u64,
    /// The namespace in which the number is meant.
    pub namespace: String,
}

impl Note {
    /// By this process.
    pub fn new(address: Address, token: Token) -> Self {
        let pid = std::process::id();
        Note { address, token, pid, started: start_of(pid).unwrap_or(0), namespace: namespace() }
    }

    /// The note at `path`, if this user wrote it and the writer runs.
    ///
    /// # Errors
    /// Why there is none.
    pub fn read(path: &Path) -> Result<Note, String> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
            .open(path)
            .map_err(|error| error.to_string())?;
        let about = file.metadata().map_err(|error| error.to_string())?;
        if !about.is_file() || about.uid() != geteuid().as_raw() {
            return Err("it is no file of this user".to_owned());
        }
        let mut text = String::new();
        let read = file.take(MOST_BYTES).read_to_string(&mut text);
        read.map_err(|error| error.to_string())?;
        let note = Note::parse(&text).ok_or("it is no note of hcomm's")?;
        if note.has_ended() {
            return Err(format!("process {}, which wrote it, has ended", note.pid));
        }
        Ok(note)
    }

    /// Puts it at `path`, whole or not at all.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let draft = path.with_extension(format!("{}-{:?}", self.pid, std::thread::current().id()));
        let _ = fs::remove_file(&draft);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        let written = file.write_all(self.text().as_bytes()).and_then(|()| fs::rename(&draft, path));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }

    /// Whether a process that runs and is not this one wrote it.
    pub fn is_of_another_process(&self) -> bool {
        (self.pid, &self.namespace) != (std::process::id(), &namespace())
    }

    /// Whether the writer is known to have ended; of other namespaces nothing is known.
    fn has_ended(&self) -> bool {
        self.namespace == namespace() && start_of(self.pid) != Some(self.started)
    }

    fn text(&self) -> String {
        let Note { address, token, pid, started, namespace } = self;
        format!("{FORMAT}\n{address}\n{}\n{pid}\n{started}\n{namespace}\n", token.to_hex())
    }

    fn parse(text: &str) -> Option<Note> {
        let lines: Vec<&str> = text.lines().collect();
        let [format, address, token, pid, started, namespace] = lines[..] else { return None };
        (format == FORMAT).then_some(())?;
        Some(Note {
            address: address.parse().ok()?,
            token: Token::from_hex(token)?,
            pid: pid.parse().ok()?,
            started: started.parse().ok()?,
            namespace: namespace.to_owned(),
        })
    }
}

/// Takes away the notes whose writers have ended: a rank 0 that was killed leaves one.
pub fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let text = fs::read_to_string(&path).unwrap_or_default();
        if Note::parse(&text).is_some_and(|note| note.has_ended()) {
            let _ = fs::remove_file(path);
        }
    }
}

fn namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_note_says_what_was_written() {
        let address = Address { host: "::1".to_owned(), port: 7 };
        let note = Note::new(address, Token::new([7; 32]));
        assert_eq!(Note::parse(&note.text()), Some(note.clone()));
        assert!(!note.has_ended() && !note.is_of_another_process());
        let old = Note { started: note.started.wrapping_add(1), ..note.clone() };
        assert!(old.has_ended());
        let far = Note { namespace: "pid:[1]".to_owned(), ..old };
        assert!(!far.has_ended() && far.is_of_another_process());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*", lines in prop::collection::vec("[0-9a-f:.]{0,70}", 0..8)) {
            let _ = Note::parse(&text);
            prop_assert_eq!(Note::parse(&lines.join("\n")), None);
        }
    }
}
