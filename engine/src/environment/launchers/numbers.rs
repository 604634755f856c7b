//! [`Numbers`]: what every launcher says in numbers.

use super::super::{EnvironmentError, Variables};

/// The variables in which a launcher gives numbers.
pub struct Names {
    pub rank: &'static str,
    pub world: &'static str,
    pub local_rank: &'static str,
    /// `None` where the launcher has no plain number for it.
    pub local_world: Option<&'static str>,
}

/// The numbers of a placement.
pub struct Numbers {
    pub rank: usize,
    pub world: usize,
    pub local_rank: Option<usize>,
    pub local_world: Option<usize>,
}

/// What `read` says of a rank that is not set.
const RANK: &str = "this process's rank, a number from 0";
/// And of the number of ranks.
const WORLD: &str = "the number of ranks, at least 1";

impl Numbers {
    /// The numbers that `launcher` has set under these names.
    pub fn read(
        launcher: &'static str,
        names: &Names,
        variables: &Variables,
    ) -> Result<Self, EnvironmentError> {
        let missing = |name, expected| EnvironmentError::Missing { launcher, name, expected };
        let rank = variables.number(names.rank)?.ok_or_else(|| missing(names.rank, RANK))?;
        let world = variables.number(names.world)?.ok_or_else(|| missing(names.world, WORLD))?;
        let local_rank = variables.number(names.local_rank)?;
        let local_world = names.local_world.map(|name| variables.number(name)).transpose()?.flatten();
        check(names.rank, rank, names.world, world)?;
        if let (Some(rank), Some(name), Some(world)) = (local_rank, names.local_world, local_world) {
            check(names.local_rank, rank, name, world)?;
        }
        Ok(Numbers { rank, world, local_rank, local_world })
    }

    /// Whether the launcher says that all ranks are on this host.
    pub fn is_one_host(&self) -> bool {
        self.world == 1 || self.local_world == Some(self.world)
    }
}

fn check(
    rank_name: &'static str,
    rank: usize,
    world_name: &'static str,
    world: usize,
) -> Result<(), EnvironmentError> {
    if world == 0 {
        return Err(EnvironmentError::Malformed { name: world_name, value: "0".to_owned(), expected: WORLD });
    }
    if rank >= world {
        return Err(EnvironmentError::OutOfWorld { rank_name, rank, world_name, world });
    }
    Ok(())
}
