//! Ranks as real processes, over shared memory and TCP: results, deaths, early exits, mismatches, absentees.
//!
//! The ranks are this test binary again: `rank_of_a_job` does nothing unless it is started as a rank.

mod job;
mod segments;

use std::time::Duration;

use hcomm::{Communicator, DType, Op};
use job::{Job, TRANSPORTS};

/// The entry of a rank.
#[test]
fn rank_of_a_job() {
    let Some(role) = job::role() else { return };
    let code = match role.as_str() {
        "collectives" => collectives(),
        "exit" => exit_after_the_last_call(),
        "drop" => drop_after_the_last_call(),
        "drop early" => drop_before_the_peer_comes(),
        "until killed" => call_until_killed(),
        "mismatch" => mismatch(),
        "absent" => absent(),
        "leave early" => leave_early(),
        "share" => segments::share(),
        "buffers until killed" => segments::buffers::call_until_killed(),
        "allocate" => segments::buffers::allocate(),
        other => panic!("no role {other}"),
    };
    std::process::exit(code);
}

#[test]
fn every_collective_gives_the_right_result() {
    for transport in TRANSPORTS {
        for world in [2, 3, 4] {
            Job::start(world, transport, "collectives").expect_success(Duration::from_secs(120));
        }
    }
}

fn element(rank: usize, i: usize) -> i64 {
    (rank as i64 + 1) * 1_000_003 + i as i64 * 7
}

fn data(rank: usize, count: usize) -> Vec<i64> {
    (0..count).map(|i| element(rank, i)).collect()
}

fn collectives() -> i32 {
    let comm = Communicator::from_env().unwrap();
    for count in [0, 1, 3, 1000, 100_003] {
        check_collectives(&comm, count);
    }
    let split = comm.split(Some(comm.rank() as u32 % 2), 0).unwrap().expect("every rank has a group");
    let mut ranks = vec![0_u64; split.world()];
    split.all_gather(&[comm.rank() as u64], &mut ranks).unwrap();
    let expected: Vec<u64> = (0..comm.world() as u64).filter(|r| r % 2 == comm.rank() as u64 % 2).collect();
    assert_eq!(ranks, expected);
    split.close().unwrap();
    comm.close().unwrap();
    0
}

fn check_collectives(comm: &Communicator, count: usize) {
    let (rank, world) = (comm.rank(), comm.world());
    let root = world - 1;
    let sums: Vec<i64> = (0..count * world).map(|i| (0..world).map(|r| element(r, i)).sum()).collect();
    let all: Vec<i64> = (0..world).flat_map(|r| data(r, count)).collect();

    let mut buffer = data(rank, count);
    comm.all_reduce(&mut buffer, Op::Sum).unwrap();
    assert!(buffer == sums[..count]);
    let mut gathered = vec![-1; count * world];
    comm.all_gather(&data(rank, count), &mut gathered).unwrap();
    assert!(gathered == all);
    let mut shard = vec![-1; count];
    comm.reduce_scatter(&data(rank, count * world), &mut shard, Op::Sum).unwrap();
    assert!(shard == sums[rank * count..(rank + 1) * count]);
    let mut buffer = if rank == root { data(root, count) } else { vec![-1; count] };
    comm.broadcast(&mut buffer, root).unwrap();
    assert!(buffer == data(root, count));
    let mut buffer = data(rank, count);
    comm.reduce(&mut buffer, Op::Sum, root).unwrap();
    assert!(rank != root || buffer == sums[..count]);
    let mut gathered = vec![-1; count * world];
    comm.gather(&data(rank, count), (rank == root).then_some(&mut gathered[..]), root).unwrap();
    assert!(rank != root || gathered == all);
    let mut own = vec![-1; count];
    comm.scatter((rank == root).then_some(&all[..]), &mut own, root).unwrap();
    assert!(own == data(rank, count));
    let mut mixed = data(rank, count * world);
    comm.all_to_all_in_place(&mut mixed).unwrap();
    let blocks = (0..world).flat_map(|r| (rank * count..(rank + 1) * count).map(move |i| element(r, i)));
    assert!(mixed.into_iter().eq(blocks));
    comm.barrier().unwrap();
    let works: Vec<_> =
        (0..4).map(|i| comm.all_reduce_async(data(rank, count), Op::Sum).priority(i)).collect();
    assert!(works.into_iter().all(|work| work.wait().unwrap() == sums[..count]));
    if rank == 0 {
        comm.send(&data(0, count), root, 7).unwrap();
    } else if rank == root {
        let mut buffer = vec![-1; count + 1];
        assert_eq!(comm.recv(&mut buffer, 0, 7).unwrap(), count);
        assert!(buffer[..count] == data(0, count));
    }
}

/// Ranks that exit the moment their last call returns fail nobody: what they owe is there.
#[test]
fn short_jobs_never_fail() {
    for transport in TRANSPORTS {
        for role in ["exit", "drop"] {
            (0..250).for_each(|_| Job::start(2, transport, role).expect_success(Duration::from_secs(60)));
        }
    }
}

fn exit_after_the_last_call() -> i32 {
    let comm = Communicator::from_env().unwrap();
    let mut value = [comm.rank() as f32 + 1.0; 8];
    comm.all_reduce(&mut value, Op::Sum).unwrap();
    assert_eq!(value, [3.0; 8]);
    std::process::exit(0)
}

fn drop_after_the_last_call() -> i32 {
    let comm = Communicator::from_env().unwrap();
    let mut value = [comm.rank() as f32 + 1.0; 8];
    comm.all_reduce(&mut value, Op::Sum).unwrap();
    assert_eq!(value, [3.0; 8]);
    0
}

/// A drop returns before a peer has come for its message; the process stays until it has.
#[test]
fn a_process_that_ends_after_its_last_drop_loses_nothing() {
    for transport in TRANSPORTS {
        let texts = Job::start(2, transport, "drop early").expect_reports(Duration::from_secs(60));
        assert_eq!(texts, ["sent", "received"], "{transport}");
    }
}

fn drop_before_the_peer_comes() -> i32 {
    let comm = Communicator::from_env().unwrap();
    let count = 500_000;
    comm.barrier().unwrap();
    if comm.rank() == 0 {
        drop(comm.send_async(data(0, count), 1, 7));
        drop(comm);
        return job::report("sent");
    }
    std::thread::sleep(Duration::from_secs(1));
    let mut buffer = vec![0_i64; count];
    comm.recv(&mut buffer, 0, 7).unwrap();
    assert!(buffer == data(0, count));
    job::report("received")
}

/// kill -9 at a random moment after the ranks have met: every survivor learns who died, no result is wrong, nothing is left.
#[test]
fn a_killed_rank_is_named_by_every_survivor() {
    let before = job::shared_memory_files();
    for round in 0..50 {
        for transport in TRANSPORTS {
            let world = 2 + round % 3;
            let victim = round % world;
            let mut job = Job::start(world, transport, "until killed");
            job.await_meeting(Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis((round as u64 * 37) % 100));
            job.kill(victim);
            // Promised within a second, tested with ten.
            job.expect_survivors(victim, Duration::from_secs(10));
        }
    }
    assert_eq!(job::shared_memory_files(), before);
}

/// kill -9 while the ranks meet: the others end with an error, by the rendezvous deadline at the latest, and nothing is left.
#[test]
fn a_rank_killed_in_the_rendezvous_holds_up_nobody() {
    let before = job::shared_memory_files();
    for round in 0..10 {
        for transport in TRANSPORTS {
            let world = 2 + round % 3;
            let mut job = Job::start(world, transport, "until killed");
            std::thread::sleep(Duration::from_millis(round as u64 * 2));
            job.kill((round + 1) % world);
            let texts = job.expect_reports(Duration::from_secs(15));
            let told = texts.iter().filter(|text| text.contains("rank ")).count();
            assert_eq!(told, world - 1, "{transport} {world}: {texts:?}");
        }
    }
    assert_eq!(job::shared_memory_files(), before);
}

fn call_until_killed() -> i32 {
    let comm = match Communicator::from_env() {
        Ok(comm) => comm,
        Err(error) => return job::report(&error.to_string()),
    };
    job::meet();
    for call in 0.. {
        let count = [1, 100, 5000, 200_000][call % 4];
        let mut buffer = data(comm.rank(), count);
        match comm.all_reduce(&mut buffer, Op::Sum) {
            Ok(()) => {
                let sum = |i| (0..comm.world()).map(|r| element(r, i)).sum::<i64>();
                assert!(buffer.iter().enumerate().all(|(i, value)| *value == sum(i)), "wrong data");
            }
            Err(error) => return job::report(&error.to_string()),
        }
    }
    0
}

/// Calls that differ: both ranks get an error that names both ranks and both calls.
#[test]
fn different_calls_are_named_on_both_ranks() {
    for transport in TRANSPORTS {
        let texts = Job::start(2, transport, "mismatch").expect_reports(Duration::from_secs(60));
        for text in &texts {
            for part in ["rank 0", "rank 1", "all_reduce(f32, sum, 2)", "all_reduce(f32, sum, 3)"] {
                assert!(text.contains(part), "{transport}: {text:?} lacks {part:?}");
            }
        }
    }
}

fn mismatch() -> i32 {
    let comm = Communicator::from_env().unwrap();
    let mut buffer = vec![1.0_f32; 2 + comm.rank()];
    let error = comm.all_reduce(&mut buffer, Op::Sum).unwrap_err();
    job::report(&error.to_string())
}

/// A rank that never starts is named by those that did.
#[test]
fn an_absent_rank_is_named() {
    for transport in TRANSPORTS {
        let texts = Job::start_some(3, 2, transport, "absent").expect_reports(Duration::from_secs(30));
        assert!(texts.iter().all(|text| text.contains("rank 2")), "{texts:?}");
    }
}

fn absent() -> i32 {
    let placement = hcomm::Placement::from_env().unwrap();
    let mut settings = hcomm::Settings::from_env().unwrap();
    settings.rendezvous_deadline = Duration::from_secs(2);
    let error = Communicator::connect(&placement, settings).unwrap_err();
    job::report(&error.to_string())
}

/// A rank that closes early is named by a call that needs it, and says so itself at a later call.
#[test]
fn a_rank_that_left_is_named() {
    for transport in TRANSPORTS {
        let texts = Job::start(2, transport, "leave early").expect_reports(Duration::from_secs(30));
        assert!(texts[0].contains("rank 1 closed its communicator after 1 calls"), "{transport}: {texts:?}");
    }
}

fn leave_early() -> i32 {
    let comm = Communicator::from_env().unwrap();
    comm.barrier().unwrap();
    if comm.rank() == 1 {
        comm.close().unwrap();
        return job::report("left");
    }
    let mut value = [1_u8];
    let error = comm.all_reduce(&mut value, Op::Max).unwrap_err();
    assert_eq!(DType::U8.size_bytes(), 1);
    job::report(&error.to_string())
}
