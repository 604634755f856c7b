//! [`Job`]: what tells a launcher's job from another, and from that where rank 0 listens and what the ranks share.
//!
//! Where the user names neither address nor token and all ranks are on one host, rank 0 takes a free port, draws a token, and leaves both in a
//! file that only the user can read, under the job's name. Between hosts there is no such way: the port follows from `MASTER_PORT` or the job's
//! identity, and so does the token, which then is no secret.

use super::super::token::hash;
use super::super::{Address, EnvironmentError, JobName, Placement, Secret, Token, Variables};
use super::Numbers;

/// A job as its launcher describes it.
pub struct Job<'a> {
    /// The launcher's name.
    pub launcher: &'static str,
    /// The variable of the rank.
    pub rank: &'static str,
    pub numbers: Numbers,
    pub variables: &'a Variables,
    /// Variables that the launcher sets to something that differs from job to job. Not all need be there, but one must, or the launcher's
    /// process must be found.
    pub identity: &'a [&'static str],
    /// Variables that tell its jobs apart only together with those.
    pub details: &'a [&'static str],
    /// The names of the launcher's processes that start ranks.
    pub daemons: &'a [&'a str],
    /// An option on their command line that is the same on all hosts and differs from job to job.
    pub option: Option<&'a str>,
    /// Rank 0's host, where the launcher says.
    pub host: Option<String>,
}

impl Job<'_> {
    /// The placement of this process in the job.
    pub fn place(self) -> Result<Placement, EnvironmentError> {
        let (address, secret) = self.meeting()?;
        let Numbers { rank, world, local_rank, local_world } = self.numbers;
        Ok(Placement { rank, world, local_rank, local_world, address, secret, source: self.launcher })
    }

    fn meeting(&self) -> Result<(Address, Secret), EnvironmentError> {
        let (address, token) = (self.variables.address("HCOMM_ADDRESS")?, self.variables.token()?);
        if self.numbers.world == 1 {
            return Ok((Address::loopback(0), Secret::Given(Token::derived(&[self.launcher]))));
        }
        let is_here = match &address {
            Some(address) => address.is_loopback(),
            None => self.named_host().is_some_and(|host| Address { host, port: 0 }.is_loopback()),
        };
        match token {
            Some(token) => Ok((self.address(address, &[&token.to_hex()])?, Secret::Given(token))),
            None if is_here || self.numbers.is_one_host() => {
                let name = JobName::of(&texts(&self.identity_here()?));
                Ok((address.map_or_else(|| self.address_here(), Ok)?, Secret::Left(name)))
            }
            None => {
                let facts = self.identity_anywhere()?;
                let facts = texts(&facts);
                Ok((self.address(address, &facts)?, Secret::Public(Token::derived(&facts))))
            }
        }
    }

    /// Where rank 0 listens when all ranks are on this host: at a port of the user's, or whichever is free.
    fn address_here(&self) -> Result<Address, EnvironmentError> {
        let host = self.named_host().unwrap_or_default();
        let address = Address { host, port: self.variables.port("HCOMM_PORT")?.unwrap_or(0) };
        Ok(if address.is_loopback() { address } else { Address::loopback(address.port) })
    }

    /// Where rank 0 listens when the launcher has no word for it: `HCOMM_ADDRESS`, or the host that is known with the port of `HCOMM_PORT`,
    /// one more than `MASTER_PORT` (torch's own store listens at that), or one that follows from the facts.
    fn address(&self, given: Option<Address>, facts: &[&str]) -> Result<Address, EnvironmentError> {
        if let Some(address) = given {
            return Ok(address);
        }
        let loopback = || self.numbers.is_one_host().then(|| "127.0.0.1".to_owned());
        let missing = || EnvironmentError::Missing {
            launcher: self.launcher,
            name: "MASTER_ADDR",
            expected: "the name or address of rank 0's host, since not all ranks are known to share one",
        };
        let host = self.named_host().or_else(loopback).or(self.host.clone()).ok_or_else(missing)?;
        Ok(Address { host, port: self.port(facts)? })
    }

    /// `MASTER_ADDR`; an IPv6 address may stand in brackets.
    fn named_host(&self) -> Option<String> {
        let named = self.variables.text("MASTER_ADDR")?.trim();
        let bare = named.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(named);
        Some(bare.to_owned())
    }

    fn port(&self, facts: &[&str]) -> Result<u16, EnvironmentError> {
        if let Some(port) = self.variables.port("HCOMM_PORT")? {
            return Ok(port);
        }
        match self.variables.port("MASTER_PORT")? {
            Some(port) => port.checked_add(1).ok_or_else(|| EnvironmentError::Malformed {
                name: "MASTER_PORT",
                value: port.to_string(),
                expected: "a port below 65535, or HCOMM_PORT, since hcomm listens one port above it",
            }),
            None => Ok(derived_port(facts)),
        }
    }

    /// What the ranks of this host know alike, and those of another of its jobs do not: the launcher's own variables, its process, or what the user
    /// gave.
    fn identity_here(&self) -> Result<Vec<String>, EnvironmentError> {
        let process = || {
            let starter = self.variables.starter(self.daemons, self.rank)?;
            Some(vec![format!("process {} of {}", starter.pid, starter.started)])
        };
        self.named(self.own_facts().or_else(process).or_else(|| self.users_facts()))
    }

    /// What the ranks of all hosts know alike: the launcher's own variables, an option of its processes, or what the user gave.
    fn identity_anywhere(&self) -> Result<Vec<String>, EnvironmentError> {
        let option = || {
            let starter = self.variables.starter(self.daemons, self.rank)?;
            Some(vec![starter.option(self.option?)?.to_owned()])
        };
        self.named(self.own_facts().or_else(option).or_else(|| self.users_facts()))
    }

    /// Facts that tell the job from others, with those that do not.
    fn named(&self, facts: Option<Vec<String>>) -> Result<Vec<String>, EnvironmentError> {
        let Some(facts) = facts else {
            let names = self.identity.join(", ");
            let lacking = format!("{names} not set, and the process that started it not found");
            return Err(EnvironmentError::NoIdentity { launcher: self.launcher, lacking });
        };
        let common = [self.launcher.to_owned(), self.numbers.world.to_string()];
        Ok(common.into_iter().chain(facts).collect())
    }

    fn own_facts(&self) -> Option<Vec<String>> {
        let deciding = self.facts(self.identity);
        (!deciding.is_empty()).then(|| [deciding, self.facts(self.details)].concat())
    }

    fn users_facts(&self) -> Option<Vec<String>> {
        let facts = self.facts(&["HCOMM_ADDRESS", "HCOMM_PORT", "MASTER_PORT"]);
        (!facts.is_empty()).then_some(facts)
    }

    /// Those of the variables that are set. `none` is torchrun's word for a run without a name.
    fn facts(&self, names: &[&str]) -> Vec<String> {
        let value = |name: &&str| {
            let value = self.variables.text(name).filter(|value| *value != "none")?;
            Some(format!("{name}={value}"))
        };
        names.iter().filter_map(value).collect()
    }
}

fn texts(facts: &[String]) -> Vec<&str> {
    facts.iter().map(String::as_str).collect()
}

/// A port from 20000 to 31999: below what Linux hands to outgoing connections, above most services.
fn derived_port(facts: &[&str]) -> u16 {
    20_000 + (hash(0, facts) % 12_000) as u16
}
