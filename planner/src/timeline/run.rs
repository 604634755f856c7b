//! [`Timeline`]: when the nodes run, and the [`Step`]s of the critical path.

use hcomm_ops::Rank;

use crate::plan::NodeId;

/// One node's run for one tile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Whose node.
    pub rank: Rank,
    /// The node.
    pub node: NodeId,
    /// The tile.
    pub tile: u32,
    /// Nanoseconds from the start of the call to that of the run.
    pub from_ns: f64,
    /// And to its end.
    pub to_ns: f64,
}

/// Why a run did not begin sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It began at once.
    Start,
    /// The node before it on its lane (or the last one, for the tile before) had to end.
    Lane,
    /// A dependency had to end.
    Dep,
    /// A message had to arrive.
    Message,
    /// A full channel had to be read from.
    Room,
    /// The processor was busy with another lane.
    Processor,
}

/// One run of the critical path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The run.
    pub run: Run,
    /// Why it did not begin sooner: what it waited for is the run of the step before.
    pub why: Why,
}

/// When each node runs for each tile, and which runs decide how long all of it takes.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Number of each rank's first node, and of all nodes.
    pub(super) base: Vec<usize>,
    /// Times of every node, for `tiles` tiles each; a tile that a node skips has `NaN`.
    pub(super) times: Vec<(f64, f64)>,
    pub(super) tiles: usize,
    pub(super) trips: u64,
    pub(super) total_ns: f64,
    pub(super) path: Vec<Step>,
    pub(super) tile_path: Vec<Step>,
}

impl Timeline {
    /// How long the call takes, in nanoseconds. Where not all tiles were followed, the end of those that were, and for each of the
    /// others what a tile of the second half of those added; all the others take at least as long as what they keep busiest.
    pub fn total_ns(&self) -> f64 {
        self.total_ns
    }

    /// Tiles that the longest chunk is cut into.
    pub fn trips(&self) -> u64 {
        self.trips
    }

    /// How many of those were followed.
    pub fn tiles(&self) -> usize {
        self.tiles
    }

    /// The chain of runs that determines the end: each could not begin before the one before it had ended (and, for a message or
    /// room, the news of it had arrived). The last one is the last that ends of the tiles followed.
    pub fn critical_path(&self) -> &[Step] {
        &self.path
    }

    /// The critical path of a call of one full tile: the longest way through the loop body, which drawings of the body mark.
    pub fn critical_path_of_one_tile(&self) -> &[Step] {
        &self.tile_path
    }

    /// A node's runs, by tile; none where there is no such node.
    pub fn runs_of(&self, rank: Rank, node: NodeId) -> impl Iterator<Item = Run> + '_ {
        let at = self.base.get(rank).map(|base| base + node as usize);
        let at = at.filter(|at| *at < self.base.get(rank + 1).copied().unwrap_or(0));
        let times = at.map_or(&[][..], |at| &self.times[at * self.tiles..(at + 1) * self.tiles]);
        let run = move |(tile, (from_ns, to_ns)): (usize, &(f64, f64))| Run {
            rank,
            node,
            tile: tile as u32,
            from_ns: *from_ns,
            to_ns: *to_ns,
        };
        times.iter().enumerate().filter(|(_, (from, _))| !from.is_nan()).map(run)
    }

    /// All runs, rank by rank, node by node, tile by tile.
    pub fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        let ranks = 0..self.base.len().saturating_sub(1);
        let nodes = ranks.flat_map(|rank| {
            let count = self.base[rank + 1] - self.base[rank];
            (0..count as NodeId).map(move |node| (rank, node))
        });
        nodes.flat_map(|(rank, node)| self.runs_of(rank, node))
    }
}
