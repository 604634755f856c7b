//! [`Sender`]: the sending end of one direction: credit, publication, lending.

use hcomm_ops::RawSpan;

use super::layout::INLINE_BYTES;
use super::stock::Stock;
use super::{Fault, Impossible, Region, lent, place, word};
use crate::sync::Ordering;
use crate::{Key, Ticket};

/// Below this many bytes a copy is cheaper than lending.
const LEND_ABOVE: usize = 1024;

/// Bytes from which the returns are looked at before a body is taken, so that few bodies are in use (see `reserve`).
const COLLECT_FROM: usize = 4096;

/// The sending end of a region.
#[derive(Debug)]
pub(crate) struct Sender {
    region: Region,
    ports: Box<[Port]>,
    /// By slot, counted through all ports.
    memos: Box<[Memo]>,
    /// Returns taken so far.
    collected: u32,
    /// Where its entry will be.
    next_return: u32,
    /// How many ports are open.
    open: u64,
}

/// One port's counters.
#[derive(Clone, Copy, Debug)]
struct Port {
    /// Messages sent, wrapping.
    sent: u32,
    /// Messages known to be released, wrapping.
    released: u32,
    /// The slot of the next message, within the port.
    head: u32,
    /// The same, counted through all ports.
    slot: usize,
    /// The slot of the oldest message that is not known to be released.
    tail: u32,
    /// The body that `reserve` showed.
    reserved: Option<u32>,
    /// Whether its headers have memory. Until then it counts as full.
    is_open: bool,
}

/// What the sender remembers of a slot.
#[derive(Clone, Copy, Debug)]
struct Memo {
    /// The flag last written.
    flag: u64,
    held: Held,
}

/// What the message last sent in a slot keeps in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Nothing,
    Body,
    Lent,
}

/// What a message consists of when it is published.
#[derive(Clone, Copy, Debug)]
enum Payload {
    Inline,
    Body(u32),
    Lent,
}

impl Sender {
    /// A sender whose ports have sent `first` messages so far.
    pub(crate) fn new(region: Region, first: u32) -> Sender {
        let layout = *region.layout();
        let depth = layout.config.depth as usize;
        let port = |number| Port {
            sent: first,
            released: first.wrapping_sub(layout.config.depth),
            head: 0,
            slot: number * depth,
            tail: 0,
            reserved: None,
            is_open: false,
        };
        let memo = Memo { flag: 0, held: Held::Nothing };
        Sender {
            region,
            ports: (0..usize::from(layout.config.ports)).map(port).collect(),
            memos: vec![memo; layout.slots()].into(),
            collected: 0,
            next_return: 0,
            open: 0,
        }
    }

    /// Whether a port has room for a message, for which the cursor is read where the one known is not enough.
    #[inline]
    pub(crate) fn has_room(&mut self, port: u16, stock: &mut Stock) -> Result<bool, Fault> {
        if self.under_way(port) < self.depth() {
            return Ok(true);
        }
        self.open(port)?;
        self.refresh(port, stock)?;
        Ok(self.under_way(port) < self.depth())
    }

    /// Makes a port ready to send on, if it is not, and tells the receiver so.
    pub(crate) fn open(&mut self, number: u16) -> Result<(), Fault> {
        let port = &mut self.ports[usize::from(number)];
        if port.is_open {
            return Ok(());
        }
        self.region.take_headers(number)?;
        port.is_open = true;
        port.released = port.sent;
        self.open += 1;
        self.region.opened(usize::from(number)).store(1, Ordering::Relaxed);
        let porch = self.region.header(self.region.layout().slots());
        porch.length().store(word::NO_LENGTH, Ordering::Relaxed);
        porch.flag().store(self.open, Ordering::Release);
        Ok(())
    }

    /// Shows where the next message of a port is to be built; `None` where the port is full.
    #[inline]
    pub(crate) fn reserve(
        &mut self,
        port: u16,
        bytes: usize,
        stock: &mut Stock,
    ) -> Result<Option<Slot>, Fault> {
        if !self.has_room(port, stock)? {
            return Ok(None);
        }
        if let Some(body) = self.ports[usize::from(port)].reserved {
            return Ok(Some(Slot::Body(body)));
        }
        if bytes <= INLINE_BYTES {
            return Ok(Some(Slot::Inline(self.region.header(self.slot(port)).inline())));
        }
        // A body that came back is warm; without this look the whole stock would be walked through before it is used again.
        if bytes >= COLLECT_FROM || stock.is_empty() {
            self.collect(stock)?;
        }
        let body = self.take(stock)?;
        self.ports[usize::from(port)].reserved = body;
        Ok(body.map(Slot::Body))
    }

    /// A body to fill, or to give back in place of another.
    #[inline]
    pub(crate) fn take(&mut self, stock: &mut Stock) -> Result<Option<u32>, Fault> {
        match stock.take() {
            Some(body) => Ok(Some(body)),
            None => self.take_fresh(stock),
        }
    }

    /// A body that is used for the first time.
    #[cold]
    fn take_fresh(&mut self, stock: &mut Stock) -> Result<Option<u32>, Fault> {
        let Some(body) = stock.take_fresh() else { return Ok(None) };
        self.region.take_body(body % self.region.layout().home)?;
        Ok(Some(body))
    }

    /// Sends a message that fits the header, where a port is known to have room and nothing is reserved: the usual case. Returns
    /// whether it did.
    #[inline]
    pub(crate) fn send_inline(&mut self, key: Key, piece: RawSpan, credit: u32) -> bool {
        let port = &self.ports[usize::from(key.port)];
        if port.sent.wrapping_sub(port.released) >= self.depth() || port.reserved.is_some() {
            return false;
        }
        self.region.header(port.slot).inline().copy_from(piece);
        self.publish(key, piece.len(), Payload::Inline, credit);
        true
    }

    /// Takes note of the credit in a message of the peer, unless the cursor has told more since.
    #[inline]
    pub(crate) fn learn(&mut self, port: u16, credit: u32, stock: &mut Stock) {
        let news = credit.wrapping_sub(self.ports[usize::from(port)].released);
        if news != 0 && news <= self.under_way(port) {
            self.acknowledge(port, news, stock);
        }
    }

    /// Publishes the message built in what `reserve` showed last.
    #[inline]
    pub(crate) fn commit(&mut self, key: Key, bytes: usize, credit: u32, stock: &mut Stock) {
        match self.ports[usize::from(key.port)].reserved.take() {
            Some(body) => {
                stock.sent(body);
                self.publish(key, bytes, Payload::Body(body), credit);
            }
            None => {
                assert!(bytes <= INLINE_BYTES, "commit of {bytes} bytes comes after a reserve of as many");
                self.publish(key, bytes, Payload::Inline, credit);
            }
        }
    }

    /// Publishes a message whose body was received and goes out again. There must be room.
    #[inline]
    pub(crate) fn pass_on(&mut self, key: Key, bytes: usize, body: u32, credit: u32, stock: &mut Stock) {
        if let Some(body) = self.ports[usize::from(key.port)].reserved.take() {
            stock.put_back(body);
        }
        stock.passed_on();
        self.publish(key, bytes, Payload::Body(body), credit);
    }

    /// Publishes a message whose bytes stay where they are, which the receiver finds by `at`, if it is one to be lent. There must be
    /// room.
    #[inline]
    pub(crate) fn lend(
        &mut self,
        key: Key,
        (span, at): (RawSpan, u64),
        credit: u32,
        stock: &mut Stock,
    ) -> Option<Ticket> {
        if span.len() <= LEND_ABOVE {
            return None;
        }
        let slot = self.slot(key.port);
        if let Some(body) = self.ports[usize::from(key.port)].reserved.take() {
            stock.put_back(body);
        }
        let header = self.region.header(slot);
        header.lent_at().store(at, Ordering::Relaxed);
        header.lent_state().store(lent::PUBLISHED, Ordering::Relaxed);
        self.publish(key, span.len(), Payload::Lent, credit);
        Some(Ticket { port: key.port, sent: self.ports[usize::from(key.port)].sent })
    }

    /// Whether a lent message has been released.
    pub(crate) fn is_done(&mut self, ticket: Ticket, stock: &mut Stock) -> Result<bool, Impossible> {
        if self.covers(ticket) {
            return Ok(true);
        }
        self.refresh(ticket.port, stock)?;
        Ok(self.covers(ticket))
    }

    /// Whether no lent message is under way.
    pub(crate) fn has_lent_nothing(&mut self, stock: &mut Stock) -> Result<bool, Impossible> {
        let mut clear = true;
        self.visit_lent(stock, |region, slot, _| {
            clear &= region.header(slot).lent_state().load(Ordering::Acquire) == lent::REVOKED;
        })?;
        Ok(clear)
    }

    /// Calls back the lent messages that `which` picks by operation. Returns whether all are back; the others are being read. Those of
    /// a reader that is another process are taken back from under it.
    pub(crate) fn revoke(
        &mut self,
        stock: &mut Stock,
        from: Reader,
        which: impl Fn(u32) -> bool,
    ) -> Result<bool, Impossible> {
        let mut back = true;
        self.visit_lent(stock, |region, slot, operation| {
            back &= !which(operation) || call_back(region, slot, from);
        })?;
        Ok(back)
    }

    /// Learns which messages have been released, for the returns' sake, on all ports.
    pub(crate) fn refresh_all(&mut self, stock: &mut Stock) -> Result<(), Impossible> {
        for port in 0..self.region.layout().config.ports {
            if self.under_way(port) > 0 {
                self.refresh(port, stock)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn publish(&mut self, key: Key, bytes: usize, payload: Payload, credit: u32) {
        let slot = self.slot(key.port);
        let (place, held) = match payload {
            Payload::Inline => (place::INLINE, Held::Nothing),
            Payload::Body(body) => (place::of_body(body), Held::Body),
            Payload::Lent => (place::LENT, Held::Lent),
        };
        let depth = self.depth();
        let port = &mut self.ports[usize::from(key.port)];
        let flag = word::flag(key.word, port.sent, self.memos[slot].flag);
        self.memos[slot] = Memo { flag, held };
        port.sent = port.sent.wrapping_add(1);
        port.slot -= port.head as usize;
        port.head = after(port.head, depth);
        port.slot += port.head as usize;
        let header = self.region.header(slot);
        header.length().store(word::length(bytes, place), Ordering::Relaxed);
        header.credit().store(credit, Ordering::Relaxed);
        header.flag().store(flag, Ordering::Release);
    }

    /// Reads a port's cursor.
    fn refresh(&mut self, number: u16, stock: &mut Stock) -> Result<(), Impossible> {
        if !self.ports[usize::from(number)].is_open {
            return Ok(());
        }
        let cursor = self.region.cursor(usize::from(number)).load(Ordering::Acquire);
        let released = cursor.wrapping_sub(self.ports[usize::from(number)].released);
        let under_way = self.under_way(number);
        if released > under_way {
            return Err(Impossible::Cursor { port: number, released, under_way });
        }
        self.acknowledge(number, released, stock);
        Ok(())
    }

    /// The oldest `released` messages under way on a port have been released.
    #[inline]
    fn acknowledge(&mut self, number: u16, released: u32, stock: &mut Stock) {
        let depth = self.depth();
        let port = &mut self.ports[usize::from(number)];
        let first = usize::from(number) * depth as usize;
        for _ in 0..released {
            if self.memos[first + port.tail as usize].held == Held::Body {
                stock.arrived();
            }
            port.tail = after(port.tail, depth);
        }
        port.released = port.released.wrapping_add(released);
    }

    /// Whether this end may hold one body more. Nothing is learnt of releases between the last look at the returns and the count.
    pub(crate) fn has_stock_room(&mut self, stock: &mut Stock) -> Result<bool, Impossible> {
        self.collect(stock)?;
        if !stock.has_room() {
            self.refresh_all(stock)?;
            self.collect(stock)?;
        }
        Ok(stock.has_room())
    }

    /// Takes the bodies that came back.
    #[inline]
    fn collect(&mut self, stock: &mut Stock) -> Result<(), Impossible> {
        let returned = self.region.returned().load(Ordering::Acquire);
        if returned == self.collected {
            return Ok(());
        }
        self.collect_up_to(returned, stock)
    }

    fn collect_up_to(&mut self, returned: u32, stock: &mut Stock) -> Result<(), Impossible> {
        let bodies = self.region.layout().bodies();
        let news = returned.wrapping_sub(self.collected);
        if news > bodies {
            return Err(Impossible::Returns { returned: news, bodies });
        }
        while self.collected != returned {
            let body = self.region.return_entry(self.next_return).load(Ordering::Relaxed);
            stock.check(body)?;
            stock.keep(body);
            self.collected = self.collected.wrapping_add(1);
            self.next_return = after(self.next_return, bodies);
        }
        Ok(())
    }

    /// Shows `visit` every lent message that is not known to be released: its slot and its operation.
    fn visit_lent(
        &mut self,
        stock: &mut Stock,
        mut visit: impl FnMut(&Region, usize, u32),
    ) -> Result<(), Impossible> {
        self.refresh_all(stock)?;
        let depth = self.depth();
        for (index, port) in self.ports.iter().enumerate() {
            let mut offset = port.tail;
            for _ in 0..port.sent.wrapping_sub(port.released) {
                let slot = index * depth as usize + offset as usize;
                if self.memos[slot].held == Held::Lent {
                    visit(&self.region, slot, self.memos[slot].flag as u32);
                }
                offset = after(offset, depth);
            }
        }
        Ok(())
    }

    fn covers(&self, ticket: Ticket) -> bool {
        let released = self.ports[usize::from(ticket.port)].released;
        released.wrapping_sub(ticket.sent) <= u32::MAX / 2
    }

    #[inline]
    fn under_way(&self, port: u16) -> u32 {
        let port = &self.ports[usize::from(port)];
        port.sent.wrapping_sub(port.released)
    }

    #[inline]
    fn depth(&self) -> u32 {
        self.region.layout().config.depth
    }

    /// The slot of a port's next message, counted through all ports.
    #[inline]
    fn slot(&self, port: u16) -> usize {
        self.ports[usize::from(port)].slot
    }
}

/// Where a message is to be built.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    /// In the header.
    Inline(RawSpan),
    /// In this body.
    Body(u32),
}

/// The next index of a cycle.
#[inline]
pub(crate) fn after(index: u32, cycle: u32) -> u32 {
    if index + 1 == cycle { 0 } else { index + 1 }
}

/// Who reads what is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A thread of this process, to which the bytes must stay while it reads them.
    Thread,
    /// Another process, which has them mapped for reading.
    Process,
}

/// Whether nobody makes anything of a lent message any more, nor will.
fn call_back(region: &Region, slot: usize, from: Reader) -> bool {
    let state = region.header(slot).lent_state();
    if from == Reader::Process {
        state.swap(lent::REVOKED, Ordering::AcqRel);
        return true;
    }
    let taken = state.compare_exchange(lent::PUBLISHED, lent::REVOKED, Ordering::AcqRel, Ordering::Acquire);
    matches!(taken, Ok(_) | Err(lent::REVOKED))
}
