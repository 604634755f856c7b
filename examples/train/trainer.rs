//! One rank's training loop: forward, backward with its buckets, and an update that comes block by block, each
//! just before the next forward pass needs it.

use std::rc::Rc;

use hcomm::Communicator;

use crate::Outcome;
use crate::backward::Tape;
use crate::buckets::{Buckets, Mode};
use crate::data::Corpus;
use crate::model::{Model, Sizes};
use crate::optimizer::Adam;
use crate::trace::{Phase, Timeline, now_ns};

/// A model in training.
pub struct Trainer<'c> {
    comm: &'c Communicator,
    corpus: &'c Corpus,
    sizes: Sizes,
    seed: u64,
    model: Rc<Model>,
    adam: Adam,
    buckets: Buckets<'c>,
    steps: usize,
    /// How many micro-batches the buckets that are out are the sum of.
    summed: usize,
    losses: Vec<f32>,
    /// Where the time of this rank's main thread went.
    pub timeline: Timeline,
}

impl<'c> Trainer<'c> {
    /// A fresh model, the same on all ranks.
    pub fn new(comm: &'c Communicator, corpus: &'c Corpus, sizes: Sizes, seed: u64) -> Outcome<Trainer<'c>> {
        let model = Rc::new(Model::new(sizes, seed)?);
        let adam = Adam::new(&model)?;
        let buckets = Buckets::new(comm, model.blocks.len());
        let timeline = Timeline::new(comm.rank());
        Ok(Trainer {
            comm,
            corpus,
            sizes,
            seed,
            model,
            adam,
            buckets,
            steps: 0,
            summed: 1,
            losses: Vec::new(),
            timeline,
        })
    }

    /// One step on this rank's micro-batch. It leaves the buckets on their way: the next step, or `finish`,
    /// receives them.
    pub fn step(&mut self, mode: Mode) -> Outcome<()> {
        let begun_ns = now_ns();
        let Sizes { rows, context, .. } = self.sizes;
        let batch = self.corpus.batch(self.seed, self.steps, self.comm.rank(), rows, context)?;
        let model = Rc::clone(&self.model);
        let mut tape = Tape::new(&model, &batch);
        for (number, block) in model.blocks.iter().enumerate() {
            self.settle(number)?;
            self.timeline.timed(Phase::Forward, &block.name, || tape.forward())?;
        }
        let mut loss = Some(tape.loss()?);
        for (number, block) in model.blocks.iter().enumerate().rev() {
            let mut bucket = self.timeline.timed(Phase::Backward, &block.name, || tape.backward())?;
            bucket.extend(loss.take()); // the loss travels at the end of the head's bucket
            let buckets = &mut self.buckets;
            self.timeline.timed(Phase::Submit, &block.name, || buckets.submit(number, bucket, mode))?;
        }
        let buckets = &mut self.buckets;
        self.timeline.timed(Phase::Wait, "all buckets", || buckets.finish_backward(mode))?;
        self.timeline.add(Phase::Step, &format!("{} ({})", self.steps, mode.name()), begun_ns, now_ns());
        self.steps += 1;
        self.summed = if mode == Mode::NoComm { 1 } else { self.comm.world() };
        Ok(())
    }

    /// Receives the buckets of the last step and updates all blocks.
    pub fn finish(&mut self) -> Outcome<()> {
        (0..self.model.blocks.len()).try_for_each(|number| self.settle(number))
    }

    /// The mean loss over all ranks, of every step whose head bucket has come back.
    pub fn losses(&self) -> &[f32] {
        &self.losses
    }

    /// Every parameter.
    pub fn parameters(&self) -> Outcome<Vec<f32>> {
        Ok(self.model.parameters()?)
    }

    /// Every bucket's name and how many numbers it holds; the head's has the loss as well.
    pub fn buckets(&self) -> Vec<(String, usize)> {
        let mut buckets: Vec<_> =
            self.model.blocks.iter().map(|block| (block.name.clone(), block.len())).collect();
        buckets.last_mut().into_iter().for_each(|(_, length)| *length += 1);
        buckets
    }

    /// The bytes of all buckets of one step.
    pub fn bucket_bytes(&self) -> usize {
        size_of::<f32>() * self.buckets().iter().map(|(_, length)| length).sum::<usize>()
    }

    /// Updates one block with the gradients of the step before, if it has not been done yet.
    fn settle(&mut self, number: usize) -> Outcome<()> {
        let block = &self.model.blocks[number];
        let buckets = &mut self.buckets;
        let Some(mut sum) = self.timeline.timed(Phase::Wait, &block.name, || buckets.take(number))? else {
            return Ok(());
        };
        let (adam, summed) = (&mut self.adam, self.summed);
        if number + 1 == self.model.blocks.len() {
            self.losses.extend(sum.pop().map(|loss| loss / summed as f32));
        }
        self.timeline.timed(Phase::Update, &block.name, || adam.update(number, block, &sum, summed))?;
        Ok(())
    }
}
