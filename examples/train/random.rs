//! Seeded numbers for batches and first weights, the same in every process.

use std::f32::consts::TAU;

/// A splitmix64 generator.
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator of its own for each list of keys.
    pub fn new(keys: &[u64]) -> Random {
        let mut random = Random { state: 0x6863_6f6d_6d00_0000 };
        for key in keys {
            random.state = random.next() ^ key;
        }
        random
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A number of the normal distribution with the given deviation (Box and Muller's method).
    pub fn normal(&mut self, deviation: f32) -> f32 {
        let (radius, angle) = (1.0 - self.unit(), self.unit());
        deviation * (-2.0 * radius.ln()).sqrt() * (TAU * angle).cos()
    }

    /// A number in [0, 1).
    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 24) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_numbers_have_the_deviation_asked_for() {
        let mut random = Random::new(&[1, 2]);
        let numbers: Vec<f32> = (0..20_000).map(|_| random.normal(0.5)).collect();
        let mean = numbers.iter().sum::<f32>() / numbers.len() as f32;
        let variance = numbers.iter().map(|n| n * n).sum::<f32>() / numbers.len() as f32;
        assert!(mean.abs() < 0.02 && (variance - 0.25).abs() < 0.02, "mean {mean}, variance {variance}");
    }
}
