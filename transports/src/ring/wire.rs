//! [`RingWire`]: one end of a wire over two regions, a sender and a receiver that share a stock of bodies.

use std::sync::Arc;

use hcomm_ops::RawSpan;

use super::layout::INLINE_BYTES;
use super::receiver::{Found, Receiver, Shown};
use super::sender::{Reader, Sender, Slot};
use super::stock::Stock;
use super::{Fault, Lending, NoRoom, Region, region};
use crate::mapping::Mapping;
use crate::wire::poll_and_release;
use crate::{Arrival, Key, Lost, Ringer, Room, Sent, Ticket, Wire, WireConfig};

/// One end of a wire over memory that both ends reach.
#[derive(Debug)]
pub struct RingWire {
    sender: Sender,
    receiver: Receiver,
    stock: Stock,
    /// By side: body `i` lies in region `i / home`.
    regions: [Region; 2],
    /// Of the peer.
    ringer: Ringer,
    lends: Lends,
    lost: Option<Lost>,
}

/// What a wire may lend.
#[derive(Debug)]
pub(crate) enum Lends {
    /// Nothing: all is copied.
    Nothing,
    /// Anything, to a thread of the same process.
    WithinProcess,
    /// What lies in this rank's heap, to another process.
    Heaps(Heaps),
}

/// The memory of two ranks that each other reads.
#[derive(Debug)]
pub(crate) struct Heaps {
    /// This rank's.
    pub(crate) own: Arc<Mapping>,
    /// The peer's, for reading only.
    pub(crate) peer: Arc<Mapping>,
}

impl Lends {
    /// By which number the peer finds a span, if it may be lent.
    #[inline]
    fn place_of(&self, span: RawSpan) -> Option<u64> {
        match self {
            Lends::Nothing => None,
            Lends::WithinProcess => Some(span.as_ptr() as u64),
            Lends::Heaps(heaps) => heaps.own.offset_of(span).map(|offset| offset as u64),
        }
    }

    /// What the peer may lend.
    fn lending(&self) -> Lending {
        match self {
            Lends::Nothing => Lending::Nothing,
            Lends::WithinProcess => Lending::Addresses,
            Lends::Heaps(heaps) => Lending::Offsets { heap_bytes: heaps.peer.bytes() as u64 },
        }
    }
}

/// What a ring wire is made of.
pub(crate) struct Ends {
    /// By side: 0 is the direction from the end of the lower rank.
    pub(crate) regions: [Region; 2],
    /// Which of the regions this end sends into.
    pub(crate) side: usize,
    /// Wakes the peer.
    pub(crate) ringer: Ringer,
    /// What this end may lend, and the peer likewise.
    pub(crate) lends: Lends,
    /// The sequence number of the first message of each port; equal at both ends.
    pub(crate) first: u32,
}

impl RingWire {
    /// An end of a wire. Both ends are made before either is used.
    ///
    /// # Errors
    /// Where there is no memory for the little that is taken at once.
    pub(crate) fn new(ends: Ends) -> Result<RingWire, NoRoom> {
        let Ends { regions, side, ringer, lends, first } = ends;
        regions.iter().try_for_each(Region::take_front)?;
        let sender = Sender::new(regions[side].clone(), first);
        let receiver = Receiver::new(regions[1 - side].clone(), first, lends.lending());
        let stock = Stock::new(regions[side].layout(), side as u32);
        Ok(RingWire { sender, receiver, stock, regions, ringer, lends, lost: None })
    }

    #[inline]
    fn body(&self, body: u32) -> RawSpan {
        let home = self.regions[0].layout().home;
        if body < home { self.regions[0].body(body) } else { self.regions[1].body(body - home) }
    }

    #[inline]
    fn show(&self, shown: Shown, bytes: usize) -> RawSpan {
        match shown {
            Shown::Inline(slot) => self.receiver.inline(slot).slice(0, bytes),
            Shown::Body(body) => self.body(body).slice(0, bytes),
            Shown::Lent(at) => self.show_lent(at, bytes),
            Shown::Read => RawSpan::empty(),
        }
    }

    #[inline]
    fn show_lent(&self, at: u64, bytes: usize) -> RawSpan {
        match &self.lends {
            // The receiver has checked that it ends within the heap.
            Lends::Heaps(heaps) => heaps.peer.span(at as usize, bytes),
            // SAFETY: within a process the other end publishes an address with the span's length, which was compared with `bytes`; the
            // receiver has claimed it.
            Lends::WithinProcess => unsafe { region::lent_span(at, bytes) },
            Lends::Nothing => RawSpan::empty(),
        }
    }

    /// Whether claims of the peer count as ended: it is gone, and it was another process.
    fn claims_are_over(&self) -> bool {
        self.lost.is_some() && self.reader() == Reader::Process
    }

    /// Who reads what this end lends.
    fn reader(&self) -> Reader {
        match self.lends {
            Lends::Heaps(_) => Reader::Process,
            Lends::Nothing | Lends::WithinProcess => Reader::Thread,
        }
    }

    /// The value, or `otherwise` where the peer wrote what no correct peer writes, or there is no memory; the wire is then lost.
    #[inline]
    fn trust<T, E: Into<Fault>>(&mut self, outcome: Result<T, E>, otherwise: T) -> T {
        match outcome {
            Ok(value) => value,
            Err(fault) => {
                self.fail(&fault.into());
                otherwise
            }
        }
    }

    #[cold]
    fn fail(&mut self, fault: &Fault) {
        self.mark_lost(Lost { cause: fault.to_string() });
    }

    /// Whether this end may hold one body more.
    fn has_stock_room(&mut self) -> bool {
        let has_room = self.sender.has_stock_room(&mut self.stock);
        self.trust(has_room, false)
    }

    /// The body of the message that is shown on a port, if it can go out on `port` as it is: this end may hold it, or has another to
    /// give back for it.
    fn body_to_pass(&mut self, from: u16, port: u16) -> Option<u32> {
        let body = self.receiver.shown_body(from)?;
        let checked = self.stock.check(body);
        let is_theirs = checked.is_ok();
        self.trust(checked, ());
        let room = self.sender.has_room(port, &mut self.stock);
        let can_go = is_theirs && self.trust(room, false);
        (can_go && (self.has_stock_room() || self.stock.has_any())).then_some(body)
    }

    /// Gives a body back in place of one that is passed on, so that as many stay with either end.
    #[cold]
    fn give_another_back(&mut self) -> bool {
        let taken = self.sender.take(&mut self.stock);
        let Some(body) = self.trust(taken, None) else { return false };
        self.stock.give_up(body);
        self.receiver.give_back(body);
        true
    }

    /// A message has come on a port on which this end has sent nothing yet; its next message may answer.
    #[cold]
    fn poll_opened(&mut self, key: Key, bytes: usize) -> Arrival {
        let opened = self.sender.open(key.port);
        match self.trust(opened.map(|()| true), false) {
            true => self.poll(key, bytes),
            false => Arrival::NotYet,
        }
    }

    /// What a message on a port tells the peer of the other direction.
    #[inline]
    fn credit(&self, port: u16) -> u32 {
        self.receiver.released(port)
    }

    fn send_any(&mut self, key: Key, pieces: &[RawSpan], may_lend: bool) -> Sent {
        let room = self.sender.has_room(key.port, &mut self.stock);
        if !self.trust(room, false) {
            return Sent::Full;
        }
        if let Some(ticket) = self.lend(key, pieces, may_lend) {
            self.ringer.ring();
            return Sent::Lent(ticket);
        }
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        let Room::Slot(slot) = self.reserve(key, bytes) else { return Sent::Full };
        let mut offset = 0;
        for &piece in pieces {
            slot.slice(offset, piece.len()).copy_from(piece);
            offset += piece.len();
        }
        self.commit(key, bytes);
        Sent::Done
    }

    fn release_any(&mut self, port: u16) {
        let may_keep = self.receiver.shown_body(port).is_none() || self.has_stock_room();
        let released = self.receiver.release(port, &mut self.stock, may_keep);
        self.trust(released, ());
    }

    fn lend(&mut self, key: Key, pieces: &[RawSpan], may_lend: bool) -> Option<Ticket> {
        let &[span] = pieces else { return None };
        let at = if may_lend { self.lends.place_of(span)? } else { return None };
        let credit = self.credit(key.port);
        self.sender.lend(key, (span, at), credit, &mut self.stock)
    }
}

impl Wire for RingWire {
    #[inline]
    fn config(&self) -> WireConfig {
        self.regions[0].layout().config
    }

    #[inline]
    fn reserve(&mut self, key: Key, bytes: usize) -> Room {
        let slot = self.sender.reserve(key.port, bytes, &mut self.stock);
        match self.trust(slot, None) {
            Some(Slot::Inline(span)) => Room::Slot(span),
            Some(Slot::Body(body)) => Room::Slot(self.body(body)),
            None => Room::Full,
        }
    }

    #[inline]
    fn commit(&mut self, key: Key, bytes: usize) {
        let credit = self.credit(key.port);
        self.sender.commit(key, bytes, credit, &mut self.stock);
        self.ringer.ring();
    }

    #[inline]
    fn send_from(&mut self, key: Key, pieces: &[RawSpan], may_lend: bool) -> Sent {
        if let &[piece] = pieces
            && piece.len() <= INLINE_BYTES
            && self.sender.send_inline(key, piece, self.receiver.released(key.port))
        {
            self.ringer.ring();
            return Sent::Done;
        }
        self.send_any(key, pieces, may_lend)
    }

    fn is_done(&mut self, ticket: Ticket) -> bool {
        let done = self.sender.is_done(ticket, &mut self.stock);
        self.trust(done, false)
    }

    fn post(&mut self, _key: Key, _span: RawSpan) -> bool {
        false
    }

    #[inline]
    fn may_have(&self, port: u16) -> bool {
        self.receiver.may_have(port)
    }

    #[inline]
    fn poll(&mut self, key: Key, bytes: usize) -> Arrival {
        let found = self.receiver.poll(key, bytes, &self.stock);
        match self.trust(found, Found::NotYet) {
            Found::NotYet => Arrival::NotYet,
            Found::Opened => self.poll_opened(key, bytes),
            Found::Here(shown) => {
                self.sender.learn(key.port, self.receiver.credit(key.port), &mut self.stock);
                Arrival::Here(self.show(shown, bytes))
            }
            Found::Differs(word, bytes) => Arrival::Differs { word, bytes },
        }
    }

    #[inline]
    fn end_reading(&mut self, port: u16) -> bool {
        self.receiver.end_reading(port)
    }

    #[inline]
    fn release(&mut self, port: u16) {
        if !self.receiver.release_inline(port) {
            self.release_any(port);
        }
        self.ringer.ring();
    }

    #[inline]
    fn take(&mut self, key: Key, bytes: usize, read: impl FnOnce(RawSpan)) -> Arrival {
        if !self.receiver.may_have(key.port) {
            return Arrival::NotYet;
        }
        if bytes <= INLINE_BYTES
            && let Some(near) = self.receiver.arrived_inline(key, bytes)
        {
            self.sender.learn(key.port, near.credit, &mut self.stock);
            let payload = near.payload.slice(0, bytes);
            read(payload);
            self.receiver.release_near(key.port, &near);
            self.ringer.ring();
            return Arrival::Here(payload);
        }
        poll_and_release(self, key, bytes, read)
    }

    #[inline]
    fn can_pass_back(&mut self, from: u16, port: u16) -> bool {
        self.body_to_pass(from, port).is_some()
    }

    #[inline]
    fn pass_back(&mut self, from: u16, key: Key, bytes: usize) -> bool {
        let Some(body) = self.body_to_pass(from, key.port) else { return false };
        if !self.stock.has_room() && !self.give_another_back() {
            return false;
        }
        let credit = self.credit(key.port);
        self.sender.pass_on(key, bytes, body, credit, &mut self.stock);
        self.receiver.advance(from);
        self.ringer.ring();
        true
    }

    #[inline]
    fn progress(&mut self) -> bool {
        false
    }

    #[inline]
    fn lost(&self) -> Option<&Lost> {
        self.lost.as_ref()
    }

    #[cold]
    fn mark_lost(&mut self, lost: Lost) {
        self.lost.get_or_insert(lost);
    }

    fn is_flushed(&mut self) -> bool {
        let clear = self.sender.has_lent_nothing(&mut self.stock);
        self.trust(clear, true) || self.claims_are_over()
    }

    fn revoke(&mut self, operation: u32) -> bool {
        if self.receiver.give_up(|of| of == operation) {
            self.ringer.ring();
        }
        let reader = self.reader();
        let back = self.sender.revoke(&mut self.stock, reader, |of| of == operation);
        self.trust(back, true)
    }

    #[inline]
    fn lends_heap(&self) -> bool {
        matches!(self.lends, Lends::Heaps(_))
    }
}

impl Drop for RingWire {
    /// Takes back what is lent, as far as nobody is reading it, and stops reading what the peer lent.
    fn drop(&mut self) {
        if self.receiver.give_up(|_| true) {
            self.ringer.ring();
        }
        // A span that the peer is reading stays the owner's to keep: `revoke` told it so.
        let reader = self.reader();
        let _ = self.sender.revoke(&mut self.stock, reader, |_| true);
    }
}
