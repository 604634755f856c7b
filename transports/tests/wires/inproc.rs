//! In-process wires keep the contract.

use hcomm_transports::{WireConfig, inproc};

use crate::conformance::conformance;
use crate::pair::Pair;

fn pair(config: WireConfig, first: u32) -> Pair {
    let mut ranks = inproc::mesh_from(2, config, first).unwrap();
    let (mut high, mut low) = (ranks.pop().unwrap(), ranks.pop().unwrap());
    let (a, b) = (low.wires[1].take().unwrap(), high.wires[0].take().unwrap());
    Pair { a, b, bells: Some([low.doorbell, high.doorbell]), tick: Box::new(|| ()), heaps: None }
}

conformance!(pair);
