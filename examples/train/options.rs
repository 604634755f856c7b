//! The command line of the example.

use std::path::PathBuf;

use crate::buckets::Mode;

/// Printed by `--help`.
pub const HELP: &str = "\
Trains a small character-level transformer data-parallel on this repository's own source files.

  --ranks N             rank processes to start (2)
  --transport shm|tcp   how they talk (shm; tcp with --link)
  --link RATE|auto      pace tcp to RATE bytes per second, e.g. 50MB; auto: communication takes as long as backward
  --steps N             training steps (400)
  --rounds N            rounds of the measurement afterwards; 0 leaves it out (10)
  --no-overlap          communicate after backward instead of during it; no measurement
  --no-comm             do not communicate: every rank trains alone; no measurement
  --check               compare with one rank that takes all micro-batches
  --seed N              of the first parameters and the batches (1)
  --out DIR             where plans and timeline go (train-out)
  --help                print this";

/// What the user asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Rank processes to start.
    pub ranks: usize,
    /// What ranks talk over.
    pub transport: Transport,
    /// The pace of that, if it is to be slowed down.
    pub link: Option<Link>,
    /// Training steps.
    pub steps: usize,
    /// Rounds of the measurement.
    pub rounds: usize,
    /// How training communicates.
    pub mode: Mode,
    /// Whether to compare with one rank.
    pub check: bool,
    /// Of the first parameters and the batches.
    pub seed: u64,
    /// Where files go.
    pub out: PathBuf,
    /// Set by the parent of the ranks: only find the rate for `--link auto`.
    pub calibrate: bool,
}

/// What ranks talk over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transport {
    /// Shared memory.
    Shm,
    /// Sockets.
    Tcp,
}

/// The pace of the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Link {
    /// As fast as makes communication last as long as backward.
    Auto,
    /// Bytes per second.
    BytesPerSecond(u64),
}

/// What the command line comes to.
#[derive(Debug, PartialEq)]
pub enum Request {
    /// Train.
    Train(Options),
    /// Print the help text.
    Help,
}

impl Transport {
    /// As `HCOMM_TRANSPORT` spells it.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Shm => "shm",
            Transport::Tcp => "tcp",
        }
    }
}

impl Options {
    /// Reads the arguments after the program's name. The error is one line for the user.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Request, String> {
        let (mut options, mut transport, mut mode) = (Options::standard(), None, None);
        let mut arguments = arguments;
        while let Some(flag) = arguments.next() {
            let mut value = |what: &str| arguments.next().ok_or(format!("{flag} needs {what}"));
            match flag.as_str() {
                "--help" | "-h" => return Ok(Request::Help),
                "--ranks" => options.ranks = number(&flag, &value("a number")?, 1, 256)?,
                "--transport" => transport = Some(transport_of(&value("shm or tcp")?)?),
                "--link" => options.link = Some(link(&value("a rate or auto")?)?),
                "--steps" => options.steps = number(&flag, &value("a number")?, 1, 1_000_000)?,
                "--rounds" => options.rounds = number(&flag, &value("a number")?, 0, 1000)?,
                "--no-overlap" => only_one(&mut mode, Mode::NoOverlap)?,
                "--no-comm" => only_one(&mut mode, Mode::NoComm)?,
                "--check" => options.check = true,
                "--seed" => options.seed = number(&flag, &value("a number")?, 0, usize::MAX)? as u64,
                "--out" => options.out = value("a folder")?.into(),
                "--calibrate" => options.calibrate = true,
                _ => return Err(format!("unknown flag {flag:?}; --help lists the flags")),
            }
        }
        options.settled(transport, mode).map(Request::Train)
    }

    fn standard() -> Options {
        Options {
            ranks: 2,
            transport: Transport::Shm,
            link: None,
            steps: 400,
            rounds: 10,
            mode: Mode::Overlap,
            check: false,
            seed: 1,
            out: "train-out".into(),
            calibrate: false,
        }
    }

    /// What depends on several flags.
    fn settled(mut self, transport: Option<Transport>, mode: Option<Mode>) -> Result<Options, String> {
        match (self.link, transport) {
            (Some(_), Some(Transport::Shm)) => {
                return Err("--link paces tcp only; leave out --transport shm".into());
            }
            (Some(_), None) => self.transport = Transport::Tcp,
            (_, given) => self.transport = given.unwrap_or(self.transport),
        }
        if let Some(mode) = mode {
            (self.mode, self.rounds) = (mode, 0);
        }
        match (self.check, self.mode) {
            (true, Mode::NoComm) => Err("--check needs communication; leave out --no-comm".into()),
            _ => Ok(self),
        }
    }
}

fn only_one(mode: &mut Option<Mode>, wanted: Mode) -> Result<(), String> {
    match mode.replace(wanted) {
        Some(other) if other != wanted => Err("--no-overlap and --no-comm exclude each other".into()),
        _ => Ok(()),
    }
}

fn number(flag: &str, text: &str, least: usize, most: usize) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or(format!("{flag} {text:?}: expected a number from {least} to {most}"))
}

fn transport_of(text: &str) -> Result<Transport, String> {
    let known = [Transport::Shm, Transport::Tcp];
    let found = known.into_iter().find(|transport| transport.name() == text);
    found.ok_or(format!("--transport {text:?}: expected shm or tcp"))
}

/// `auto`, or bytes per second with a unit: `800KB`, `1.5GB`, `64MiB`, also with `/s` after it.
fn link(text: &str) -> Result<Link, String> {
    if text == "auto" {
        return Ok(Link::Auto);
    }
    let wrong = || format!("--link {text:?}: expected auto or bytes per second, for example 50MB");
    let rate = text.trim_end_matches("/s");
    let digits = rate.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rate.len());
    let unit = match &rate[digits..] {
        "" | "B" => 1.0,
        "KB" | "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let bytes_per_second = rate[..digits].parse::<f64>().map_err(|_| wrong())? * unit;
    match (1.0..1e15).contains(&bytes_per_second) {
        true => Ok(Link::BytesPerSecond(bytes_per_second as u64)),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        match Options::parse(line.split_whitespace().map(str::to_owned))? {
            Request::Train(options) => Ok(options),
            Request::Help => panic!("help was not asked for"),
        }
    }

    #[test]
    fn flags_set_what_they_name() {
        let options =
            parse("--ranks 3 --transport tcp --steps 7 --no-overlap --check --seed 9 --out x").unwrap();
        let expected = Options {
            ranks: 3,
            transport: Transport::Tcp,
            steps: 7,
            rounds: 0,
            mode: Mode::NoOverlap,
            check: true,
            seed: 9,
            out: "x".into(),
            ..Options::standard()
        };
        assert_eq!(options, expected);
        assert_eq!(parse("").unwrap(), Options::standard());
    }

    #[test]
    fn rates_have_units_and_choose_tcp() {
        for (text, rate) in [("1500", 1500), ("1.5KB", 1500), ("50MB/s", 50_000_000), ("2MiB", 2 << 20)] {
            let options = parse(&format!("--link {text}")).unwrap();
            assert_eq!(options.link, Some(Link::BytesPerSecond(rate)));
            assert_eq!(options.transport, Transport::Tcp);
        }
        assert_eq!(parse("--link auto").unwrap().link, Some(Link::Auto));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, named) in [
            ("--rank 2", "\"--rank\""),
            ("--ranks", "--ranks"),
            ("--ranks 0", "\"0\""),
            ("--ranks -1", "\"-1\""),
            ("--transport rdma", "\"rdma\""),
            ("--link fast", "\"fast\""),
            ("--link 0", "\"0\""),
            ("--link 5TB", "\"5TB\""),
            ("--link", "--link"),
            ("--link 1MB --transport shm", "--transport shm"),
            ("--no-comm --no-overlap", "--no-overlap"),
            ("--no-comm --check", "--check"),
            ("--seed x", "\"x\""),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(named) && !error.contains('\n'), "{line}: {error}");
        }
    }

    #[test]
    fn help_lists_every_flag() {
        for flag in
            ["ranks", "transport", "link", "steps", "rounds", "no-overlap", "no-comm", "check", "seed", "out"]
        {
            assert!(HELP.contains(&format!("\n  --{flag} ")), "{flag}");
        }
    }
}
