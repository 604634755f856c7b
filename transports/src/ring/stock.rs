//! [`Stock`]: the bodies that this end of a wire owns. Local bookkeeping; no shared memory is touched here.

use std::ops::Range;

use super::{Impossible, Layout};

/// A stack of bodies, the one touched last on top.
#[derive(Debug)]
pub(crate) struct Stock {
    free: Vec<u32>,
    /// Bodies that this end started with and has not taken memory for.
    fresh: Range<u32>,
    /// By body: whether it is in `free` or reserved.
    mine: Box<[bool]>,
    /// How many are `mine`.
    owned: usize,
    /// Bodies sent that are not known to be released.
    under_way: usize,
    limit: usize,
}

impl Stock {
    /// The stock of the end that sends into region `side` (0 or 1).
    pub(crate) fn new(layout: &Layout, side: u32) -> Stock {
        let first = side * layout.home;
        let free = Vec::with_capacity(layout.bodies() as usize);
        let fresh = first..first + layout.home;
        let mine = (0..layout.bodies()).map(|body| fresh.contains(&body)).collect();
        Stock { free, owned: fresh.len(), fresh, mine, under_way: 0, limit: layout.limit() }
    }

    /// Takes the top body of those that have memory, to be filled and sent.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Takes a body that has no memory yet.
    pub(crate) fn take_fresh(&mut self) -> Option<u32> {
        self.fresh.next()
    }

    /// Puts back a body that was taken and not sent.
    #[inline]
    pub(crate) fn put_back(&mut self, body: u32) {
        self.free.push(body);
    }

    /// A body that was taken has been sent.
    #[inline]
    pub(crate) fn sent(&mut self, body: u32) {
        self.mine[body as usize] = false;
        self.owned -= 1;
        self.under_way += 1;
    }

    /// A body that was received goes straight out again.
    #[inline]
    pub(crate) fn passed_on(&mut self) {
        self.under_way += 1;
    }

    /// A body that was sent has been released by the other end.
    #[inline]
    pub(crate) fn arrived(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Whether one more body may be kept.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.owned + self.under_way < self.limit
    }

    /// Checks that a body that the other end passed on can be its own to pass on.
    #[inline]
    pub(crate) fn check(&self, body: u32) -> Result<(), Impossible> {
        match self.mine.get(body as usize) {
            Some(false) => Ok(()),
            _ => Err(Impossible::Body { body, bodies: self.mine.len() as u32 }),
        }
    }

    /// Keeps a body that the other end passed on, as `check` allowed.
    #[inline]
    pub(crate) fn keep(&mut self, body: u32) {
        debug_assert!(!self.mine[body as usize]);
        self.mine[body as usize] = true;
        self.owned += 1;
        self.free.push(body);
    }

    /// A body that was taken is returned in place of one that is passed on.
    pub(crate) fn give_up(&mut self, body: u32) {
        self.mine[body as usize] = false;
        self.owned -= 1;
    }

    /// Whether there is a body to take, with memory or without.
    pub(crate) fn has_any(&self) -> bool {
        !self.free.is_empty() || !self.fresh.is_empty()
    }

    /// Whether there is nothing to take that has memory.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.free.is_empty()
    }
}
