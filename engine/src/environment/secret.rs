//! [`Secret`]: how the ranks of a job come to share what others do not know.

use super::token::hash;
use super::{Address, Token};

/// Where the token of a job comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// The launcher or the user handed it over.
    Given(Token),
    /// Rank 0 draws it, and leaves it and its address in a file that only this user can read; for jobs of one host, by this name of the job.
    Left(JobName),
    /// It follows from what other programs may know too: it keeps jobs apart, and nobody out. Whoever reaches rank 0's address can join.
    Public(Token),
}

impl Secret {
    /// That of a job which somebody described by hand, without a token: on one host rank 0 draws it, else it follows from the address.
    pub fn for_address(address: &Address, world: usize) -> Self {
        let facts = [&*address.to_string(), &world.to_string()];
        match world > 1 && address.is_loopback() {
            true => Secret::Left(JobName::of(&facts)),
            false => Secret::Public(Token::derived(&facts)),
        }
    }
}

/// What tells one job of this host and user from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobName {
    text: String,
}

impl JobName {
    /// The name that follows from these facts: the same facts give the same name, others almost surely another.
    pub fn of(facts: &[&str]) -> Self {
        JobName { text: format!("{:016x}{:016x}", hash(1, facts), hash(2, facts)) }
    }

    /// 32 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl From<Token> for Secret {
    fn from(token: Token) -> Self {
        Secret::Given(token)
    }
}
