//! [`Queue`]: the connections that have not proved the job token yet, and which of them goes when there are too many.
//!
//! Whoever belongs to the job proves it within a few exchanges, so that those who wait longest are the likeliest strangers; and where one address
//! has more connections than others, its own go first, so that nobody takes another's places.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::task::Id;
use tokio::time::Instant;

/// Connections that may be proving themselves at once; more wait in the system's queue.
pub(super) const MOST_UNPROVED: usize = 128;
/// How long each may try undisturbed.
const GRACE: Duration = Duration::from_millis(250);

/// Those that have not proved themselves, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Queue {
    visitors: Vec<Visitor>,
}

#[derive(Clone, Copy, Debug)]
struct Visitor {
    id: Id,
    /// `None` for processes of this host that came by the Unix socket.
    from: Option<IpAddr>,
    since: Instant,
}

impl Queue {
    /// One more has come.
    pub(super) fn handle_visitor(&mut self, id: Id, from: Option<IpAddr>, now: Instant) {
        self.visitors.push(Visitor { id, from, since: now });
    }

    /// One has proved itself, or gone.
    pub(super) fn handle_end(&mut self, id: Id) {
        self.visitors.retain(|visitor| visitor.id != id);
    }

    /// Whether no more may come.
    pub(super) fn is_full(&self) -> bool {
        self.visitors.len() >= MOST_UNPROVED
    }

    /// Who has to make room, and from when on: the longest there of the address that has most.
    pub(super) fn poll_out(&self) -> Option<(Id, Instant)> {
        let mut counts: HashMap<Option<IpAddr>, usize> = HashMap::new();
        self.visitors.iter().for_each(|visitor| *counts.entry(visitor.from).or_default() += 1);
        let most = counts.values().copied().max()?;
        let out = self.visitors.iter().find(|visitor| counts[&visitor.from] == most)?;
        Some((out.id, out.since + GRACE))
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    #[test]
    fn the_oldest_of_the_most_frequent_address_goes_first() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            let mut ids = (0..5).map(|_| tasks.spawn(async {}).id());
            let [a, b, c, d, e] = std::array::from_fn(|_| ids.next().unwrap());
            let (near, far) = ("127.0.0.1".parse().ok(), "10.0.0.1".parse().ok());
            let start = Instant::now();
            let mut queue = Queue::default();
            assert_eq!(queue.poll_out(), None);
            for (id, from, after) in [(a, near, 0), (b, far, 1), (c, far, 2), (d, None, 3), (e, far, 4)] {
                queue.handle_visitor(id, from, start + Duration::from_secs(after));
            }
            assert_eq!(queue.poll_out(), Some((b, start + Duration::from_secs(1) + GRACE)));
            queue.handle_end(b);
            assert_eq!(queue.poll_out().unwrap().0, c);
            queue.handle_end(c);
            assert_eq!(queue.poll_out().unwrap().0, a, "where all have as many, the oldest of all");
            assert!(!queue.is_full());
        });
    }
}
