//! What goes wrong: operations that fail and take later ones with them, peers that are gone, calls that differ between ranks.

use std::time::Instant;

use hcomm_ops::Rank;
use hcomm_transports::wire::REVOKED_BYTES;
use hcomm_transports::{AnyWire, Arrival, Key, Wire, Word};

use super::Core;
use crate::domain::notes::Note;
use crate::domain::peers::Gone;
use crate::error::Failure;
use crate::execution::{PORTS, WINDOW_CHANNELS};

impl Core {
    /// Fails everything from `number` on, and every later submission.
    pub fn break_from(&mut self, number: u64, failure: &Failure) {
        if self.broken.as_ref().is_none_or(|(first, _)| number < *first) {
            self.broken = Some((number, failure.clone()));
            self.peers.abort(self.first_unfinished(number), failure);
            self.fail_messages(failure);
        }
        for (_, entry) in &mut self.entries {
            if entry.number > number && entry.failed.is_none() {
                entry.failed = Some(failure.clone());
            }
        }
        for (_, submission) in self.waiting.range_mut(number.saturating_add(1)..) {
            submission.end(failure);
        }
        self.admit();
    }

    /// Fails one operation; the communicator cannot go on after it.
    pub(super) fn fail(&mut self, key: usize, failure: Failure) {
        let entry = &mut self.entries[key];
        if entry.failed.is_some() {
            return;
        }
        let number = entry.number;
        entry.failed = Some(failure.clone());
        self.break_from(number, &failure);
    }

    /// Fails operation `number` where it is running or waiting here.
    pub fn fail_number(&mut self, number: u64, failure: Failure) {
        if let Some(key) = self.running.iter().copied().find(|key| self.entries[*key].number == number) {
            self.fail(key, failure);
        } else if let Some(submission) = self.waiting.get_mut(&number) {
            submission.end(&failure);
            self.break_from(number, &failure);
        } else {
            self.break_from(number, &failure);
        }
    }

    /// A call that was admitted does not begin. One whose buffers are in use is refused as any other that is wrong: its number passes, peers are
    /// told, and where they have refused theirs alike nothing is lost. `None`: a peer has refused its call of this number, and this rank would not.
    pub(super) fn not_begun(&mut self, key: usize, failure: Option<Failure>) {
        let number = self.entries[key].number;
        let Some(failure @ Failure::BufferBusy { .. }) = failure else {
            let failure = failure.or_else(|| self.peers.refusal(number)).unwrap_or(Failure::Closed);
            return self.fail(key, failure);
        };
        let entry = self.remove(key);
        // A refusal of the same call that came before is answered by this one.
        self.peers.refusal(number);
        self.peers.refuse_own(number, &failure.to_string());
        self.recorder.finish(number);
        entry.operation.complete(Err(failure));
        self.keep(entry.execution);
        self.admit();
    }

    /// A peer refused its call of this number: ours cannot finish, now or when it comes.
    pub fn refused_by(&mut self, number: u64, rank: Rank, call: String, reason: String) {
        let running = self.entries.iter().find(|(_, entry)| entry.number == number);
        let has_begun = running.map(|(_, entry)| entry.begun);
        if number >= self.next || has_begun == Some(false) {
            self.peers.refuse(number, rank, reason);
        } else if has_begun.is_some() {
            self.fail_number(number, Failure::PeerRefused { rank, call, reason });
        } else {
            self.break_from(number, &Failure::PeerRefused { rank, call, reason });
        }
    }

    /// Ends everything at once with `failure`, whatever peers do.
    pub fn abort(&mut self, failure: &Failure) {
        self.break_from(0, failure);
        for (_, entry) in &mut self.entries {
            entry.failed.get_or_insert_with(|| failure.clone());
        }
        self.waiting.values_mut().for_each(|submission| submission.end(failure));
        self.fail_messages(failure);
    }

    /// Ends everything here and now: a thread that panicked while it drove takes what its operations use with it. What runs outside the
    /// table is the call admitted last.
    #[cold]
    pub fn end_in_panic(&mut self) {
        let cause = "a thread panicked while it drove the communicator".to_owned();
        self.abort(&Failure::Aborted { rank: self.peers.rank(), cause });
        let outside = self.next.wrapping_sub(1) as u32;
        while !self.endpoint.wires.iter_mut().flatten().fold(true, |all, wire| wire.revoke(outside) & all) {
            std::thread::yield_now();
        }
        while !self.running.is_empty() {
            self.reap();
            std::thread::yield_now();
        }
    }

    /// A peer says that its call `number` is the same as ours: where that was suspected, the one before it is.
    pub fn clear_suspect(&mut self, rank: Rank, number: u64) {
        let suspects = |key: &usize| self.entries[*key].suspect == Some((rank, number));
        let Some(key) = self.running.iter().copied().find(suspects) else { return };
        if self.has_left(rank, number) {
            let failure = self.sent_more(rank, number);
            self.fail(key, failure);
        } else {
            self.suspect(key, rank, number.wrapping_sub(1));
        }
    }

    /// A message of a call that has ended here, and that did not expect it: from whom, and of which call.
    pub fn leftover(&mut self) -> Option<(Rank, u64)> {
        let (next, occupied) = (self.next, &self.occupied);
        let wires = self.endpoint.wires.iter_mut().enumerate();
        let mut wires = wires.filter_map(|(rank, wire)| Some((rank, wire.as_mut()?)));
        let free = || (0..PORTS).filter(|port| !occupied[usize::from(*port / WINDOW_CHANNELS)]);
        wires.find_map(|(rank, wire)| Some((rank, free().find_map(|port| left_on(wire, port, next))?)))
    }

    /// Whether a message of call `number`, which has ended here, waits next on a port.
    fn has_left(&mut self, rank: Rank, number: u64) -> bool {
        let has_ended = !self.entries.iter().any(|(_, entry)| entry.number == number);
        let next = self.next;
        has_ended
            && self.endpoint.wires[rank]
                .as_mut()
                .is_some_and(|wire| (0..PORTS).any(|port| left_on(wire, port, next) == Some(number)))
    }

    /// Calls from `number` on were the same to all, but their lengths were not.
    pub(super) fn check_lengths(&mut self, number: u64) {
        let Some((peer, of)) = self.leftover().filter(|(_, of)| *of >= number) else { return };
        let failure = self.sent_more(peer, of);
        if let Failure::CallMismatch { call, .. } = &failure {
            self.peers.tell(peer, &Note::Differs { number: of, call: call.clone() });
        }
        self.break_from(of, &failure);
    }

    fn sent_more(&self, other: Rank, number: u64) -> Failure {
        let (rank, call) = (self.peers.rank(), self.peers.our_call(number));
        let other_call = format!("{call}, sending more to rank {rank} than it expected");
        let call = format!("{call}, expecting less from rank {other}");
        Failure::CallMismatch { rank, call, other, other_call }
    }

    /// No operation can start any more; those in flight fail with `last`.
    pub fn close(&mut self, last: &Failure) {
        if !self.is_idle() {
            self.abort(last);
        }
        self.broken.get_or_insert((self.next, Failure::Closed));
    }

    /// The first call, of those from `number` on, that has not ended here.
    fn first_unfinished(&self, number: u64) -> u64 {
        let numbers = self.entries.iter().map(|(_, entry)| entry.number);
        numbers.filter(|unfinished| *unfinished >= number).min().unwrap_or(self.next)
    }

    /// Looks for wires that have broken while the control plane knows nothing against the peer: then the peer is lost, for data, and
    /// what needs it fails by the wire's own account.
    pub fn notice_losses(&mut self, now: Instant) {
        for (rank, wire) in self.endpoint.wires.iter().enumerate() {
            let Some(lost) = wire.as_ref().and_then(Wire::lost) else { continue };
            if self.peers.is_unexplained(rank, now) {
                let cause = format!("it lives, but data from it comes no more: {lost}");
                self.peers.mark(rank, Gone::Lost(cause));
            }
        }
    }

    /// Fails a blocked operation that waits for a rank which is gone.
    pub(super) fn blame(&mut self, key: usize) -> bool {
        if !self.peers.any_gone() {
            return false;
        }
        let entry = &mut self.entries[key];
        let waits = entry.execution.waits_for(&mut self.endpoint.wires);
        let call = entry.execution.call().describe();
        let wires = &self.endpoint.wires;
        let drained = |rank: Rank| wires[rank].as_ref().is_none_or(|wire| wire.lost().is_some());
        let gone = waits.iter().find_map(|rank| self.peers.gone(*rank, entry.number, drained(*rank), &call));
        gone.is_some_and(|failure| {
            self.fail(key, failure);
            true
        })
    }

    /// The next message from a peer is another than expected. Where it belongs to another call, the two exchange
    /// descriptions, then both fail; where only its length differs, the two gave different counts.
    pub(super) fn differs(
        &mut self,
        key: usize,
        peer: Rank,
        (word, bytes): (Word, u64),
        expected: usize,
    ) -> bool {
        let entry = &self.entries[key];
        if word != entry.execution.word() {
            if entry.suspect.is_none() {
                let newer = word.operation.wrapping_sub(entry.number as u32) as i32;
                self.suspect(key, peer, entry.number.wrapping_add_signed(i64::from(newer.min(0))));
            }
        } else if bytes != REVOKED_BYTES {
            let (rank, number, call) = (self.peers.rank(), entry.number, entry.execution.call().describe());
            let other_call = format!("{call}, sending {bytes} bytes to rank {rank}");
            let call = format!("{call}, expecting {expected} bytes from rank {peer}");
            self.peers.tell(peer, &Note::Differs { number, call: call.clone() });
            self.fail(key, Failure::CallMismatch { rank, call, other: peer, other_call });
            return true;
        }
        self.blame(key)
    }

    /// Asks a peer about the call that may be the first to differ; where this rank does not remember its own, that has to do.
    fn suspect(&mut self, key: usize, peer: Rank, number: u64) {
        self.entries[key].suspect = Some((peer, number));
        if !self.peers.ask(peer, number) {
            let rank = self.peers.rank();
            let call = format!("call {number} or one before it");
            self.fail(
                key,
                Failure::CallMismatch { rank, call, other: peer, other_call: "another".to_owned() },
            );
        }
    }

    /// Ends failed operations whose memory nobody reads any more.
    pub(super) fn reap(&mut self) -> bool {
        let mut any = false;
        for at in (0..self.running.len()).rev() {
            let key = self.running[at];
            let entry = &mut self.entries[key];
            if entry.failed.is_some() && entry.execution.revoke(&mut self.endpoint.wires) {
                let mut entry = self.remove(key);
                let failure = entry.failed.take().expect("looked at above");
                self.recorder.finish(entry.number);
                entry.operation.complete(Err(failure));
                any = true;
            }
        }
        if any {
            self.admit();
        }
        any
    }
}

impl Drop for Core {
    /// What a peer is in the middle of reading stays where it is for good.
    fn drop(&mut self) {
        for mut entry in self.entries.drain() {
            match entry.execution.revoke(&mut self.endpoint.wires) {
                true => entry.operation.complete(Err(Failure::Closed)),
                false => std::mem::forget(entry),
            }
        }
    }
}

/// The call before `next` that a message waiting on a port belongs to.
fn left_on(wire: &mut AnyWire, port: u16, next: u64) -> Option<u64> {
    let any = Key { port, word: Word { operation: next as u32, fingerprint: 0 } };
    let Arrival::Differs { word, .. } = wire.poll(any, 0) else { return None };
    let newer = word.operation.wrapping_sub(next as u32) as i32;
    (newer < 0).then(|| next.wrapping_add_signed(i64::from(newer)))
}
