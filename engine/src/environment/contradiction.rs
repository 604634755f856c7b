//! Two launchers' numbers in one environment: as it should be where one ran within the other, a mistake where both mean to say the same.

use super::{EnvironmentError, LAUNCHERS, Launcher, Variables};

/// Refuses what another launcher says otherwise than `believed`, where that one does not allow for it.
pub fn check(believed: &Launcher, variables: &Variables) -> Result<(), EnvironmentError> {
    let Some(own) = claim(believed, variables) else { return Ok(()) };
    let others = LAUNCHERS.iter().filter(|other| other.name != believed.name);
    for (other, claim) in others.filter_map(|other| Some((other, claim(other, variables)?))) {
        if claim != own && (believed.contradicts)(variables, claim.1) {
            let says = |launcher: &Launcher, (rank, world): (usize, usize)| {
                let [rank_name, world_name] = (launcher.names)(variables);
                format!("{} says rank {rank} of {world} ({rank_name}, {world_name})", launcher.name)
            };
            let others = (other.names)(variables);
            return Err(EnvironmentError::Contradiction {
                one: says(believed, own),
                other: says(other, claim),
                unset: format!("{} and {}", others[0], others[1]),
            });
        }
    }
    Ok(())
}

/// The rank and the number of ranks that a launcher gives, where both can be read; what cannot be is told of elsewhere.
fn claim(launcher: &Launcher, variables: &Variables) -> Option<(usize, usize)> {
    if !(launcher.is_present)(variables) {
        return None;
    }
    let [rank, world] = (launcher.names)(variables).map(|name| variables.text(name)?.trim().parse().ok());
    rank.zip(world)
}
