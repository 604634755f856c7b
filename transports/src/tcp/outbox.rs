//! [`Outbox`]: the sending half of a TCP wire, without the socket: the credit of each port, and the queue of bytes that the kernel
//! has not taken yet.
//!
//! A port may have `depth` messages sent and not released. The queue as a whole is bounded by `limit` bytes (one message may always
//! enter when it is empty), so that an urgent message does not wait behind more bulk than that.

use std::collections::VecDeque;

use hcomm_ops::RawSpan;

use super::frame::{Credit, HEADER_BYTES, Header, Malformed, encode_message};
use super::inbox::HandleCredit;
use super::pool::{Pool, SMALL_BYTES};
use super::sys::{MAX_SPANS, Slot, span_of};
use crate::wire::{Key, Room, Ticket, WireConfig};

/// What goes out.
#[derive(Debug)]
pub(super) struct Outbox {
    config: WireConfig,
    ports: Vec<OutPort>,
    queue: VecDeque<Piece>,
    queued_bytes: usize,
    limit_bytes: usize,
    pool: Pool,
}

#[derive(Debug, Default)]
struct OutPort {
    sent: u32,
    /// How many the peer has released.
    acked: u32,
    /// How many had been sent when the last lent message was through.
    through: u32,
    /// Lent messages in the queue.
    lent: u32,
    reserved: Option<Slot>,
}

/// A run of bytes in the queue.
#[derive(Debug)]
struct Piece {
    span: RawSpan,
    owner: Owner,
}

#[derive(Debug)]
enum Owner {
    /// The bytes lie in this slot of ours.
    Slot(Slot),
    /// The bytes are the user's. `last` is the ticket where the message ends here.
    Lent { operation: u32, last: Option<Ticket> },
}

impl Outbox {
    /// An empty one whose queue holds about `limit_bytes`; the first message of each port is number `first`.
    pub(super) fn new(config: WireConfig, limit_bytes: usize, first: u32) -> Self {
        let port = || OutPort { sent: first, acked: first, through: first, ..OutPort::default() };
        Outbox {
            config,
            ports: (0..config.ports).map(|_| port()).collect(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            limit_bytes,
            pool: Pool::new(config.slot_bytes),
        }
    }

    /// Bytes in the queue.
    pub(super) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Whether a message of `bytes` may be sent on the port now.
    pub(super) fn has_room(&self, port: u16, bytes: usize) -> bool {
        let port = &self.ports[usize::from(port)];
        let fits = self.queued_bytes == 0 || self.queued_bytes + bytes <= self.limit_bytes;
        fits && port.sent.wrapping_sub(port.acked) < self.config.depth
    }

    /// The slot in which the next message of the port is built.
    pub(super) fn reserve(&mut self, port: u16, bytes: usize) -> Room {
        let reserved = &mut self.ports[usize::from(port)].reserved;
        match reserved.take_if(|slot| slot.span().len() < bytes) {
            Some(short) => self.pool.put(short),
            None if reserved.is_none() && !self.has_room(port, bytes) => return Room::Full,
            None => {}
        }
        let slot = self.ports[usize::from(port)].reserved.get_or_insert_with(|| self.pool.take(bytes));
        Room::Slot(slot.span())
    }

    /// Takes the slot that was reserved.
    pub(super) fn take_reserved(&mut self, port: u16) -> Option<Slot> {
        self.ports[usize::from(port)].reserved.take()
    }

    /// Gives a slot back that is not to be queued.
    pub(super) fn put_slot(&mut self, slot: Slot) {
        self.pool.put(slot);
    }

    /// Numbers the next message of a port and writes its header.
    pub(super) fn next_header(&mut self, key: Key, bytes: usize, released: u32) -> [u8; HEADER_BYTES] {
        let port = &mut self.ports[usize::from(key.port)];
        let sequence = port.sent;
        port.sent = port.sent.wrapping_add(1);
        let bytes =
            u32::try_from(bytes).expect("no message is longer than a slot, and a slot has less than 4 GiB");
        encode_message(&Header { port: key.port, word: key.word, sequence, bytes, released })
    }

    /// Queues a copy of the bytes, in the space after the last piece where there is some.
    pub(super) fn push_copy(&mut self, bytes: RawSpan) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = match self.queue.back_mut().map_or(0, |last| last.append(rest)) {
                0 => self.push_start(rest),
                appended => appended,
            };
            self.queued_bytes += taken;
            rest = rest.slice(taken, rest.len() - taken);
        }
    }

    /// Queues a copy of a frame.
    pub(super) fn push_frame(&mut self, frame: &[u8]) {
        self.push_copy(span_of(frame));
    }

    /// Queues bytes that lie in a slot of this outbox, or copies them where they are few.
    pub(super) fn push_slot(&mut self, slot: Slot, from: usize, to: usize) {
        let span = slot.span().slice(from, to - from);
        if span.len() <= SMALL_BYTES {
            self.push_copy(span);
            self.pool.put(slot);
        } else {
            self.queued_bytes += span.len();
            self.queue.push_back(Piece { span, owner: Owner::Slot(slot) });
        }
    }

    /// Queues the user's own bytes, the rest of the last message of `key.port`.
    pub(super) fn push_lent(&mut self, key: Key, pieces: impl Iterator<Item = RawSpan>) -> Ticket {
        let port = &mut self.ports[usize::from(key.port)];
        let ticket = Ticket { port: key.port, sent: port.sent };
        if port.lent == 0 {
            port.through = port.sent.wrapping_sub(1);
        }
        port.lent += 1;
        let mut pieces = pieces.peekable();
        while let Some(span) = pieces.next() {
            let last = pieces.peek().is_none().then_some(ticket);
            self.queued_bytes += span.len();
            self.queue.push_back(Piece { span, owner: Owner::Lent { operation: key.word.operation, last } });
        }
        ticket
    }

    /// Whether a lent message is through.
    pub(super) fn is_done(&self, ticket: Ticket) -> bool {
        let port = &self.ports[usize::from(ticket.port)];
        port.lent == 0 || port.through.wrapping_sub(ticket.sent).cast_signed() >= 0
    }

    /// The first bytes of the queue, for one call of the kernel.
    pub(super) fn front(&self) -> ([RawSpan; MAX_SPANS], usize) {
        let mut spans = [RawSpan::empty(); MAX_SPANS];
        let count = self.queue.len().min(MAX_SPANS);
        for (to, piece) in spans.iter_mut().zip(&self.queue) {
            *to = piece.span;
        }
        (spans, count)
    }

    /// The kernel has taken the first `count` bytes of the queue.
    pub(super) fn handle_taken(&mut self, count: usize) {
        self.queued_bytes -= count;
        let mut left = count;
        while let Some(piece) = self.queue.front_mut() {
            let taken = left.min(piece.span.len());
            piece.span = piece.span.slice(taken, piece.span.len() - taken);
            left -= taken;
            if !piece.span.is_empty() {
                return;
            }
            self.finish_front();
        }
    }

    /// Drops what is queued: the peer will not read it.
    pub(super) fn clear(&mut self) {
        while !self.queue.is_empty() {
            self.finish_front();
        }
        self.queued_bytes = 0;
    }

    /// Copies what the operation has lent.
    pub(super) fn revoke(&mut self, operation: u32) {
        let lent =
            |piece: &Piece| matches!(piece.owner, Owner::Lent { operation: of, .. } if of == operation);
        for at in 0..self.queue.len() {
            if lent(&self.queue[at]) {
                self.copy_piece(at);
            }
        }
    }

    fn copy_piece(&mut self, at: usize) {
        let span = self.queue[at].span;
        let slot = self.pool.take(span.len());
        slot.span().copy_from(span);
        let copied = slot.span().slice(0, span.len());
        let piece = std::mem::replace(&mut self.queue[at], Piece { span: copied, owner: Owner::Slot(slot) });
        if let Owner::Lent { last: Some(ticket), .. } = piece.owner {
            self.finish_lent(ticket);
        }
    }

    /// Begins a piece in a new slot with as much of `bytes` as fits.
    fn push_start(&mut self, bytes: RawSpan) -> usize {
        let slot = self.pool.take(bytes.len().min(self.config.slot_bytes));
        let taken = bytes.len().min(slot.span().len());
        slot.span().copy_from(bytes.slice(0, taken));
        self.queue.push_back(Piece { span: slot.span().slice(0, taken), owner: Owner::Slot(slot) });
        taken
    }

    fn finish_front(&mut self) {
        match self.queue.pop_front().map(|piece| piece.owner) {
            Some(Owner::Slot(slot)) => self.pool.put(slot),
            Some(Owner::Lent { last: Some(ticket), .. }) => self.finish_lent(ticket),
            Some(Owner::Lent { last: None, .. }) | None => {}
        }
    }

    fn finish_lent(&mut self, ticket: Ticket) {
        let port = &mut self.ports[usize::from(ticket.port)];
        port.lent -= 1;
        port.through = ticket.sent;
    }
}

impl HandleCredit for Outbox {
    fn handle_credit(&mut self, credit: Credit) -> Result<(), Malformed> {
        let port = &mut self.ports[usize::from(credit.port)];
        if credit.released.wrapping_sub(port.acked) > port.sent.wrapping_sub(port.acked) {
            let (acked, sent) = (port.acked, port.sent);
            return Err(Malformed::Credit { port: credit.port, released: credit.released, acked, sent });
        }
        port.acked = credit.released;
        Ok(())
    }
}

impl Piece {
    /// Copies as much of `bytes` as there is room for after this piece, in the same slot; how much that was.
    fn append(&mut self, bytes: RawSpan) -> usize {
        let Owner::Slot(slot) = &self.owner else { return 0 };
        let whole = slot.span();
        let start = self.span.as_ptr() as usize - whole.as_ptr() as usize;
        let end = start + self.span.len();
        let taken = bytes.len().min(whole.len() - end);
        whole.slice(end, taken).copy_from(bytes.slice(0, taken));
        self.span = whole.slice(start, self.span.len() + taken);
        taken
    }
}
