//! The forward pass that cuts the graph at block boundaries, and the backward pass that gives each block's
//! gradient away as soon as it is known.
//!
//! Candle differentiates a scalar and hands out all gradients at the end. So every block gets a graph of its own,
//! whose input is a fresh leaf, and its backward step differentiates sum(output * gradient of the output): the
//! gradient of the leaf is what the block before it needs. Where the gradients go is in `buckets.rs`.

use candle_core::{Result, Tensor, Var};

use crate::data::Batch;
use crate::model::{Model, cross_entropy, flatten};

/// The graphs of one batch: they grow block by block and are used up in the opposite order.
pub struct Tape<'a> {
    model: &'a Model,
    batch: &'a Batch,
    passes: Vec<Pass>,
    /// The gradient of the output of the last block that still has its graph; none before backward begins.
    upstream: Option<Tensor>,
}

/// One block's graph.
struct Pass {
    /// What the block before gave, cut off from how it came about; the embedding reads token numbers instead.
    leaf: Option<Var>,
    output: Tensor,
}

impl<'a> Tape<'a> {
    /// An empty tape.
    pub fn new(model: &'a Model, batch: &'a Batch) -> Tape<'a> {
        Tape { model, batch, passes: Vec::with_capacity(model.blocks.len()), upstream: None }
    }

    /// Runs the next block. The last one's output is the loss.
    pub fn forward(&mut self) -> Result<()> {
        let number = self.passes.len();
        let leaf = self.passes.last().map(|pass| Var::from_tensor(&pass.output.detach())).transpose()?;
        let input = leaf.as_ref().map_or(&self.batch.inputs, |leaf| leaf.as_tensor());
        let mut output = self.model.blocks[number].forward(input)?;
        if number + 1 == self.model.blocks.len() {
            output = cross_entropy(&output, &self.batch.targets)?;
        }
        self.passes.push(Pass { leaf, output });
        Ok(())
    }

    /// The loss, once all blocks have run forward.
    pub fn loss(&self) -> Result<f32> {
        let last = self.passes.last().expect("a model has at least an embedding and a head");
        last.output.to_scalar()
    }

    /// Differentiates the last block that still has its graph and returns the gradient of its parameters.
    pub fn backward(&mut self) -> Result<Vec<f32>> {
        let pass = self.passes.pop().expect("backward runs as many blocks as forward did");
        let block = &self.model.blocks[self.passes.len()];
        let objective = match self.upstream.take() {
            None => pass.output,
            Some(gradient) => (pass.output * gradient)?.sum_all()?,
        };
        let gradients = objective.backward()?;
        let of = |variable: &Var| gradients.get(variable).expect("every block uses all of its parameters");
        self.upstream = pass.leaf.as_ref().map(|leaf| of(leaf).clone());
        flatten(block.variables().iter().map(of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Corpus;
    use crate::model::Sizes;

    /// Candle's own backward pass over the whole model at once.
    fn whole(model: &Model, batch: &Batch) -> (f32, Vec<Vec<f32>>) {
        let output =
            model.blocks.iter().try_fold(batch.inputs.clone(), |x, block| block.forward(&x)).unwrap();
        let loss = cross_entropy(&output, &batch.targets).unwrap();
        let gradients = loss.backward().unwrap();
        let of = |block: &crate::model::Block| {
            flatten(block.variables().iter().map(|variable| gradients.get(variable).unwrap())).unwrap()
        };
        (loss.to_scalar().unwrap(), model.blocks.iter().map(of).collect())
    }

    fn far_apart(one: &[f32], other: &[f32]) -> f32 {
        let largest = one.iter().fold(0f32, |largest, x| largest.max(x.abs()));
        one.iter().zip(other).fold(0f32, |worst, (x, y)| worst.max((x - y).abs())) / largest
    }

    #[test]
    fn block_by_block_gives_the_gradients_of_the_whole() {
        let corpus = Corpus::from_text(b"a text with some different letters in it, and then a few more.");
        let sizes =
            Sizes { rows: 3, context: 9, width: 16, heads: 2, depth: 2, vocabulary: corpus.vocabulary() };
        let model = Model::new(sizes, 5).unwrap();
        let batch = corpus.batch(5, 0, 0, sizes.rows, sizes.context).unwrap();
        let (loss, expected) = whole(&model, &batch);

        let mut tape = Tape::new(&model, &batch);
        model.blocks.iter().for_each(|_| tape.forward().unwrap());
        assert!((tape.loss().unwrap() - loss).abs() <= 1e-6 * loss);
        for (block, expected) in model.blocks.iter().zip(&expected).rev() {
            let gradient = tape.backward().unwrap();
            assert_eq!(gradient.len(), block.len());
            assert!(gradient.iter().any(|x| *x != 0.0));
            assert!(far_apart(expected, &gradient) < 1e-5, "{}", block.name);
        }
    }
}
