//! Shared buffers between processes: kill -9 while a peer reads them, and hosts on which there can be none.

use super::*;

/// Elements: long enough to be lent, and for a call to be under way most of the time.
const LONG: usize = 2 << 20;

/// Calls with large shared buffers until a rank is gone; reports the error.
pub fn call_until_killed() -> i32 {
    let comm = match Communicator::from_env() {
        Ok(comm) => comm,
        Err(error) => return job::report(&error.to_string()),
    };
    let mut output = comm.allocate::<f32>(LONG).expect("little memory");
    let mut gathered = comm.allocate::<f32>(LONG * comm.world()).expect("little memory");
    let mut input = comm.allocate::<f32>(LONG).expect("little memory");
    let mut shard = comm.allocate::<f32>(LONG).expect("little memory");
    input.fill(1.0);
    job::meet();
    let error = loop {
        let outcome = comm
            .all_reduce_into(&input, &mut output, Op::Sum)
            .and_then(|()| comm.all_gather(&input, &mut gathered))
            .and_then(|()| comm.reduce_scatter(&gathered, &mut shard, Op::Sum));
        match outcome {
            Ok(()) => {
                let is_sum = |sum: &f32| *sum == comm.world() as f32;
                assert!(output.iter().all(is_sum) && shard.iter().all(is_sum), "wrong data");
            }
            Err(error) => break error,
        }
    };
    // What was lent is this rank's again, and stays so when all else is gone.
    input.fill(2.0);
    drop(comm);
    output.copy_from_slice(&input);
    gathered.fill(3.0);
    drop((input, output, gathered, shard));
    job::report(&format!("{error}{}", left_behind()))
}

#[test]
fn a_rank_killed_while_shared_buffers_are_read_holds_up_nobody() {
    for round in 0..12 {
        let world = 2 + round % 2;
        let victim = round / 2 % world;
        let mut job = Job::start(world, "shm", "buffers until killed");
        job.await_meeting(PATIENCE);
        std::thread::sleep(Duration::from_millis((round as u64 * 17) % 60));
        job.kill(victim);
        let texts: Vec<String> = (0..world)
            .filter(|rank| *rank != victim)
            .map(|rank| {
                // Promised within a second, tested with ten.
                assert!(job.await_end(rank, Duration::from_secs(10)).success(), "rank {rank}, round {round}");
                job.text_of(rank)
            })
            .collect();
        for text in texts {
            assert!(text.contains(&format!("rank {victim}")) && !text.contains("LEFT"), "{text}");
        }
    }
}

/// A rank that says what memory it was given.
pub fn allocate() -> i32 {
    let comm = match Communicator::from_env() {
        Ok(comm) => comm,
        Err(error) => return job::report(&error.to_string()),
    };
    let mut buffer = comm.allocate::<u64>(400_000).expect("little memory");
    let mut output = comm.allocate::<u64>(200_000).expect("little memory");
    buffer.fill(comm.rank() as u64 + 1);
    comm.reduce_scatter(&buffer, &mut output, Op::Sum).expect("all ranks call");
    assert!(output.iter().all(|value| *value == 3), "wrong data");
    let kind = if buffer.is_shared() { "shared" } else { "ordinary" };
    let has_read = if read_of_peers() > 0 { ", read in place" } else { "" };
    comm.close().expect("all ranks have called");
    job::report(&format!("{}: {kind}{has_read}", comm.links()[1 - comm.rank()]))
}

/// KiB of the heaps of other ranks that this process has read.
fn read_of_peers() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let mut lines = maps.lines();
    let mut sum = 0;
    while let Some(line) = lines.next() {
        if line.contains(" r--s ") && line.contains("memfd:hcomm") {
            let rss = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap_or_default();
            sum += rss.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    sum
}

#[test]
fn a_rank_without_addresses_for_heaps_goes_on_without() {
    let limit = "ulimit -v 4000000 && exec \"$@\"";
    let prefix = |rank: usize, _: &std::path::Path| match rank {
        0 => words(&["sh", "-c", limit, "sh"]),
        _ => Vec::new(),
    };
    let start = Start { prefix: &prefix, ..Start::new(2, "shm", "allocate") };
    assert_eq!(Job::start_under(&start).expect_reports(PATIENCE), ["shm: ordinary", "shm: shared"]);
    let job = Job::start(2, "shm", "allocate");
    assert_eq!(job.expect_reports(PATIENCE), ["shm: shared, read in place", "shm: shared, read in place"]);
}
