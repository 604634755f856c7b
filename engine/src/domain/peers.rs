//! [`Peers`]: what the driver knows of the other ranks: who is gone, who refused what, what each said it is doing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hcomm_ops::Rank;
use hcomm_transports::Control;

use super::notes::Note;
pub(crate) use super::standing::{GaveUp, Gone, Goodbye};
use super::standing::{Standing, Verdict};
use super::watch::Watch;
use crate::error::Failure;
use crate::log::Log;

/// After bad news, how long a call waits for more of it before it fails: ranks that die together are then named together, by
/// all survivors alike, and who ends by an error of its own is the first to say so.
const SETTLING: Duration = Duration::from_millis(100);

/// How long a wire that has broken waits for the control plane's word on the peer, which says more.
const BROKEN_GRACE: Duration = Duration::from_millis(500);

/// See the module's text.
pub(crate) struct Peers {
    rank: Rank,
    control: Arc<dyn Control>,
    watch: Arc<Watch>,
    log: Log,
    standings: Vec<Standing>,
    /// When bad news came, the first in a while.
    gone_since: Option<Instant>,
    /// By rank: since when its wire is known to be broken.
    broken_since: HashMap<Rank, Instant>,
    first_abort: Option<(Rank, String)>,
    refused: HashMap<u64, (Rank, String)>,
    doing: Vec<Option<String>>,
}

impl Peers {
    pub fn new(rank: Rank, world: usize, control: Arc<dyn Control>, watch: Arc<Watch>, log: Log) -> Self {
        Peers {
            rank,
            control,
            watch,
            log,
            standings: vec![Standing::default(); world],
            gone_since: None,
            broken_since: HashMap::new(),
            first_abort: None,
            refused: HashMap::new(),
            doing: vec![None; world],
        }
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Takes note of bad news of a rank.
    pub fn mark(&mut self, rank: Rank, gone: Gone) {
        let Some(standing) = self.standings.get_mut(rank) else { return };
        if let Gone::GaveUp(GaveUp { origin, cause, .. }) = &gone {
            self.first_abort.get_or_insert_with(|| (*origin, cause.clone()));
        }
        standing.learn(gone);
        if self.gone_since.is_none_or(|since| since.elapsed() > 10 * SETTLING) {
            self.gone_since = Some(Instant::now());
        }
    }

    /// A rank's wire is broken. Whether the control plane has had its time to say why, and has said nothing.
    pub fn is_unexplained(&mut self, rank: Rank, now: Instant) -> bool {
        if self.standings[rank].has_ended() {
            return false;
        }
        now.duration_since(*self.broken_since.entry(rank).or_insert(now)) >= BROKEN_GRACE
    }

    /// Whether any peer has refused a call that is still to come here.
    pub fn has_refusals(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Whether any rank is gone.
    #[inline]
    pub fn any_gone(&self) -> bool {
        self.gone_since.is_some()
    }

    /// Whether this rank is gone.
    pub fn is_gone(&self, rank: Rank) -> bool {
        self.standings[rank].is_gone()
    }

    /// Why call `number`, which waits for `rank`, cannot get what it waits for. `drained`: nothing more is under way
    /// from it. Not before the news has settled.
    pub fn gone(&self, rank: Rank, number: u64, drained: bool, call: &str) -> Option<Failure> {
        let verdict = self.standings[rank].verdict(number, drained)?;
        if self.gone_since.is_none_or(|since| since.elapsed() < SETTLING) {
            return None;
        }
        let call = call.to_owned();
        Some(match verdict {
            Verdict::Left(goodbye) => {
                let (last, because) = (goodbye.last, goodbye.because.clone());
                Failure::PeerLeft { rank, last, because, call }
            }
            Verdict::GaveUp(GaveUp { origin, cause, .. }) => {
                let (rank, cause) = self.first_abort.clone().unwrap_or_else(|| (*origin, cause.clone()));
                self.deaths(call).unwrap_or(Failure::Aborted { rank, cause })
            }
            Verdict::Lost(cause) => {
                let alone = Failure::PeerLost {
                    rank,
                    cause: cause.to_owned(),
                    others: Vec::new(),
                    call: call.clone(),
                };
                self.deaths(call).unwrap_or(alone)
            }
        })
    }

    /// The failure of a call by the deaths that are known, if there are any: all are named, on every survivor in the same order.
    fn deaths(&self, call: String) -> Option<Failure> {
        let deaths = self.standings.iter().enumerate();
        let mut deaths = deaths.filter_map(|(rank, standing)| Some((rank, standing.death()?.to_owned())));
        let (rank, cause) = deaths.next()?;
        Some(Failure::PeerLost { rank, cause, others: deaths.collect(), call })
    }

    /// Remembers a peer's refusal.
    pub fn refuse(&mut self, number: u64, rank: Rank, reason: String) {
        self.refused.insert(number, (rank, reason));
    }

    /// This rank passes over its call of a number, and tells all.
    pub fn refuse_own(&self, number: u64, reason: &str) {
        self.watch.refuse(number, reason);
        self.tell_all(&Note::Refused { number, reason: reason.to_owned() });
    }

    /// Whether a peer has refused a call.
    #[inline]
    pub fn has_refused(&self, number: u64) -> bool {
        !self.refused.is_empty() && self.refused.contains_key(&number)
    }

    /// The refusal of a call, as the failure of ours.
    pub fn refusal(&mut self, number: u64) -> Option<Failure> {
        if !self.has_refused(number) {
            return None;
        }
        let (rank, reason) = self.refused.remove(&number)?;
        Some(Failure::PeerRefused { rank, call: self.our_call(number), reason })
    }

    /// Asks a rank about its call `number`. Returns false where this rank does not remember its own.
    pub fn ask(&self, rank: Rank, number: u64) -> bool {
        let Some((fingerprint, call)) = self.watch.recall(number) else { return false };
        self.tell(rank, &Note::Ask { number, fingerprint, call });
        true
    }

    /// This rank's call of a number, in words.
    pub fn our_call(&self, number: u64) -> String {
        self.watch.our_call(number)
    }

    /// Tells all ranks that this one gives up `number` and all after it.
    pub fn abort(&self, number: u64, failure: &Failure) {
        let (origin, cause) = match failure {
            Failure::Aborted { rank, cause } => (*rank, cause.clone()),
            other => (self.rank, other.to_string()),
        };
        self.tell_all(&Note::Aborted { number, origin: origin as u32, cause });
    }

    /// Sends a note to all other ranks.
    pub fn tell_all(&self, note: &Note) {
        for rank in (0..self.standings.len()).filter(|rank| *rank != self.rank) {
            self.tell(rank, note);
        }
    }

    /// What is known of what ranks that a call waits for are doing. Where some of them cannot do anything, only those are named.
    pub fn doing(&self, ranks: &[Rank]) -> String {
        let known: Vec<_> = ranks.iter().map(|rank| (*rank, self.control.condition(*rank))).collect();
        let are_stuck = known.iter().any(|(_, condition)| condition.is_some());
        let named = known.into_iter().filter(|(_, condition)| !are_stuck || condition.is_some());
        let doing = |(rank, condition): (Rank, Option<String>)| match condition
            .or_else(|| self.doing[rank].clone())
        {
            Some(doing) => format!("rank {rank} ({doing})"),
            None => format!("rank {rank}"),
        };
        named.map(doing).collect::<Vec<_>>().join("; ")
    }

    /// Remembers what a rank said it is doing.
    pub fn note_doing(&mut self, rank: Rank, doing: String) {
        self.doing[rank] = Some(doing);
    }

    /// Warns the user.
    pub fn warn(&self, text: &str) {
        self.log.warn(text);
    }

    /// Sends a note to a rank.
    pub fn tell(&self, rank: Rank, note: &Note) {
        self.control.send(rank, note.encode());
    }
}
