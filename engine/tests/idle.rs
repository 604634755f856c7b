//! Communicators with nothing to do use no processor time; alone in its process, because it measures the process.

use std::thread::sleep;
use std::time::Duration;

use hcomm_engine::Communicator;
use hcomm_ops::ReduceOp;

/// Clock ticks (10 ms) that this process has used.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a Linux system");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    // The 14th and 15th fields of the line: user and system time.
    fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum()
}

#[test]
fn idle_communicators_use_no_processor() {
    let comms = Communicator::in_process(4).expect("a small world fits");
    // Work first, so that every driver has had a shift.
    std::thread::scope(|s| {
        for comm in &comms {
            s.spawn(|| {
                let work = comm.all_reduce_async(vec![1_i64; 50_000], ReduceOp::Sum);
                drop(work);
                comm.barrier().expect("all ranks came");
            });
        }
    });
    sleep(Duration::from_millis(300));
    let before = ticks();
    sleep(Duration::from_secs(2));
    let used = ticks() - before;
    assert!(used <= 10, "{used} ticks of 10 ms in 2 s of idleness");
    drop(comms);
}
