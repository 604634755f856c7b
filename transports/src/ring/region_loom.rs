//! [`Region`] for loom: the same words as loom's atomics, which cannot lie in raw memory. The tests guard payloads with cells of
//! their own, so spans are not needed here.

use std::sync::Arc;

use hcomm_ops::RawSpan;

use super::{Layout, NoRoom};
use crate::sync::{AtomicU32, AtomicU64};

/// One direction's words.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    layout: Layout,
    words: Arc<Words>,
}

#[derive(Debug)]
struct Words {
    headers: Vec<[AtomicU64; 4]>,
    credits: Vec<AtomicU32>,
    cursors: Vec<AtomicU32>,
    opened: Vec<AtomicU32>,
    returned: AtomicU32,
    entries: Vec<AtomicU32>,
}

impl Region {
    pub(crate) fn new(layout: Layout) -> Region {
        let header = || [const { 0 }; 4].map(AtomicU64::new);
        let words = Words {
            headers: (0..=layout.slots()).map(|_| header()).collect(),
            credits: (0..=layout.slots()).map(|_| AtomicU32::new(0)).collect(),
            cursors: (0..layout.config.ports).map(|_| AtomicU32::new(0)).collect(),
            opened: (0..layout.config.ports).map(|_| AtomicU32::new(0)).collect(),
            returned: AtomicU32::new(0),
            entries: (0..layout.bodies()).map(|_| AtomicU32::new(0)).collect(),
        };
        Region { layout, words: Arc::new(words) }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn take_headers(&self, _port: u16) -> Result<(), NoRoom> {
        Ok(())
    }

    pub(crate) fn take_body(&self, _index: u32) -> Result<(), NoRoom> {
        Ok(())
    }

    pub(crate) fn header(&self, slot: usize) -> Header<'_> {
        Header { words: &self.words.headers[slot], credit: &self.words.credits[slot] }
    }

    pub(crate) fn cursor(&self, port: usize) -> &AtomicU32 {
        &self.words.cursors[port]
    }

    pub(crate) fn opened(&self, port: usize) -> &AtomicU32 {
        &self.words.opened[port]
    }

    pub(crate) fn returned(&self) -> &AtomicU32 {
        &self.words.returned
    }

    pub(crate) fn return_entry(&self, index: u32) -> &AtomicU32 {
        &self.words.entries[index as usize]
    }
}

/// The words in which a message is announced.
#[derive(Clone, Copy)]
pub(crate) struct Header<'a> {
    words: &'a [AtomicU64; 4],
    credit: &'a AtomicU32,
}

impl<'a> Header<'a> {
    pub(crate) fn flag(self) -> &'a AtomicU64 {
        &self.words[0]
    }

    pub(crate) fn length(self) -> &'a AtomicU64 {
        &self.words[1]
    }

    pub(crate) fn credit(self) -> &'a AtomicU32 {
        self.credit
    }

    pub(crate) fn inline(self) -> RawSpan {
        RawSpan::empty()
    }

    pub(crate) fn lent_state(self) -> &'a AtomicU64 {
        &self.words[2]
    }

    pub(crate) fn lent_at(self) -> &'a AtomicU64 {
        &self.words[3]
    }
}
