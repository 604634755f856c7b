//! Ranks that are processes: they come together, exchange messages, and notice how each other ends.

mod child;
mod parent;

use std::time::{Duration, Instant};

use parent::{Ranks, VICTIM};

/// How long a rank's end may take to be noticed: ten times what is promised.
const NOTICED: Duration = Duration::from_secs(10);

/// Not a test of its own: what the processes run that the others start.
#[test]
fn rank_process() {
    child::run();
}

#[test]
fn processes_come_together_and_exchange_messages() {
    for transport in ["auto", "tcp"] {
        for world in [1, 2, 3, 5] {
            let mut ranks = Ranks::start(world, transport, |_| "exchange");
            for rank in 0..world {
                assert_eq!(ranks.line(rank), "exchanged", "rank {rank} of {world} over {transport}");
                assert!(ranks.wait(rank).success());
            }
        }
    }
}

#[test]
fn a_killed_rank_is_noticed_by_all() {
    for transport in ["auto", "tcp"] {
        for victim in [0, 1, 3] {
            let mut ranks = Ranks::start_with(4, transport, victim, "stay");
            ranks.lines_of_all("ready");
            ranks.kill(victim);
            assert_noticed(&mut ranks, victim, "its process ended without closing the communicator");
        }
    }
}

#[test]
fn a_rank_that_exits_without_a_goodbye_is_noticed_by_all() {
    for transport in ["auto", "tcp"] {
        let mut ranks = Ranks::start_with(3, transport, 0, "exit");
        ranks.lines_of_all("ready");
        assert_noticed(&mut ranks, 0, "its process ended without closing the communicator");
    }
}

#[test]
fn a_killed_rank_is_noticed_though_its_child_holds_its_sockets() {
    for transport in ["auto", "tcp"] {
        let mut ranks = Ranks::start_with(3, transport, 1, "bequeath");
        ranks.lines_of_all("ready");
        ranks.kill(1);
        assert_noticed(&mut ranks, 1, "its process ended without closing the communicator");
    }
}

#[test]
fn a_rank_that_leaves_is_never_lost() {
    for transport in ["auto", "tcp"] {
        for victim in [0, 2] {
            let mut ranks = Ranks::start_with(3, transport, victim, "leave");
            ranks.lines_of_all("ready");
            for rank in (0..3).filter(|&rank| rank != victim) {
                assert_eq!(ranks.line(rank), format!("left {victim} after 7"));
                assert_eq!(ranks.line(rank), "nothing more");
                assert!(ranks.wait(rank).success());
            }
        }
    }
}

#[test]
fn ranks_killed_at_random_moments_leave_no_rank_waiting() {
    for round in 0..20_u64 {
        let mut ranks = Ranks::start_hasty(3, ["auto", "tcp"][round as usize % 2], 1);
        std::thread::sleep(Duration::from_micros(round * round * 150));
        ranks.kill(1);
        for rank in [0, 2] {
            let (first, start) = (ranks.line(rank), Instant::now());
            let word = if first == "ready" { ranks.line(rank) } else { first };
            let is_told = word.starts_with("lost 1 ") || word.starts_with("no session: ");
            assert!(is_told, "rank {rank} said {word:?} in round {round}");
            assert!(start.elapsed() < NOTICED);
        }
    }
}

fn assert_noticed(ranks: &mut Ranks, victim: usize, cause: &str) {
    let start = Instant::now();
    for rank in (0..ranks.world()).filter(|&rank| rank != victim) {
        assert_eq!(ranks.line(rank), format!("lost {victim} because {cause}"));
        assert!(start.elapsed() < NOTICED, "it took {:?}", start.elapsed());
        eprintln!("rank {rank} noticed the end of rank {victim} after {:?}", start.elapsed());
        assert_eq!(ranks.line(rank), "nothing more");
    }
    assert!(std::env::var_os(VICTIM).is_none(), "a child ran the parent's test");
}
