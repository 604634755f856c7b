//! [`Settings`]: everything that `HCOMM_*` environment variables can change. Read once when a communicator is made, before the
//! rendezvous; there the ranks agree on those that shape messages. Who this process is (rank, address, token) is not a setting;
//! `environment` reads that.

mod agree;
mod entry;
mod error;
pub mod suggest;
mod table;
pub mod value;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt::Write;

pub use entry::{Entry, Range};
pub use error::{AgreementError, SettingError};
pub use table::{Settings, TABLE};
pub use value::{AlgorithmPins, Bytes, CpuSet, DebugLevel, NameFilter, Rate, TransportChoice, TuningChoice};

use crate::environment;

/// What every name begins with.
pub const PREFIX: &str = "HCOMM_";

impl Settings {
    /// The settings of this process's environment. A name that begins with `HCOMM_` and is neither a setting nor read by
    /// [`environment`] is an error, so that a slip does not go unseen.
    pub fn from_env() -> Result<Self, SettingError> {
        Settings::from_env_with(Vec::<(String, String)>::new())
    }

    /// The same, with the settings that `pairs` spell in place of the environment's.
    pub fn from_env_with<N, V>(pairs: impl IntoIterator<Item = (N, V)>) -> Result<Self, SettingError>
    where
        N: Into<String>,
        V: Into<String>,
    {
        // Other programs' variables may be no text.
        let ours =
            std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
        let mut all = ours.map(text_pair).collect::<Result<Vec<_>, _>>()?;
        all.extend(pairs.into_iter().map(|(name, value)| (name.into(), value.into())));
        Settings::from_pairs(all)
    }

    /// The settings that `pairs` of name and value spell; the defaults for all others, the last one for a name given twice.
    /// Names that do not begin with `HCOMM_` are left alone, and so are those that Kubernetes makes up for a service of that name. An empty
    /// value is none: the default counts.
    pub fn from_pairs<N, V>(pairs: impl IntoIterator<Item = (N, V)>) -> Result<Self, SettingError>
    where
        N: AsRef<str>,
        V: AsRef<str>,
    {
        let mut settings = Settings::default();
        for (name, value) in pairs {
            settings.set(name.as_ref(), value.as_ref())?;
        }
        Ok(settings)
    }

    /// What `HCOMM_DEBUG=info` and `--help` print: per setting a line of name and value and a line of its reason.
    pub fn describe(&self) -> String {
        let default = Settings::default();
        let mut text = String::new();
        for entry in TABLE {
            let (value, usual) = (entry.show(self), entry.show(&default));
            let origin = if value == usual { String::new() } else { format!(" (default '{usual}')") };
            let expected = entry.expected(self);
            let agreed = if entry.agreed { "; rank 0's is everybody's" } else { "" };
            // Writing into a String cannot fail.
            let _ = writeln!(
                text,
                "{}='{value}'{origin}\n    {}\n    {expected}{agreed}",
                entry.name, entry.reason
            );
        }
        text
    }

    /// Rank 0's word at the rendezvous: the settings on which all ranks must agree.
    pub fn agreed_blob(&self) -> Vec<u8> {
        agree::encode(self)
    }

    /// Takes over the agreed settings of rank 0, as [`Settings::agreed_blob`] made them. Changes nothing when it fails.
    pub fn adopt(&mut self, blob: &[u8]) -> Result<(), AgreementError> {
        *self = agree::decode(self, blob)?;
        Ok(())
    }

    /// What this rank's own settings ask, beyond the defaults, that the agreed ones do not grant: a sentence each.
    pub(crate) fn overruled(&self, agreed: &Settings) -> Vec<String> {
        let usual = Settings::default();
        let differs = TABLE.iter().filter(|entry| {
            let own = entry.show(self);
            own != entry.show(agreed) && own != entry.show(&usual)
        });
        let describe = |entry: &Entry| {
            let (name, own, theirs) = (entry.name, entry.show(self), entry.show(agreed));
            format!("{name} is '{own}' here, but rank 0's '{theirs}' holds for all ranks")
        };
        differs.map(describe).collect()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        if !name.starts_with(PREFIX) || environment::VARIABLES.iter().any(|variable| variable.name == name) {
            return Ok(());
        }
        match TABLE.iter().find(|entry| entry.name == name) {
            Some(entry) if value.trim().is_empty() => entry.set(self, &entry.show(&Settings::default())),
            Some(entry) => entry.set(self, value),
            None if environment::is_service_link(name, value) => Ok(()),
            None => Err(unknown(name)),
        }
    }
}

/// Every `HCOMM_*` name with a meaning, the ones of [`environment`] last.
pub fn known_names() -> impl Iterator<Item = &'static str> {
    let launch = environment::VARIABLES.iter().map(|variable| variable.name);
    TABLE.iter().map(|entry| entry.name).chain(launch.filter(|name| name.starts_with(PREFIX)))
}

/// The prefix, which all names have, makes no name likelier than another.
fn unknown(name: &str) -> SettingError {
    let ends = known_names().filter_map(|known| known.strip_prefix(PREFIX));
    let end = suggest::nearest(name.strip_prefix(PREFIX).unwrap_or(name), ends);
    let nearest = known_names().find(|known| known.strip_prefix(PREFIX) == end);
    SettingError::UnknownName { name: name.to_owned(), nearest: end.and(nearest) }
}

fn text_pair((name, value): (OsString, OsString)) -> Result<(String, String), SettingError> {
    let not_text = || SettingError::NotText { name: name.to_string_lossy().into_owned() };
    let value = value.into_string().map_err(|_| not_text())?;
    match name.to_str() {
        Some(name) => Ok((name.to_owned(), value)),
        None => Err(not_text()),
    }
}
