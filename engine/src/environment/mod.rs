//! [`Placement`]: which rank of which world this process is, read from the variables that its launcher set, and, where those do not say which
//! job they are of, from the process that set them. The rendezvous takes it from here.

mod address;
mod contradiction;
mod error;
mod launchers;
mod secret;
mod service;
pub(crate) mod starter;
mod token;
mod variables;

#[cfg(test)]
mod tests;

use hcomm_ops::Rank;

pub use address::Address;
pub use error::EnvironmentError;
pub use launchers::{LAUNCHERS, Launcher, is_superseded};
pub use secret::{JobName, Secret};
pub use service::is_service_link;
pub use token::Token;
pub use variables::{VARIABLES, Variable, Variables};

/// Where this process stands in its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// This process's rank.
    pub rank: Rank,
    /// How many ranks the job has.
    pub world: usize,
    /// This process's number among those of its host, where the launcher says.
    pub local_rank: Option<usize>,
    /// How many ranks of the job are on this host, where the launcher says.
    pub local_world: Option<usize>,
    /// Where rank 0 listens for the others. Port 0, and never used, in a world of one without launcher; port 0 also where the secret
    /// is [`Secret::Left`] and rank 0 takes whichever port is free.
    pub address: Address,
    /// What every rank must prove to know.
    pub secret: Secret,
    /// Who said all this: the name of a [`Launcher`], or `alone`.
    pub source: &'static str,
}

impl Placement {
    /// The placement that this process's environment describes.
    pub fn from_env() -> Result<Self, EnvironmentError> {
        Placement::from_variables(&Variables::from_env())
    }

    /// The placement that `variables` describe: by the first of [`LAUNCHERS`] that shows in them, or a world of one.
    pub fn from_variables(variables: &Variables) -> Result<Self, EnvironmentError> {
        let Some(launcher) = LAUNCHERS.iter().find(|launcher| (launcher.is_present)(variables)) else {
            launchers::check_batch(variables)?;
            return Ok(Placement::alone());
        };
        contradiction::check(launcher, variables)?;
        (launcher.read)(variables)
    }

    /// A world of one.
    pub fn alone() -> Self {
        Placement {
            rank: 0,
            world: 1,
            local_rank: Some(0),
            local_world: Some(1),
            address: Address::loopback(0),
            secret: Secret::Given(Token::derived(&["alone"])),
            source: "alone",
        }
    }
}
