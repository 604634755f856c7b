//! [`Roster`]: who takes part, where each is, and how this rank is connected with it.

use std::collections::{BTreeMap, BTreeSet};
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

/// A machine on which ranks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crew {
    /// How many ranks.
    pub ranks: usize,
    /// How many processors they may use, taken together; `None` where one of them does not know.
    pub processors: Option<usize>,
}

impl Roster {
    /// The machines. A rank that does not know its own is alone on one.
    pub fn machines(&self) -> Vec<Crew> {
        let mut crews: BTreeMap<(&str, Rank), Vec<&[u32]>> = BTreeMap::new();
        for (rank, member) in self.members.iter().enumerate() {
            let boot = member.host.boot.as_str();
            let apart = if boot.is_empty() { rank } else { 0 };
            crews.entry((boot, apart)).or_default().push(&member.processors);
        }
        let crew = |masks: Vec<&[u32]>| {
            let all: BTreeSet<u32> = masks.iter().copied().flatten().copied().collect();
            let is_known = masks.iter().all(|mask| !mask.is_empty());
            Crew { ranks: masks.len(), processors: is_known.then_some(all.len()) }
        };
        crews.into_values().map(crew).collect()
    }

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
        let unix = Err("is alone".to_owned());
        let doors = Doors { transports: context.transports, addresses: Vec::new(), port: 0, unix };
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
    /// Name of its Unix socket, without a file; or why it shares no memory, after "rank 3".
    pub(super) unix: Result<String, String>,
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
        let unix = Ok("x".to_owned());
        let doors = Doors { transports: Transports::Auto, addresses: Vec::new(), port: 0, unix };
        Member { host, pid: 1, processors: processors.to_vec(), doors }
    }

    #[test]
    fn processors_are_counted_once_and_by_machine() {
        let members = vec![member("a", &[0]), member("b", &[0, 1]), member("a", &[1]), member("a", &[1, 2])];
        let roster = Roster { routes: vec![None; members.len()], members };
        assert_eq!(roster.neighbours(0), [0, 2, 3]);
        assert_eq!([0, 1].map(|rank| roster.processors(rank)), [Some(3), Some(2)]);
        let crews = [Crew { ranks: 3, processors: Some(3) }, Crew { ranks: 1, processors: Some(2) }];
        assert_eq!(roster.machines(), crews);
    }

    #[test]
    fn an_unknown_mask_makes_the_count_unknown() {
        let members = vec![member("a", &[0]), member("a", &[])];
        let roster = Roster { routes: vec![None; members.len()], members };
        assert_eq!(roster.processors(0), None);
        assert_eq!(roster.machines(), [Crew { ranks: 2, processors: None }]);
        let members = vec![member("", &[0]), member("", &[0])];
        let roster = Roster { routes: vec![None; 2], members };
        assert_eq!(roster.machines().len(), 2);
    }
}
