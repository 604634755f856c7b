//! torchrun, and whatever else sets torch's variables.
//!
//! `MASTER_PORT` is where torch's own store listens, so hcomm takes the port above it, or `HCOMM_PORT`; on one host whichever is free.
//! `TORCHELASTIC_RESTART_COUNT` is no part of the job's identity, since hosts that join late count anew.

use super::super::{EnvironmentError, Placement, Variables};
use super::{Job, Launcher, Names, Numbers};

const NAME: &str = "torchrun";

const NAMES: Names = Names {
    rank: "RANK",
    world: "WORLD_SIZE",
    local_rank: "LOCAL_RANK",
    local_world: Some("LOCAL_WORLD_SIZE"),
};

/// What torchrun itself sets; programs and people set the others too.
const RUN: &str = "TORCHELASTIC_RUN_ID";

/// `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `LOCAL_WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`, `TORCHELASTIC_RUN_ID`.
pub static LAUNCHER: Launcher = Launcher {
    name: NAME,
    is_present: |variables| variables.has(NAMES.rank) || variables.has(RUN),
    names: |_| [NAMES.rank, NAMES.world],
    read,
    // torchrun runs within others, as many of it as there are hosts. Numbers set by hand may be left over; they cannot differ from those of a
    // launcher of several ranks, unless that one started something that started these.
    contradicts: |variables, others| !variables.has(RUN) && others > 1,
    marks: &[
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "GROUP_WORLD_SIZE",
        "ROLE_*",
        "MASTER_ADDR",
        "MASTER_PORT",
        "TORCHELASTIC_*",
    ],
};

fn read(variables: &Variables) -> Result<Placement, EnvironmentError> {
    let numbers = Numbers::read(NAME, &NAMES, variables)?;
    Job {
        launcher: NAME,
        rank: NAMES.rank,
        numbers,
        variables,
        identity: &[RUN, "MASTER_PORT"],
        details: &["MASTER_ADDR"],
        daemons: &[],
        option: None,
        host: None,
    }
    .place()
}
