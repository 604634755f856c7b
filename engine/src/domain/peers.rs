//! [`Peers`]: what the driver knows of the other ranks: who is gone, who refused what, what each said it is doing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use hcomm_ops::Rank;
use hcomm_transports::Control;

use super::notes::Note;
use super::watch::Watch;
use crate::error::Failure;
use crate::log::Log;

/// Why nothing more can be had from a rank.
#[derive(Clone, Debug)]
pub(crate) enum Gone {
    /// It died.
    Lost(String),
    /// It closed after this many calls.
    Left(u64),
    /// It gave up this call and all after it, because of what that rank said.
    Aborted(u64, Rank, String),
}

/// See the module's text.
pub(crate) struct Peers {
    rank: Rank,
    control: Arc<dyn Control>,
    watch: Arc<Watch>,
    log: Log,
    gone: Vec<Option<Gone>>,
    any_gone: bool,
    first_abort: Option<(Rank, String)>,
    refused: HashMap<u64, (Rank, String)>,
    doing: Vec<Option<String>>,
    waiting: HashMap<u64, Instant>,
}

impl Peers {
    pub fn new(rank: Rank, world: usize, control: Arc<dyn Control>, watch: Arc<Watch>, log: Log) -> Self {
        Peers {
            rank,
            control,
            watch,
            log,
            gone: vec![None; world],
            any_gone: false,
            first_abort: None,
            refused: HashMap::new(),
            doing: vec![None; world],
            waiting: HashMap::new(),
        }
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Marks a rank as gone; the first reason stands, but a death outranks what the rank said before, and a rank may give
    /// up earlier calls than it said.
    pub fn mark(&mut self, rank: Rank, gone: Gone) {
        let Some(known) = self.gone.get_mut(rank) else { return };
        if let Gone::Aborted(_, origin, cause) = &gone {
            self.first_abort.get_or_insert_with(|| (*origin, cause.clone()));
        }
        let outranks = match (&*known, &gone) {
            (None, _) | (Some(Gone::Aborted(..)), Gone::Lost(_)) => true,
            (Some(Gone::Aborted(first, ..)), Gone::Aborted(number, ..)) => number < first,
            _ => false,
        };
        if outranks {
            *known = Some(gone);
        }
        self.any_gone = true;
    }

    /// Whether any peer has refused a call that is still to come here.
    pub fn has_refusals(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Whether any rank is gone.
    #[inline]
    pub fn any_gone(&self) -> bool {
        self.any_gone
    }

    /// Whether this rank is gone.
    pub fn is_gone(&self, rank: Rank) -> bool {
        self.gone[rank].is_some()
    }

    /// Why call `number`, which waits for `rank`, cannot get what it waits for. `drained`: nothing more is under way
    /// from it.
    pub fn gone(&self, rank: Rank, number: u64, drained: bool, call: &str) -> Option<Failure> {
        let call = call.to_owned();
        match self.gone[rank].as_ref()? {
            Gone::Lost(cause) if drained => Some(Failure::PeerLost { rank, cause: cause.clone(), call }),
            Gone::Left(last) if drained => Some(Failure::PeerLeft { rank, last: *last, call }),
            Gone::Aborted(from, origin, cause) if number >= *from => {
                Some(self.root_of_abort(*origin, cause, call))
            }
            _ => None,
        }
    }

    /// A rank gives up because another was lost, or gave up before it: that one is named.
    fn root_of_abort(&self, rank: Rank, cause: &str, call: String) -> Failure {
        let lost = self.gone.iter().enumerate().find_map(|(rank, gone)| match gone {
            Some(Gone::Lost(cause)) => Some((rank, cause.clone())),
            _ => None,
        });
        match (lost, &self.first_abort) {
            (Some((rank, cause)), _) => Failure::PeerLost { rank, cause, call },
            (None, Some((rank, cause))) => Failure::Aborted { rank: *rank, cause: cause.clone() },
            (None, None) => Failure::Aborted { rank, cause: cause.to_owned() },
        }
    }

    /// Remembers a peer's refusal.
    pub fn refuse(&mut self, number: u64, rank: Rank, reason: String) {
        self.refused.insert(number, (rank, reason));
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
        for rank in (0..self.gone.len()).filter(|rank| *rank != self.rank) {
            self.tell(rank, note);
        }
    }

    /// What a rank said it is doing.
    pub fn doing(&self, rank: Rank) -> String {
        match &self.doing[rank] {
            Some(doing) => format!("rank {rank} ({doing})"),
            None => format!("rank {rank}"),
        }
    }

    /// Remembers what a rank said it is doing.
    pub fn note_doing(&mut self, rank: Rank, doing: String) {
        self.doing[rank] = Some(doing);
    }

    /// Since when a call that is not admitted has been seen waiting.
    pub fn waiting_since(&mut self, number: u64, now: Instant) -> Instant {
        self.waiting.retain(|waiting, _| *waiting >= number.saturating_sub(64));
        *self.waiting.entry(number).or_insert(now)
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
