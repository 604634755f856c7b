//! K-nomial tree of radix 4: rank v (counted from the root, in digits of base 4) has as children the ranks that have one
//! more digit below v's lowest one that is not 0. A binomial tree is the same of radix 2.
//!
//! *broadcast*: from the root down, the largest subtrees first. *reduce*: from the leaves up; a rank folds its own vector, then
//! its children's in order, all at once, so that the tree folds in rank order from the root.
//!
//! Steps: the most digits that are not 0, at most ceil(log4 n). Bytes: broadcast: S per child at the root, at most 3
//! ceil(log4 n); reduce: S per rank, and as many reach the root. An element is rounded once per level.

use hcomm_ops::Rank;

use super::group::{ahead, behind};
use super::tally::Tally;
use super::{Algorithm, Call, Layout, NO_PAIRS, ONE_CHANNEL, only_of_two, serves_all};
use crate::choose::Work;
use crate::graph::Builder;
use crate::plan::Span;
use crate::request::Collective;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "knomial",
    doc: "A tree in which the number of ranks reached grows fourfold at every step.",
    collectives: &[Collective::Broadcast, Collective::Reduce],
    channels: ONE_CHANNEL,
    pairs: NO_PAIRS,
    rank_order: only_of_two,
    refuses: serves_all,
    layout: |_| Layout::of(1),
    work,
    build,
};

const RADIX: usize = 4;

fn work(call: &Call<'_>) -> Work {
    let tree = Tree::new(call.world, call.root, call.root);
    let mut tally = Tally::new(call);
    for (child, parent) in tree.edges() {
        let (from, to) =
            if call.collective == Collective::Broadcast { (parent, child) } else { (child, parent) };
        tally.message(from, to, 1);
    }
    let levels = tree.depth();
    match call.collective {
        Collective::Broadcast => tally.work(levels, 1).copying(1.0),
        _ => tally.work(levels, 1).reducing(tree.children().len() as f64, levels),
    }
}

fn build(call: &Call<'_>, rank: Rank, b: &mut Builder) {
    let tree = Tree::new(call.world, call.root, rank);
    match call.collective {
        Collective::Broadcast => broadcast(b, &tree),
        _ => reduce(b, &tree),
    }
}

fn broadcast(b: &mut Builder, tree: &Tree) {
    match tree.parent() {
        None => b.copy(Span::input(0), Span::output(0)),
        Some(parent) => b.recv(tree.rank(parent), 0, Span::output(0)),
    }
    let whole = if tree.me == 0 { Span::input(0) } else { Span::output(0) };
    for child in tree.children().into_iter().rev() {
        b.send(tree.rank(child), 0, whole);
    }
}

fn reduce(b: &mut Builder, tree: &Tree) {
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

/// The tree as one rank sees it. Its members are counted from the root.
pub(super) struct Tree {
    world: usize,
    root: Rank,
    /// This rank's member.
    pub me: usize,
}

impl Tree {
    /// The tree under `root`, as `rank` sees it.
    pub fn new(world: usize, root: Rank, rank: Rank) -> Tree {
        Tree { world, root, me: behind(rank, root, world) }
    }

    /// The rank of a member.
    pub fn rank(&self, member: usize) -> Rank {
        ahead(self.root, member, self.world)
    }

    /// Whom this rank hangs off.
    pub fn parent(&self) -> Option<usize> {
        let step = stride(self.me)?;
        Some(self.me - self.me / step % RADIX * step)
    }

    /// The children, the smallest subtrees first.
    pub fn children(&self) -> Vec<usize> {
        let end = stride(self.me).unwrap_or(self.world);
        let strides =
            std::iter::successors(Some(1), |step| Some(step * RADIX)).take_while(|step| *step < end);
        let children = strides.flat_map(|step| (1..RADIX).map(move |digit| self.me + digit * step));
        children.filter(|child| *child < self.world).collect()
    }

    /// Members of the subtree of a member other than the root.
    pub fn size(&self, member: usize) -> usize {
        stride(member).unwrap_or(self.world).min(self.world - member)
    }

    /// All pairs of a child and its parent, by rank.
    pub fn edges(&self) -> impl Iterator<Item = (Rank, Rank)> {
        (1..self.world).filter_map(|me| {
            let parent = Tree { me, ..*self }.parent()?;
            Some((self.rank(me), self.rank(parent)))
        })
    }

    /// Levels below the root.
    pub fn depth(&self) -> usize {
        let digits = |member: &usize| std::iter::successors(Some(*member), |m| (*m > 0).then_some(m / RADIX));
        let level = |member: usize| digits(&member).filter(|rest| !rest.is_multiple_of(RADIX)).count();
        (0..self.world).map(level).max().unwrap_or(0)
    }
}

/// The value of a member's lowest digit that is not 0; none for the root.
fn stride(member: usize) -> Option<usize> {
    let mut strides = std::iter::successors(Some(RADIX), |step| Some(step * RADIX));
    (member != 0).then(|| strides.find(|step| !member.is_multiple_of(*step)))?.map(|above| above / RADIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth_of(world: usize, me: usize) -> usize {
        let tree = Tree { world, root: 0, me };
        tree.children().into_iter().map(|child| 1 + depth_of(world, child)).max().unwrap_or(0)
    }

    #[test]
    fn every_member_has_one_parent_and_subtrees_add_up() {
        for world in 2..140 {
            let mut seen = vec![0; world];
            for me in 0..world {
                let tree = Tree { world, root: 0, me };
                let below: usize = tree.children().iter().map(|child| tree.size(*child)).sum();
                assert_eq!(tree.size(me), below + 1, "member {me} of {world}");
                for child in tree.children() {
                    seen[child] += 1;
                    assert_eq!(Tree { world, root: 0, me: child }.parent(), Some(me), "{child} of {world}");
                }
            }
            assert!(seen[1..].iter().all(|times| *times == 1));
            assert_eq!(Tree { world, root: 0, me: 0 }.depth(), depth_of(world, 0), "{world}");
        }
    }
}
