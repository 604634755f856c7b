//! all_reduce as a reduce to rank 0 and a broadcast from there, by any algorithm for each; binomial trees by default.
//!
//! With binomial trees: 2 ceil(lg n) steps; rank 0 receives and sends S ceil(lg n), the others no more. The two are stages of
//! their own: while one tile goes down the tree, the next comes up. An element is rounded as often as the reduce does.

use hcomm_ops::Rank;

use super::step::{Step, common_block, layout_of};
use super::{Algorithm, Call, Layout, ONE_CHANNEL, Pair};
use crate::choose::Work;
use crate::graph::{Builder, Frame};
use crate::request::Collective;
use crate::shape::BufferKind;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "reduce_broadcast",
    doc: "Reduces to rank 0 by one algorithm and broadcasts from there by another.",
    collectives: &[Collective::AllReduce],
    channels: ONE_CHANNEL,
    pairs: &[Pair { first: "binomial", second: "binomial" }],
    rank_order,
    refuses: |call| steps(call).err(),
    layout,
    work,
    build,
};

/// The reduce and the broadcast.
fn steps<'a>(call: &Call<'a>) -> Result<[Step<'a>; 2], String> {
    let pair = call.pair.ok_or("is made of two other algorithms")?;
    let up = Step::new(pair.first, call.part(Collective::Reduce, 0, call.topology))?;
    let down = Step::new(pair.second, call.part(Collective::Broadcast, 0, call.topology))?;
    let parts = common_block(&[up, down]);
    let steps = [up.over(parts), down.over(parts).on_channel(up.next_channel())];
    steps.iter().try_for_each(Step::fits)?;
    Ok(steps)
}

fn supported<'a>(call: &Call<'a>) -> [Step<'a>; 2] {
    steps(call).expect("a call that is not refused")
}

fn rank_order(call: &Call<'_>) -> bool {
    steps(call).is_ok_and(|[up, _]| (up.algorithm.rank_order)(&up.call))
}

fn layout(call: &Call<'_>) -> Layout {
    let steps = supported(call);
    layout_of(steps[0].block, &steps)
}

fn work(call: &Call<'_>) -> Work {
    let [up, down] = supported(call);
    up.work().then_back(down.work())
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let [up, down] = supported(call);
    let frame = |step: &Step<'_>, from: BufferKind| {
        let ranks = (0..call.world).collect();
        Frame::of(ranks, step.chunks(from, [0]), step.chunks(BufferKind::Output, [0]))
    };
    up.build(rank, b, &frame(&up, BufferKind::Input));
    b.stage(1);
    down.build(rank, b, &frame(&down, BufferKind::Output));
}
