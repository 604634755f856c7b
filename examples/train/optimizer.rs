//! Adam, one block at a time, so that a block can be updated while the gradients of others are still on their way.

use candle_core::Result;

use crate::model::{Block, Model};

const RATE: f32 = 3e-3;
const WARM_UP_STEPS: f32 = 20.0;
const KEEP_MEAN: f32 = 0.9;
const KEEP_SQUARE: f32 = 0.98;
const LEAST_DEVIATION: f32 = 1e-8;

/// What Adam remembers of every block.
pub struct Adam {
    memories: Vec<Memory>,
}

struct Memory {
    steps: i32,
    parameters: Vec<f32>,
    mean: Vec<f32>,
    square: Vec<f32>,
}

impl Adam {
    /// Remembers nothing yet but where the parameters are.
    pub fn new(model: &Model) -> Result<Adam> {
        let memories =
            model.blocks.iter().map(|block| block.flat().map(Memory::new)).collect::<Result<_>>()?;
        Ok(Adam { memories })
    }

    /// Moves one block against `gradients`, a sum over `count` micro-batches.
    pub fn update(&mut self, number: usize, block: &Block, gradients: &[f32], count: usize) -> Result<()> {
        let memory = &mut self.memories[number];
        memory.step(gradients, 1.0 / count as f32);
        block.assign(&memory.parameters)
    }
}

impl Memory {
    fn new(parameters: Vec<f32>) -> Memory {
        let zeros = vec![0.0; parameters.len()];
        Memory { steps: 0, parameters, mean: zeros.clone(), square: zeros }
    }

    fn step(&mut self, gradients: &[f32], scale: f32) {
        self.steps += 1;
        let warm_up = (self.steps as f32 / WARM_UP_STEPS).min(1.0);
        let rate = RATE * warm_up / (1.0 - KEEP_MEAN.powi(self.steps));
        let unbias = 1.0 / (1.0 - KEEP_SQUARE.powi(self.steps));
        let moments = self.mean.iter_mut().zip(&mut self.square);
        for ((parameter, (mean, square)), gradient) in self.parameters.iter_mut().zip(moments).zip(gradients)
        {
            let gradient = gradient * scale;
            *mean = KEEP_MEAN * *mean + (1.0 - KEEP_MEAN) * gradient;
            *square = KEEP_SQUARE * *square + (1.0 - KEEP_SQUARE) * gradient * gradient;
            *parameter -= rate * *mean / ((*square * unbias).sqrt() + LEAST_DEVIATION);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_is_the_rate_against_the_sign_of_the_gradient() {
        let mut memory = Memory::new(vec![1.0, 1.0]);
        memory.step(&[4.0, -0.5], 0.5);
        let step = RATE / WARM_UP_STEPS;
        assert!((memory.parameters[0] - (1.0 - step)).abs() < 1e-6);
        assert!((memory.parameters[1] - (1.0 + step)).abs() < 1e-6);
    }

    #[test]
    fn it_finds_the_bottom_of_a_parabola() {
        let mut memory = Memory::new(vec![0.3]);
        for _ in 0..800 {
            let gradient = [2.0 * (memory.parameters[0] - 0.1)];
            memory.step(&gradient, 1.0);
        }
        assert!((memory.parameters[0] - 0.1).abs() < 1e-2);
    }
}
