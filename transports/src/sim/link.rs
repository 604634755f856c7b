//! [`Link`]: one direction between two ranks: what is under way on each port, and what has arrived.

use std::collections::VecDeque;
use std::time::Duration;

use hcomm_ops::{RawSpan, StableBuffer};

use super::SimLink;
use crate::wire::REVOKED_BYTES;
use crate::{Arrival, Key, Ticket, Word};

/// One direction between two ranks.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) settings: SimLink,
    /// Added by a slow rank.
    pub(super) extra: Duration,
    /// When the last message will have left the sender.
    pub(super) busy_until: Duration,
    pub(super) is_cut: bool,
    /// The receiver has been told that the sender is dead.
    pub(super) is_lost: bool,
    pub(super) ports: Vec<Port>,
}

/// The messages of one port.
#[derive(Debug)]
pub(super) struct Port {
    /// Messages sent, wrapping.
    sent: u32,
    /// Messages whose release the sender knows of, wrapping.
    credited: u32,
    /// Sent and not released, the oldest first.
    queue: VecDeque<Message>,
    /// How many of them have arrived.
    arrived: usize,
    /// No message and no credit arrives before its forerunner.
    pub(super) last_arrival: Duration,
    pub(super) last_credit: Duration,
    /// Where the next message is being built.
    reserved: Option<Vec<u8>>,
    /// Where the next message to arrive is to be put.
    posted: Option<(Key, RawSpan)>,
}

#[derive(Debug)]
struct Message {
    word: Word,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Copied(Vec<u8>),
    Lent { span: RawSpan, is_read: bool },
    Landed(usize),
    Revoked,
}

impl Link {
    pub(super) fn new(ports: u16, settings: SimLink, first: u32) -> Link {
        Link {
            settings,
            extra: Duration::ZERO,
            busy_until: Duration::ZERO,
            is_cut: false,
            is_lost: false,
            ports: (0..ports).map(|_| Port::new(first)).collect(),
        }
    }
}

impl Port {
    fn new(first: u32) -> Port {
        Port {
            sent: first,
            credited: first,
            queue: VecDeque::new(),
            arrived: 0,
            last_arrival: Duration::ZERO,
            last_credit: Duration::ZERO,
            reserved: None,
            posted: None,
        }
    }

    pub(super) fn is_full(&self, depth: u32) -> bool {
        self.sent.wrapping_sub(self.credited) >= depth
    }

    /// The buffer in which the next message is built; it stays until it is taken.
    pub(super) fn reserve(&mut self, bytes: usize) -> RawSpan {
        let buffer = self.reserved.get_or_insert_default();
        if buffer.len() < bytes {
            buffer.resize(bytes, 0xAA);
        }
        buffer.span()
    }

    pub(super) fn send_reserved(&mut self, word: Word, bytes: usize) {
        let mut buffer = self.reserved.take().unwrap_or_default();
        assert!(bytes <= buffer.len(), "commit of {bytes} bytes comes after a reserve of as many");
        buffer.truncate(bytes);
        self.send(word, Body::Copied(buffer));
    }

    pub(super) fn send_copy(&mut self, word: Word, pieces: &[RawSpan]) {
        let bytes = pieces.iter().flat_map(|piece| piece.to_vec()).collect();
        self.send(word, Body::Copied(bytes));
    }

    pub(super) fn lend(&mut self, port: u16, word: Word, span: RawSpan) -> Ticket {
        self.send(word, Body::Lent { span, is_read: false });
        Ticket { port, sent: self.sent }
    }

    fn send(&mut self, word: Word, body: Body) {
        self.reserved = None;
        self.sent = self.sent.wrapping_add(1);
        self.queue.push_back(Message { word, body });
    }

    /// The oldest message that has not arrived does.
    pub(super) fn handle_arrival(&mut self) {
        let Some(message) = self.queue.get_mut(self.arrived) else { return };
        self.arrived += 1;
        if let Some((key, span)) = self.posted.take() {
            message.land(key, span);
        }
    }

    pub(super) fn handle_credit(&mut self) {
        self.credited = self.credited.wrapping_add(1);
    }

    pub(super) fn post(&mut self, key: Key, span: RawSpan) -> bool {
        let is_free = self.arrived == 0 && self.posted.is_none();
        if is_free {
            self.posted = Some((key, span));
        }
        is_free
    }

    pub(super) fn poll(&mut self, key: Key, bytes: usize) -> Arrival {
        match self.queue.front_mut() {
            Some(message) if self.arrived > 0 => message.show(key.word, bytes),
            _ => Arrival::NotYet,
        }
    }

    /// Drops the oldest message; false where none has arrived.
    pub(super) fn release(&mut self) -> bool {
        if self.arrived == 0 {
            return false;
        }
        self.arrived -= 1;
        self.queue.pop_front();
        true
    }

    pub(super) fn is_done(&self, ticket: Ticket) -> bool {
        self.credited.wrapping_sub(ticket.sent) <= u32::MAX / 2
    }

    /// Whether all has arrived and nothing is lent.
    pub(super) fn is_flushed(&self) -> bool {
        self.arrived == self.queue.len() && !self.queue.iter().any(Message::is_lent)
    }

    /// Takes back what is lent: copied where `copies`, and gone otherwise. Returns whether nobody is reading any of it.
    pub(super) fn call_back(&mut self, which: impl Fn(u32) -> bool, copies: bool) -> bool {
        let mut back = true;
        for message in self.queue.iter_mut().filter(|message| which(message.word.operation)) {
            back &= message.call_back(copies);
        }
        back
    }

    /// Stops reading and filling the operations' memory.
    pub(super) fn give_up(&mut self, which: impl Fn(u32) -> bool) {
        if self.posted.is_some_and(|(key, _)| which(key.word.operation)) {
            self.posted = None;
        }
        if let Some(message) = self.queue.front_mut()
            && which(message.word.operation)
            && let Body::Lent { is_read: true, .. } = message.body
        {
            message.body = Body::Revoked;
        }
    }

    /// Forgets what has not arrived.
    pub(super) fn lose_rest(&mut self) {
        self.queue.truncate(self.arrived);
    }
}

impl Message {
    fn bytes(&self) -> u64 {
        match &self.body {
            Body::Copied(bytes) => bytes.len() as u64,
            Body::Lent { span, .. } => span.len() as u64,
            Body::Landed(bytes) => *bytes as u64,
            Body::Revoked => REVOKED_BYTES,
        }
    }

    fn show(&mut self, word: Word, expected: usize) -> Arrival {
        let bytes = self.bytes();
        if (self.word, bytes) != (word, expected as u64) {
            return Arrival::Differs { word: self.word, bytes };
        }
        match &mut self.body {
            Body::Copied(bytes) => Arrival::Here(bytes.span()),
            Body::Lent { span, is_read } => {
                *is_read = true;
                Arrival::Here(*span)
            }
            Body::Landed(_) | Body::Revoked => Arrival::Landed,
        }
    }

    fn land(&mut self, key: Key, span: RawSpan) {
        if self.word != key.word || self.bytes() != span.len() as u64 {
            return;
        }
        match &mut self.body {
            Body::Copied(bytes) => span.copy_from(bytes.span()),
            Body::Lent { span: source, .. } => span.copy_from(*source),
            Body::Landed(_) | Body::Revoked => return,
        }
        self.body = Body::Landed(span.len());
    }

    fn is_lent(&self) -> bool {
        matches!(self.body, Body::Lent { .. })
    }

    fn call_back(&mut self, copies: bool) -> bool {
        if let Body::Lent { span, is_read } = self.body {
            if is_read {
                return false;
            }
            self.body = if copies { Body::Copied(span.to_vec()) } else { Body::Revoked };
        }
        true
    }
}
