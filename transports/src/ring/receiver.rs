//! [`Receiver`]: the receiving end of one direction: recognition, release, returns.

use hcomm_ops::RawSpan;

use super::layout::INLINE_BYTES;
use super::sender::after;
use super::stock::Stock;
use super::{Impossible, Lending, Region, lent, place, word};
use crate::sync::Ordering;
use crate::wire::REVOKED_BYTES;
use crate::{Key, Word};

/// The receiving end of a region.
#[derive(Debug)]
pub(crate) struct Receiver {
    region: Region,
    ports: Box<[Port]>,
    /// By slot, counted through all ports: the flag of the message released last.
    lasts: Box<[u64]>,
    /// What messages may be lent.
    lending: Lending,
    /// Bodies returned so far.
    returned: u32,
    /// Where the next entry goes.
    next_return: u32,
}

/// One port's counters.
#[derive(Clone, Copy, Debug)]
struct Port {
    /// Messages released, wrapping.
    released: u32,
    /// The slot of the next message, within the port.
    head: u32,
    /// The same, counted through all ports.
    slot: usize,
    /// The flag that was in it last.
    last: u64,
    /// What `poll` showed and `release` has not yet given back.
    shown: Option<Shown>,
    /// The flag and the length of what is shown.
    flag: u64,
    bytes: usize,
    /// Whether the sender has opened it. Until then its slot is the porch.
    is_open: bool,
}

/// Where a message that has come lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// In the header of this slot.
    Inline(usize),
    /// In this body.
    Body(u32),
    /// At this address of this process, or at this offset of the peer's heap, and is claimed.
    Lent(u64),
    /// It was lent and has been read.
    Read,
}

/// A message that lies in its header.
pub(crate) struct Near {
    flag: u64,
    /// What it tells of the other direction.
    pub(crate) credit: u32,
    /// As long as a header has room.
    pub(crate) payload: RawSpan,
}

/// What `poll` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing new.
    NotYet,
    /// Nothing, but the sender has opened the port: it is to be looked at again when this end has opened its own.
    Opened,
    /// The expected message.
    Here(Shown),
    /// Another call's.
    Differs(Word, u64),
}

impl Receiver {
    /// A receiver whose ports have released `first` messages so far. Both ends are made before either sends.
    pub(crate) fn new(region: Region, first: u32, lending: Lending) -> Receiver {
        let layout = *region.layout();
        let ports = usize::from(layout.config.ports);
        let port = |_| Port {
            released: first,
            head: 0,
            slot: layout.slots(),
            last: 0,
            shown: None,
            flag: 0,
            bytes: 0,
            is_open: false,
        };
        if first != 0 {
            (0..ports).for_each(|port| region.cursor(port).store(first, Ordering::Release));
        }
        Receiver {
            region,
            ports: (0..ports).map(port).collect(),
            lasts: vec![0; layout.slots()].into(),
            lending,
            returned: 0,
            next_return: 0,
        }
    }

    /// Whether there is news on a port.
    #[inline]
    pub(crate) fn may_have(&self, port: u16) -> bool {
        let port = &self.ports[usize::from(port)];
        self.region.header(port.slot).flag().load(Ordering::Relaxed) != port.last
    }

    /// The next message of a port, where it has come, is the expected one and lies in the header.
    #[inline]
    pub(crate) fn arrived_inline(&self, key: Key, bytes: usize) -> Option<Near> {
        let port = &self.ports[usize::from(key.port)];
        let header = self.region.header(port.slot);
        let flag = header.flag().load(Ordering::Acquire);
        let is_expected = flag != port.last && flag == word::flag(key.word, port.released, port.last);
        if !is_expected || header.length().load(Ordering::Relaxed) != word::length(bytes, place::INLINE) {
            return None;
        }
        Some(Near { flag, credit: header.credit().load(Ordering::Relaxed), payload: header.inline() })
    }

    /// Releases a message that `arrived_inline` has found.
    #[inline]
    pub(crate) fn release_near(&mut self, port: u16, near: &Near) {
        self.ports[usize::from(port)].flag = near.flag;
        self.advance(port);
    }

    /// Looks for the next message of a port.
    #[inline]
    pub(crate) fn poll(&mut self, key: Key, bytes: usize, stock: &Stock) -> Result<Found, Impossible> {
        let port = &mut self.ports[usize::from(key.port)];
        let header = self.region.header(port.slot);
        let flag = header.flag().load(Ordering::Acquire);
        if flag == port.last {
            return Ok(Found::NotYet);
        }
        let is_expected = flag == word::flag(key.word, port.released, port.last);
        // Most messages that latency matters for lie in the header.
        if is_expected && bytes <= INLINE_BYTES {
            let length = header.length().load(Ordering::Relaxed);
            if length == word::length(bytes, place::INLINE) {
                (port.shown, port.flag, port.bytes) = (Some(Shown::Inline(port.slot)), flag, bytes);
                return Ok(Found::Here(Shown::Inline(port.slot)));
            }
        }
        self.look(key, bytes, flag, stock)
    }

    /// Looks at a message whose flag has been seen, wherever it lies and whatever it is.
    fn look(&mut self, key: Key, bytes: usize, flag: u64, stock: &Stock) -> Result<Found, Impossible> {
        if !self.ports[usize::from(key.port)].is_open {
            return Ok(self.look_at_porch(key.port, flag));
        }
        let port = &self.ports[usize::from(key.port)];
        let Port { slot, last, released, .. } = *port;
        let (length, place) = word::parts(self.region.header(slot).length().load(Ordering::Relaxed));
        if flag != word::flag(key.word, released, last) {
            return Ok(Found::Differs(word::word(flag, released, last), length));
        }
        if let Some(shown) = port.shown
            && shown != Shown::Read
            && (port.flag, port.bytes) == (flag, bytes)
        {
            return Ok(Found::Here(shown));
        }
        if length != bytes as u64 {
            return Ok(Found::Differs(key.word, length));
        }
        match self.locate(key.port, slot, bytes, place, stock)? {
            Some(shown) => {
                let port = &mut self.ports[usize::from(key.port)];
                (port.shown, port.flag, port.bytes) = (Some(shown), flag, bytes);
                Ok(Found::Here(shown))
            }
            None => Ok(Found::Differs(key.word, REVOKED_BYTES)),
        }
    }

    /// Ports have been opened since this one was looked at last: it is one of them, or not.
    #[cold]
    fn look_at_porch(&mut self, number: u16, flag: u64) -> Found {
        let is_opened = self.region.opened(usize::from(number)).load(Ordering::Relaxed) != 0;
        let depth = self.region.layout().config.depth as usize;
        let port = &mut self.ports[usize::from(number)];
        if !is_opened {
            port.last = flag;
            return Found::NotYet;
        }
        (port.is_open, port.slot, port.last) = (true, usize::from(number) * depth, 0);
        Found::Opened
    }

    /// The credit in the message that is shown on a port.
    #[inline]
    pub(crate) fn credit(&self, port: u16) -> u32 {
        self.region.header(self.ports[usize::from(port)].slot).credit().load(Ordering::Relaxed)
    }

    /// How many messages of a port have been released: the credit that this end's messages carry.
    #[inline]
    pub(crate) fn released(&self, port: u16) -> u32 {
        self.ports[usize::from(port)].released
    }

    /// Releases what is shown on a port, if it lies in the header: the usual case. Returns whether it did.
    #[inline]
    pub(crate) fn release_inline(&mut self, port: u16) -> bool {
        let is_inline = matches!(self.ports[usize::from(port)].shown, Some(Shown::Inline(_)));
        if is_inline {
            self.advance(port);
        }
        is_inline
    }

    /// Ends a claim that `poll` took. Returns false where the sender has taken the bytes back.
    #[inline]
    pub(crate) fn end_reading(&mut self, port: u16) -> bool {
        !matches!(self.ports[usize::from(port)].shown, Some(Shown::Lent(_))) || self.end_claim(port)
    }

    fn end_claim(&mut self, port: u16) -> bool {
        let port = &mut self.ports[usize::from(port)];
        let state = self.region.header(port.slot).lent_state();
        let ended =
            state.compare_exchange(lent::CLAIMED, lent::PUBLISHED, Ordering::AcqRel, Ordering::Acquire);
        port.shown = ended.is_ok().then_some(Shown::Read);
        ended.is_ok()
    }

    /// Gives back what `poll` showed last on a port. Its body goes to the stock if this end `may_keep` it, else back to the peer.
    #[inline]
    pub(crate) fn release(&mut self, port: u16, stock: &mut Stock, may_keep: bool) -> Result<(), Impossible> {
        let shown = self.ports[usize::from(port)].shown;
        debug_assert!(shown.is_some(), "a release follows a poll that showed a message");
        if let Some(Shown::Body(body)) = shown {
            stock.check(body)?;
            if may_keep { stock.keep(body) } else { self.give_back(body) }
        }
        self.advance(port);
        Ok(())
    }

    /// The payload in a header.
    #[inline]
    pub(crate) fn inline(&self, slot: usize) -> RawSpan {
        self.region.header(slot).inline()
    }

    /// The body of the message that is shown on a port, if it lies in one.
    #[inline]
    pub(crate) fn shown_body(&self, port: u16) -> Option<u32> {
        match self.ports[usize::from(port)].shown {
            Some(Shown::Body(body)) => Some(body),
            _ => None,
        }
    }

    /// Writes a body into the returns.
    #[inline]
    pub(crate) fn give_back(&mut self, body: u32) {
        self.region.return_entry(self.next_return).store(body, Ordering::Relaxed);
        self.next_return = after(self.next_return, self.region.layout().bodies());
        self.returned = self.returned.wrapping_add(1);
        self.region.returned().store(self.returned, Ordering::Release);
    }

    /// Releases what is shown on a port, whose body has gone elsewhere.
    #[inline]
    pub(crate) fn advance(&mut self, port: u16) {
        let depth = self.region.layout().config.depth;
        let number = usize::from(port);
        let port = &mut self.ports[number];
        self.lasts[port.slot] = port.flag;
        port.shown = None;
        port.released = port.released.wrapping_add(1);
        port.slot -= port.head as usize;
        port.head = after(port.head, depth);
        port.slot += port.head as usize;
        port.last = self.lasts[port.slot];
        self.region.cursor(number).store(port.released, Ordering::Release);
    }

    /// Gives up the lent messages that are shown and that `which` picks by operation. Returns whether there were any.
    pub(crate) fn give_up(&mut self, which: impl Fn(u32) -> bool) -> bool {
        let mut any = false;
        for port in &mut self.ports {
            if matches!(port.shown, Some(Shown::Lent(_))) && which(port.flag as u32) {
                port.shown = None;
                self.region.header(port.slot).lent_state().store(lent::REVOKED, Ordering::Release);
                any = true;
            }
        }
        any
    }

    /// Finds the bytes of a message whose flag has been seen; `None` where it has been called back.
    #[inline]
    fn locate(
        &self,
        port: u16,
        slot: usize,
        bytes: usize,
        place: u16,
        stock: &Stock,
    ) -> Result<Option<Shown>, Impossible> {
        let layout = self.region.layout();
        match place {
            place::INLINE if bytes <= INLINE_BYTES => Ok(Some(Shown::Inline(slot))),
            place::LENT if self.lending != Lending::Nothing => self.claim(slot, bytes),
            place::INLINE | place::LENT => Err(Impossible::Header { port, bytes: bytes as u64, place }),
            _ if bytes > layout.config.slot_bytes => {
                Err(Impossible::Header { port, bytes: bytes as u64, place })
            }
            _ => {
                let body = u32::from(place) - 1;
                stock.check(body)?;
                Ok(Some(Shown::Body(body)))
            }
        }
    }

    /// Begins to read a lent message, unless it has been called back.
    fn claim(&self, slot: usize, bytes: usize) -> Result<Option<Shown>, Impossible> {
        let header = self.region.header(slot);
        let at = header.lent_at().load(Ordering::Relaxed);
        if let Lending::Offsets { heap_bytes } = self.lending
            && at.checked_add(bytes as u64).is_none_or(|end| end > heap_bytes)
        {
            return Err(Impossible::Lent { bytes: bytes as u64, offset: at, heap_bytes });
        }
        let claimed = header.lent_state().compare_exchange(
            lent::PUBLISHED,
            lent::CLAIMED,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        Ok(claimed.ok().map(|_| Shown::Lent(at)))
    }
}
