//! [`Trees`]: two binary trees over the same members, such that almost nobody passes on in both. Pure arithmetic, shared by
//! the algorithms that send half of the bytes down each.
//!
//! The first tree is in order: member m, whose lowest set bit is b, stands for the members between m - b and m + b; its
//! children are the middles of the halves, m - b/2 and m + b/2, or what is left of a half that the end cuts short. Member 0 is
//! the root, above the largest power of two. Odd members are leaves.
//!
//! The second tree is the first one with other members in its places: turned round for an even number of members, moved
//! on by one for an odd one. So its leaves are the even members, and only one of an odd number of members passes on in both.

/// Two trees over members `0 .. members`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trees {
    members: usize,
}

/// A member's neighbours in one tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// Whom it hangs off; none for the root.
    pub parent: Option<usize>,
    /// The child whose members come before it in the order of the tree.
    pub left: Option<Child>,
    /// The child whose members come after it.
    pub right: Option<Child>,
}

/// A child, and how many members it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub member: usize,
    pub members: usize,
}

impl Trees {
    /// The trees of at least one member.
    pub fn new(members: usize) -> Trees {
        Trees { members }
    }

    /// How many members there are.
    pub fn members(self) -> usize {
        self.members
    }

    /// The member at the root of tree 0 or 1.
    pub fn root(self, tree: usize) -> usize {
        self.member(tree, 0)
    }

    /// Member `member`'s neighbours in tree 0 or 1.
    pub fn node(self, tree: usize, member: usize) -> Node {
        let place = self.place(tree, member);
        let child = |place: usize| Child { member: self.member(tree, place), members: self.below(place) };
        let (left, right) = self.children(place);
        Node {
            parent: self.parent(place).map(|above| self.member(tree, above)),
            left: left.map(child),
            right: right.map(child),
        }
    }

    /// The place in the first tree that a member takes in tree `tree`.
    fn place(self, tree: usize, member: usize) -> usize {
        match (tree, self.members % 2) {
            (0, _) => member,
            (_, 0) => self.members - 1 - member,
            _ => (member + self.members - 1) % self.members,
        }
    }

    /// The member that takes a place.
    fn member(self, tree: usize, place: usize) -> usize {
        match (tree, self.members % 2) {
            (0, _) => place,
            (_, 0) => self.members - 1 - place,
            _ => (place + 1) % self.members,
        }
    }

    fn parent(self, place: usize) -> Option<usize> {
        if place == 0 {
            return None;
        }
        let bit = lowest_bit(place);
        let (after, before) = ((place ^ bit) | bit << 1, place ^ bit);
        Some(if after < self.members { after } else { before })
    }

    fn children(self, place: usize) -> (Option<usize>, Option<usize>) {
        if place == 0 {
            return (None, (self.members > 1).then(|| super::group::power_of_two_below(self.members - 1)));
        }
        let half = lowest_bit(place) / 2;
        let right = std::iter::successors(Some(half), |step| Some(step / 2));
        let right = right.take_while(|step| *step > 0).map(|step| place + step);
        ((half > 0).then(|| place - half), right.into_iter().find(|right| *right < self.members))
    }

    /// How many members a place other than the root stands for.
    fn below(self, place: usize) -> usize {
        let bit = lowest_bit(place);
        (place + bit).min(self.members) - (place - bit) - 1
    }
}

impl Node {
    /// Its children, in the order of the tree.
    pub fn children(&self) -> impl Iterator<Item = Child> {
        self.left.into_iter().chain(self.right)
    }
}

fn lowest_bit(place: usize) -> usize {
    1 << place.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::group::log2_ceil;

    fn depth(trees: Trees, tree: usize, member: usize) -> u32 {
        trees.node(tree, member).children().map(|c| 1 + depth(trees, tree, c.member)).max().unwrap_or(0)
    }

    fn size(trees: Trees, tree: usize, member: usize) -> usize {
        1 + trees.node(tree, member).children().map(|c| size(trees, tree, c.member)).sum::<usize>()
    }

    #[test]
    fn both_trees_reach_everybody_and_say_how_many_are_below() {
        for members in 1..130 {
            let trees = Trees::new(members);
            for tree in [0, 1] {
                assert_eq!(size(trees, tree, trees.root(tree)), members, "tree {tree} of {members}");
                assert_eq!(
                    depth(trees, tree, trees.root(tree)),
                    log2_ceil(members),
                    "tree {tree} of {members}"
                );
                for member in 0..members {
                    for child in trees.node(tree, member).children() {
                        assert_eq!(trees.node(tree, child.member).parent, Some(member));
                        assert_eq!(size(trees, tree, child.member), child.members, "{child:?} of {members}");
                    }
                }
            }
        }
    }

    #[test]
    fn nobody_has_more_than_two_children_in_both_together() {
        for members in 2..130 {
            let trees = Trees::new(members);
            let children = |tree, member| trees.node(tree, member).children().count();
            let passes_on = |member: &usize| children(0, *member) > 0 && children(1, *member) > 0;
            assert!((0..members).all(|member| children(0, member) + children(1, member) <= 2), "{members}");
            let both = (0..members).filter(passes_on).count();
            assert!(both <= members % 2, "{both} of {members} pass on in both");
        }
    }
}
