//! torchrun, and whatever else sets torch's variables.
//!
//! `MASTER_PORT` is where torch's own store listens, so hcomm takes the port above it, or `HCOMM_PORT`. The token is derived from the run's
//! identity unless `HCOMM_TOKEN` is set; `TORCHELASTIC_RESTART_COUNT` is no part of that, since hosts that join late count anew.

use super::super::{EnvironmentError, Placement, Variables};
use super::{Launcher, Names, Numbers, job_token, rendezvous_address};

const NAME: &str = "torchrun";

const NAMES: Names = Names {
    rank: "RANK",
    world: "WORLD_SIZE",
    local_rank: "LOCAL_RANK",
    local_world: Some("LOCAL_WORLD_SIZE"),
};

/// `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `LOCAL_WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`, `TORCHELASTIC_RUN_ID`.
pub static LAUNCHER: Launcher = Launcher {
    name: NAME,
    is_present: |variables| variables.has(NAMES.rank) || variables.has("TORCHELASTIC_RUN_ID"),
    read,
};

fn read(variables: &Variables) -> Result<Placement, EnvironmentError> {
    let numbers = Numbers::read(NAME, &NAMES, variables)?;
    let fact = |name| variables.text(name).unwrap_or_default();
    let world = numbers.world.to_string();
    let identity =
        [NAME, fact("TORCHELASTIC_RUN_ID"), fact("MASTER_ADDR"), fact("MASTER_PORT"), world.as_str()];
    let address = rendezvous_address(NAME, &numbers, variables, &identity, None)?;
    Ok(numbers.place(address, job_token(variables, &identity)?, NAME))
}
