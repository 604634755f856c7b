//! Rings: FIFOs of slots in memory that both ends reach. `inproc` and `shm` are this protocol over different memory.
//!
//! # The protocol
//!
//! A wire between two ranks is two **regions**, one per direction, each laid out by `Layout`. In a region one end is
//! the *sender* and the other the *receiver*; of every word exactly one of the two is the writer. All memory is zero at first, and is taken
//! from the machine when it is first used.
//!
//! | field | writer | reader | ordering |
//! |---|---|---|---|
//! | header: flag (u64, one per slot of a port) | sender | receiver | stored last, with release; read with acquire |
//! | header: length (u64: bytes low 48, place high 16) | sender | receiver | plain atomic; the flag publishes it |
//! | header: credit (u32) | sender | receiver | plain atomic; the flag publishes it |
//! | header: 1,128 bytes of payload | sender | receiver | plain bytes; the flag publishes them |
//! | cursor (u32 per port, a line each) | receiver | sender | stored with release; read with acquire |
//! | opened (u32 per port, behind its cursor) | sender | receiver | plain atomic; the porch's flag publishes it |
//! | porch: a header whose flag counts the open ports | sender | receiver | flag stored last, with release; read with acquire |
//! | returns: count (u32) and entries (u32 each) | receiver | sender | entry, then count with release; read with acquire |
//! | bodies (`slot_bytes` each) | who owns the body | who owns it | the flag, or the returns' count, passes it on |
//!
//! **Flag.** The low half is the operation's number; the high half is the fingerprint plus the message's sequence number times an
//! odd constant. Both ends remember, per slot, the flag that was there last (0 at first), and a flag that would equal it
//! is written with its top bit turned. So a receiver that finds the remembered flag knows "not yet", the expected one
//! "here it is", and anything else is another call's message.
//!
//! **Place.** 0: the payload is in the header. 1 + i: it is in body i. 0xFFFF: the message is *lent*, the bytes still lie where the
//! sender's caller has them: between threads of one process anywhere, between processes in the sender's heap (`crate::shm::Heap`).
//!
//! **Cursor.** How many messages of the port the receiver has released, counted like the sequence number. It is credit (the port
//! is full while `depth` messages are not released) and acknowledgement (a lent span is free again). The sender keeps the value
//! that it read last and reads again only when that one is not enough. In an exchange that is seldom: every message brings
//! along, as its header's *credit*, what its sender's cursor of the same port was. A credit that is older than what the cursor has
//! told since counts for nothing.
//!
//! **Room** is taken by who first writes in it: porch, cursors and returns when the wire is made, the headers of a port when its sender
//! opens it, a body when it is filled for the first time. The sender opens a port before its first message: it takes the memory, says
//! so in *opened*, then counts the porch's flag on. To the receiver the next slot of a port that it does not know to be open is the porch, so that it
//! never touches a header without memory: a flag there that it has not seen yet is "look whether it is this port". An end that finds a port
//! opened opens its own sending port of that number too, so that credits are only ever told of open ports. Where there is no memory the
//! wire is lost, with that cause.
//!
//! **Bodies** change hands. They are numbered through both regions and pooled by the wire, not tied to ports or slots. Each end
//! starts with the `home` bodies of its sending region in its *stock*, a stack. To send, an end takes its top body, the one
//! it touched last, fills it and publishes it; whoever releases a message owns its body from then on and puts
//! it on top of its own stock. In an exchange each end thus writes the lines that it has just read, which is what caches are fast
//! at, and a pool costs no more cache than what is under way. Where no message is longer than a header has room, there are none.
//!
//! Every body is *with* one end: it is in its stock, or the end sent it and it is not released, or it lies in the returns to that end. Sending,
//! giving back and collecting leave a body with whom it was with; keeping what was received brings it over. An end keeps a body only
//! while fewer than `limit = home + SPARE` are with it, and gives it back through *returns* otherwise. It counts after it has collected
//! the returns, and after that it learns nothing more: the other end writes a return before the cursor that tells of the release, so a
//! body may be counted twice, but none is missed. Passing a message back is keeping it; an end that may not keep it gives back another body
//! for it in the same step. So never more than `limit` bodies are with one end, and never fewer than `2 * home - limit`, which is `ports * depth`, with
//! the other. Those that it has under way or reserved, as far as it knows, are at most as many as the slots in use; if a port is not full, then
//! one body more is with this end, in its stock or in returns that it can see: *an end always finds a body for a port that is not full*, and no
//! port holds up another.
//!
//! **Lent** messages have in place of the payload a state word and a number (u64), both plain atomics that the flag publishes: the address of
//! the bytes within a process, their offset in the sender's heap between processes. The state is `PUBLISHED` when sent; the receiver
//! exchanges it to `CLAIMED` before it reads a byte, and back to `PUBLISHED` when it has read, or cannot go on yet; a sender that wants its
//! span back exchanges `PUBLISHED` for `REVOKED`; whichever compare-and-exchange comes first wins. A claim thus lasts no longer than
//! it takes to read the bytes, never while the receiver waits for something else.
//!
//! Between processes the receiver reads the number once, before it claims, checks that offset and length end within the heap as it mapped
//! it, for reading only, and keeps what it checked. A process may be stopped, or die, while it reads. So there, and only there, the
//! sender may exchange `CLAIMED` for `REVOKED` as well, and has its memory at once: the reader can do no more than read, finds on going
//! back to `PUBLISHED` that the span was taken, and makes nothing of what it has read. Both exchanges are acquire and
//! release: where the reader's comes first, it has read before the sender writes. Within a process, where the sender may free the
//! memory altogether, a claim stands until it ends. A lent message is never passed back.
//!
//! **Sleepers.** Publishing and releasing end with a light fence and a look at the other end's `asleep` word: see `crate::bell`.
//!
//! **Trust.** Whatever the other end can write is read once, checked, then used. An impossible value is an `Impossible`, after
//! which the wire is lost.

mod layout;
mod receiver;
#[cfg_attr(loom, path = "region_loom.rs")]
mod region;
mod sender;
mod stock;
#[cfg(not(loom))]
mod wire;
mod word;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub use layout::BadConfig;
pub(crate) use layout::Layout;
pub(crate) use region::Region;
#[cfg(not(loom))]
pub use wire::RingWire;
#[cfg(not(loom))]
pub(crate) use wire::{Ends, Heaps, Lends};

/// Where in the two regions a body lies, and how the header says it.
pub(crate) mod place {
    /// In the header's own line.
    pub(crate) const INLINE: u16 = 0;
    /// In the sender's memory.
    pub(crate) const LENT: u16 = u16::MAX;

    /// In a body.
    #[inline]
    pub(crate) fn of_body(body: u32) -> u16 {
        u16::try_from(body + 1).expect("the layout numbers at most 65,000 bodies")
    }
}

/// What messages of a wire may be lent, as the receiver checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lending {
    /// None.
    Nothing,
    /// Any, by address: both ends are in one process.
    Addresses,
    /// Those in the sender's heap, by offset.
    Offsets {
        /// How long the receiver knows the sender's heap to be.
        heap_bytes: u64,
    },
}

/// States of a lent message.
pub(crate) mod lent {
    /// Sent; nobody reads it yet.
    pub(crate) const PUBLISHED: u64 = 1;
    /// The receiver is reading.
    pub(crate) const CLAIMED: u64 = 2;
    /// Called back, or given up: nobody makes anything of it any more.
    pub(crate) const REVOKED: u64 = 3;
}

/// There is no memory for what is to be used first now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this rank has no memory for its messages: {0}")]
pub(crate) struct NoRoom(pub(crate) String);

/// Why a wire is lost: by the peer's doing, or for want of memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// The peer's.
    #[error(transparent)]
    Impossible(#[from] Impossible),
    /// This machine's.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
}

/// A value in shared memory that no correct peer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Impossible {
    /// It released what was never sent.
    #[error(
        "it wrote an impossible cursor: {released} messages more released on port {port}, where {under_way} are under way"
    )]
    Cursor {
        /// Of this rank's sending direction.
        port: u16,
        /// How many more than before.
        released: u32,
        /// How many there were to release.
        under_way: u32,
    },
    /// It returned more bodies than exist.
    #[error("it wrote an impossible count: {returned} bodies returned at once, of {bodies}")]
    Returns {
        /// How many more than before.
        returned: u32,
        /// How many there are.
        bodies: u32,
    },
    /// It passed on a body that is not there, or not its own.
    #[error("it passed on body {body}, which it does not own (there are {bodies})")]
    Body {
        /// Which.
        body: u32,
        /// How many there are.
        bodies: u32,
    },
    /// It lent what is not in its heap.
    #[error("it lent {bytes} bytes from byte {offset} on of a heap of {heap_bytes}")]
    Lent {
        /// The length it gave.
        bytes: u64,
        /// The offset it gave.
        offset: u64,
        /// What there is.
        heap_bytes: u64,
    },
    /// It sent a header that contradicts itself.
    #[error("it wrote an impossible header on port {port}: {bytes} bytes at place {place}")]
    Header {
        /// Of this rank's receiving direction.
        port: u16,
        /// The length it gave.
        bytes: u64,
        /// The place it gave.
        place: u16,
    },
}
