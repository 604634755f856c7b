//! The rules of issue that random programs would seldom break: what a node that skips a tile holds back.

use std::sync::Arc;
use std::time::Duration;

use hcomm_ops::{DType, ReduceOp, StableBuffer};
use hcomm_planner::plan::Proved;
use hcomm_planner::request::Counts;
use hcomm_planner::{
    BufferKind, ByteRange, Channel, Collective, Direction, Lane, LaneKind, Node, Overlay, Plan, Request,
    Sink, Source, Span,
};
use hcomm_transports::sim::{SimConfig, SimLink, SimNet};
use hcomm_transports::{Key, Sent, Wire, WireConfig};

use super::{Execution, Progress};
use crate::bindings::{Apart, Binding, Buffers};
use crate::call::Call;

const LONG: u64 = 30;
const SHORT: u64 = 3;
/// Elements of a tile.
const TILE: usize = 16;

fn span(buffer: BufferKind, first: u32) -> Span {
    Span { buffer, first, count: 1 }
}

fn from(span: Span) -> Source {
    Source::Span { span, first: false }
}

/// Rank 0 of 3: rank 2's long block arrives (node 0); a short copy waits for that (node 1); a long copy of what arrived waits
/// for the short one only (node 2), because that implies the rest.
fn plan() -> Plan {
    let output = |block| span(BufferKind::Output, block);
    let scratch = span(BufferKind::Scratch, 0);
    let node = |i: u32, deps: std::ops::Range<u32>, extent| Node {
        sources: i..i + 1,
        sinks: i..i + 1,
        deps,
        extent,
        finish: false,
        lane: i,
    };
    let lane = |index| Lane { kind: LaneKind::Worker { index }, nodes: index..index + 1 };
    Plan {
        collective: Collective::AllGather,
        algorithm: "by hand".to_owned(),
        world: 3,
        rank: 0,
        root: 0,
        id: 1,
        sum: 0,
        proved: Proved::default(),
        parts: 1,
        scratch: vec![output(1)],
        span_chunks: 1,
        buffered: false,
        even: false,
        overlay: Overlay::Either,
        bytes: ByteRange::ANY,
        channels_per_pair: 1,
        channels: vec![Channel { peer: 2, direction: Direction::In, index: 0 }],
        lanes: (0..3).map(lane).collect(),
        nodes: vec![node(0, 0..0, output(2)), node(1, 0..1, output(1)), node(2, 1..2, output(2))],
        sources: vec![Source::Message { channel: 0, first: false }, from(output(1)), from(output(2))],
        sinks: vec![Sink::Span(output(2)), Sink::Span(scratch), Sink::Span(output(0))],
        deps: vec![0, 1],
    }
}

#[test]
fn a_node_that_skips_a_tile_holds_back_who_waits_for_it() {
    let counts = Counts::Listed([LONG, SHORT, LONG].into());
    let request = Request { counts, ..Request::new(Collective::AllGather, DType::I64, ReduceOp::Sum, 0) };
    let call = Arc::new(Call::bind(request, Arc::new(plan()), TILE * 8).expect("a plan that makes sense"));
    assert_eq!(call.nodes.iter().map(|node| node.trips).collect::<Vec<_>>(), [2, 1, 2]);
    let mut buffers = Apart(vec![5_i64; LONG as usize], vec![-1_i64; (2 * LONG + SHORT) as usize]);
    let binding = Binding { collective: Collective::AllGather, rank: 0, world: 3, root: 0 };
    let mut execution = Execution::new(call, 0);
    execution.bind(&buffers.spans(binding).expect("apart"));

    let link = SimLink { delay: Duration::ZERO, jitter: Duration::ZERO, bytes_per_s: None };
    let wire = WireConfig { ports: 1, depth: 2, slot_bytes: TILE * 8 };
    let (net, mut wires) = SimNet::new(3, wire, SimConfig { link, ..SimConfig::default() }, 1);
    let mut peer = wires[2][0].take().expect("a wire to rank 0");
    let mut block: Vec<i64> = (100..100 + LONG as i64).collect();
    let mut send = |execution: &Execution, tile: std::ops::Range<usize>| {
        let piece = block.span().slice(tile.start * 8, tile.len() * 8);
        let sent = peer.send_from(Key { port: 0, word: execution.word() }, &[piece], false);
        assert_eq!(sent, Sent::Done);
        while net.advance_to_next_event() {}
    };

    assert_eq!(execution.advance(&mut wires[0], &mut ()), Progress::Blocked);
    send(&execution, 0..TILE);
    assert_eq!(execution.advance(&mut wires[0], &mut ()), Progress::Moved);
    assert_eq!(execution.position(), "3 of 5 steps done", "the copy must not run ahead of what it copies");
    send(&execution, TILE..LONG as usize);
    assert_eq!(execution.advance(&mut wires[0], &mut ()), Progress::Finished);
    let Apart(_, output) = buffers;
    assert_eq!(output[..LONG as usize], block);
    assert_eq!(output[(LONG + SHORT) as usize..], block);
}
