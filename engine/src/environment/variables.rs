//! [`Variables`]: the environment as a value, with readers that name what they refuse; and the list of names that are read.

use std::collections::HashMap;

use super::service::is_address;
use super::starter::{self, Starter};
use super::{Address, EnvironmentError, Token};

/// A variable that [`super::Placement`] is read from.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub holds: &'static str,
}

/// Every variable of hcomm's own that says who a process is. Other launchers' are named in their files.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "HCOMM_RANK",
        holds: "this process's rank, a number from 0 to one less than HCOMM_WORLD",
    },
    Variable { name: "HCOMM_WORLD", holds: "the number of ranks, at least 1" },
    Variable { name: "HCOMM_LOCAL_RANK", holds: "this process's number among those of its host" },
    Variable { name: "HCOMM_LOCAL_WORLD", holds: "the number of ranks on this host" },
    Variable { name: "HCOMM_ADDRESS", holds: "HOST:PORT at which rank 0 listens, the same on all ranks" },
    Variable {
        name: "HCOMM_PORT",
        holds: "the port at which rank 0 listens, where another launcher names the host",
    },
    Variable {
        name: "HCOMM_TOKEN",
        holds: "the job's secret, 64 hexadecimal digits, the same on all ranks (such as `openssl rand -hex 32` prints)",
    },
];

/// Environment variables by name, and the way to the process that set them. Without `Debug`: one of them is a secret.
#[derive(Clone)]
pub struct Variables {
    values: HashMap<String, String>,
    find_starter: FindStarter,
}

/// Finds the process that started this one and its neighbours, by the names of such processes and the variable of the rank.
type FindStarter = fn(&[&str], &str) -> Option<Starter>;

impl Variables {
    /// This process's environment. What is not UTF-8 is replaced, and then refused by whoever reads it as a number or an address.
    pub fn from_env() -> Self {
        let text = |s: std::ffi::OsString| s.to_string_lossy().into_owned();
        let values = std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
        Variables { values, find_starter: starter::find }
    }

    /// The variables of `pairs`, which no process is known to have set.
    pub fn from_pairs<N: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        let values = pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Variables { values, find_starter: |_, _| None }
    }

    /// The same, set by a process of this host.
    #[cfg(test)]
    pub(super) fn set_by(self, find_starter: FindStarter) -> Self {
        Variables { find_starter, ..self }
    }

    /// The process that started this one; see [`starter::find`].
    pub(super) fn starter(&self, daemons: &[&str], rank: &str) -> Option<Starter> {
        (self.find_starter)(daemons, rank)
    }

    /// A variable's value, if it is set and not empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether a variable is set and not empty.
    pub fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// A variable as a number, if it is set.
    pub(super) fn number(&self, name: &'static str) -> Result<Option<usize>, EnvironmentError> {
        self.read(name, "a number from 0 to 4294967295", |text| {
            text.parse::<u32>().ok().and_then(|n| usize::try_from(n).ok())
        })
    }

    /// A variable as a port, if it is set. What Kubernetes sets under the same name for a service is no port.
    pub(super) fn port(&self, name: &'static str) -> Result<Option<u16>, EnvironmentError> {
        if self.text(name).is_some_and(is_address) {
            return Ok(None);
        }
        self.read(name, "a port from 1 to 65535", |text| text.parse().ok().filter(|&port| port != 0))
    }

    /// A variable as an address, if it is set.
    pub(super) fn address(&self, name: &'static str) -> Result<Option<Address>, EnvironmentError> {
        self.read(name, "HOST:PORT such as node1:4000 or [fe80::1]:4000", |text| text.parse().ok())
    }

    /// `HCOMM_TOKEN`, if it is set. A wrong one is not repeated in the error: it may be nearly right.
    pub(super) fn token(&self) -> Result<Option<Token>, EnvironmentError> {
        let hidden = |text: &str| EnvironmentError::Malformed {
            name: "HCOMM_TOKEN",
            value: format!("({} characters)", text.chars().count()),
            expected: "64 hexadecimal digits",
        };
        self.text("HCOMM_TOKEN").map(|text| Token::from_hex(text).ok_or_else(|| hidden(text))).transpose()
    }

    fn read<T>(
        &self,
        name: &'static str,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, EnvironmentError> {
        let malformed = |text: &str| EnvironmentError::Malformed { name, value: text.to_owned(), expected };
        self.text(name).map(|text| parse(text.trim()).ok_or_else(|| malformed(text))).transpose()
    }
}
