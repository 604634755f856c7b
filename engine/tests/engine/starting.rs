//! How communicators come to be: a job's secret that rank 0 leaves, two jobs at once, ports that are taken, and giving up.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use hcomm_engine::environment::{Address, Placement, Secret, Token, Variables};
use hcomm_engine::settings::Settings;
use hcomm_engine::{Communicator, CreateError};
use hcomm_ops::ReduceOp;
use hcomm_transports::rendezvous::Cancel;

use crate::common::{data, sum, within};

/// Rank `rank` of two, as torchrun would tell it in a job of this test's.
fn torchrun(rank: usize, job: &str) -> Placement {
    let rank = rank.to_string();
    let job = format!("{job} {}", std::process::id());
    let pairs = [
        ("RANK", rank.as_str()),
        ("WORLD_SIZE", "2"),
        ("LOCAL_RANK", rank.as_str()),
        ("LOCAL_WORLD_SIZE", "2"),
        ("MASTER_ADDR", "no-such-host.invalid"),
        ("MASTER_PORT", "29500"),
        ("TORCHELASTIC_RUN_ID", job.as_str()),
    ];
    Placement::from_variables(&Variables::from_pairs(pairs)).expect("it is complete")
}

/// Both name the same port to torch, and come in any order.
#[test]
fn jobs_of_one_host_find_their_own_ranks() {
    within(60, || {
        thread::scope(|s| {
            for (at, (job, rank)) in [("a", 1), ("b", 1), ("b", 0), ("a", 0)].into_iter().enumerate() {
                s.spawn(move || {
                    thread::sleep(Duration::from_millis(at as u64 * 50));
                    let comm = Communicator::connect(&torchrun(rank, job), Settings::default());
                    let comm = comm.expect("the ranks meet");
                    let scale = if job == "a" { 1 } else { 10 };
                    let mut buffer: Vec<i64> = data(rank, 100).iter().map(|x| x * scale).collect();
                    comm.all_reduce(&mut buffer, ReduceOp::Sum).expect("all ranks came");
                    let expected: Vec<i64> = sum(2, 100).iter().map(|x| x * scale).collect();
                    assert_eq!(buffer, expected, "job {job}");
                    comm.close().expect("all is done");
                });
            }
        });
    });
}

/// What was left for the first is not taken for the second's.
#[test]
fn a_job_may_begin_again_and_again() {
    within(60, || {
        let ranks: Vec<_> = (0..2)
            .map(|rank| {
                thread::spawn(move || {
                    for _ in 0..20 {
                        let comm = Communicator::connect(&torchrun(rank, "again"), Settings::default());
                        comm.expect("the ranks meet").close().expect("all is done");
                    }
                })
            })
            .collect();
        ranks.into_iter().for_each(|rank| rank.join().expect("it succeeds"));
    });
}

fn by_hand(rank: usize, port: u16, source: &'static str) -> Placement {
    let address = Address { host: "127.0.0.1".to_owned(), port };
    let secret = Secret::Given(Token::derived(&["by hand"]));
    Placement { rank, world: 2, local_rank: None, local_world: None, address, secret, source }
}

#[test]
fn a_port_that_is_taken_names_the_way_out() {
    within(30, || {
        let other = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = other.local_addr().expect("it has one").port();
        for (source, word) in [("torchrun", "HCOMM_PORT"), ("hcomm launch", "HCOMM_ADDRESS")] {
            let taken = Communicator::connect(&by_hand(0, port, source), Settings::default());
            let error = taken.map(drop).expect_err("somebody else listens there");
            assert!(matches!(error, CreateError::AddressInUse { .. }), "{error}");
            assert!(
                error.to_string().contains(word) && error.to_string().contains(&port.to_string()),
                "{error}"
            );
        }
    });
}

#[test]
fn giving_up_frees_the_port_for_another_try() {
    within(60, || {
        let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("one").port();
        let cancel = Cancel::default();
        let start = Instant::now();
        let outcome = thread::scope(|s| {
            let (placement, cancel) = (by_hand(0, port, "by hand"), &cancel);
            let first = s.spawn(move || {
                Communicator::connect_cancellable(&placement, Settings::default(), None, cancel).map(drop)
            });
            thread::sleep(Duration::from_millis(200));
            cancel.cancel();
            first.join().expect("it returns")
        });
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        assert_eq!(
            outcome.expect_err("it was given up").to_string(),
            "rank 0 was interrupted during the rendezvous"
        );
        thread::scope(|s| {
            for rank in 0..2 {
                s.spawn(move || {
                    Communicator::connect(&by_hand(rank, port, "by hand"), Settings::default())
                        .expect("they meet");
                });
            }
        });
    });
}
