//! Tuning files: which one counts, and what planner follows from it. Rank 0 of a communicator reads the file; all ranks follow what it
//! read. `hcomm tune` writes such files; what they say is read in `hcomm_planner::choose::tuning`.

mod machine;
mod spread;

use std::io;
use std::path::{Path, PathBuf};

use hcomm_planner::choose::tuning::{LONGEST_BYTES, Machine};
use hcomm_planner::choose::{Basis, LinkKind, Tuning, TuningError};

pub use machine::this_machine;
pub use spread::Spread;

use crate::domain::p2p;
use crate::file::read_text;
use crate::settings::{Settings, TuningChoice};

/// A tuning, its text, and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// What it says.
    pub tuning: Tuning,
    /// The text that was read; empty where there was none.
    pub text: String,
    /// The name of the file, or `defaults` and why no file counts.
    pub source: String,
    /// What is wrong with a file that was there but that nobody had named; the defaults count then, and the user is to be told.
    pub fault: Option<String>,
}

/// Why a tuning file cannot be used. It is to be corrected, measured anew with `hcomm tune`, or removed.
#[derive(Debug, thiserror::Error)]
pub enum TunedError {
    /// It cannot be read.
    #[error("cannot read the tuning file {path}: {cause}")]
    Unreadable {
        /// Its name.
        path: String,
        /// Why.
        cause: io::Error,
    },
    /// It says something that is wrong.
    #[error("tuning file {path}, {fault}")]
    Fault {
        /// Its name.
        path: String,
        /// What.
        fault: TuningError,
    },
}

impl Default for Tuned {
    fn default() -> Self {
        Tuned::defaults("defaults")
    }
}

impl Tuned {
    /// The built-in costs.
    fn defaults(source: &str) -> Tuned {
        Tuned { tuning: Tuning::default(), text: String::new(), source: source.to_owned(), fault: None }
    }

    /// What the settings ask for: a named file; else the one at [`usual_path`], if it is sound and was measured on this machine; else the
    /// defaults.
    ///
    /// # Errors
    /// Where a file is named and cannot be read or is faulty.
    pub fn load(choice: &TuningChoice) -> Result<Tuned, TunedError> {
        match choice {
            TuningChoice::Off => Ok(Tuned::default()),
            TuningChoice::File(path) => Tuned::read(path),
            // A file that nobody named is no matter of a build that reads none.
            TuningChoice::Auto if cfg!(not(feature = "tuning")) => Ok(Tuned::default()),
            TuningChoice::Auto => match usual_path().filter(|path| path.exists()) {
                Some(path) => Ok(Tuned::found(&path)),
                None => Ok(Tuned::default()),
            },
        }
    }

    /// A file that lies at its usual place.
    fn found(path: &Path) -> Tuned {
        match Tuned::read(path) {
            Ok(tuned) => tuned.here(&this_machine()),
            Err(error) => {
                let fault = format!(
                    "{error}; the built-in costs are used instead. Measure it anew with `hcomm tune`, or remove it"
                );
                Tuned { fault: Some(fault), ..Tuned::defaults(&format!("defaults ({error})")) }
            }
        }
    }

    /// A file, whatever machine it was measured on.
    ///
    /// # Errors
    /// Where it cannot be read or is faulty.
    pub fn read(path: &Path) -> Result<Tuned, TunedError> {
        let name = path.display().to_string();
        match read_text(path, LONGEST_BYTES as u64) {
            Ok(text) => match Tuning::parse(&text) {
                Ok(tuning) => Ok(Tuned { tuning, text, source: name, fault: None }),
                Err(fault) => Err(TunedError::Fault { path: name, fault }),
            },
            Err(cause) => Err(TunedError::Unreadable { path: name, cause }),
        }
    }

    /// The text of a file, or none, which stands for the defaults.
    ///
    /// # Errors
    /// Where it is faulty.
    pub fn parse(text: String, source: String) -> Result<Tuned, TuningError> {
        let tuning = if text.is_empty() { Tuning::default() } else { Tuning::parse(&text)? };
        Ok(Tuned { tuning, text, source, fault: None })
    }

    /// The same, or the defaults where it was measured on another machine.
    fn here(self, here: &Machine) -> Tuned {
        let is_here = |there: &Machine| {
            (&there.hostname, &there.cpu, there.processors) == (&here.hostname, &here.cpu, here.processors)
        };
        match &self.tuning.machine {
            Some(there) if !is_here(there) => {
                let Machine { hostname, cpu, processors, .. } = there;
                let source = self.source;
                Tuned::defaults(&format!(
                    "defaults ({source} is of another machine: {hostname}, {processors} x {cpu})"
                ))
            }
            _ => self,
        }
    }
}

/// Where `hcomm tune` leaves its file unless told otherwise: `hcomm/tuning.toml` in `XDG_CONFIG_HOME`, or in `~/.config`.
pub fn usual_path() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(config.join("hcomm/tuning.toml"))
}

/// What a planner of ranks on their hosts goes by under these settings, the pins of communicators aside.
pub fn basis(settings: &Settings, tuned: &Tuned, local: LinkKind, spread: Spread) -> Basis {
    Basis {
        tuning: tuned.tuning.clone(),
        source: tuned.source.clone(),
        local,
        slot_bytes: message_bytes(settings, spread.slot_bytes(settings)) as u64,
        are_tiles_free: settings.tile_bytes.0 == 0,
        pins: settings.algorithm.to_pins("HCOMM_ALGORITHM"),
        deterministic: settings.deterministic,
        ..Basis::default()
    }
}

/// Ports of a wire: those of the operations, and the one of tagged messages.
pub(crate) const WIRE_PORTS: u16 = p2p::PORT + 1;

/// The largest message that a slot of so many bytes is used for.
pub fn message_bytes(settings: &Settings, slot_bytes: usize) -> usize {
    match settings.tile_bytes.0 {
        0 => slot_bytes,
        bytes => slot_bytes.min(bytes as usize / 128 * 128),
    }
}

#[cfg(all(test, feature = "tuning"))]
mod tests {
    use super::*;

    fn machine(hostname: &str) -> Machine {
        Machine { hostname: hostname.into(), cpu: "a cpu".into(), processors: 2, kernel: "1".into() }
    }

    fn tuned(hostname: &str) -> Tuned {
        let tuning = Tuning { machine: Some(machine(hostname)), ..Tuning::default() };
        Tuned::parse(tuning.to_text(), "a.toml".to_owned()).expect("its own text")
    }

    #[test]
    fn a_file_of_another_machine_gives_way_to_the_defaults() {
        let here = Machine { kernel: "2".into(), ..machine("here") };
        assert_eq!(tuned("here").here(&here), tuned("here"));
        let other = tuned("there").here(&here);
        assert_eq!(other.tuning, Tuning::default());
        assert_eq!(other.source, "defaults (a.toml is of another machine: there, 2 x a cpu)");
        let unnamed = Tuned::parse("format = 1".to_owned(), "b.toml".to_owned()).expect("a good text");
        assert_eq!(unnamed.clone().here(&here), unnamed);
    }

    #[test]
    fn errors_name_the_file() {
        let folder = std::env::temp_dir().join(format!("hcomm-tuned-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let path = folder.join("bad.toml");
        std::fs::write(&path, "format = 1\n[links.shm]\nlatensy_ns = 3\n").expect("it can be written");
        let error = Tuned::load(&TuningChoice::File(path.clone())).expect_err("a misspelt key").to_string();
        let name = path.display();
        assert!(
            error.starts_with(&format!("tuning file {name}, line 3, 'latensy_ns = 3': unknown field")),
            "{error}"
        );
        let empty = folder.join("empty.toml");
        std::fs::write(&empty, "").expect("it can be written");
        let error = Tuned::load(&TuningChoice::File(empty)).expect_err("it says nothing").to_string();
        assert!(error.ends_with("missing field `format`"), "{error}");
        let error = Tuned::load(&TuningChoice::File(folder.clone())).expect_err("a folder").to_string();
        assert!(error.ends_with("it is no regular file"), "{error}");
        let missing = folder.join("missing.toml");
        let error = Tuned::load(&TuningChoice::File(missing)).expect_err("no file").to_string();
        assert!(
            error.starts_with("cannot read the tuning file ") && error.contains("missing.toml: "),
            "{error}"
        );
        std::fs::remove_dir_all(folder).expect("it was made above");
    }

    #[test]
    fn a_damaged_file_that_nobody_named_gives_way_to_the_defaults_and_is_told_of() {
        let path = std::env::temp_dir().join(format!("hcomm-found-{}.toml", std::process::id()));
        std::fs::write(&path, "format = 1\n[links.sh").expect("it can be written");
        let tuned = Tuned::found(&path);
        std::fs::remove_file(&path).expect("it was made above");
        assert_eq!((&tuned.tuning, &*tuned.text), (&Tuning::default(), ""));
        let fault = tuned.fault.expect("it is told of");
        assert!(fault.starts_with(&format!("tuning file {}, line 2", path.display())), "{fault}");
        assert!(tuned.source.starts_with("defaults (tuning file "), "{}", tuned.source);
    }

    #[test]
    fn messages_are_as_long_as_the_settings_say() {
        let settings = Settings::from_pairs([("HCOMM_TILE_BYTES", "1000")]).expect("legal");
        assert_eq!(message_bytes(&settings, 4096), 896);
        let basis = basis(&settings, &Tuned::default(), LinkKind::Tcp, Spread { near: 0, far: 3 });
        assert_eq!((basis.slot_bytes, basis.are_tiles_free), (896, false));
    }
}
