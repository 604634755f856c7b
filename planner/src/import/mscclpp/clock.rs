//! What thread blocks know of one another: a [`Clock`] says how many operations of each block are done, as far as signals, barriers,
//! semaphores and packets have told. [`Tally`] is a counter that signals raise and waits take from, and passes knowledge on.

use std::collections::HashMap;
use std::rc::Rc;

use super::program::Counter;

/// By block of all GPUs: how many of its operations are known to be done.
#[derive(Clone, Debug)]
pub(super) struct Clock(Rc<[u32]>);

/// What a block knew when it had carried out `ops` operations.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub block: usize,
    pub ops: u32,
    pub clock: Clock,
}

impl Clock {
    /// Knows nothing of so many blocks.
    pub fn new(blocks: usize) -> Clock {
        Clock(vec![0; blocks].into())
    }

    /// How many operations of a block are done.
    pub fn knows(&self, block: usize) -> u32 {
        self.0[block]
    }

    /// Learns all that a block knew at a moment, and of its operations until then.
    pub fn learn(&mut self, moment: &Moment) {
        let news = |(mine, theirs): (&u32, &u32)| theirs > mine;
        let is_new = self.knows(moment.block) < moment.ops
            || (!Rc::ptr_eq(&self.0, &moment.clock.0) && self.0.iter().zip(&*moment.clock.0).any(news));
        if !is_new {
            return;
        }
        let both = self.0.iter().zip(&*moment.clock.0);
        let mut joined: Vec<u32> = both.map(|(mine, theirs)| *mine.max(theirs)).collect();
        joined[moment.block] = joined[moment.block].max(moment.ops);
        self.0 = joined.into();
    }
}

/// A counter in use.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    initial: i64,
    raised: Vec<Moment>,
    taken: i64,
    /// How often each block has taken.
    taken_by: HashMap<usize, i64>,
    /// Raises in the whole plan, and whether one block makes them all.
    all: usize,
    is_one_blocks: bool,
}

impl Tally {
    /// A counter that the blocks of `raisers` raise, once for each time that they are in it.
    pub fn new(counter: Counter, raisers: &[usize]) -> Tally {
        Tally {
            initial: counter.initial,
            raised: Vec::new(),
            taken: 0,
            taken_by: HashMap::new(),
            all: raisers.len(),
            is_one_blocks: raisers.windows(2).all(|pair| pair[0] == pair[1]),
        }
    }

    pub fn raise(&mut self, moment: Moment) {
        self.raised.push(moment);
    }

    /// How many may be taken now.
    pub fn left(&self) -> i64 {
        self.initial.saturating_add(self.raised.len() as i64) - self.taken
    }

    /// Takes one; gives the moments that have certainly come by then, in whatever order the blocks run: of one block's raises as many
    /// as it takes; of several blocks', all or none.
    pub fn take(&mut self, block: usize) -> &[Moment] {
        self.taken += 1;
        let times = self.taken_by.entry(block).or_default();
        *times += 1;
        let certain = usize::try_from(times.saturating_sub(self.initial)).unwrap_or(0).min(self.raised.len());
        match self.is_one_blocks {
            true => &self.raised[certain.saturating_sub(1)..certain],
            false if certain == self.all => &self.raised,
            false => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(block: usize, ops: u32) -> Moment {
        Moment { block, ops, clock: Clock::new(4) }
    }

    #[test]
    fn knowledge_is_passed_on() {
        let mut first = Clock::new(4);
        first.learn(&moment(1, 5));
        let mut second = Clock::new(4);
        second.learn(&Moment { block: 2, ops: 7, clock: first });
        assert_eq!([0, 1, 2, 3].map(|block| second.knows(block)), [0, 5, 7, 0]);
        second.learn(&moment(2, 3));
        assert_eq!(second.knows(2), 7, "it never forgets");
    }

    #[test]
    fn one_blocks_raises_are_known_one_by_one() {
        let mut tally = Tally::new(Counter { initial: 1 }, &[3, 3]);
        assert_eq!(tally.left(), 1);
        tally.raise(moment(3, 4));
        tally.raise(moment(3, 9));
        let known = |moments: &[Moment]| moments.iter().map(|m| m.ops).collect::<Vec<_>>();
        assert_eq!(known(tally.take(0)), [] as [u32; 0], "the first was there from the beginning");
        assert_eq!(known(tally.take(0)), [4]);
        assert_eq!(known(tally.take(0)), [9]);
        assert_eq!(tally.left(), 0);
    }

    #[test]
    fn several_blocks_raises_are_known_only_all_together() {
        let mut tally = Tally::new(Counter::default(), &[1, 2]);
        tally.raise(moment(2, 8));
        assert!(tally.take(0).is_empty(), "it may have been block 1's");
        tally.raise(moment(1, 6));
        assert_eq!(tally.take(0).len(), 2);
        let mut shared = Tally::new(Counter::default(), &[1, 2]);
        shared.raise(moment(1, 1));
        shared.raise(moment(2, 1));
        assert!(shared.take(0).is_empty() && shared.take(3).is_empty(), "each took one of two");
    }
}
