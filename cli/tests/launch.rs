//! `hcomm launch` on real processes: what ranks are told, print, and how they end.

use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Ten times what any of this takes, and far less than a hang.
const PATIENCE: Duration = Duration::from_secs(30);

fn hcomm() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hcomm"));
    command.stdin(Stdio::null());
    command
}

/// Launches a shell script as `ranks` ranks.
fn launch(ranks: usize, options: &[&str], script: &str) -> Output {
    let command = &mut hcomm();
    command.args(["launch", "-n", &ranks.to_string()]).args(options).args(["--", "sh", "-c", script]);
    command.output().expect("hcomm starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn sorted_lines(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = text(bytes).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn every_rank_knows_its_place_and_its_lines_are_marked() {
    let output = launch(3, &[], "echo $HCOMM_RANK/$HCOMM_WORLD $RANK/$WORLD_SIZE $LOCAL_RANK; echo err >&2");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(sorted_lines(&output.stdout), ["[0] 0/3 0/3 0", "[1] 1/3 1/3 1", "[2] 2/3 2/3 2"]);
    assert_eq!(sorted_lines(&output.stderr), ["[0] err", "[1] err", "[2] err"]);
}

/// A rank that inherited these would be told two things at once, and torch would wait for a store that is not there.
#[test]
fn what_another_launcher_has_set_is_taken_away() {
    let others = [
        ("TORCHELASTIC_USE_AGENT_STORE", "True"),
        ("TORCHELASTIC_RUN_ID", "7"),
        ("GROUP_RANK", "3"),
        ("OMPI_COMM_WORLD_RANK", "5"),
        ("PMI_RANK", "5"),
        ("SLURM_PROCID", "5"),
        ("HCOMM_TOKEN", "ab"),
        ("HCOMM_PORT", "7"),
    ];
    let script = "env | grep -E '^(TORCHELASTIC|GROUP|OMPI|PMI|SLURM|HCOMM_PORT)' | sort; echo $SLURM_JOB_ID $RANK ${#HCOMM_TOKEN}";
    let command = &mut hcomm();
    command.envs(others).env("SLURM_JOB_ID", "9").args(["launch", "-n", "1", "--", "sh", "-c", script]);
    let output = command.output().expect("hcomm starts");
    assert_eq!(text(&output.stdout), "[0] SLURM_JOB_ID=9\n[0] 9 0 64\n");
}

#[test]
fn all_ranks_share_one_address_and_one_token_and_the_next_job_has_another() {
    let script = "echo $HCOMM_ADDRESS $HCOMM_TOKEN $MASTER_ADDR:$MASTER_PORT";
    let facts = |output: Output| {
        let mut lines = sorted_lines(&output.stdout);
        lines.iter_mut().for_each(|line| *line = line.split_off(4));
        lines
    };
    let first = facts(launch(3, &[], script));
    assert_eq!(first.len(), 3);
    assert!(first.iter().all(|line| *line == first[0]), "{first:?}");
    let words: Vec<&str> = first[0].split(' ').collect();
    assert_eq!(words[1].len(), 64);
    assert_ne!(words[0], words[2], "torch's store and hcomm would listen at one port");
    assert_ne!(first, facts(launch(3, &[], script)));
}

#[test]
fn ranks_share_the_processors_unless_told_otherwise() {
    let threads = |told: Option<&str>| {
        let mut command = hcomm();
        command.env_remove("OMP_NUM_THREADS");
        command.envs(told.map(|threads| ("OMP_NUM_THREADS", threads)));
        let output = command.args(["launch", "-n", "3", "sh", "-c", "echo $OMP_NUM_THREADS"]).output();
        sorted_lines(&output.expect("hcomm starts").stdout)
    };
    let share = (std::thread::available_parallelism().map_or(1, usize::from) / 3).max(1);
    assert_eq!(threads(None), [0, 1, 2].map(|rank| format!("[{rank}] {share}")));
    assert_eq!(threads(Some("7")), [0, 1, 2].map(|rank| format!("[{rank}] 7")));
}

#[test]
fn what_follows_the_program_is_its_own() {
    let mut command = hcomm();
    let output = command.args(["launch", "-n", "1", "echo", "-n", "9", "--bind", "--", "x"]).output();
    assert_eq!(text(&output.expect("hcomm starts").stdout), "[0] 9 --bind -- x\n");
}

#[test]
fn odd_bytes_and_unfinished_lines_come_through() {
    let output = launch(1, &[], r"printf 'a\377\000b\n\nend'");
    assert_eq!(output.stdout, b"[0] a\xff\x00b\n[0] \n[0] end\n");
    let output = launch(1, &["--no-prefix"], r"printf 'a\377\000b'");
    assert_eq!(output.stdout, b"a\xff\x00b");
}

#[test]
fn much_output_is_not_lost() {
    let output = launch(2, &[], "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done");
    let lines = text(&output.stdout);
    for rank in 0..2 {
        let prefix = format!("[{rank}] line ");
        let numbers: Vec<usize> =
            lines.lines().filter_map(|line| line.strip_prefix(&prefix)?.parse().ok()).collect();
        assert!(numbers.iter().copied().eq(0..20_000), "rank {rank} printed {} whole lines", numbers.len());
    }
}

#[test]
fn one_failure_ends_all_and_gives_its_code() {
    let start = Instant::now();
    let output = launch(3, &[], "if [ $HCOMM_RANK = 1 ]; then exit 7; fi; exec sleep 600");
    assert_eq!(output.status.code(), Some(7));
    assert!(text(&output.stderr).contains("hcomm: rank 1 exited with code 7; ending the other ranks"));
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn a_rank_that_a_signal_ends_is_named_with_it() {
    let output = launch(2, &[], "if [ $HCOMM_RANK = 1 ]; then kill -9 $$; fi; exec sleep 600");
    assert_eq!(output.status.code(), Some(137));
    assert!(
        text(&output.stderr).contains("rank 1 was killed by signal 9 (SIGKILL)"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn ranks_that_ignore_the_request_to_end_are_killed() {
    let script =
        "trap '' TERM; if [ $HCOMM_RANK = 0 ]; then sleep 0.3; exit 3; fi; sleep 600 & wait; sleep 600";
    let start = Instant::now();
    let output = launch(2, &["--grace", "300ms"], script);
    assert_eq!(output.status.code(), Some(3));
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn a_program_that_is_not_there_is_named_at_once() {
    let output =
        hcomm().args(["launch", "-n", "2", "no-such-program-of-ours"]).output().expect("hcomm starts");
    assert_eq!(output.status.code(), Some(127));
    let said = text(&output.stderr);
    assert!(said.starts_with("hcomm: cannot start 'no-such-program-of-ours' as rank 0: "), "{said}");
    assert_eq!(said.lines().count(), 1);
    let output = hcomm()
        .args(["launch", "-n", "2", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .output()
        .expect("hcomm starts");
    assert_eq!(output.status.code(), Some(126));
}

#[test]
fn who_failed_first_is_said_and_the_others_can_say_what_they_found() {
    let script = "if [ $HCOMM_RANK = 1 ]; then exit 7; fi; sleep 0.3; echo 'rank 1 is lost' >&2; exit 1";
    let output = launch(2, &[], script);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("[0] rank 1 is lost\n"), "{said}");
    let last = "hcomm: rank 1 was the first to fail; after it rank 0 exited with code 1\n";
    assert!(said.ends_with(last), "{said}");
}

#[test]
fn what_ranks_leave_running_is_ended_with_the_job() {
    let scripts = [
        "sleep 600 & echo $!",
        "sleep 600 & echo $!; kill -9 $$",
        "trap '' TERM; sh -c 'while :; do sleep 0.05; done' & echo $!",
    ];
    for script in scripts {
        let output = launch(2, &["--grace", "300ms"], script);
        let helpers: Vec<Pid> = sorted_lines(&output.stdout)
            .iter()
            .filter_map(|line| Pid::from_raw(line.split(' ').nth(1)?.parse().ok()?))
            .collect();
        assert_eq!(helpers.len(), 2, "{script}: {}", text(&output.stdout));
        for helper in helpers {
            assert!(test_kill_process(helper).is_err(), "{script}: a helper outlived the job");
        }
    }
}

#[test]
fn ranks_in_python_lose_no_output_unless_they_want_to() {
    let unbuffered = |own: Option<&str>| {
        let mut command = hcomm();
        command.env_remove("PYTHONUNBUFFERED").envs(own.map(|own| ("PYTHONUNBUFFERED", own)));
        let output = command.args(["launch", "-n", "1", "sh", "-c", "echo \"<$PYTHONUNBUFFERED>\""]).output();
        text(&output.expect("hcomm starts").stdout)
    };
    assert_eq!(unbuffered(None), "[0] <1>\n");
    assert_eq!(unbuffered(Some("")), "[0] <>\n");
}

#[test]
fn a_parent_that_blocks_sigchld_does_not_hang_it() {
    let mut command = Command::new("env");
    command.args(["--block-signal=CHLD", env!("CARGO_BIN_EXE_hcomm"), "launch", "-n", "2", "true"]);
    let mut launcher = command.spawn().expect("env starts");
    wait_until("the launcher does not end", || {
        launcher.try_wait().expect("it is a child").is_some_and(|status| status.success())
    });
}

/// Much more than pipes and the launcher hold.
const FLOOD: &str = "echo $$ ready; exec yes 'a line of some length, to fill whatever there is'";

#[test]
fn a_reader_that_stops_keeps_signals_from_nobody() {
    let running = Running::start(FLOOD);
    // Nothing is read from here on, while the launcher lives.
    sleep(Duration::from_millis(500));
    running.signal(Signal::TERM);
    let (start, mut running) = (Instant::now(), running);
    for pid in running.ranks.clone() {
        wait_until("a rank did not get the signal", || is_gone(pid));
    }
    // The output of before waits for its reader until a second signal says that there is none.
    running.signal(Signal::TERM);
    wait_until("the launcher waits for its reader", || {
        running.launcher.try_wait().expect("it is a child").is_some()
    });
    assert!(start.elapsed() < PATIENCE);
}

/// Whether it has ended, reaped or not.
fn is_gone(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

#[test]
fn standard_output_that_does_not_block_loses_nothing() {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    rustix::io::ioctl_fionbio(&writer, true).expect("pipes can do that");
    let mut command = hcomm();
    command.args([
        "launch",
        "-n",
        "2",
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 9000 ]; do echo a line of it $i; i=$((i+1)); done",
    ]);
    let mut launcher = command.stdout(writer).spawn().expect("hcomm starts");
    // What was spawned has a copy; ours went with the command.
    drop(command);
    sleep(Duration::from_millis(300));
    let mut all = Vec::new();
    reader.read_to_end(&mut all).expect("the pipe can be read");
    assert!(launcher.wait().expect("it is a child").success());
    assert_eq!(text(&all).lines().count(), 18_000);
}

#[test]
fn a_reader_that_has_gone_ends_the_ranks_without_a_word() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = hcomm();
    command.args(["launch", "-n", "2", "--", "sh", "-c", "echo x; exec sleep 600"]);
    let output = command.stdout(writer).output().expect("hcomm starts");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(141), ""));
}

#[test]
fn a_full_disk_ends_the_ranks_with_one_line_unless_it_is_standard_error_s() {
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let mut command = hcomm();
    command.args(["launch", "-n", "2", "--", "sh", "-c", "echo x; exec sleep 600"]);
    let output = command.stdout(full()).output().expect("hcomm starts");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("hcomm: cannot write what the ranks print: No space left"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let mut command = hcomm();
    command.args(["launch", "-n", "2", "--", "sh", "-c", "echo x >&2; sleep 0.2; echo y"]);
    let output = command.stderr(full()).output().expect("hcomm starts");
    assert_eq!((output.status.code(), sorted_lines(&output.stdout).len()), (Some(0), 2));
}

/// A launcher whose ranks have printed their process numbers.
struct Running {
    launcher: std::process::Child,
    stdout: std::process::ChildStdout,
    ranks: Vec<Pid>,
}

impl Running {
    fn start(script: &str) -> Self {
        Running::under(hcomm(), script)
    }

    /// Where `command` is hcomm, or ends in it.
    fn under(mut command: Command, script: &str) -> Self {
        command
            .args(["launch", "-n", "2", "--", "sh", "-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut launcher = command.spawn().expect("hcomm starts");
        let mut stdout = launcher.stdout.take().expect("it was piped");
        let (mut said, mut bytes) = (String::new(), [0; 256]);
        while said.lines().filter(|line| line.ends_with("ready")).count() < 2 {
            let count = stdout.read(&mut bytes).expect("the pipe can be read");
            assert!(count > 0, "the ranks ended too early: {said}");
            said.push_str(&text(&bytes[..count]));
        }
        let number =
            |line: &str| line.split(' ').nth(1).and_then(|word| word.parse().ok()).and_then(Pid::from_raw);
        let ranks = said.lines().filter(|line| line.ends_with("ready")).filter_map(number).collect();
        Running { launcher, stdout, ranks }
    }

    fn signal(&self, signal: Signal) {
        let launcher = Pid::from_child(&self.launcher);
        kill_process(launcher, signal).expect("the launcher runs");
    }

    fn end(mut self) -> Option<i32> {
        drop(self.stdout);
        let code = self.launcher.wait().expect("the launcher ends").code();
        assert_eq!(self.ranks.len(), 2);
        for pid in self.ranks {
            wait_until("a rank outlived the launcher", || test_kill_process(pid).is_err());
        }
        code
    }
}

#[test]
fn signals_are_passed_on() {
    for (signal, name, code) in [
        (Signal::INT, "INT", 40),
        (Signal::TERM, "TERM", 41),
        (Signal::HUP, "HUP", 42),
        (Signal::QUIT, "QUIT", 45),
    ] {
        let script = format!("trap 'exit {code}' {name}; echo $$ ready; while :; do sleep 0.05; done");
        let running = Running::start(&script);
        running.signal(signal);
        assert_eq!(running.end(), Some(code), "{name}");
    }
}

/// The state that the system shows of a process: R, S, T, Z; nothing where there is none.
fn state(pid: Pid) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

#[test]
fn a_program_s_own_signals_are_passed_on_each_time() {
    let script =
        "trap 'n=$((n+1))' USR1; trap 'exit $n' USR2; n=0; echo $$ ready; while :; do sleep 0.05; done";
    let running = Running::start(script);
    for _ in 0..2 {
        running.signal(Signal::USR1);
        sleep(Duration::from_millis(300));
    }
    running.signal(Signal::USR2);
    assert_eq!(running.end(), Some(2));
}

#[test]
fn the_job_stops_and_goes_on() {
    // A shell that is just starting a command (vfork) stops only when that has begun, which a stopped command does not.
    let running = Running::start("trap 'exit 43' TERM; sleep 600 & echo $$ ready; wait");
    let all = |running: &Running| [&running.ranks[..], &[Pid::from_child(&running.launcher)]].concat();
    running.signal(Signal::TSTP);
    for pid in all(&running) {
        wait_until("a process does not stop", || state(pid) == Some('T'));
    }
    running.signal(Signal::CONT);
    for pid in all(&running) {
        wait_until("a process does not go on", || matches!(state(pid), Some('S' | 'R')));
    }
    running.signal(Signal::TERM);
    assert_eq!(running.end(), Some(43));
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_hcomm")]);
    let running = Running::under(command, "trap 'exit 44' TERM; echo $$ ready; while :; do sleep 0.05; done");
    running.signal(Signal::HUP);
    sleep(Duration::from_millis(300));
    assert!(running.ranks.iter().all(|pid| test_kill_process(*pid).is_ok()));
    running.signal(Signal::TERM);
    assert_eq!(running.end(), Some(44));
}

#[test]
fn a_second_signal_kills() {
    let running = Running::start("trap '' INT; echo $$ ready; while :; do sleep 0.05; done");
    running.signal(Signal::INT);
    sleep(Duration::from_millis(200));
    running.signal(Signal::INT);
    assert_eq!(running.end(), Some(137));
}

#[test]
fn ranks_die_with_the_launcher() {
    let running = Running::start("echo $$ ready; exec sleep 600");
    running.signal(Signal::KILL);
    assert_eq!(running.end(), None);
}

#[test]
fn bound_ranks_have_one_processor_each() {
    let output = launch(3, &["--bind"], "grep Cpus_allowed_list /proc/self/status");
    for line in text(&output.stdout).lines() {
        let list = line.rsplit('\t').next().unwrap_or_default();
        assert!(list.parse::<u32>().is_ok(), "{line}");
    }
    assert_eq!(text(&output.stdout).lines().count(), 3);
}

#[test]
fn only_rank_0_reads_standard_input() {
    let mut command = hcomm();
    command
        .args(["launch", "-n", "2", "--", "sh", "-c", "read word; echo \"got $word\""])
        .stdout(Stdio::piped());
    let mut child = command.stdin(Stdio::piped()).spawn().expect("hcomm starts");
    let stdin = child.stdin.as_mut().expect("it was piped");
    std::io::Write::write_all(stdin, b"hello\n").expect("rank 0 reads");
    let output = child.wait_with_output().expect("hcomm ends");
    assert_eq!(sorted_lines(&output.stdout), ["[0] got hello", "[1] got "]);
}

#[test]
fn a_wrong_setting_is_found_before_anything_starts() {
    let mut command = hcomm();
    command.args(["launch", "-n", "2", "echo", "started"]).env("HCOMM_BUFER_SIZE", "1MB");
    let output = command.output().expect("hcomm starts");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stdout, b"");
    let said = text(&output.stderr);
    assert_eq!(said, "hcomm: unknown setting 'HCOMM_BUFER_SIZE'; did you mean HCOMM_BUFFER_SIZE?\n");
}
