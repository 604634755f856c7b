//! Simulated wires keep the contract, whatever they lend and take; and the network does what it is told.

use std::time::Duration;

use hcomm_ops::StableBuffer;
use hcomm_transports::sim::{Lending, SimConfig, SimLink, SimNet};
use hcomm_transports::{AnyWire, Arrival, Sent, Wire, WireConfig};

use crate::pair::{CONFIG, Pair, key, message};

fn pair(wire: WireConfig, config: SimConfig) -> Pair {
    let (net, mut wires) = SimNet::new(2, wire, config, 11);
    let b = wires[1][0].take().unwrap();
    let a = wires[0][1].take().unwrap();
    let tick = move || {
        net.advance_to_next_event();
    };
    Pair { a, b, bells: None, tick: Box::new(tick), heaps: None }
}

macro_rules! network {
    ($name:ident: $lending:ident, $posts:literal) => {
        mod $name {
            use super::*;
            use crate::conformance::conformance;

            fn pair(wire: WireConfig, first: u32) -> Pair {
                let config =
                    SimConfig { lending: Lending::$lending, posts: $posts, first, ..SimConfig::default() };
                super::pair(wire, config)
            }

            conformance!(pair);
        }
    };
}

network!(copying: Never, false);
network!(lending: Always, false);
network!(posting: Sometimes, true);

fn send(wire: &mut AnyWire, port: u16, bytes: &[u8]) {
    assert_eq!(wire.send_from(key(port), &[bytes.to_vec().span()], false), Sent::Done);
}

/// In which order the messages of all ports arrive at rank 1.
fn arrivals(seed: u64) -> Vec<u16> {
    let (net, mut wires) = SimNet::new(2, CONFIG, SimConfig::default(), seed);
    for port in 0..CONFIG.ports {
        send(wires[0][1].as_mut().unwrap(), port, &[port as u8]);
    }
    let mut order = Vec::new();
    while net.advance_to_next_event() {
        for port in 0..CONFIG.ports {
            let wire = wires[1][0].as_mut().unwrap();
            if let Arrival::Here(_) = wire.poll(key(port), 1) {
                wire.release(port);
                order.push(port);
            }
        }
    }
    assert_eq!(order.len(), CONFIG.ports.into());
    order
}

#[test]
fn a_seed_repeats_and_seeds_reorder_ports() {
    let orders: Vec<_> = (0..50).map(arrivals).collect();
    assert_eq!(orders, (0..50).map(arrivals).collect::<Vec<_>>());
    assert!(orders.iter().any(|order| order != &orders[0]), "50 seeds, one order");
}

#[test]
fn delay_and_bandwidth_take_their_time() {
    let link =
        SimLink { delay: Duration::from_micros(7), jitter: Duration::ZERO, bytes_per_s: Some(1_000_000_000) };
    let (net, mut wires) = SimNet::new(2, CONFIG, SimConfig { link, ..SimConfig::default() }, 1);
    for port in 0..2 {
        send(wires[0][1].as_mut().unwrap(), port, &message(1, 4000));
    }
    assert!(net.advance_to_next_event());
    assert_eq!(net.now(), Duration::from_micros(11));
    assert!(net.advance_to_next_event());
    assert_eq!(net.now(), Duration::from_micros(15));
    assert!(!net.advance_to_next_event());
    net.slow(0, Duration::from_millis(1));
    send(wires[0][1].as_mut().unwrap(), 0, &[]);
    assert_eq!(net.next_event(), Some(Duration::from_micros(1022)));
    net.advance_by(Duration::from_secs(1));
    assert_eq!(net.now(), Duration::from_micros(1_000_015));
}

#[test]
fn a_fast_message_does_not_push_a_slow_one_of_its_port() {
    let (net, mut wires) = SimNet::new(2, CONFIG, SimConfig::default(), 1);
    let link = |delay| SimLink { delay, jitter: Duration::ZERO, bytes_per_s: None };
    net.set_link(0, 1, link(Duration::from_millis(10)));
    send(wires[0][1].as_mut().unwrap(), 0, b"slow");
    net.set_link(0, 1, link(Duration::ZERO));
    send(wires[0][1].as_mut().unwrap(), 0, b"fast");
    assert!(net.advance_to_next_event());
    assert_eq!(net.now(), Duration::from_millis(10));
    assert!(matches!(wires[1][0].as_mut().unwrap().poll(key(0), 4), Arrival::Here(_)));
}

#[test]
fn a_partition_holds_messages_and_credit_until_it_heals() {
    let (net, mut wires) = SimNet::new(3, CONFIG, SimConfig::default(), 1);
    let [zero, one, _] = &mut wires[..] else { unreachable!() };
    let (there, back) = (zero[1].as_mut().unwrap(), one[0].as_mut().unwrap());
    net.partition(&[1]);
    for n in 0..CONFIG.depth {
        send(there, 0, &message(n, 20));
    }
    send(zero[2].as_mut().unwrap(), 0, b"others go on");
    while net.advance_to_next_event() {}
    assert_eq!(back.poll(key(0), 20), Arrival::NotYet);
    assert!(matches!(wires[2][0].as_mut().unwrap().poll(key(0), 12), Arrival::Here(_)));
    net.heal();
    while net.advance_to_next_event() {}
    let (there, back) = {
        let [zero, one, _] = &mut wires[..] else { unreachable!() };
        (zero[1].as_mut().unwrap(), one[0].as_mut().unwrap())
    };
    for n in 0..CONFIG.depth {
        let Arrival::Here(span) = back.poll(key(0), 20) else { panic!("message {n} did not arrive") };
        assert_eq!(span.to_vec(), message(n, 20));
        back.release(0);
    }
    net.partition(&[1]);
    while net.advance_to_next_event() {}
    assert_eq!(there.send_from(key(0), &[], false), Sent::Full);
    net.heal();
    while net.advance_to_next_event() {}
    assert_eq!(there.send_from(key(0), &[], false), Sent::Done);
}

#[test]
fn a_dead_rank_is_lost_after_the_detection_time() {
    let config = SimConfig { detection: Duration::from_millis(3), ..SimConfig::default() };
    let (net, mut wires) = SimNet::new(2, CONFIG, config, 1);
    send(wires[1][0].as_mut().unwrap(), 0, b"before");
    net.kill(1);
    send(wires[1][0].as_mut().unwrap(), 1, b"after");
    let zero = wires[0][1].as_mut().unwrap();
    net.advance_by(Duration::from_micros(2999));
    assert_eq!(zero.lost(), None);
    net.advance_by(Duration::from_micros(1));
    assert!(zero.lost().unwrap().cause.contains("rank 1"));
    assert!(matches!(zero.poll(key(0), 6), Arrival::Here(_)));
    assert_eq!(zero.poll(key(1), 5), Arrival::NotYet);
    assert!(!net.advance_to_next_event());
}
