//! The command line of the example.

use std::path::PathBuf;

use hcomm::settings::{Rate, SettingError, Settings, TransportChoice};

use crate::buckets::Mode;

/// Printed by `--help`.
pub const HELP: &str = "\
Trains a small character-level transformer data-parallel on this repository's own source files.

  --ranks N             rank processes to start (2)
  --transport shm|tcp   how they talk, as fast as it goes (without this flag: tcp, paced by --link)
  --link RATE|auto|none pace tcp to RATE bytes per second, e.g. 50MB/s; auto: communication takes as long as backward, as it
                        does between the machines of a cluster (auto, unless --transport or HCOMM_* settings say otherwise)
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
    /// What ranks talk over, if not what the environment says.
    pub transport: Option<TransportChoice>,
    /// The pace of that, where the command line says anything of it.
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
}

/// The pace of the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Link {
    /// As fast as makes communication last as long as backward.
    Auto,
    /// As said.
    Paced(Rate),
    /// As fast as it goes.
    Free,
}

/// What the command line comes to.
#[derive(Debug, PartialEq)]
pub enum Request {
    /// Train.
    Train(Options),
    /// Print the help text.
    Help,
}

impl Options {
    /// Reads the arguments after the program's name. The error is one line for the user.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Request, String> {
        let (mut options, mut mode) = (Options::standard(), None);
        let mut arguments = arguments;
        while let Some(flag) = arguments.next() {
            let mut value = |what: &str| arguments.next().ok_or(format!("{flag} needs {what}"));
            match flag.as_str() {
                "--help" | "-h" => return Ok(Request::Help),
                "--ranks" => options.ranks = number(&flag, &value("a number")?, 1, 256)?,
                "--transport" => options.transport = Some(transport(&value("shm or tcp")?)?),
                "--link" => options.link = Some(link(&value("a rate or auto")?)?),
                "--steps" => options.steps = number(&flag, &value("a number")?, 1, 1_000_000)?,
                "--rounds" => options.rounds = number(&flag, &value("a number")?, 0, 1000)?,
                "--no-overlap" => only_one(&mut mode, Mode::NoOverlap)?,
                "--no-comm" => only_one(&mut mode, Mode::NoComm)?,
                "--check" => options.check = true,
                "--seed" => options.seed = number(&flag, &value("a number")?, 0, usize::MAX)? as u64,
                "--out" => options.out = value("a folder")?.into(),
                _ => return Err(format!("unknown flag {flag:?}; --help lists the flags")),
            }
        }
        options.settled(mode).map(Request::Train)
    }

    fn standard() -> Options {
        Options {
            ranks: 2,
            transport: None,
            link: None,
            steps: 400,
            rounds: 10,
            mode: Mode::Overlap,
            check: false,
            seed: 1,
            out: "train-out".into(),
        }
    }

    /// What depends on several flags.
    fn settled(mut self, mode: Option<Mode>) -> Result<Options, String> {
        let is_paced = matches!(self.link, Some(Link::Auto | Link::Paced(_)));
        if is_paced && self.transport.is_some_and(|transport| transport != TransportChoice::Tcp) {
            return Err("--link paces tcp only; leave out the other --transport".into());
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

fn transport(text: &str) -> Result<TransportChoice, String> {
    Ok(setting("--transport", "HCOMM_TRANSPORT", text)?.transport)
}

fn link(text: &str) -> Result<Link, String> {
    match text {
        "auto" => Ok(Link::Auto),
        "none" => Ok(Link::Free),
        rate => Ok(Link::Paced(setting("--link", "HCOMM_LINK_RATE", rate)?.link_rate)),
    }
}

/// The library reads a value of a setting as it would from the environment.
fn setting(flag: &str, name: &str, value: &str) -> Result<Settings, String> {
    Settings::from_pairs([(name, value)]).map_err(|error: SettingError| format!("{flag}: {error}"))
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
            transport: Some(TransportChoice::Tcp),
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
    fn rates_have_units() {
        for (text, bytes_per_s) in [("1500B/s", 1500), ("50MB/s", 50_000_000), ("8Mbit/s", 1_000_000)] {
            let rate = Rate::bytes_per_s(bytes_per_s);
            assert_eq!(parse(&format!("--link {text}")).unwrap().link, Some(Link::Paced(rate)));
        }
        assert_eq!(parse("--link auto --transport tcp").unwrap().link, Some(Link::Auto));
        assert_eq!(parse("--link none --transport shm").unwrap().link, Some(Link::Free));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, named) in [
            ("--rank 2", "\"--rank\""),
            ("--ranks", "--ranks"),
            ("--ranks 0", "\"0\""),
            ("--ranks -1", "\"-1\""),
            ("--transport rdma", "'rdma'"),
            ("--link fast", "'fast'"),
            ("--link 7B/s", "'7B/s'"),
            ("--link", "--link"),
            ("--link 1MB/s --transport shm", "--transport"),
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
