//! `read_text`: files that users name, taken into memory up to a limit. What never ends, or waits for a writer, is no such file.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

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
}
