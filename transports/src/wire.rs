//! [`Wire`]: the contract between the executor and a transport. Nothing in it blocks.
//!
//! A wire joins this rank and one peer, both directions. It has numbered **ports**; each port is, per direction, a
//! FIFO of `depth` slots of `slot_bytes`. The n-th message sent on a port is the n-th received on that port, whatever happens
//! on other ports, and a full port never holds up another. The executor gives each running operation ports of its own.
//!
//! Sending: [`Wire::reserve`] shows the slot in which the next message of a port is to be built (or says that the port
//! is full), [`Wire::commit`] sends it; both name the message by a [`Key`]. [`Wire::send_from`] sends bytes that already lie
//! somewhere; the transport copies them, or lends the peer the span and gives a [`Ticket`].
//! Receiving: [`Wire::poll`] looks for the next message of a port, which stays there until [`Wire::release`].
//! The acknowledgement that comes back with a release is also the credit that makes the sender's port free again.
//!
//! Every message carries its operation's number and the call's fingerprint. `poll` compares them with what the caller
//! expects, and the byte count too: a message of another call is reported, never delivered.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use hcomm_ops::RawSpan;

/// The byte count that [`Arrival::Differs`] gives of a lent message which its sender called back.
pub const REVOKED_BYTES: u64 = u64::MAX;

/// Whose message it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Word {
    /// Low half of the operation's number.
    pub operation: u32,
    /// Hash of the call that the operation is.
    pub fingerprint: u32,
}

/// Names the next message of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Below [`WireConfig::ports`].
    pub port: u16,
    /// Whose message.
    pub word: Word,
}

/// The dimensions of a wire; equal at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireConfig {
    /// FIFOs per direction.
    pub ports: u16,
    /// Messages that a port holds before it is full; at least 2.
    pub depth: u32,
    /// Largest message, a multiple of 128.
    pub slot_bytes: usize,
}

/// The answer to [`Wire::reserve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Build the message here, then commit. Asking again before that gives the same slot.
    Slot(RawSpan),
    /// The peer has not released enough messages of this port, or the wire has as many bytes under way as it may.
    Full,
}

/// A lent span: the message is done when [`Wire::is_done`] says so of its ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// The port.
    pub port: u16,
    /// How many messages this port had sent when this one was done (wrapping).
    pub sent: u32,
}

/// The answer to [`Wire::send_from`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Sent {
    /// Copied: the span may be overwritten.
    Done,
    /// The transport, or the peer, still reads the span.
    Lent(Ticket),
    /// Not sent; see [`Room::Full`].
    Full,
}

/// The answer to [`Wire::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next message has not come.
    NotYet,
    /// It has come and its bytes lie here until `release`.
    Here(RawSpan),
    /// It has come and was put into the span that was posted; `release` it all the same.
    Landed,
    /// The next message of this port belongs to another call (or has another length). It stays where it is. One that was lent and
    /// called back before it was read is reported so too, with [`REVOKED_BYTES`]; its bytes are never read.
    Differs {
        /// What the message says it is.
        word: Word,
        /// The bytes that it says it has.
        bytes: u64,
    },
}

/// Why a peer is gone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct Lost {
    /// A clause such as "its process was killed (signal 9)" or "it closed the connection".
    pub cause: String,
}

/// One end of a wire. See the module's text for the contract; `conformance` checks each sentence of it.
pub trait Wire {
    /// The dimensions.
    fn config(&self) -> WireConfig;

    /// Shows the slot for the next message of `key.port`, at least `bytes` long. `bytes <= slot_bytes`.
    fn reserve(&mut self, key: Key, bytes: usize) -> Room;

    /// Sends the message of `bytes` built in the slot that `reserve` showed last for this port (for at least as many).
    fn commit(&mut self, key: Key, bytes: usize);

    /// Sends the concatenation of `pieces` (together `<= slot_bytes`, perhaps 0) as the next message of `key.port`. Where
    /// `may_lend` is false the bytes are copied before it returns.
    fn send_from(&mut self, key: Key, pieces: &[RawSpan], may_lend: bool) -> Sent;

    /// Whether only spans of this rank's heap are lent, to another process: worth it from other lengths on than lending within a process.
    fn lends_heap(&self) -> bool {
        false
    }

    /// Whether a lent span may be overwritten again.
    fn is_done(&mut self, ticket: Ticket) -> bool;

    /// Offers `span` as the place for the next message of `port` that has not begun to arrive. Returns whether the transport
    /// takes the offer; it then touches the span until that message has landed or the operation is revoked.
    fn post(&mut self, key: Key, span: RawSpan) -> bool;

    /// Whether `poll` may find anything on a port: a look that costs less. Where it is false, `poll` says [`Arrival::NotYet`].
    fn may_have(&self, port: u16) -> bool {
        let _ = port;
        true
    }

    /// Looks for the next message of `key.port`, which must belong to `key.word` and have `bytes`.
    fn poll(&mut self, key: Key, bytes: usize) -> Arrival;

    /// Ends the reading of what `poll` showed on this port, which stays the next message: `poll` shows it anew. Returns false where the
    /// sender took the bytes back meanwhile, so that what was read of them is worth nothing. To be asked before anything is made of
    /// what was read, and by whoever cannot go on reading: a sender that wants its memory back waits for nobody's other business.
    fn end_reading(&mut self, port: u16) -> bool {
        let _ = port;
        true
    }

    /// Gives back the message that `poll` showed on this port.
    fn release(&mut self, port: u16);

    /// All in one: looks for the next message, shows its bytes to `read`, and gives it back. What is returned is what `poll` said, and the
    /// span is no longer to be used. Where that is [`Arrival::Here`] `read` has been called; where the sender took the bytes back
    /// meanwhile it has, too, and the message [`Arrival::Differs`], as one that was called back before.
    #[inline]
    fn take(&mut self, key: Key, bytes: usize, read: impl FnOnce(RawSpan)) -> Arrival
    where
        Self: Sized,
    {
        poll_and_release(self, key, bytes, read)
    }

    /// Whether the message shown on port `from` can go back as the next message of `port`: [`Wire::pass_back`] will then succeed,
    /// if nothing else is done on this wire before.
    fn can_pass_back(&mut self, from: u16, port: u16) -> bool {
        let _ = (from, port);
        false
    }

    /// Sends the message shown on port `from` back as the next message of `key.port`, without a copy (the receiver may have
    /// written into it), and releases it. Returns false, with nothing done, where the transport or this message cannot, or
    /// the port is full: then send and release as usual.
    fn pass_back(&mut self, from: u16, key: Key, bytes: usize) -> bool {
        let _ = (from, key, bytes);
        false
    }

    /// Moves bytes where that takes system calls (sockets). Returns whether anything moved: then messages may have come that no
    /// socket will wake for any more, so poll again before sleeping.
    fn progress(&mut self) -> bool;

    /// Why the peer is gone, once no further message of it can come. Messages that came before stay readable.
    fn lost(&self) -> Option<&Lost>;

    /// Takes another's word that the peer is gone (the control plane's, where the transport itself cannot notice).
    /// The first cause stays.
    fn mark_lost(&mut self, lost: Lost);

    /// The socket whose readiness is to wake a sleeper, and whether to wait for room to write as well.
    fn poll_fd(&self) -> Option<(BorrowedFd<'_>, bool)> {
        None
    }

    /// How long a sleeper may sleep at most, because this wire then has something to do that nothing else wakes it for (a paced link).
    fn next_wakeup(&self) -> Option<Duration> {
        None
    }

    /// Whether everything sent has left this process's memory, so that it may exit.
    fn is_flushed(&mut self) -> bool;

    /// Ends all use of the operation's memory: lent spans are called back (or copied), posted spans forgotten. Returns false
    /// while a thread of this process is in the middle of reading one, which takes no longer than that; ask again. From another process,
    /// which may be stopped, a span is taken back even then.
    fn revoke(&mut self, operation: u32) -> bool;
}

/// [`Wire::take`] in its usual steps.
#[inline]
pub(crate) fn poll_and_release(
    wire: &mut impl Wire,
    key: Key,
    bytes: usize,
    read: impl FnOnce(RawSpan),
) -> Arrival {
    let arrival = wire.poll(key, bytes);
    if let Arrival::Here(span) = arrival {
        read(span);
        if !wire.end_reading(key.port) {
            return Arrival::Differs { word: key.word, bytes: REVOKED_BYTES };
        }
        wire.release(key.port);
    }
    arrival
}
