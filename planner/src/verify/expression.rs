//! [`Expressions`]: what a chunk holds, as a tree of folds over contributions. Equal trees get one number, so that comparing
//! is cheap; the two operands of a fold of two are in no order, as a + b = b + a.

use std::collections::HashMap;

use hcomm_ops::Rank;

use super::FoldOrder;

/// An expression's number.
pub(super) type Id = usize;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Expression {
    /// Input chunk `chunk` of a rank.
    Raw { rank: Rank, chunk: u32 },
    /// Left to right.
    Fold(Vec<Id>),
}

/// Whose contributions an expression holds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holds {
    /// Of which input chunk.
    chunk: u32,
    /// Bit r: of rank r.
    ranks: Vec<u64>,
}

/// All expressions seen so far.
#[derive(Debug, Default)]
pub(super) struct Expressions {
    list: Vec<Expression>,
    holds: Vec<Holds>,
    numbers: HashMap<Expression, Id>,
    words: usize,
}

/// Why a fold makes no sense.
pub(super) enum BadFold {
    /// Operands of different chunks.
    Mixed(u32, u32),
    /// A contribution that two operands hold: (rank, index of one operand, index of the other).
    Twice(Rank, usize, usize),
}

impl Expressions {
    pub fn new(world: usize) -> Expressions {
        Expressions { words: world.div_ceil(64), ..Expressions::default() }
    }

    pub fn raw(&mut self, rank: Rank, chunk: u32) -> Id {
        let mut ranks = vec![0; self.words];
        ranks[rank / 64] |= 1 << (rank % 64);
        self.number(Expression::Raw { rank, chunk }, Holds { chunk, ranks })
    }

    /// Folds operands. Where `idempotent` they may share contributions.
    pub fn fold(&mut self, operands: &[Id], idempotent: bool) -> Result<Id, BadFold> {
        let chunk = self.holds[operands[0]].chunk;
        let mut ranks = vec![0; self.words];
        for (i, operand) in operands.iter().enumerate() {
            let holds = &self.holds[*operand];
            if holds.chunk != chunk {
                return Err(BadFold::Mixed(chunk, holds.chunk));
            }
            if let Some(rank) = common(&ranks, &holds.ranks).filter(|_| !idempotent) {
                let other = operands.iter().position(|o| self.holds_rank(*o, rank)).unwrap_or(0);
                return Err(BadFold::Twice(rank, other, i));
            }
            ranks.iter_mut().zip(&holds.ranks).for_each(|(all, these)| *all |= these);
        }
        let mut operands = operands.to_vec();
        if operands.len() == 2 {
            operands.sort_unstable();
        }
        Ok(self.number(Expression::Fold(operands), Holds { chunk, ranks }))
    }

    /// Which input chunk it is about.
    pub fn chunk(&self, id: Id) -> u32 {
        self.holds[id].chunk
    }

    /// How many ranks' contributions it holds.
    pub fn contributions(&self, id: Id) -> usize {
        self.holds[id].ranks.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it is a contribution that nothing has been folded into.
    pub fn is_raw(&self, id: Id) -> bool {
        matches!(self.list[id], Expression::Raw { .. })
    }

    /// Whether it is input chunk `chunk` of rank `rank`.
    pub fn is(&self, id: Id, rank: Rank, chunk: u32) -> bool {
        self.list[id] == Expression::Raw { rank, chunk }
    }

    /// How a complete fold of all ranks came about. Two operands have no order of their own, so they count as in order.
    pub fn fold_order(&self, id: Id) -> FoldOrder {
        match &self.list[id] {
            Expression::Raw { .. } => FoldOrder::AtOnce,
            Expression::Fold(operands) if self.are_ranks_from_0(operands) => FoldOrder::AtOnce,
            Expression::Fold(_) if self.is_chain(id) => FoldOrder::RankByRank,
            Expression::Fold(_) => FoldOrder::Any,
        }
    }

    fn are_ranks_from_0(&self, operands: &[Id]) -> bool {
        let is_rank =
            |id: Id, rank: Rank| matches!(self.list[id], Expression::Raw { rank: r, .. } if r == rank);
        let in_order = |operands: &[Id]| operands.iter().enumerate().all(|(rank, id)| is_rank(*id, rank));
        in_order(operands) || matches!(*operands, [a, b] if in_order(&[b, a]))
    }

    /// Whether each fold takes in the next ranks, one or more, after all before them.
    fn is_chain(&self, id: Id) -> bool {
        let Expression::Fold(operands) = &self.list[id] else { return false };
        if self.are_ranks_from_0(operands) {
            return true;
        }
        let is_raw = |id: &Id| self.is_raw(*id);
        let Some(at) = operands.iter().position(|id| !is_raw(id)) else { return false };
        let mut rest = operands.clone();
        let before = rest.remove(at);
        let first = self.contributions(before);
        let next = |(i, id): (usize, &Id)| self.holds_rank(*id, first + i) && is_raw(id);
        (at == 0 || operands.len() == 2) && rest.iter().enumerate().all(next) && self.is_chain(before)
    }

    /// In words, such as `((0 + 1) + 2) of chunk 3`.
    pub fn words(&self, id: Id) -> String {
        let mut left = 64;
        format!("{} of chunk {}", self.tree(id, &mut left), self.holds[id].chunk)
    }

    fn tree(&self, id: Id, left: &mut usize) -> String {
        if *left == 0 {
            return "..".to_owned();
        }
        *left -= 1;
        match &self.list[id] {
            Expression::Raw { rank, .. } => rank.to_string(),
            Expression::Fold(operands) => {
                let operands: Vec<_> = operands.iter().map(|o| self.tree(*o, left)).collect();
                format!("({})", operands.join(" + "))
            }
        }
    }

    fn holds_rank(&self, id: Id, rank: Rank) -> bool {
        self.holds[id].ranks[rank / 64] >> (rank % 64) & 1 == 1
    }

    fn number(&mut self, expression: Expression, holds: Holds) -> Id {
        let next = self.list.len();
        let id = *self.numbers.entry(expression.clone()).or_insert(next);
        if id == next {
            self.list.push(expression);
            self.holds.push(holds);
        }
        id
    }
}

/// The lowest rank in both sets.
fn common(a: &[u64], b: &[u64]) -> Option<Rank> {
    let both =
        |(i, (a, b)): (usize, (&u64, &u64))| (a & b != 0).then(|| i * 64 + (a & b).trailing_zeros() as usize);
    a.iter().zip(b).enumerate().find_map(both)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_operands_commute_and_three_do_not() {
        let mut all = Expressions::new(3);
        let [a, b, c] = [0, 1, 2].map(|rank| all.raw(rank, 0));
        let fold = |all: &mut Expressions, of: &[Id]| all.fold(of, false).ok();
        assert_eq!(fold(&mut all, &[a, b]), fold(&mut all, &[b, a]));
        assert_ne!(fold(&mut all, &[a, b, c]), fold(&mut all, &[c, b, a]));
        let pair = fold(&mut all, &[a, b]).expect("a good fold");
        assert_ne!(fold(&mut all, &[pair, c]), fold(&mut all, &[a, b, c]), "rounding differs");
        assert!(matches!(all.fold(&[pair, b], false), Err(BadFold::Twice(1, 0, 1))));
        assert!(all.fold(&[pair, b], true).is_ok());
    }
}
