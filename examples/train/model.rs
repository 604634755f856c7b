//! The model: a character-level transformer as a list of blocks, each with its own flat list of parameters.
//!
//! A block is what is differentiated on its own and what has one gradient bucket: the embedding, each attention,
//! each feed-forward net, and the head. How gradients pass from block to block is in `backward.rs`.

use candle_core::{D, Device, Result, Tensor, Var};

use crate::random::Random;

/// The sizes that make up a model and its batches.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Pieces of text in one rank's batch.
    pub rows: usize,
    /// Characters that the model looks back on.
    pub context: usize,
    /// Numbers that stand for one character inside the model.
    pub width: usize,
    /// Attention heads; they share `width` evenly.
    pub heads: usize,
    /// Pairs of attention and feed-forward net.
    pub depth: usize,
    /// Different characters.
    pub vocabulary: usize,
}

/// All blocks, in the order in which the forward pass meets them.
pub struct Model {
    /// From the embedding to the head.
    pub blocks: Vec<Block>,
}

/// A part of the model that is differentiated on its own.
pub struct Block {
    /// For the timeline and messages, for example `attention 2`.
    pub name: String,
    kind: Kind,
    sizes: Sizes,
    parameters: Vec<Var>,
}

#[derive(Clone, Copy)]
enum Kind {
    Embedding,
    Attention,
    FeedForward,
    Head,
}

/// The shape of a parameter and the distribution of its first value.
struct Start {
    shape: Vec<usize>,
    mean: f32,
    deviation: f32,
}

impl Sizes {
    /// About 0.8 million parameters, and a step of some tens of milliseconds.
    pub fn small(vocabulary: usize) -> Sizes {
        Sizes { rows: 8, context: 64, width: 128, heads: 4, depth: 4, vocabulary }
    }

    /// Characters in one rank's batch.
    pub fn tokens(&self) -> usize {
        self.rows * self.context
    }
}

impl Model {
    /// The model before its first step: the same on every rank that has the same seed.
    pub fn new(sizes: Sizes, seed: u64) -> Result<Model> {
        let mut random = Random::new(&[seed]);
        let mut blocks = vec![Block::new(Kind::Embedding, "embedding".into(), sizes, &mut random)?];
        for layer in 0..sizes.depth {
            blocks.push(Block::new(Kind::Attention, format!("attention {layer}"), sizes, &mut random)?);
            blocks.push(Block::new(Kind::FeedForward, format!("feed-forward {layer}"), sizes, &mut random)?);
        }
        blocks.push(Block::new(Kind::Head, "head".into(), sizes, &mut random)?);
        Ok(Model { blocks })
    }

    /// Every parameter, block after block.
    pub fn parameters(&self) -> Result<Vec<f32>> {
        Ok(self.blocks.iter().map(Block::flat).collect::<Result<Vec<_>>>()?.concat())
    }
}

impl Block {
    fn new(kind: Kind, name: String, sizes: Sizes, random: &mut Random) -> Result<Block> {
        let parameters =
            kind.starts(&sizes).into_iter().map(|start| start.draw(random)).collect::<Result<_>>()?;
        Ok(Block { name, kind, sizes, parameters })
    }

    /// The parameters, each a leaf of the graph that `forward` records.
    pub fn variables(&self) -> &[Var] {
        &self.parameters
    }

    /// How many numbers the parameters are.
    pub fn len(&self) -> usize {
        self.parameters.iter().map(|parameter| parameter.elem_count()).sum()
    }

    /// A copy of the parameters as one list.
    pub fn flat(&self) -> Result<Vec<f32>> {
        flatten(self.parameters.iter().map(|parameter| parameter.as_tensor()))
    }

    /// Replaces the parameters by those of `flat`, which has `len()` numbers.
    pub fn assign(&self, flat: &[f32]) -> Result<()> {
        let mut rest = flat;
        for parameter in &self.parameters {
            let (own, others) = rest.split_at(parameter.elem_count());
            parameter.set(&Tensor::from_slice(own, parameter.shape(), &Device::Cpu)?)?;
            rest = others;
        }
        Ok(())
    }

    /// Token numbers (rows, context) become (tokens, width) in the embedding and (tokens, vocabulary) in the head.
    pub fn forward(&self, input: &Tensor) -> Result<Tensor> {
        match (self.kind, &self.parameters[..]) {
            (Kind::Embedding, [characters, places]) => embed(&self.sizes, input, characters, places),
            (Kind::Attention, [norm, query, key, value, out]) => {
                input + attend(&self.sizes, &normed(input, norm)?, [query, key, value])?.matmul(out)?
            }
            (Kind::FeedForward, [norm, wide, narrow]) => {
                input + normed(input, norm)?.matmul(wide)?.relu()?.matmul(narrow)?
            }
            (Kind::Head, [norm, out]) => normed(input, norm)?.matmul(out),
            _ => unreachable!("Kind::starts gives each kind its own number of parameters"),
        }
    }
}

impl Kind {
    /// How the parameters begin. What a residual block adds begins small, so that gradients reach all blocks.
    fn starts(self, sizes: &Sizes) -> Vec<Start> {
        let Sizes { width, context, vocabulary, .. } = *sizes;
        let even = (width as f32).sqrt().recip();
        match self {
            Kind::Embedding => {
                vec![Start::matrix(vocabulary, width, 0.2), Start::matrix(context, width, 0.1)]
            }
            Kind::Attention => vec![
                Start::ones(width),
                Start::matrix(width, width, even),
                Start::matrix(width, width, even),
                Start::matrix(width, width, even),
                Start::matrix(width, width, 0.01),
            ],
            Kind::FeedForward => vec![
                Start::ones(width),
                Start::matrix(width, 4 * width, even),
                Start::matrix(4 * width, width, 0.01),
            ],
            Kind::Head => vec![Start::ones(width), Start::matrix(width, vocabulary, 0.02)],
        }
    }
}

impl Start {
    fn matrix(rows: usize, columns: usize, deviation: f32) -> Start {
        Start { shape: vec![rows, columns], mean: 0.0, deviation }
    }

    /// The scale of a norm.
    fn ones(count: usize) -> Start {
        Start { shape: vec![count], mean: 1.0, deviation: 0.0 }
    }

    fn draw(self, random: &mut Random) -> Result<Var> {
        let count = self.shape.iter().product();
        let values: Vec<f32> = (0..count).map(|_| self.mean + random.normal(self.deviation)).collect();
        Var::from_vec(values, self.shape, &Device::Cpu)
    }
}

/// All elements of some tensors as one list.
pub fn flatten<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> Result<Vec<f32>> {
    let lists = tensors.map(|tensor| tensor.flatten_all()?.to_vec1::<f32>()).collect::<Result<Vec<_>>>()?;
    Ok(lists.concat())
}

/// The mean of minus the logarithm of what the model gave to the character that came.
pub fn cross_entropy(logits: &Tensor, targets: &Tensor) -> Result<Tensor> {
    let shifted = logits.broadcast_sub(&logits.max_keepdim(D::Minus1)?.detach())?;
    let total = shifted.exp()?.sum_keepdim(D::Minus1)?.log()?;
    let chosen = shifted.gather(&targets.unsqueeze(1)?, 1)?;
    (total - chosen)?.mean_all()
}

fn embed(sizes: &Sizes, tokens: &Tensor, characters: &Tensor, places: &Tensor) -> Result<Tensor> {
    let looked_up = characters.index_select(&tokens.flatten_all()?, 0)?;
    let by_row = looked_up.reshape((sizes.rows, sizes.context, sizes.width))?;
    by_row.broadcast_add(places)?.reshape((sizes.tokens(), sizes.width))
}

/// Divides each row by its root mean square.
fn normed(input: &Tensor, scale: &Tensor) -> Result<Tensor> {
    let mean_square = input.sqr()?.mean_keepdim(D::Minus1)?;
    input.broadcast_div(&(mean_square + 1e-5)?.sqrt()?)?.broadcast_mul(scale)
}

fn attend(sizes: &Sizes, input: &Tensor, [query, key, value]: [&Tensor; 3]) -> Result<Tensor> {
    let head_width = sizes.width / sizes.heads;
    let by_head = |weights: &Tensor| {
        let shape = (sizes.rows, sizes.context, sizes.heads, head_width);
        input.matmul(weights)?.reshape(shape)?.transpose(1, 2)?.contiguous()
    };
    let scores = (by_head(query)?.matmul(&by_head(key)?.t()?)? / (head_width as f64).sqrt())?;
    let weights = softmax(&scores.broadcast_add(&only_the_past(sizes.context)?)?)?;
    weights.matmul(&by_head(value)?)?.transpose(1, 2)?.reshape((sizes.tokens(), sizes.width))
}

fn softmax(scores: &Tensor) -> Result<Tensor> {
    let shifted = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach())?.exp()?;
    shifted.broadcast_div(&shifted.sum_keepdim(D::Minus1)?)
}

/// Zero where a character may look, minus infinity where it would see its own future.
fn only_the_past(context: usize) -> Result<Tensor> {
    let cell = |at: usize| if at % context > at / context { f32::NEG_INFINITY } else { 0.0 };
    Tensor::from_vec((0..context * context).map(cell).collect(), (context, context), &Device::Cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny() -> Sizes {
        Sizes { rows: 2, context: 5, width: 8, heads: 2, depth: 1, vocabulary: 7 }
    }

    fn logits(tokens: [u32; 10]) -> Vec<Vec<f32>> {
        let model = Model::new(tiny(), 3).unwrap();
        let mut x = Tensor::from_slice(&tokens, (2, 5), &Device::Cpu).unwrap();
        for block in &model.blocks {
            x = block.forward(&x).unwrap();
        }
        x.to_vec2().unwrap()
    }

    #[test]
    fn a_character_sees_its_past_and_not_its_future() {
        let one = logits([0, 1, 2, 3, 4, 5, 6, 0, 1, 2]);
        let other = logits([0, 1, 2, 6, 4, 5, 6, 0, 1, 2]);
        assert_eq!(one[..3], other[..3]);
        assert!(one[3] != other[3] && one[4] != other[4]);
        assert_eq!(one[5..], other[5..]);
    }

    #[test]
    fn assigned_parameters_are_read_back() {
        let model = Model::new(tiny(), 3).unwrap();
        let block = &model.blocks[1];
        let values: Vec<f32> = (0..block.len()).map(|n| n as f32).collect();
        block.assign(&values).unwrap();
        assert_eq!(block.flat().unwrap(), values);
    }

    #[test]
    fn even_logits_cost_the_logarithm_of_the_vocabulary() {
        let logits = Tensor::zeros((3, 7), candle_core::DType::F32, &Device::Cpu).unwrap();
        let targets = Tensor::new(&[0u32, 3, 6], &Device::Cpu).unwrap();
        let loss = cross_entropy(&logits, &targets).unwrap().to_scalar::<f32>().unwrap();
        assert!((loss - 7f32.ln()).abs() < 1e-6);
    }
}
