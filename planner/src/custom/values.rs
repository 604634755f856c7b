//! [`Values`]: what chunks hold, symbolically: whose contributions. A copy of a value has its number.

use hcomm_ops::Rank;
use rustc_hash::FxHashMap;

/// A value's number.
pub(super) type Value = u32;

/// All values of a program.
#[derive(Debug)]
pub(super) struct Values {
    /// Words of a set of ranks.
    words: usize,
    /// By value: bit r says that rank r's contribution is in it.
    ranks: Vec<u64>,
    raw: FxHashMap<(Rank, u32), Value>,
}

impl Values {
    pub fn new(world: usize) -> Values {
        Values { words: world.div_ceil(64), ranks: Vec::new(), raw: FxHashMap::default() }
    }

    /// Input chunk `chunk` of a rank.
    pub fn raw(&mut self, rank: Rank, chunk: u32) -> Value {
        if let Some(value) = self.raw.get(&(rank, chunk)) {
            return *value;
        }
        let value = self.add();
        self.ranks[value as usize * self.words + rank / 64] |= 1 << (rank % 64);
        self.raw.insert((rank, chunk), value);
        value
    }

    /// Several values folded; one alone is itself.
    pub fn fold(&mut self, operands: &[Value]) -> Value {
        if let [only] = operands {
            return *only;
        }
        let value = self.add();
        for operand in operands {
            for word in 0..self.words {
                let bits = self.ranks[*operand as usize * self.words + word];
                self.ranks[value as usize * self.words + word] |= bits;
            }
        }
        value
    }

    /// How many ranks' contributions it holds.
    pub fn contributions(&self, value: Value) -> u64 {
        let start = value as usize * self.words;
        self.ranks[start..start + self.words].iter().map(|word| u64::from(word.count_ones())).sum()
    }

    fn add(&mut self) -> Value {
        let value = self.ranks.len() / self.words;
        self.ranks.resize(self.ranks.len() + self.words, 0);
        value as Value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_count_every_contribution_once() {
        let mut values = Values::new(130);
        let [a, b] = [0, 129].map(|rank| values.raw(rank, 5));
        assert_eq!(values.raw(129, 5), b);
        assert_ne!(values.raw(129, 6), b);
        let both = values.fold(&[a, b]);
        let more = values.fold(&[both, b]);
        assert_eq!([a, both, more].map(|value| values.contributions(value)), [1, 2, 2]);
        assert_eq!(values.fold(&[a]), a);
    }
}
