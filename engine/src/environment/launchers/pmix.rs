//! Launchers of which only `PMIX_RANK` shows: they do not say how many ranks there are, so `WORLD_SIZE` must.

use super::super::{EnvironmentError, Placement, Variables};
use super::{Job, Launcher, Names, Numbers};

const NAME: &str = "a PMIx launcher";

const NAMES: Names = Names {
    rank: "PMIX_RANK",
    world: "WORLD_SIZE",
    local_rank: "LOCAL_RANK",
    local_world: Some("LOCAL_WORLD_SIZE"),
};

/// `PMIX_RANK`, `PMIX_NAMESPACE`, and `WORLD_SIZE` from the user.
pub static LAUNCHER: Launcher = Launcher {
    name: NAME,
    is_present: |variables| variables.has(NAMES.rank),
    names: |_| [NAMES.rank, NAMES.world],
    read,
    contradicts: |_, _| false,
    marks: &["PMIX_RANK", "PMIX_NAMESPACE", "PMIX_SERVER_*", "PMIX_ID"],
};

fn read(variables: &Variables) -> Result<Placement, EnvironmentError> {
    let numbers = Numbers::read(NAME, &NAMES, variables)?;
    Job {
        launcher: NAME,
        rank: NAMES.rank,
        numbers,
        variables,
        identity: &["PMIX_NAMESPACE"],
        details: &[],
        daemons: &["prted", "prte"],
        option: None,
        host: None,
    }
    .place()
}
