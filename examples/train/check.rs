//! The comparison with one rank alone, which takes the micro-batches of all ranks in rank order and adds their
//! gradients as the all_reduce does.
//!
//! A sum of two floats does not depend on their order, so with two ranks every bit must agree. With more, the
//! algorithm decides the order of the sum, and the losses agree for as long as rounding has not grown.

use hcomm::{Communicator, ReduceOp};

use crate::Outcome;
use crate::backward::Tape;
use crate::data::Corpus;
use crate::model::{Model, Sizes};
use crate::optimizer::Adam;
use crate::report::Progress;

/// With more than two ranks: how many losses are compared, and how far they may be apart.
const FIRST_LOSSES: usize = 20;
const FURTHEST: f32 = 1e-4;

/// What training leaves behind.
pub struct Trained {
    /// One per step.
    pub losses: Vec<f32>,
    /// All of the model, block after block.
    pub parameters: Vec<f32>,
}

/// Whether the parameters of all ranks are the same bits. A collective call.
pub fn same_on_all_ranks(comm: &Communicator, parameters: &[f32]) -> Outcome<bool> {
    let hash = hash(parameters);
    let (mut smallest, mut largest) = ([hash], [hash]);
    comm.all_reduce(&mut smallest, ReduceOp::Min)?;
    comm.all_reduce(&mut largest, ReduceOp::Max)?;
    Ok(smallest == largest)
}

/// Trains once more on one rank alone, says how the outcome compares, and returns whether it is as it should be.
pub fn against_one_rank(
    trained: &Trained,
    corpus: &Corpus,
    sizes: Sizes,
    seed: u64,
    world: usize,
) -> Outcome<bool> {
    let exact = world <= 2;
    let steps = if exact { trained.losses.len() } else { trained.losses.len().min(FIRST_LOSSES) };
    let reference = one_rank(corpus, sizes, seed, world, steps)?;
    let losses = &trained.losses[..steps];
    if exact {
        let same_losses =
            verdict(same_bits(losses, &reference.losses), &format!("{steps} losses, bit for bit"));
        let count = reference.parameters.len();
        let same = same_bits(&trained.parameters, &reference.parameters);
        Ok(verdict(same, &format!("{count} parameters after {steps} steps, bit for bit")) && same_losses)
    } else {
        let apart = losses.iter().zip(&reference.losses).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let text = format!("the first {steps} losses within {FURTHEST:e} (furthest apart: {apart:.1e})");
        Ok(verdict(apart <= FURTHEST, &text))
    }
}

/// Says what was compared with one rank alone.
fn verdict(good: bool, what: &str) -> bool {
    crate::report::say(&format!(
        "check: {} one rank alone: {what}",
        if good { "equal to" } else { "DIFFERENT from" }
    ));
    good
}

fn one_rank(corpus: &Corpus, sizes: Sizes, seed: u64, world: usize, steps: usize) -> Outcome<Trained> {
    let mut progress = Progress::new("check", steps);
    let model = Model::new(sizes, seed)?;
    let mut adam = Adam::new(&model)?;
    let mut losses = Vec::with_capacity(steps);
    for step in 0..steps {
        let mut sums = gradients(&model, corpus, sizes, [seed, step as u64, 0])?;
        for micro in 1..world {
            add(&mut sums, gradients(&model, corpus, sizes, [seed, step as u64, micro as u64])?);
        }
        losses.extend(sums.pop().map(|loss| loss[0] / world as f32));
        for (number, (block, sum)) in model.blocks.iter().zip(&sums).enumerate() {
            adam.update(number, block, sum, world)?;
        }
        progress.advance(1, format_args!("one rank alone"));
    }
    Ok(Trained { losses, parameters: model.parameters()? })
}

/// The gradients of every block for one micro-batch, and last its loss.
fn gradients(model: &Model, corpus: &Corpus, sizes: Sizes, key: [u64; 3]) -> Outcome<Vec<Vec<f32>>> {
    let batch = corpus.batch(key[0], key[1] as usize, key[2] as usize, sizes.rows, sizes.context)?;
    let mut tape = Tape::new(model, &batch);
    model.blocks.iter().try_for_each(|_| tape.forward())?;
    let loss = tape.loss()?;
    let mut gradients = model.blocks.iter().map(|_| tape.backward()).collect::<Result<Vec<_>, _>>()?;
    gradients.reverse();
    gradients.push(vec![loss]);
    Ok(gradients)
}

fn add(sums: &mut [Vec<f32>], others: Vec<Vec<f32>>) {
    for (sum, other) in sums.iter_mut().flatten().zip(others.iter().flatten()) {
        *sum += other;
    }
}

fn same_bits(one: &[f32], other: &[f32]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// The FNV-1a hash of the bits.
fn hash(values: &[f32]) -> u64 {
    let bytes = values.iter().flat_map(|value| value.to_bits().to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_is_a_difference() {
        assert!(same_bits(&[1.0, f32::NAN], &[1.0, f32::NAN]));
        assert!(!same_bits(&[0.0], &[-0.0]));
        assert!(!same_bits(&[1.0], &[1.0, 1.0]));
        assert_ne!(hash(&[1.0, 2.0]), hash(&[1.0, 2.0000002]));
    }

    #[test]
    fn the_reference_repeats_itself_and_learns() {
        let corpus = Corpus::from_text(b"abcabcabcabcabcabd");
        let sizes =
            Sizes { rows: 2, context: 6, width: 8, heads: 2, depth: 1, vocabulary: corpus.vocabulary() };
        let run = |seed| one_rank(&corpus, sizes, seed, 3, 60).unwrap();
        let (one, same, other) = (run(1), run(1), run(2));
        assert!(same_bits(&one.parameters, &same.parameters) && same_bits(&one.losses, &same.losses));
        assert!(!same_bits(&one.parameters, &other.parameters));
        assert!(one.losses[59] < 0.5 * one.losses[0], "{:?}", one.losses);
    }
}
