//! Peer arithmetic of recursive halving in a world of any size: `halves`, the groups that a rank belongs to, each a half of
//! the one before.
//!
//! A group of m ranks is halved into every other rank: the even places (one more, where m is odd) and the odd ones. Place 2i
//! pairs with place 2i + 1; an even place without a neighbour after it has to do with the odd place before it, which so has two
//! peers. Near ranks pair first. The group's m blocks are halved too: the first blocks are the even half's.

use hcomm_ops::Rank;

/// Ranks `first`, `first + stride`, ..., `size` of them, and the blocks `block .. block + size` that they care for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Half {
    first: Rank,
    stride: usize,
    pub size: usize,
    pub block: usize,
}

impl Half {
    /// All ranks of a world.
    pub fn world(world: usize) -> Half {
        Half { first: 0, stride: 1, size: world, block: 0 }
    }

    /// The even places, and the odd ones.
    pub fn halves(self) -> [Half; 2] {
        let (stride, even) = (self.stride * 2, self.size.div_ceil(2));
        let odd = Half {
            first: self.first + self.stride,
            stride,
            size: self.size - even,
            block: self.block + even,
        };
        [Half { stride, size: even, ..self }, odd]
    }

    /// Every rank of at least two, whom it sends to when the group is halved, and the half that the peer stays in.
    pub fn pairs(self) -> impl Iterator<Item = (Rank, Rank, Half)> {
        let halves = self.halves();
        (0..self.size).map(move |place| {
            let to = self.receiver(place);
            (self.rank(place), self.rank(to), halves[to % 2])
        })
    }

    /// The place that a place sends to.
    fn receiver(self, place: usize) -> usize {
        if place % 2 == 1 || place + 1 == self.size { place - 1 } else { place + 1 }
    }

    /// The places that send to a place.
    fn senders(self, place: usize) -> impl Iterator<Item = usize> {
        let neighbour = if place.is_multiple_of(2) { place + 1 } else { place - 1 };
        let lonely = (place % 2 == 1 && place + 2 == self.size).then_some(place + 1);
        [neighbour].into_iter().filter(move |at| *at < self.size).chain(lonely)
    }

    fn place(self, rank: Rank) -> usize {
        (rank - self.first) / self.stride
    }

    fn rank(self, place: usize) -> Rank {
        self.first + place * self.stride
    }
}

/// One halving, as one rank sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Halving {
    /// The half that the rank stays in.
    pub mine: Half,
    /// The other half.
    pub theirs: Half,
    /// Who gets this rank's part of the other half's blocks.
    pub to: Rank,
    /// Whose part of the own half's blocks this rank gets: none, one or two, and how many ranks' inputs each has in it.
    pub from: Vec<(Rank, u64)>,
}

/// The groups of at least two ranks that a world is halved into, level by level from the whole.
pub(super) fn levels(world: usize) -> Vec<Vec<Half>> {
    let mut levels = Vec::new();
    let mut groups = vec![Half::world(world)];
    while groups.iter().any(|group| group.size > 1) {
        groups.retain(|group| group.size > 1);
        let halves = groups.iter().flat_map(|group| group.halves()).collect();
        levels.push(std::mem::replace(&mut groups, halves));
    }
    levels
}

/// The halvings of a world, until rank `rank` is alone with one block.
pub(super) fn halvings(world: usize, rank: Rank) -> Vec<Halving> {
    let mut group = Half::world(world);
    // Of every rank of the group, by place: how many ranks' inputs it has.
    let mut held = vec![1; world];
    let mut halvings = Vec::new();
    while group.size > 1 {
        let place = group.place(rank);
        let halves = group.halves();
        let (mine, theirs) = (halves[place % 2], halves[1 - place % 2]);
        let to = group.rank(group.receiver(place));
        let from = group.senders(place).map(|from| (group.rank(from), held[from])).collect();
        halvings.push(Halving { mine, theirs, to, from });
        let gathered = |place| held[place] + group.senders(place).map(|from| held[from]).sum::<u64>();
        held = (place % 2..group.size).step_by(2).map(gathered).collect();
        group = mine;
    }
    halvings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sender_is_expected_and_all_inputs_come_together() {
        for world in 2..70 {
            let all: Vec<_> = (0..world).map(|rank| halvings(world, rank)).collect();
            let mut blocks = vec![false; world];
            for (rank, halvings) in all.iter().enumerate() {
                let got: u64 = halvings.iter().flat_map(|h| &h.from).map(|(_, held)| held).sum();
                assert_eq!(got + 1, world as u64, "rank {rank} of {world}");
                let last = halvings[halvings.len() - 1].mine;
                assert_eq!(last.size, 1);
                assert!(!std::mem::replace(&mut blocks[last.block], true), "block {} twice", last.block);
                for (level, halving) in halvings.iter().enumerate() {
                    let there = &all[halving.to][level];
                    assert_eq!(there.mine, halving.theirs);
                    assert!(there.from.iter().any(|(from, _)| *from == rank));
                }
            }
        }
    }
}
