//! [`Roster`]: who takes part, where each is, and how this rank is connected with it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use hcomm_ops::Rank;

use super::Transports;
use super::context::Context;
use super::host::Host;

/// All ranks, as this one sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    /// By rank.
    pub members: Vec<Member>,
    /// By rank: how this rank is connected with it. `None` for itself, and for all while the wires' dimensions are being decided.
    pub routes: Vec<Option<Route>>,
}

impl Roster {
    /// The ranks on the machine of `rank`, itself among them, in order.
    pub fn neighbours(&self, rank: Rank) -> Vec<Rank> {
        let host = self.members.get(rank).map(|member| &member.host);
        let is_near = |other: &Rank| {
            *other == rank || host.is_some_and(|host| host.shares_machine(&self.members[*other].host))
        };
        (0..self.members.len()).filter(is_near).collect()
    }

    /// How many processors the ranks on the machine of `rank` may use, taken together; `None` where one of them does not know.
    pub fn processors(&self, rank: Rank) -> Option<usize> {
        let near = self.neighbours(rank);
        let masks: Vec<&[u32]> = near.iter().map(|near| &self.members[*near].processors[..]).collect();
        let all: BTreeSet<u32> = masks.iter().copied().flatten().copied().collect();
        masks.iter().all(|mask| !mask.is_empty()).then_some(all.len())
    }
}

/// A rank's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where it runs.
    pub host: Host,
    /// Its process, as numbered there.
    pub pid: u32,
    /// The processors that it may run on, by their numbers there; none where the system does not say.
    pub processors: Vec<u32>,
    pub(super) doors: Doors,
}

impl Member {
    /// The only rank, whom nobody needs to reach.
    pub(super) fn alone(context: &Context) -> Self {
        let doors = Doors { transports: context.transports, addresses: Vec::new(), port: 0, unix: None };
        Member::here(context, doors)
    }

    /// This process.
    pub(super) fn here(context: &Context, doors: Doors) -> Self {
        let processors = super::host::allowed_processors();
        Member { host: context.host.clone(), pid: std::process::id(), processors, doors }
    }
}

/// Where a rank can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doors {
    pub(super) transports: Transports,
    /// In the order in which to try; none means "where you reached me before".
    pub(super) addresses: Vec<IpAddr>,
    pub(super) port: u16,
    /// Name of its Unix socket, without a file.
    pub(super) unix: Option<String>,
}

/// How two ranks are connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// By shared memory.
    Shm,
    /// By TCP.
    Tcp {
        /// Why not by shared memory.
        why_not_shm: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(boot: &str, processors: &[u32]) -> Member {
        let host = Host { boot: boot.to_owned(), ..Host::default() };
        let doors = Doors { transports: Transports::Auto, addresses: Vec::new(), port: 0, unix: None };
        Member { host, pid: 1, processors: processors.to_vec(), doors }
    }

    #[test]
    fn processors_are_counted_once_and_by_machine() {
        let members = vec![member("a", &[0]), member("b", &[0, 1]), member("a", &[1]), member("a", &[1, 2])];
        let roster = Roster { routes: vec![None; members.len()], members };
        assert_eq!(roster.neighbours(0), [0, 2, 3]);
        assert_eq!([0, 1].map(|rank| roster.processors(rank)), [Some(3), Some(2)]);
    }

    #[test]
    fn an_unknown_mask_makes_the_count_unknown() {
        let members = vec![member("a", &[0]), member("a", &[])];
        let roster = Roster { routes: vec![None; members.len()], members };
        assert_eq!(roster.processors(0), None);
    }
}
