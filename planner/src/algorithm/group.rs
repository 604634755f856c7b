//! [`Group`]: ranks in an order, and the peer arithmetic that the algorithms share.

use hcomm_ops::Rank;

/// Some ranks in an order, and this rank's place among them.
#[derive(Clone, Debug)]
pub(super) struct Group {
    ranks: Vec<Rank>,
    /// This rank's index.
    pub me: usize,
}

impl Group {
    /// All ranks, in their own order.
    pub fn world(world: usize, rank: Rank) -> Group {
        Group { ranks: (0..world).collect(), me: rank }
    }

    /// The given ranks, of which `rank` is one.
    pub fn of(ranks: Vec<Rank>, rank: Rank) -> Group {
        let me = ranks.iter().position(|r| *r == rank).expect("a group is made for one of its members");
        Group { ranks, me }
    }

    /// Members.
    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    /// The members.
    pub fn ranks(&self) -> &[Rank] {
        &self.ranks
    }

    /// The rank of member `index`.
    pub fn rank(&self, index: usize) -> Rank {
        self.ranks[index]
    }

    /// The member after this one, on the ring.
    pub fn right(&self) -> Rank {
        self.ranks[ahead(self.me, 1, self.len())]
    }

    /// The member before this one, on the ring.
    pub fn left(&self) -> Rank {
        self.ranks[behind(self.me, 1, self.len())]
    }

    /// The indices of the other members, beginning after this one: so that not all begin with the same peer.
    pub fn others(&self) -> impl Iterator<Item = usize> + '_ {
        (1..self.len()).map(|step| ahead(self.me, step, self.len()))
    }
}

/// `by` places after `index` on a ring of `len`.
pub(super) fn ahead(index: usize, by: usize, len: usize) -> usize {
    (index + by) % len
}

/// `by` places before `index` on a ring of `len`; `by` is at most `len`.
pub(super) fn behind(index: usize, by: usize, len: usize) -> usize {
    (index + len - by % len) % len
}

/// The smallest number of doublings that reaches `n`.
pub(super) fn log2_ceil(n: usize) -> u32 {
    n.next_power_of_two().trailing_zeros()
}

/// The largest power of two that is at most `n`; `n` is at least 1.
pub(super) fn power_of_two_below(n: usize) -> usize {
    1 << n.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_close() {
        let group = Group::of(vec![4, 9, 2], 2);
        assert_eq!((group.left(), group.right()), (9, 4));
        assert_eq!(group.others().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(behind(1, 3, 3), 1);
        assert_eq!((log2_ceil(1), log2_ceil(5), power_of_two_below(5)), (0, 3, 4));
    }
}
