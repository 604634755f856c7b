//! [`Gate`]: the nodes that stand for what a step waits for, the latest of each lane: those before it on a lane go first anyway.

use std::collections::BTreeMap;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gate {
    /// By lane.
    latest: BTreeMap<usize, usize>,
}

impl Gate {
    /// Waits for a node of a lane, if there is one.
    pub fn wait_for(&mut self, lane: usize, node: Option<usize>) {
        if let Some(node) = node {
            let latest = self.latest.entry(lane).or_insert(node);
            *latest = node.max(*latest);
        }
    }

    /// Waits for all that another waits for.
    pub fn add(&mut self, other: &Gate) {
        other.latest.iter().for_each(|(lane, node)| self.wait_for(*lane, Some(*node)));
    }

    /// The nodes; those of the waiting node's own lane have gone before it.
    pub fn into_nodes(self, own: usize) -> Vec<usize> {
        let others = self.latest.into_iter().filter(|(lane, _)| *lane != own);
        others.map(|(_, node)| node).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_node_of_each_other_lane_is_waited_for() {
        let mut gate = Gate::default();
        for (lane, node) in [(1, Some(4)), (2, Some(7)), (1, Some(3)), (3, None), (5, Some(9))] {
            gate.wait_for(lane, node);
        }
        let mut more = Gate::default();
        more.wait_for(2, Some(8));
        gate.add(&more);
        assert_eq!(gate.into_nodes(5), [4, 8]);
    }
}
