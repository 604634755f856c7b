//! Processes that fork: children make communicators of their own, and leave the one they inherit alone. By itself in its program, so
//! that it knows what the process had before.

use std::panic::catch_unwind;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hcomm_engine::Communicator;
use hcomm_engine::environment::{Address, Placement, Token};
use hcomm_engine::settings::Settings;
use hcomm_ops::ReduceOp;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

mod system {
    unsafe extern "C" {
        pub fn fork() -> i32;
        pub fn _exit(status: i32) -> !;
    }
}

/// Runs `body` in a child of this process.
fn forked(body: impl FnOnce()) -> Pid {
    // SAFETY: the child goes on with the one thread that it has, and what it needs of the C library is safe after a fork.
    let pid = unsafe { system::fork() };
    if pid == 0 {
        let status = i32::from(catch_unwind(std::panic::AssertUnwindSafe(body)).is_err());
        // SAFETY: ends the child without running what belongs to the parent.
        unsafe { system::_exit(status) };
    }
    Pid::from_raw(pid).expect("the system forks")
}

/// Fails unless the child ends well, and soon.
fn ends_well(child: Pid) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some((_, status)) = waitpid(Some(child), WaitOptions::NOHANG).expect("it is a child") {
            return assert_eq!(status.exit_status(), Some(0), "the child panicked, or was killed");
        }
        if Instant::now() >= deadline {
            kill_process(child, Signal::KILL).expect("it is a child");
            panic!("the child hangs");
        }
        sleep(Duration::from_millis(5));
    }
}

/// A rank of two, each a process of its own.
fn rank_of_two(rank: usize) {
    // A loopback address that no other test listens at.
    let parent = std::os::unix::process::parent_id();
    let host = format!("127.{}.{}.255", 1 + parent % 254, parent / 254 % 256);
    let placement = Placement {
        rank,
        world: 2,
        local_rank: None,
        local_world: None,
        address: Address { host, port: 29_431 },
        secret: Token::derived(&["a fork"]).into(),
        source: "by hand",
    };
    let comm = Communicator::connect(&placement, Settings::default()).expect("the ranks meet");
    let mut buffer = vec![1_i64 + rank as i64; 5000];
    comm.all_reduce(&mut buffer, ReduceOp::Sum).expect("both");
    assert!(buffer.iter().all(|x| *x == 3));
    comm.close().expect("closes well");
}

fn alone() {
    let mut buffer = [7_i64];
    Communicator::alone().all_reduce(&mut buffer, ReduceOp::Sum).expect("alone");
    assert_eq!(buffer, [7]);
}

#[test]
fn children_make_communicators_and_leave_the_inherited_one_alone() {
    // The parent has none.
    let children = [0, 1].map(|rank| forked(|| rank_of_two(rank)));
    children.into_iter().for_each(ends_well);
    // The parent has two ranks, which a child closes, drops, and does without.
    let mut comms = Communicator::in_process(2).expect("a small world");
    let sum = |comms: &[Communicator]| {
        std::thread::scope(|s| {
            for comm in comms {
                s.spawn(|| {
                    let mut buffer = [comm.rank() as i64 + 1];
                    comm.all_reduce(&mut buffer, ReduceOp::Sum).expect("both");
                    assert_eq!(buffer, [3]);
                });
            }
        });
    };
    sum(&comms);
    ends_well(forked(|| {
        comms.iter().for_each(|comm| comm.close().expect("nothing of its own to close"));
        drop(std::mem::take(&mut comms));
        alone();
    }));
    sum(&comms);
    comms.iter().for_each(|comm| drop(comm.barrier_async()));
    std::thread::scope(|s| {
        for comm in &comms {
            s.spawn(|| comm.close().expect("the parent's goes on until it is closed"));
        }
    });
}
