//! What becomes of the command's output: a reader that has gone, a full disk, files that cannot be written.

use std::fs::{self, File};
use std::io;
use std::process::{Command, Output, Stdio};

fn hcomm(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hcomm"));
    command.args(args).stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Subcommands that print, `launch` apart.
const PRINTS: &[&[&str]] = &[
    &["--help"],
    &["settings"],
    &["plan", "all_reduce", "-n", "2"],
    &["bench", "all_reduce", "-n", "2", "--sizes", "8", "--iters", "1"],
    &["bench", "all_reduce", "-n", "2", "--sizes", "8", "--iters", "1", "--transport", "inproc"],
];

fn closed_pipe() -> Stdio {
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    Stdio::from(writer)
}

#[test]
fn a_reader_that_has_gone_ends_the_command_without_a_word() {
    for args in PRINTS {
        let output = hcomm(args).stdout(closed_pipe()).output().expect("hcomm starts");
        assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_full_disk_is_an_error_of_one_line() {
    for args in PRINTS {
        let full = File::options().write(true).open("/dev/full").expect("Linux has it");
        let output = hcomm(args).stdout(full).output().expect("hcomm starts");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        assert!(said.starts_with("hcomm: cannot write standard output: No space left"), "{args:?}: {said}");
    }
}

#[test]
fn errors_that_nobody_can_read_keep_their_code() {
    let full = File::options().write(true).open("/dev/full").expect("Linux has it");
    for stderr in [closed_pipe(), Stdio::from(full)] {
        let status = hcomm(&["frobnicate"]).stderr(stderr).status().expect("hcomm starts");
        assert_eq!(status.code(), Some(2));
    }
}

#[test]
fn a_drawing_that_cannot_be_written_leaves_nothing_behind() {
    let folder = std::env::temp_dir().join(format!("hcomm-output-{}", std::process::id()));
    fs::create_dir(&folder).expect("a temporary folder");
    let picture = folder.join("plan.svg");
    fs::write(&picture, "what was there").expect("the folder is ours");
    // The shell's limit on the length of files, in KiB or half of one, stands for the disk that is full; SIGXFSZ is ignored so that writing fails.
    let command = "trap '' XFSZ; ulimit -f 4; exec \"$0\" plan all_reduce -n 8 --svg \"$1\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", command, env!("CARGO_BIN_EXE_hcomm")]).arg(&picture);
    let output = shell.output().expect("the shell starts");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("plan.svg: File too large") && said.lines().count() == 1, "{said}");
    assert_eq!(fs::read_to_string(&picture).expect("it is there"), "what was there");
    assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 1);
    fs::remove_dir_all(&folder).expect("it was made above");
}

#[test]
fn tune_finds_that_it_cannot_write_before_it_measures() {
    let output = hcomm(&["tune", "--quick", "--out", "/proc/no/tuning.toml"]).output().expect("hcomm starts");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.starts_with("hcomm: cannot write /proc/no/tuning.toml: ") && said.lines().count() == 1,
        "{said}"
    );
}
