//! Peer and block arithmetic of [`super::swing`].
//!
//! The pattern is the same for all even ranks, and mirrored for odd ones. So block d is known to rank r by its **offset**:
//! d - r for an even r, r - d for an odd one, modulo the world. What has offset o for a rank has offset rho(s) - o for its peer at
//! step s.
//!
//! Gathering takes the steps from the last to the first. Before step s a rank has the blocks that can be reached from it by the steps
//! after s; at step s it takes what its peer has and it has not. Reducing takes the steps from the first to the last and
//! gives, at step s, exactly what it will take back there.

use hcomm_ops::Rank;

use super::group::log2_ceil;
use crate::graph::MAX_SPAN;

/// The pattern of one even world.
#[derive(Clone, Debug)]
pub(super) struct Swing {
    world: usize,
    /// At each step, the blocks within reach of the steps from it on, by offset; at the end only the own block.
    reach: Vec<Vec<bool>>,
    /// Before each step of the reduction, how many ranks' inputs a rank has of a block, by offset.
    held: Vec<Vec<u64>>,
    /// The rank of each block, in the order in which blocks lie.
    order: Vec<Rank>,
}

/// Blocks that lie side by side and are alike, no more than a message can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub block: u32,
    pub count: u32,
    /// How many ranks' inputs the rank has of each.
    pub held: u64,
    /// The same of its peer.
    pub held_there: u64,
}

impl Swing {
    /// The pattern of `world` ranks, an even number.
    pub fn new(world: usize) -> Swing {
        let steps = log2_ceil(world) as usize;
        let mut swing = Swing { world, reach: Vec::new(), held: vec![vec![1; world]], order: Vec::new() };
        swing.reach = vec![vec![false; world]; steps + 1];
        swing.reach[steps][0] = true;
        for step in (0..steps).rev() {
            for offset in 0..world {
                let there = swing.mirrored(offset, step);
                swing.reach[step][offset] = swing.reach[step + 1][offset] || swing.reach[step + 1][there];
            }
        }
        for step in 0..steps {
            let before = &swing.held[step];
            let takes = |offset: usize| swing.takes(offset, step);
            let add = |offset: usize| if takes(offset) { before[swing.mirrored(offset, step)] } else { 0 };
            let after = (0..world).map(|offset| before[offset] + add(offset)).collect();
            swing.held.push(after);
        }
        swing.order = swing.order();
        swing
    }

    /// Steps of either phase.
    pub fn steps(&self) -> usize {
        self.reach.len() - 1
    }

    /// The peer of a rank at a step.
    pub fn peer(&self, rank: Rank, step: usize) -> Rank {
        let swing = rho(step, self.world);
        if rank.is_multiple_of(2) {
            (rank + swing) % self.world
        } else {
            (rank + self.world - swing) % self.world
        }
    }

    /// What a rank gives away at a step of the reduction.
    pub fn given(&self, rank: Rank, step: usize) -> Vec<Piece> {
        self.pieces(rank, step, true, |offset| self.held[step][offset])
    }

    /// What a rank adds to its own at a step of the reduction.
    pub fn taken(&self, rank: Rank, step: usize) -> Vec<Piece> {
        self.pieces(rank, step, false, |offset| self.held[step][offset])
    }

    /// What a rank passes on (`sent`) or gets at a step of the gathering.
    pub fn finished(&self, rank: Rank, step: usize, sent: bool) -> Vec<Piece> {
        self.pieces(rank, step, !sent, |_| self.world as u64)
    }

    /// The blocks of the longest piece that any rank has at any step.
    pub fn longest_piece(&self) -> usize {
        if self.world.is_power_of_two() {
            return self.world / 2;
        }
        // In the order of the ranks, whatever follows one another round the ring does so without a break for some rank.
        let longest = |step: usize| {
            let mut run = 0;
            let runs = (0..2 * self.world).map(|offset| {
                run = if self.takes(offset % self.world, step) { run + 1 } else { 0 };
                run
            });
            runs.max()
        };
        (0..self.steps()).filter_map(longest).max().unwrap_or(1)
    }

    /// The blocks that leave (`gives`) or come at a step of the reduction, in pieces that both ends cut alike.
    fn pieces(&self, rank: Rank, step: usize, gives: bool, held: impl Fn(usize) -> u64) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for (block, of) in self.order.iter().enumerate() {
            let offset = self.offset(rank, *of);
            let there = self.mirrored(offset, step);
            if !self.takes(if gives { there } else { offset }, step) {
                continue;
            }
            let (block, held, held_there) = (block as u32, held(offset), held(there));
            match pieces.last_mut() {
                Some(last)
                    if last.block + last.count == block
                        && last.count < MAX_SPAN
                        && (last.held, last.held_there) == (held, held_there) =>
                {
                    last.count += 1;
                }
                _ => pieces.push(Piece { block, count: 1, held, held_there }),
            }
        }
        pieces
    }

    /// Whether a rank takes the block at an offset from its peer at a step of the reduction.
    fn takes(&self, offset: usize, step: usize) -> bool {
        self.reach[step + 1][offset] && !self.reach[step + 1][self.mirrored(offset, step)]
    }

    fn offset(&self, rank: Rank, block: Rank) -> usize {
        let (from, to) = if rank.is_multiple_of(2) { (rank, block) } else { (block, rank) };
        (to + self.world - from) % self.world
    }

    /// The offset for the peer at a step.
    fn mirrored(&self, offset: usize, step: usize) -> usize {
        (rho(step, self.world) + self.world - offset) % self.world
    }

    fn order(&self) -> Vec<Rank> {
        if !self.world.is_power_of_two() {
            return (0..self.world).collect();
        }
        let mut order = vec![0];
        for step in (0..self.steps()).rev() {
            order = self.doubled(order, step);
        }
        order
    }

    /// Blocks within reach of rank 0 after a step, and behind them those that its peer brings in, in the same order.
    fn doubled(&self, near: Vec<Rank>, step: usize) -> Vec<Rank> {
        let far: Vec<Rank> = near.iter().map(|block| self.mirrored(*block, step)).collect();
        near.into_iter().chain(far).collect()
    }
}

/// How far peers are apart at a step, modulo the world.
fn rho(step: usize, world: usize) -> usize {
    let distance = (1 - (-2_i64).pow(step as u32 + 1)) / 3;
    distance.rem_euclid(world as i64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_gives_the_other_takes_and_every_input_comes_once() {
        for world in (2..80).step_by(2) {
            let swing = Swing::new(world);
            assert!(swing.reach[0].iter().all(|reached| *reached), "{world}: every block within reach");
            assert_eq!(swing.held[swing.steps()][0], world as u64, "{world}: the own block is complete");
            for (rank, step) in (0..world).flat_map(|rank| (0..swing.steps()).map(move |step| (rank, step))) {
                let peer = swing.peer(rank, step);
                assert_eq!(swing.peer(peer, step), rank);
                let turned = |p: Piece| Piece { held: p.held_there, held_there: p.held, ..p };
                let taken: Vec<_> = swing.taken(peer, step).into_iter().map(turned).collect();
                assert_eq!(swing.given(rank, step), taken, "rank {rank} of {world} at step {step}");
                assert_eq!(swing.finished(rank, step, true), swing.finished(peer, step, false));
            }
        }
    }

    #[test]
    fn powers_of_two_move_one_piece_per_step_between_peers_at_odd_distances() {
        let swing = Swing::new(32);
        assert_eq!([0, 1, 2, 3, 4].map(|step| swing.peer(0, step)), [1, 31, 3, 27, 11]);
        for rank in 0..32 {
            let counts =
                (0..5).map(|step| swing.given(rank, step).iter().map(|p| p.count).collect::<Vec<_>>());
            assert_eq!(counts.collect::<Vec<_>>(), [[16], [8], [4], [2], [1]]);
        }
    }
}
