//! Several rings over all ranks, for `multi_ring`.
//!
//! Rings come in pairs, one there and one back over the same neighbours. On one host the ring of pair i goes from each rank to
//! the one s(i) places on, s(i) being the i-th number up to n/2 that has no divisor in common with n; when those are used up it
//! begins with the first one again. On several hosts a ring visits host after host, inside a host with such a stride,
//! and begins at another member for every pair, so that different ranks stand at the way out.

use hcomm_ops::Rank;

use super::group::ahead;
use crate::topology::Topology;

/// One of several rings.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    /// The ranks, each before its right neighbour, the first one after the last.
    pub order: Vec<Rank>,
    /// Which of the rings that go over the same neighbours it is.
    pub turn: u8,
}

/// `count` rings over the ranks of a topology.
pub(super) fn rings(topology: &Topology, count: u8) -> Vec<Ring> {
    let mut rings: Vec<Ring> = Vec::new();
    let mut rights: Vec<Vec<Rank>> = Vec::new();
    for number in 0..count {
        let order = order(topology, usize::from(number));
        let right = rights_of(&order);
        let meets = |other: &Vec<Rank>| other.iter().zip(&right).any(|(a, b)| a == b);
        let taken: Vec<u8> =
            rings.iter().zip(&rights).filter(|(_, other)| meets(other)).map(|(ring, _)| ring.turn).collect();
        let turn = (0..count).find(|turn| !taken.contains(turn)).expect("one turn for each ring");
        rings.push(Ring { order, turn });
        rights.push(right);
    }
    rings
}

/// The right neighbour of every rank.
fn rights_of(order: &[Rank]) -> Vec<Rank> {
    let mut rights = vec![0; order.len()];
    (0..order.len()).for_each(|at| rights[order[at]] = order[ahead(at, 1, order.len())]);
    rights
}

fn order(topology: &Topology, ring: usize) -> Vec<Rank> {
    let pair = ring / 2;
    let hosts = 0..topology.host_names().len();
    let mut order: Vec<Rank> = hosts.flat_map(|host| visit(topology.members(host), pair)).collect();
    if ring % 2 == 1 {
        order.reverse();
    }
    order
}

/// The members of a host in the order in which a pair of rings visits them.
fn visit(members: &[Rank], pair: usize) -> impl Iterator<Item = Rank> {
    let (size, stride) = (members.len(), stride(members.len(), pair));
    (0..size).map(move |step| members[(pair + step * stride) % size])
}

/// The stride of a pair of rings over so many places.
fn stride(places: usize, pair: usize) -> usize {
    let strides = || (1..=places / 2).filter(|stride| have_no_common_divisor(*stride, places));
    let found = strides().count().max(1);
    strides().nth(pair % found).unwrap_or(1)
}

fn have_no_common_divisor(mut a: usize, mut b: usize) -> bool {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_of_one_turn_share_no_neighbours() {
        for topology in [5, 8, 12, 31].map(Topology::single_host).into_iter().chain([Topology::hosts(3, 4)]) {
            let rings = rings(&topology, 8);
            for (i, ring) in rings.iter().enumerate() {
                let mut all = ring.order.clone();
                all.sort_unstable();
                assert_eq!(all, (0..topology.world()).collect::<Vec<_>>());
                let rights = rights_of(&ring.order);
                for other in rings[..i].iter().filter(|other| other.turn == ring.turn) {
                    let shared = rights_of(&other.order).iter().zip(&rights).filter(|(a, b)| a == b).count();
                    assert_eq!(shared, 0, "ring {i} of {}", topology.world());
                }
            }
        }
    }

    #[test]
    fn different_neighbours_before_the_same_again() {
        let turns =
            |world: usize| rings(&Topology::single_host(world), 8).iter().map(|r| r.turn).collect::<Vec<_>>();
        assert_eq!(turns(31), [0; 8], "strides 1, 2, 3 and 4, there and back");
        assert_eq!(turns(8), [0, 0, 0, 0, 1, 1, 1, 1], "strides 1 and 3");
        assert_eq!(turns(2), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn hosts_are_left_by_different_ranks() {
        let rings = rings(&Topology::hosts(2, 4), 8);
        let last_of_first_host: Vec<_> = rings.iter().step_by(2).map(|ring| ring.order[3]).collect();
        assert_eq!(last_of_first_host, [3, 0, 1, 2]);
    }
}
