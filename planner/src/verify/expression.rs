//! [`Expressions`]: what a chunk holds, as a tree of folds over contributions. Equal trees get one number, so that comparing
//! is cheap; the two operands of a fold of two are in no order, as a + b = b + a.
//!
//! Contributions have the first numbers and take no room. Whose contributions a fold holds is kept as runs of ranks, of which most
//! algorithms make few.

use std::hash::{BuildHasher, BuildHasherDefault};
use std::ops::Range;

use hcomm_ops::Rank;
use rustc_hash::{FxHashMap, FxHasher};

use super::FoldOrder;

/// An expression's number.
pub(super) type Id = usize;

/// Operands, left to right.
#[derive(Clone, Debug)]
struct Fold {
    /// Of which input chunk.
    chunk: u32,
    /// Into [`Expressions::operands`].
    operands: Range<usize>,
    /// Whose contributions: into [`Expressions::runs`].
    runs: Range<usize>,
    /// Another fold with the same hash.
    alike: Option<usize>,
}

/// All expressions seen so far.
#[derive(Debug)]
pub(super) struct Expressions {
    world: usize,
    /// Chunks that a rank may contribute.
    chunks: usize,
    folds: Vec<Fold>,
    operands: Vec<Id>,
    /// Runs of ranks, those of one fold ascending and apart.
    runs: Vec<Range<Rank>>,
    /// By hash, the newest fold.
    numbers: FxHashMap<u64, usize>,
    /// Of the fold that is being made: runs, and whose operand's they are.
    open: Vec<(Range<Rank>, usize)>,
}

/// Why a fold makes no sense.
pub(super) enum BadFold {
    /// Operands of different chunks.
    Mixed(u32, u32),
    /// A contribution that two operands hold: (rank, index of one operand, index of the other).
    Twice(Rank, usize, usize),
}

impl Expressions {
    /// Over contributions of so many chunks by each rank.
    pub fn new(world: usize, chunks: usize) -> Expressions {
        let (folds, operands, runs, open) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Expressions { world, chunks, folds, operands, runs, numbers: FxHashMap::default(), open }
    }

    /// Input chunk `chunk` of a rank.
    pub fn raw(&self, rank: Rank, chunk: u32) -> Id {
        rank * self.chunks + chunk as usize
    }

    /// Folds operands. Where `idempotent` they may share contributions.
    pub fn fold(&mut self, operands: &[Id], idempotent: bool) -> Result<Id, BadFold> {
        let chunk = self.chunk(operands[0]);
        if let Some(other) = operands.iter().map(|id| self.chunk(*id)).find(|other| *other != chunk) {
            return Err(BadFold::Mixed(chunk, other));
        }
        self.open_runs(operands);
        if let Some(twice) = self.twice().filter(|_| !idempotent) {
            return Err(twice);
        }
        let start = self.operands.len();
        self.operands.extend_from_slice(operands);
        if let [a, b] = &mut self.operands[start..] {
            (*a, *b) = (*a.min(b), *a.max(b));
        }
        Ok(self.number(chunk, start))
    }

    /// Lists the operands' runs, ascending.
    fn open_runs(&mut self, operands: &[Id]) {
        let mut open = std::mem::take(&mut self.open);
        open.clear();
        for (i, id) in operands.iter().enumerate() {
            match self.fold_of(*id) {
                Some(fold) => open.extend(self.runs[fold.runs.clone()].iter().map(|run| (run.clone(), i))),
                None => open.push((self.rank(*id)..self.rank(*id) + 1, i)),
            }
        }
        open.sort_unstable_by_key(|(run, _)| run.start);
        self.open = open;
    }

    /// A rank in two of the listed runs.
    fn twice(&self) -> Option<BadFold> {
        let mut furthest = self.open.first()?;
        for run in &self.open[1..] {
            if run.0.start < furthest.0.end {
                return Some(BadFold::Twice(run.0.start, run.1.min(furthest.1), run.1.max(furthest.1)));
            }
            furthest = run;
        }
        None
    }

    /// The number of the fold of the operands from `start` on, which are dropped if it is known.
    fn number(&mut self, chunk: u32, start: usize) -> Id {
        let operands = &self.operands[start..];
        let hash = BuildHasherDefault::<FxHasher>::default().hash_one(operands);
        let newest = self.numbers.get(&hash).copied();
        let mut known = newest;
        while let Some(at) = known {
            if self.operands[self.folds[at].operands.clone()] == *operands {
                self.operands.truncate(start);
                return self.first_fold() + at;
            }
            known = self.folds[at].alike;
        }
        let number = self.folds.len();
        let (operands, runs) = (start..self.operands.len(), self.close_runs());
        self.folds.push(Fold { chunk, operands, runs, alike: newest });
        self.numbers.insert(hash, number);
        self.first_fold() + number
    }

    /// Joins the listed runs to those of a new fold.
    fn close_runs(&mut self) -> Range<usize> {
        let start = self.runs.len();
        for (run, _) in self.open.drain(..) {
            match self.runs[start..].last_mut().filter(|last| run.start <= last.end) {
                Some(last) => last.end = last.end.max(run.end),
                None => self.runs.push(run),
            }
        }
        start..self.runs.len()
    }

    /// Which input chunk it is about.
    pub fn chunk(&self, id: Id) -> u32 {
        self.fold_of(id).map_or((id % self.chunks.max(1)) as u32, |fold| fold.chunk)
    }

    /// How many ranks' contributions it holds.
    pub fn contributions(&self, id: Id) -> usize {
        self.fold_of(id).map_or(1, |fold| self.runs[fold.runs.clone()].iter().map(Range::len).sum())
    }

    /// Whether it is a contribution that nothing has been folded into.
    pub fn is_raw(&self, id: Id) -> bool {
        id < self.first_fold()
    }

    /// Whether it is input chunk `chunk` of rank `rank`.
    pub fn is(&self, id: Id, rank: Rank, chunk: u32) -> bool {
        id == self.raw(rank, chunk)
    }

    /// How a complete fold of all ranks came about. Two operands have no order of their own, so they count as in order.
    pub fn fold_order(&self, id: Id) -> FoldOrder {
        match self.fold_of(id) {
            None => FoldOrder::AtOnce,
            Some(fold) if self.are_ranks_from_0(&self.operands[fold.operands.clone()]) => FoldOrder::AtOnce,
            Some(_) if self.is_chain(id) => FoldOrder::RankByRank,
            Some(_) => FoldOrder::Any,
        }
    }

    fn are_ranks_from_0(&self, operands: &[Id]) -> bool {
        let in_order = |operands: &[Id]| operands.iter().enumerate().all(|(rank, id)| self.is_of(*id, rank));
        in_order(operands) || matches!(*operands, [a, b] if in_order(&[b, a]))
    }

    /// Whether each fold takes in the next ranks, one or more, after all before them.
    fn is_chain(&self, id: Id) -> bool {
        let mut next = self.fold_of(id);
        while let Some(fold) = next {
            let operands = &self.operands[fold.operands.clone()];
            if self.are_ranks_from_0(operands) {
                return true;
            }
            let Some(at) = operands.iter().position(|id| !self.is_raw(*id)) else { return false };
            let first = self.contributions(operands[at]);
            let rest = operands[..at].iter().chain(&operands[at + 1..]);
            let are_next = rest.enumerate().all(|(i, id)| self.is_of(*id, first + i));
            if !are_next || (at > 0 && operands.len() > 2) {
                return false;
            }
            next = self.fold_of(operands[at]);
        }
        false
    }

    /// In words, such as `((0 + 1) + 2) of chunk 3`.
    pub fn words(&self, id: Id) -> String {
        let mut left = 64;
        format!("{} of chunk {}", self.tree(id, &mut left), self.chunk(id))
    }

    fn tree(&self, id: Id, left: &mut usize) -> String {
        if *left == 0 {
            return "..".to_owned();
        }
        *left -= 1;
        match self.fold_of(id) {
            None => self.rank(id).to_string(),
            Some(fold) => {
                let operands = &self.operands[fold.operands.clone()];
                let shown = operands.len().min(*left + 1);
                let words: Vec<_> = operands[..shown].iter().map(|o| self.tree(*o, left)).collect();
                format!("({})", words.join(" + "))
            }
        }
    }

    /// The number that the folds begin at.
    fn first_fold(&self) -> Id {
        self.world * self.chunks
    }

    fn fold_of(&self, id: Id) -> Option<&Fold> {
        self.folds.get(id.checked_sub(self.first_fold())?)
    }

    /// Whose contribution it is, where it is one.
    fn rank(&self, id: Id) -> Rank {
        id / self.chunks.max(1)
    }

    /// Whether it is a contribution of a rank.
    fn is_of(&self, id: Id, rank: Rank) -> bool {
        self.is_raw(id) && self.rank(id) == rank
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_operands_commute_and_three_do_not() {
        let mut all = Expressions::new(3, 1);
        let [a, b, c] = [0, 1, 2].map(|rank| all.raw(rank, 0));
        let fold = |all: &mut Expressions, of: &[Id]| all.fold(of, false).ok();
        assert_eq!(fold(&mut all, &[a, b]), fold(&mut all, &[b, a]));
        assert_ne!(fold(&mut all, &[a, b, c]), fold(&mut all, &[c, b, a]));
        let pair = fold(&mut all, &[a, b]).expect("a good fold");
        assert_ne!(fold(&mut all, &[pair, c]), fold(&mut all, &[a, b, c]), "rounding differs");
        assert!(matches!(all.fold(&[pair, b], false), Err(BadFold::Twice(1, 0, 1))));
        assert!(all.fold(&[pair, b], true).is_ok());
    }

    /// Runs of ranks say the same as sets of ranks, whatever is folded with what.
    #[test]
    fn contributions_are_counted_like_sets() {
        let world = 9;
        let mut all = Expressions::new(world, 2);
        let mut seed = 7_u64;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        for _ in 0..100 {
            let mut held: Vec<(Id, Vec<Rank>)> =
                (0..world).map(|rank| (all.raw(rank, 1), vec![rank])).collect();
            while held.len() > 1 {
                let (a, ranks) = held.swap_remove(next(held.len()));
                let (b, more) = held.swap_remove(next(held.len()));
                let both = all.fold(&[a, b], false).ok().expect("they share nobody");
                assert_eq!((all.contributions(both), all.chunk(both)), (ranks.len() + more.len(), 1));
                for (part, its) in [(a, &ranks), (b, &more)] {
                    let Err(BadFold::Twice(rank, 0, 1)) = all.fold(&[both, part], false) else {
                        panic!("{its:?} of {ranks:?} and {more:?} counts once")
                    };
                    assert!(its.contains(&rank), "{rank} is none of {its:?}");
                    let again = all.fold(&[both, part], true).ok().expect("a barrier may meet twice");
                    assert_eq!(all.contributions(again), all.contributions(both));
                }
                held.push((both, [ranks, more].concat()));
            }
            assert_eq!(all.contributions(held[0].0), world);
        }
    }
}
