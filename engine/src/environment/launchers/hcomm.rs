//! `hcomm launch`, and processes started by hand with the same variables.

use super::super::{Address, EnvironmentError, Placement, Token, Variables};
use super::{Launcher, Names, Numbers};

const NAME: &str = "hcomm launch";

const NAMES: Names = Names {
    rank: "HCOMM_RANK",
    world: "HCOMM_WORLD",
    local_rank: "HCOMM_LOCAL_RANK",
    local_world: Some("HCOMM_LOCAL_WORLD"),
};

/// `HCOMM_RANK`, `HCOMM_WORLD`; beyond one rank `HCOMM_ADDRESS` and `HCOMM_TOKEN`.
pub static LAUNCHER: Launcher = Launcher {
    name: NAME,
    is_present: |variables| variables.has(NAMES.rank) || variables.has(NAMES.world),
    names: |_| [NAMES.rank, NAMES.world],
    read,
    // It clears what it supersedes, so whoever says otherwise ran within it.
    contradicts: |_, _| true,
    marks: &[
        "HCOMM_RANK",
        "HCOMM_WORLD",
        "HCOMM_LOCAL_RANK",
        "HCOMM_LOCAL_WORLD",
        "HCOMM_ADDRESS",
        "HCOMM_PORT",
        "HCOMM_TOKEN",
    ],
};

fn read(variables: &Variables) -> Result<Placement, EnvironmentError> {
    let numbers = Numbers::read(NAME, &NAMES, variables)?;
    let missing = |name, expected| EnvironmentError::Missing { launcher: NAME, name, expected };
    let is_alone = numbers.world == 1;
    let address = variables.address("HCOMM_ADDRESS")?.or_else(|| is_alone.then(|| Address::loopback(0)));
    let token = variables.token()?.or_else(|| is_alone.then(|| Token::derived(&[NAME])));
    let address = address.ok_or_else(|| missing("HCOMM_ADDRESS", "HOST:PORT at which rank 0 listens"))?;
    let token =
        token.ok_or_else(|| missing("HCOMM_TOKEN", "64 hexadecimal digits, the same on all ranks"))?;
    let Numbers { rank, world, local_rank, local_world } = numbers;
    Ok(Placement { rank, world, local_rank, local_world, address, secret: token.into(), source: NAME })
}
