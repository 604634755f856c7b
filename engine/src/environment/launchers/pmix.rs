//! Launchers of which only `PMIX_RANK` shows: they do not say how many ranks there are, so `WORLD_SIZE` must.

use super::super::{EnvironmentError, Placement, Variables};
use super::{Launcher, Names, Numbers, job_token, rendezvous_address};

const NAME: &str = "a PMIx launcher";

const NAMES: Names = Names {
    rank: "PMIX_RANK",
    world: "WORLD_SIZE",
    local_rank: "LOCAL_RANK",
    local_world: Some("LOCAL_WORLD_SIZE"),
};

/// `PMIX_RANK`, `PMIX_NAMESPACE`, and `WORLD_SIZE` from the user.
pub static LAUNCHER: Launcher =
    Launcher { name: NAME, is_present: |variables| variables.has(NAMES.rank), read };

fn read(variables: &Variables) -> Result<Placement, EnvironmentError> {
    let numbers = Numbers::read(NAME, &NAMES, variables)?;
    let identity = [NAME, variables.text("PMIX_NAMESPACE").unwrap_or_default()];
    let address = rendezvous_address(NAME, &numbers, variables, &identity, None)?;
    Ok(numbers.place(address, job_token(variables, &identity)?, NAME))
}
