//! Random programs of both ends against the model: a queue per port and direction.

use std::collections::VecDeque;
use std::sync::Arc;

use hcomm_transports::shm::Heap;
use hcomm_transports::{AnyWire, Arrival, Sent, Ticket, Wire, WireConfig};

use super::Connect;
use crate::pair::{Source, keyed, message};

const STEPS: usize = 3000;

/// Whatever both ends do, in whatever order, each port behaves like a queue.
pub fn like_queues(connect: Connect) {
    for seed in 1..=8 {
        let config = WireConfig { ports: 1 + seed as u16 % 4, depth: 2 + seed as u32 % 3, slot_bytes: 2048 };
        run(connect, config, 0, seed);
    }
}

/// The same with counters that wrap on the way.
pub fn like_queues_at_the_wrap(connect: Connect) {
    run(connect, WireConfig { ports: 2, depth: 3, slot_bytes: 2048 }, u32::MAX - 100, 77);
}

fn run(connect: Connect, config: WireConfig, first: u32, seed: u64) {
    let mut pair = connect(config, first);
    let mut random = Random(seed);
    let heaps = pair.heaps.clone().map_or([None, None], |heaps| heaps.map(Some));
    let mut models = [Model::new(config), Model::new(config)];
    for _ in 0..STEPS {
        let [there, back] = &mut models;
        match random.below(9) {
            0..3 => there.send(&mut pair.a, heaps[0].as_ref(), &mut random),
            3..6 => there.receive(&mut pair.b, &mut random),
            6 => back.send(&mut pair.b, heaps[1].as_ref(), &mut random),
            7 => back.receive(&mut pair.a, &mut random),
            _ => {
                pair.a.progress();
                pair.b.progress();
                (pair.tick)();
            }
        }
    }
    let [there, back] = &mut models;
    pair.until("the last messages", |a, b| (there.drain(b) & back.drain(a)).then_some(()));
    pair.until("the last tickets", |a, b| (there.is_quiet(a) & back.is_quiet(b)).then_some(()));
}

/// One direction.
struct Model {
    config: WireConfig,
    ports: Vec<Port>,
    count: u32,
}

#[derive(Default)]
struct Port {
    /// Sent and not received: operation and bytes.
    queue: VecDeque<(u32, Vec<u8>)>,
    /// Lent and not known to be done.
    lent: Vec<(Ticket, Source)>,
}

impl Model {
    fn new(config: WireConfig) -> Model {
        let ports = (0..config.ports).map(|_| Port::default()).collect();
        Model { config, ports, count: 0 }
    }

    fn send(&mut self, wire: &mut AnyWire, heap: Option<&Arc<Heap>>, random: &mut Random) {
        let port = random.below(self.config.ports.into()) as u16;
        let sizes = [0, 8, 1128, 1129, 300, 1025, 2048];
        let bytes = message(self.count, sizes[random.below(sizes.len())]);
        let mut source = Source::of(heap, &bytes);
        let key = keyed(port, self.count);
        let sent = wire.send_from(key, &[source.span()], random.below(2) == 0);
        let model = &mut self.ports[usize::from(port)];
        if sent != Sent::Full {
            assert!(model.queue.len() < self.config.depth as usize, "a port held more than its depth");
            model.queue.push_back((self.count, bytes));
            self.count += 1;
        }
        match sent {
            Sent::Lent(ticket) => model.lent.push((ticket, source)),
            _ => source.fill(0xEE),
        }
        model.lent.retain_mut(|(ticket, source)| {
            let done = wire.is_done(*ticket);
            if done {
                source.fill(0xEE);
            }
            !done
        });
    }

    fn receive(&mut self, wire: &mut AnyWire, random: &mut Random) {
        self.receive_on(wire, random.below(self.config.ports.into()) as u16);
    }

    fn receive_on(&mut self, wire: &mut AnyWire, port: u16) {
        let queue = &mut self.ports[usize::from(port)].queue;
        let Some((operation, bytes)) = queue.front() else {
            assert_eq!(wire.poll(keyed(port, self.count), 8), Arrival::NotYet);
            return;
        };
        let may_have = wire.may_have(port);
        match wire.poll(keyed(port, *operation), bytes.len()) {
            Arrival::NotYet => {}
            Arrival::Here(span) => {
                assert!(
                    may_have,
                    "port {port} was said to have nothing before operation {operation} was found"
                );
                assert_eq!(&span.to_vec(), bytes, "operation {operation} on port {port}");
                wire.release(port);
                queue.pop_front();
            }
            other => panic!("unexpected {other:?}"),
        }
    }

    fn drain(&mut self, wire: &mut AnyWire) -> bool {
        (0..self.config.ports).for_each(|port| self.receive_on(wire, port));
        self.ports.iter().all(|port| port.queue.is_empty())
    }

    fn is_quiet(&mut self, wire: &mut AnyWire) -> bool {
        self.ports.iter().flat_map(|port| &port.lent).all(|(ticket, _)| wire.is_done(*ticket))
    }
}

/// A small generator; the seeds are fixed, so a failure repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }
}
