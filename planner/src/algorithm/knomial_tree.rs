//! [`Tree`]: k-nomial trees. Members are counted from the root and written in digits of base k: the children of a member have one more
//! digit below its lowest one that is not 0. Binomial trees are those of radix 2.

use hcomm_ops::Rank;

use super::group::{ahead, behind};
use super::runs::{Run, runs};
use crate::graph::Builder;
use crate::plan::Span;

/// A tree as one rank sees it. Every subtree is a run of members that begins with its own root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree {
    radix: usize,
    world: usize,
    root: Rank,
    /// This rank's member.
    pub me: usize,
}

impl Tree {
    /// The tree of `radix` under `root`, as `rank` sees it.
    pub fn new(radix: usize, world: usize, root: Rank, rank: Rank) -> Tree {
        Tree { radix, world, root, me: behind(rank, root, world) }
    }

    /// The rank of a member.
    pub fn rank(&self, member: usize) -> Rank {
        ahead(self.root, member, self.world)
    }

    /// Whom this rank hangs off.
    pub fn parent(&self) -> Option<usize> {
        let step = self.stride(self.me)?;
        Some(self.me - self.me / step % self.radix * step)
    }

    /// The children, the smallest subtrees first.
    pub fn children(&self) -> Vec<usize> {
        let Tree { radix, world, me, .. } = *self;
        let end = self.stride(me).unwrap_or(world);
        let strides =
            std::iter::successors(Some(1), |step| Some(step * radix)).take_while(|step| *step < end);
        let children = strides.flat_map(|step| (1..radix).map(move |digit| me + digit * step));
        children.filter(|child| *child < world).collect()
    }

    /// Members of a member's subtree.
    pub fn size(&self, member: usize) -> usize {
        self.stride(member).unwrap_or(self.world).min(self.world - member)
    }

    /// The runs of blocks, a block for each rank, that the blocks of a subtree travel in; counted from the root's.
    pub fn blocks(&self, member: usize) -> impl Iterator<Item = Run> {
        runs(self.root, member..member + self.size(member), self.world)
    }

    /// All pairs of a child and its parent, as members.
    pub fn edges(&self) -> impl Iterator<Item = (usize, usize)> {
        (1..self.world).filter_map(|me| Some((me, Tree { me, ..*self }.parent()?)))
    }

    /// Levels below the root.
    pub fn depth(&self) -> usize {
        let digits =
            |member: &usize| std::iter::successors(Some(*member), |m| (*m > 0).then_some(m / self.radix));
        let level = |member: usize| digits(&member).filter(|rest| !rest.is_multiple_of(self.radix)).count();
        (0..self.world).map(level).max().unwrap_or(0)
    }

    /// The value of a member's lowest digit that is not 0; none for the root.
    fn stride(&self, member: usize) -> Option<usize> {
        let mut strides = std::iter::successors(Some(self.radix), |step| Some(step * self.radix));
        (member != 0)
            .then(|| strides.find(|step| !member.is_multiple_of(*step)))?
            .map(|above| above / self.radix)
    }
}

/// Passes the root's vector down, the largest subtrees first.
pub(super) fn broadcast(b: &mut Builder, tree: &Tree) {
    match tree.parent() {
        None => b.copy(Span::input(0), Span::output(0)),
        Some(parent) => b.recv(tree.rank(parent), 0, Span::output(0)),
    }
    let whole = if tree.me == 0 { Span::input(0) } else { Span::output(0) };
    for child in tree.children().into_iter().rev() {
        b.send(tree.rank(child), 0, whole);
    }
}

/// Folds up: each rank its own vector, then its children's in order, all at once.
pub(super) fn reduce(b: &mut Builder, tree: &Tree) {
    let own = Span::input(0);
    let mut sources = vec![own];
    for child in tree.children() {
        let arrived = b.scratch(own);
        b.recv_partial(tree.rank(child), 0, arrived, tree.size(child) as u64);
        sources.push(arrived);
    }
    match tree.parent() {
        None => b.reduce(&sources, Span::output(0)),
        Some(parent) if sources.len() == 1 => b.send(tree.rank(parent), 0, own),
        Some(parent) => {
            let sum = b.scratch(own);
            b.reduce(&sources, sum);
            b.send(tree.rank(parent), 0, sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth_of(tree: Tree) -> usize {
        tree.children().into_iter().map(|me| 1 + depth_of(Tree { me, ..tree })).max().unwrap_or(0)
    }

    #[test]
    fn every_member_has_one_parent_and_subtrees_add_up() {
        for (radix, world) in
            [2, 3, 4].into_iter().flat_map(|radix| (2..140).map(move |world| (radix, world)))
        {
            let whole = Tree::new(radix, world, 0, 0);
            let mut seen = vec![0; world];
            for me in 0..world {
                let tree = Tree { me, ..whole };
                let below: usize = tree.children().iter().map(|child| tree.size(*child)).sum();
                assert_eq!(tree.size(me), below + 1, "member {me} of {world}");
                for child in tree.children() {
                    seen[child] += 1;
                    assert_eq!(Tree { me: child, ..tree }.parent(), Some(me), "{child} of {world}");
                }
            }
            assert!(seen[1..].iter().all(|times| *times == 1));
            assert_eq!(whole.depth(), depth_of(whole), "radix {radix}, {world}");
        }
    }
}
