//! [`Net`]: the links, the clock and the events that are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use hcomm_ops::{Rank, RawSpan};

use super::link::{Link, Port};
use super::random::Random;
use super::{Lending, SimConfig, SimLink};
use crate::{Arrival, Key, Room, Sent, Ticket, WireConfig};

/// The state of a network.
#[derive(Debug)]
pub(super) struct Net {
    world: usize,
    wire: WireConfig,
    config: SimConfig,
    now: Duration,
    random: Random,
    /// From rank `a` to rank `b` at `a * world + b`.
    links: Vec<Link>,
    is_dead: Vec<bool>,
    due: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    /// What is held up by a partition.
    held: Vec<Event>,
    /// Events made so far; orders those that are due at one time.
    made: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The next message of a port arrives.
    Arrival { from: Rank, to: Rank, port: u16 },
    /// The sender learns of the next release.
    Credit { from: Rank, to: Rank, port: u16 },
    /// A rank's death becomes known.
    Detection { rank: Rank },
}

impl Net {
    pub(super) fn new(world: usize, wire: WireConfig, config: SimConfig, seed: u64) -> Net {
        Net {
            world,
            wire,
            config,
            now: Duration::ZERO,
            random: Random::new(seed),
            links: (0..world * world).map(|_| Link::new(wire.ports, config.link, config.first)).collect(),
            is_dead: vec![false; world],
            due: BinaryHeap::new(),
            held: Vec::new(),
            made: 0,
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.now
    }

    pub(super) fn set_clock(&mut self, now: Duration) {
        self.now = now;
    }

    pub(super) fn next_event(&self) -> Option<Duration> {
        self.due.peek().map(|Reverse((time, ..))| *time)
    }

    /// Lets the next event happen.
    pub(super) fn step(&mut self) -> bool {
        let Some(Reverse((time, _, event))) = self.due.pop() else { return false };
        self.now = self.now.max(time);
        match event {
            Event::Arrival { from, to, .. } if self.link(from, to).is_cut => self.held.push(event),
            Event::Credit { from, to, .. } if self.link(to, from).is_cut => self.held.push(event),
            Event::Arrival { from, to, port } => self.handle_arrival(from, to, port),
            Event::Credit { from, to, port } => self.port(from, to, port).handle_credit(),
            Event::Detection { rank } => self.handle_detection(rank),
        }
        true
    }

    pub(super) fn reserve(&mut self, from: Rank, to: Rank, port: u16, bytes: usize) -> Room {
        let depth = self.wire.depth;
        let port = self.port(from, to, port);
        if port.is_full(depth) { Room::Full } else { Room::Slot(port.reserve(bytes)) }
    }

    pub(super) fn commit(&mut self, from: Rank, to: Rank, key: Key, bytes: usize) {
        self.port(from, to, key.port).send_reserved(key.word, bytes);
        self.dispatch(from, to, key.port, bytes);
    }

    pub(super) fn send_from(
        &mut self,
        from: Rank,
        to: Rank,
        key: Key,
        pieces: &[RawSpan],
        may_lend: bool,
    ) -> Sent {
        let depth = self.wire.depth;
        let lends = may_lend && self.lends();
        let port = self.port(from, to, key.port);
        if port.is_full(depth) {
            return Sent::Full;
        }
        let sent = match pieces {
            &[span] if lends => Sent::Lent(port.lend(key.port, key.word, span)),
            _ => {
                port.send_copy(key.word, pieces);
                Sent::Done
            }
        };
        self.dispatch(from, to, key.port, pieces.iter().map(|piece| piece.len()).sum());
        sent
    }

    pub(super) fn is_done(&mut self, from: Rank, to: Rank, ticket: Ticket) -> bool {
        self.port(from, to, ticket.port).is_done(ticket)
    }

    pub(super) fn post(&mut self, from: Rank, to: Rank, key: Key, span: RawSpan) -> bool {
        self.config.posts && self.port(from, to, key.port).post(key, span)
    }

    pub(super) fn poll(&mut self, from: Rank, to: Rank, key: Key, bytes: usize) -> Arrival {
        self.port(from, to, key.port).poll(key, bytes)
    }

    pub(super) fn release(&mut self, from: Rank, to: Rank, port: u16) {
        if !self.port(from, to, port).release() || self.is_dead[to] {
            return;
        }
        let travel = self.travel(to, from);
        let due = self.port(from, to, port).last_credit.max(self.now + travel);
        self.port(from, to, port).last_credit = due;
        self.schedule(due, Event::Credit { from, to, port });
    }

    pub(super) fn is_lost(&self, from: Rank, to: Rank) -> bool {
        self.links[from * self.world + to].is_lost
    }

    pub(super) fn is_flushed(&mut self, from: Rank, to: Rank) -> bool {
        self.link(from, to).ports.iter().all(Port::is_flushed)
    }

    /// Ends the use of the memory of rank `own`'s operations on its wire to `peer`.
    pub(super) fn revoke(&mut self, own: Rank, peer: Rank, which: impl Fn(u32) -> bool + Copy) -> bool {
        let copies = self.random.coin();
        for port in &mut self.link(peer, own).ports {
            port.give_up(which);
        }
        let mut back = true;
        for port in &mut self.link(own, peer).ports {
            back &= port.call_back(which, copies);
        }
        back
    }

    pub(super) fn set_link(&mut self, from: Rank, to: Rank, settings: SimLink) {
        self.link(from, to).settings = settings;
    }

    pub(super) fn slow(&mut self, rank: Rank, extra: Duration) {
        for to in 0..self.world {
            self.link(rank, to).extra = extra;
        }
    }

    pub(super) fn partition(&mut self, these: &[Rank]) {
        for from in 0..self.world {
            for to in 0..self.world {
                self.link(from, to).is_cut |= these.contains(&from) != these.contains(&to);
            }
        }
    }

    pub(super) fn heal(&mut self) {
        self.links.iter_mut().for_each(|link| link.is_cut = false);
        for event in std::mem::take(&mut self.held) {
            self.reschedule(event);
        }
    }

    pub(super) fn kill(&mut self, rank: Rank) {
        self.is_dead[rank] = true;
        let due = self.now + self.config.detection;
        self.schedule(due, Event::Detection { rank });
    }

    /// Sends a message on its way.
    fn dispatch(&mut self, from: Rank, to: Rank, port: u16, bytes: usize) {
        if self.is_dead[from] {
            return;
        }
        let now = self.now;
        let travel = self.travel(from, to);
        let link = self.link(from, to);
        let time = link.settings.bytes_per_s.map_or(Duration::ZERO, |rate| transmission(bytes, rate));
        link.busy_until = link.busy_until.max(now) + time;
        let due = (link.busy_until + travel).max(link.ports[usize::from(port)].last_arrival);
        link.ports[usize::from(port)].last_arrival = due;
        self.schedule(due, Event::Arrival { from, to, port });
    }

    fn reschedule(&mut self, event: Event) {
        let due = match event {
            Event::Arrival { from, to, port } => {
                let travel = self.travel(from, to);
                let due = self.port(from, to, port).last_arrival.max(self.now + travel);
                self.port(from, to, port).last_arrival = due;
                due
            }
            Event::Credit { from, to, .. } => self.now + self.travel(to, from),
            Event::Detection { .. } => self.now,
        };
        self.schedule(due, event);
    }

    fn schedule(&mut self, due: Duration, event: Event) {
        self.made += 1;
        self.due.push(Reverse((due, self.made, event)));
    }

    fn handle_arrival(&mut self, from: Rank, to: Rank, port: u16) {
        if !self.link(from, to).is_lost {
            self.port(from, to, port).handle_arrival();
        }
    }

    fn handle_detection(&mut self, rank: Rank) {
        for peer in 0..self.world {
            let link = self.link(rank, peer);
            link.is_lost = true;
            link.ports.iter_mut().for_each(Port::lose_rest);
            self.link(peer, rank).ports.iter_mut().for_each(|port| port.give_up(|_| true));
        }
    }

    fn lends(&mut self) -> bool {
        match self.config.lending {
            Lending::Never => false,
            Lending::Always => true,
            Lending::Sometimes => self.random.coin(),
        }
    }

    /// How long something takes on its way.
    fn travel(&mut self, from: Rank, to: Rank) -> Duration {
        let link = self.link(from, to);
        let (least, jitter) = (link.settings.delay + link.extra, link.settings.jitter);
        least + self.random.up_to(jitter)
    }

    fn link(&mut self, from: Rank, to: Rank) -> &mut Link {
        &mut self.links[from * self.world + to]
    }

    fn port(&mut self, from: Rank, to: Rank, port: u16) -> &mut Port {
        &mut self.link(from, to).ports[usize::from(port)]
    }
}

fn transmission(bytes: usize, bytes_per_s: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / bytes_per_s.max(1) as f64)
}
