//! [`Anyone`]: the receives that take a message of whichever rank, until one is given to a rank's line.

use std::time::{Duration, Instant};

use hcomm_ops::Rank;

use super::Receive;
use super::line::Line;
use crate::domain::peers::Peers;
use crate::error::Failure;
use crate::execution::Wires;

/// Ranks that an error names one by one.
const NAMED: usize = 8;

/// See the module.
#[derive(Default)]
pub(super) struct Anyone {
    /// In the order in which they were posted.
    receives: Vec<Receive>,
    /// The rank whose turn it is to be looked at first: the one after the last whose message was taken.
    turn: Rank,
    given: u64,
}

impl Anyone {
    pub fn is_idle(&self) -> bool {
        self.receives.is_empty()
    }

    pub fn post(&mut self, receive: Receive) {
        self.receives.push(receive);
    }

    /// All of `world` ranks, in turn.
    pub fn in_turn(&self, world: usize) -> impl Iterator<Item = Rank> + use<> {
        let turn = self.turn;
        (turn..world).chain(0..turn.min(world))
    }

    /// How many have been given away.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// The first receive of a tag, unless it was posted after `before`, for a message of rank `from`.
    pub fn give(&mut self, tag: u32, before: Option<u64>, from: Rank) -> Option<Receive> {
        let at = self.receives.iter().position(|receive| receive.posted.tag == tag)?;
        if before.is_some_and(|before| before < self.receives[at].order) {
            return None;
        }
        (self.given, self.turn) = (self.given + 1, from + 1);
        let mut receive = self.receives.remove(at);
        receive.posted.peer = from;
        Some(receive)
    }

    /// Fails all where no rank is left that could send. Returns why, where there were any.
    pub fn blame(&mut self, lines: &[Line], wires: &Wires, peers: &Peers) -> Option<Failure> {
        if self.receives.is_empty() {
            return None;
        }
        let call = "a receive from any rank, of which none is left,";
        let others = lines.iter().zip(wires).filter_map(|(line, wire)| Some((line, wire.as_ref()?)));
        let failures: Option<Vec<Failure>> =
            others.map(|(line, wire)| line.gone(wire, peers, call)).collect();
        let failures = failures?;
        // A death says more than a goodbye.
        let died = failures.iter().find(|failure| !matches!(failure, Failure::PeerLeft { .. }));
        let failure = died.or(failures.last()).cloned()?;
        self.fail_all(&failure);
        Some(failure)
    }

    pub fn fail_all(&mut self, failure: &Failure) {
        for receive in self.receives.drain(..) {
            receive.posted.operation.complete(Err(failure.clone()));
        }
    }

    pub fn check_time(&mut self, now: Instant, default: Duration, peers: &Peers, world: usize) {
        self.receives.retain_mut(|receive| {
            let Receive { posted, since, .. } = receive;
            posted.is_in_time(since, now, default, || {
                let call = format!("a receive from any rank with tag {}", posted.tag);
                (call, format!("waiting for any of {}", left(peers, world)))
            })
        });
    }
}

/// The ranks that could still send, in words.
fn left(peers: &Peers, world: usize) -> String {
    if world == 1 {
        return "this rank's own sends, as there is no other rank".to_owned();
    }
    let left: Vec<Rank> = (0..world).filter(|rank| *rank != peers.rank() && !peers.is_gone(*rank)).collect();
    if left.is_empty() {
        return "the ranks, all of which are gone".to_owned();
    }
    let named: Vec<String> = left.iter().take(NAMED).map(Rank::to_string).collect();
    let others = left.len() - named.len();
    let more = if others > 0 { format!(" and {others} more") } else { String::new() };
    format!("ranks {}{more}", named.join(", "))
}
