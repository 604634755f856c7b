//! Spells scheduled blocks as XML.

use std::fmt::Write;

use quick_xml::escape::escape;

use super::lower::Lowered;
use super::schedule::{Gpu, Placed};
use crate::buffers::BlockCounts;
use crate::import::msccl::words::{Buffer, Written};
use crate::plan::{Plan, Span};
use crate::shape::BufferKind;

/// The whole file.
pub(super) fn write(plans: &[Plan], written: &Written, lowered: &[Lowered<'_>], gpus: &[Gpu]) -> String {
    let mut text = String::new();
    algo(&mut text, &plans[0], written, gpus).expect("writing into a string cannot fail");
    for (rank, blocks) in gpus.iter().enumerate() {
        gpu(&mut text, &plans[rank], &lowered[rank], blocks).expect("writing into a string cannot fail");
    }
    text.push_str("</algo>\n");
    text
}

fn algo(text: &mut String, plan: &Plan, written: &Written, gpus: &[Gpu]) -> std::fmt::Result {
    let channels = gpus.iter().flatten().map(|(block, _)| block.channel() + 1).max().unwrap_or(1);
    let chunks = written.chunks_per_loop(u64::from(plan.parts), plan.world as u64);
    let [apart, in_place] = [false, true].map(|in_place| u8::from(plan.overlay.allows(in_place)));
    let per = written.full_per_counted(plan.world as u64);
    // No buffer is longer than 2^63 bytes. 0 stands for no limit, so that a plan for empty buffers only is written for one byte.
    let min = plan.bytes.min.div_ceil(per).min(i64::MAX as u64);
    let max = plan.bytes.max.map(|max| max / per).filter(|max| *max <= i64::MAX as u64);
    let max = max.map_or(0, |max| max.max(1));
    writeln!(
        text,
        "<algo name=\"{}\" proto=\"Simple\" nchannels=\"{channels}\" nchunksperloop=\"{chunks}\" ngpus=\"{}\" coll=\"{}\" \
         inplace=\"{in_place}\" outofplace=\"{apart}\" minBytes=\"{min}\" maxBytes=\"{max}\">",
        escape(&plan.algorithm),
        plan.world,
        written.name
    )
}

fn gpu(text: &mut String, plan: &Plan, lowered: &Lowered<'_>, blocks: &Gpu) -> std::fmt::Result {
    let buffers = BlockCounts::of(plan.collective, plan.world, plan.rank, plan.root);
    let [inputs, outputs] = [buffers.input, buffers.output].map(|blocks| blocks.unwrap_or(0) * plan.parts);
    let (rank, scratch) = (plan.rank, lowered.scratch.len());
    writeln!(
        text,
        "  <gpu id=\"{rank}\" i_chunks=\"{inputs}\" o_chunks=\"{outputs}\" s_chunks=\"{scratch}\">"
    )?;
    for (number, (block, steps)) in blocks.iter().enumerate() {
        let peer = |end: Option<crate::plan::Channel>| end.map_or(-1, |channel| channel.peer as i64);
        let (send, recv, channel) = (peer(block.send), peer(block.recv), block.channel());
        writeln!(text, "    <tb id=\"{number}\" send=\"{send}\" recv=\"{recv}\" chan=\"{channel}\">")?;
        for (number, placed) in steps.iter().enumerate() {
            step(text, number, placed)?;
        }
        writeln!(text, "    </tb>")?;
    }
    writeln!(text, "  </gpu>")
}

fn step(text: &mut String, number: usize, placed: &Placed) -> std::fmt::Result {
    let kind = placed.step.as_ref().map_or("nop", |step| step.kind().name);
    let (src, dst) = placed.step.map_or((None, None), |step| (step.src.or(step.dst), step.dst.or(step.src)));
    let count = placed.step.map_or(0, |step| step.count());
    let ((srcbuf, srcoff), (dstbuf, dstoff)) = (operand(src), operand(dst));
    let (depid, deps) = placed.dep.map_or((-1, -1), |(block, step)| (block as i64, step as i64));
    let hasdep = u8::from(placed.flags);
    writeln!(
        text,
        "      <step s=\"{number}\" type=\"{kind}\" srcbuf=\"{srcbuf}\" srcoff=\"{srcoff}\" dstbuf=\"{dstbuf}\" dstoff=\"{dstoff}\" \
         cnt=\"{count}\" depid=\"{depid}\" deps=\"{deps}\" hasdep=\"{hasdep}\"/>"
    )
}

fn operand(span: Option<Span>) -> (&'static str, i64) {
    let Some(span) = span else { return (Buffer::Input.name(), -1) };
    let buffer = match span.buffer {
        BufferKind::Input => Buffer::Input,
        BufferKind::Output => Buffer::Output,
        BufferKind::Scratch => Buffer::Scratch,
    };
    (buffer.name(), i64::from(span.first))
}
