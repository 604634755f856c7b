//! Files that users name. [`read_text`] takes one into memory up to a limit; what never ends, or waits for a writer, is no such file.
//! [`write_text`] leaves no half of one.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The text of a regular file of at most so many bytes.
///
/// # Errors
/// Where it cannot be read, is a pipe, a device or a folder, is longer, or is no UTF-8; the words do not name it.
pub fn read_text(path: &Path, most_bytes: u64) -> io::Result<String> {
    // Looked at before it is opened: opening a pipe waits for whoever writes to it.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    File::open(path)?.take(most_bytes.saturating_add(1)).read_to_string(&mut text)?;
    match text.len() as u64 <= most_bytes {
        true => Ok(text),
        false => Err(io::Error::other(format!("it has more than {most_bytes} bytes"))),
    }
}

/// Writes a file so that it has all of the text, or is as it was: into a draft beside it, which takes its place. What is no regular file
/// (a device, a pipe), or stands in a folder where no draft can be made, is written in place.
///
/// # Errors
/// Where it cannot be written, or not to its end; the words do not name it.
pub fn write_text(path: &Path, text: &str) -> io::Result<()> {
    let Some(draft) = Draft::beside(path)? else { return fs::write(path, text) };
    let mut file = &draft.file;
    // Some file systems find only now that there is no room.
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all())?;
    draft.replace()
}

/// Whether [`write_text`] could begin; nothing is changed.
///
/// # Errors
/// Where it could not.
pub fn check_writable(path: &Path) -> io::Result<()> {
    match Draft::beside(path)? {
        Some(_) => Ok(()),
        None => OpenOptions::new().append(true).open(path).map(drop),
    }
}

/// A file that is to become another; removed unless it does.
struct Draft {
    file: File,
    name: PathBuf,
    /// The file itself, where the path is a link to it.
    target: PathBuf,
}

impl Draft {
    /// `None` where the file must be written in place.
    fn beside(path: &Path) -> io::Result<Option<Draft>> {
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let old = fs::metadata(&target).ok();
        let Some(last) = target.file_name().filter(|_| old.as_ref().is_none_or(Metadata::is_file)) else {
            return Ok(None);
        };
        if old.is_some() {
            OpenOptions::new().append(true).open(&target)?;
        }
        let mut own = last.to_owned();
        own.push(format!(".{}.draft", std::process::id()));
        let name = target.with_file_name(own);
        let file = match File::create(&name) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && old.is_some() => {
                return Ok(None);
            }
            file => file?,
        };
        let draft = Draft { file, name, target };
        if let Some(old) = old {
            draft.file.set_permissions(old.permissions())?;
        }
        Ok(Some(draft))
    }

    fn replace(self) -> io::Result<()> {
        fs::rename(&self.name, &self.target)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Where it has become the other there is none.
        let _ = fs::remove_file(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_up_to_the_limit_are_read() {
        let name = std::env::temp_dir().join(format!("hcomm-read-text-{}", std::process::id()));
        fs::write(&name, "seven b").expect("a temporary file");
        assert_eq!(read_text(&name, 7).expect("short enough"), "seven b");
        assert_eq!(read_text(&name, 6).expect_err("too long").to_string(), "it has more than 6 bytes");
        fs::remove_file(&name).expect("it was made above");
        for endless in ["/dev/zero", "/"] {
            let error = read_text(Path::new(endless), 7).expect_err(endless).to_string();
            assert_eq!(error, "it is no regular file", "{endless}");
        }
    }
    #[test]
    fn a_file_is_written_whole_or_stays_as_it_was() {
        let folder = std::env::temp_dir().join(format!("hcomm-write-text-{}", std::process::id()));
        fs::create_dir(&folder).expect("a temporary folder");
        let (name, link) = (folder.join("file"), folder.join("link"));
        let names = || fs::read_dir(&folder).expect("it is there").count();
        check_writable(&name).expect("the folder is ours");
        assert_eq!(names(), 0);
        write_text(&name, "one").expect("the folder is ours");
        std::os::unix::fs::symlink(&name, &link).expect("the folder is ours");
        write_text(&link, "two").expect("a link leads to the file");
        assert_eq!(fs::read_to_string(&name).expect("it is there"), "two");
        assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
        drop(Draft::beside(&name).expect("the folder is ours"));
        assert_eq!((names(), fs::read_to_string(&name).expect("it is there").as_str()), (2, "two"));
        for full in [write_text(Path::new("/dev/full"), "x"), write_text(&folder.join("no/file"), "x")] {
            full.expect_err("there is no room, or no folder");
        }
        fs::remove_dir_all(&folder).expect("it was made above");
    }
}
