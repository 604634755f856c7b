//! The gradient buckets: this is where the training loop meets hcomm.
//!
//! Each block of the model has one bucket. Its gradients leave as soon as backward has made them, and are waited
//! for only when the next forward pass comes to that block. What is done with the sum is in `trainer.rs`.

use hcomm::{Communicator, InPlace, ReduceOp, Work};

use crate::Outcome;

/// How a step communicates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Every bucket leaves while the blocks before it are still in backward.
    Overlap,
    /// All buckets leave after backward, and are waited for at once.
    NoOverlap,
    /// No bucket leaves: each rank trains alone. Only good for measuring what compute costs by itself.
    NoComm,
}

impl Mode {
    /// For tables and timelines.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Overlap => "overlap",
            Mode::NoOverlap => "no overlap",
            Mode::NoComm => "no communication",
        }
    }
}

/// The buckets of one model.
pub struct Buckets<'c> {
    comm: &'c Communicator,
    slots: Vec<Slot>,
}

/// Where one bucket is.
enum Slot {
    /// Its gradients have been used, or not been made yet.
    Empty,
    /// Waiting for the end of backward, or to be used.
    Here(Vec<f32>),
    /// In the library's hands.
    Flying(Work<InPlace<Vec<f32>>>),
}

impl<'c> Buckets<'c> {
    /// As many empty buckets as the model has blocks.
    pub fn new(comm: &'c Communicator, blocks: usize) -> Buckets<'c> {
        Buckets { comm, slots: (0..blocks).map(|_| Slot::Empty).collect() }
    }

    /// Takes one block's gradients from backward.
    pub fn submit(&mut self, block: usize, gradients: Vec<f32>, mode: Mode) -> Outcome<()> {
        self.slots[block] = match mode {
            Mode::Overlap => Slot::Flying(self.send(block, gradients)),
            Mode::NoOverlap | Mode::NoComm => Slot::Here(gradients),
        };
        Ok(())
    }

    /// Called when backward is over: without overlap, everything is communicated now.
    pub fn finish_backward(&mut self, mode: Mode) -> Outcome<()> {
        if mode == Mode::NoOverlap {
            let all: Vec<_> = (0..self.slots.len()).rev().map(|block| (block, self.take(block))).collect();
            for (block, gradients) in all {
                self.slots[block] = Slot::Flying(self.send(block, gradients?.unwrap_or_default()));
            }
            for block in 0..self.slots.len() {
                self.slots[block] = self.take(block)?.map_or(Slot::Empty, Slot::Here);
            }
        }
        Ok(())
    }

    /// The sum of a block's gradients over all ranks, once; waits for it if it is still on its way.
    pub fn take(&mut self, block: usize) -> Outcome<Option<Vec<f32>>> {
        match std::mem::replace(&mut self.slots[block], Slot::Empty) {
            Slot::Empty => Ok(None),
            Slot::Here(gradients) => Ok(Some(gradients)),
            Slot::Flying(work) => Ok(Some(work.wait()?)),
        }
    }

    /// The block that forward needs first is the most urgent, though backward makes its gradients last.
    fn send(&self, block: usize, gradients: Vec<f32>) -> Work<InPlace<Vec<f32>>> {
        let urgency = (self.slots.len() - block) as i32;
        self.comm.all_reduce_async(gradients, ReduceOp::Sum).priority(urgency)
    }
}
