//! What a communicator counts of its calls while it is asked to, and what it says of its links.

use std::thread::sleep;
use std::time::{Duration, Instant};

use hcomm_engine::statistics::{CallKind, CallStatistics, Statistics};
use hcomm_engine::{Communicator, Error};
use hcomm_ops::{DType, ReduceOp};
use hcomm_planner::Collective;

use crate::common::{OVER, data, on_all, within, world, world_with};

fn of(statistics: &Statistics, kind: CallKind, dtype: DType) -> Vec<&CallStatistics> {
    statistics.calls.iter().filter(|row| (row.kind, row.dtype) == (kind, dtype)).collect()
}

fn only(statistics: &Statistics, kind: CallKind, dtype: DType) -> &CallStatistics {
    match &of(statistics, kind, dtype)[..] {
        [row] => row,
        rows => panic!("one row of {}, not {rows:?}", kind.name()),
    }
}

#[test]
fn nothing_is_counted_unless_asked() {
    within(20, || {
        on_all(world(2), |comm| {
            for recorded in [false, true, false, true] {
                comm.barrier().expect("both");
                comm.record_statistics(recorded);
                let before = comm.statistics();
                for _ in 0..5 {
                    comm.all_reduce(&mut data(comm.rank(), 10), ReduceOp::Sum).expect("both");
                }
                let kind = CallKind::Collective(Collective::AllReduce);
                match recorded {
                    true => {
                        assert_eq!(only(&comm.statistics(), kind, DType::I64).calls, 5, "a new beginning")
                    }
                    false => assert_eq!(comm.statistics(), before),
                }
            }
        })
    });
}

#[test]
fn every_way_of_calling_is_counted_once() {
    for over in OVER {
        within(30, move || {
            on_all(over.world(3), |comm| {
                let (rank, each) = (comm.rank(), 1000_usize);
                comm.record_statistics(true);
                for _ in 0..4 {
                    comm.all_reduce(&mut data(rank, each), ReduceOp::Sum).expect("all ranks");
                    drop(comm.all_reduce_async(data(rank, each), ReduceOp::Sum).wait().expect("all ranks"));
                    let mut lent = data(rank, each);
                    comm.scope(|s| drop(s.all_reduce(&mut lent, ReduceOp::Sum))).expect("all ranks");
                    let urgent = comm.priority(3);
                    urgent.all_reduce(&mut data(rank, each), ReduceOp::Sum).expect("all ranks");
                }
                let mut gathered = vec![0_f32; 3 * each];
                comm.all_gather(&vec![rank as f32; each], &mut gathered).expect("all ranks");
                comm.barrier().expect("all ranks");
                let statistics = comm.statistics();
                let reduced = only(&statistics, CallKind::Collective(Collective::AllReduce), DType::I64);
                assert_eq!((reduced.calls, reduced.failures), (16, 0));
                assert_eq!(reduced.bytes, 16 * 8 * each as u64);
                assert_eq!(reduced.sizes.len(), 1);
                assert_eq!((reduced.sizes[0].from_bytes, reduced.sizes[0].calls), (4096, 16));
                let gathered = only(&statistics, CallKind::Collective(Collective::AllGather), DType::F32);
                assert_eq!((gathered.calls, gathered.bytes), (1, 3 * 4 * each as u64), "of the full buffer");
                let barrier = only(&statistics, CallKind::Collective(Collective::Barrier), DType::U8);
                assert_eq!((barrier.calls, barrier.bytes, barrier.bus_gb_per_s), (1, 0, 0.0));
                assert!(statistics.calls.iter().all(|row| row.calls == 0 || row.max_ns > 0));
            })
        });
    }
}

#[test]
fn times_are_in_order_and_bandwidth_follows_from_them() {
    within(20, || {
        on_all(world(2), |comm| {
            let rank = comm.rank();
            comm.record_statistics(true);
            let (late, calls) = (Duration::from_millis(40), 20);
            let from = Instant::now();
            for call in 0..calls {
                if rank == 1 && call == 7 {
                    sleep(late);
                }
                comm.all_reduce(&mut data(rank, 3000), ReduceOp::Sum).expect("both");
            }
            let all_ns = from.elapsed().as_nanos() as u64;
            let statistics = comm.statistics();
            let row = only(&statistics, CallKind::Collective(Collective::AllReduce), DType::I64);
            let times = [row.min_ns, row.median_ns, row.p99_ns, row.max_ns];
            assert!(times.is_sorted(), "{times:?}");
            assert!(row.total_ns <= all_ns && row.total_ns >= row.max_ns);
            if rank == 0 {
                assert!(row.max_ns >= late.as_nanos() as u64 / 2, "rank 1 was late: {times:?}");
                assert!(row.p99_ns.abs_diff(row.max_ns) * 50 <= row.max_ns, "of 20, the 20th: {times:?}");
            }
            // Of two ranks, the bus carries what the buffer has.
            let expected = (calls * 3000 * 8) as f64 / row.total_ns as f64;
            assert!((row.bus_gb_per_s - expected).abs() < 1e-9 * expected, "{row:?}");
        })
    });
}

#[test]
fn what_is_sent_is_what_the_algorithms_say() {
    within(30, || {
        for (algorithm, factor) in [("ring", 2.0 * 3.0 / 4.0), ("one_shot", 3.0)] {
            on_all(world_with(4, &[("HCOMM_ALGORITHM", &format!("all_reduce={algorithm}"))]), |comm| {
                comm.record_statistics(true);
                // With one tile and with many.
                for count in [1000, 400_000] {
                    comm.all_reduce(&mut data(comm.rank(), count), ReduceOp::Sum).expect("all ranks");
                    let statistics = comm.statistics();
                    let row = only(&statistics, CallKind::Collective(Collective::AllReduce), DType::I64);
                    assert_eq!(row.algorithm, algorithm);
                    assert_eq!(row.sent_bytes as f64, factor * row.bytes as f64, "{algorithm} of {count}");
                }
            });
        }
    });
}

#[test]
fn messages_count_at_both_ends() {
    for over in OVER {
        within(20, move || {
            on_all(over.world(2), |comm| {
                comm.record_statistics(true);
                let lengths = [0, 10, 300_000];
                for n in lengths {
                    match comm.rank() {
                        0 => comm.send(&vec![1.5_f32; n], 1, 0).expect("received"),
                        _ if n == 10 => {
                            assert_eq!(comm.recv_any(&mut vec![0_f32; n + 5], 0).expect("sent"), (0, n));
                        }
                        _ => assert_eq!(comm.recv(&mut vec![0_f32; n + 5], 0, 0).expect("sent"), n),
                    }
                }
                let statistics = comm.statistics();
                let kind = [CallKind::Send, CallKind::Receive][comm.rank()];
                let row = only(&statistics, kind, DType::F32);
                assert_eq!((row.calls, row.bytes, &*row.algorithm), (3, 4 * 300_010, "message"));
                assert_eq!(row.sent_bytes, if comm.rank() == 0 { row.bytes } else { 0 });
                let sizes: Vec<_> = row.sizes.iter().map(|size| (size.from_bytes, size.calls)).collect();
                assert_eq!(sizes, [(0, 1), (32, 1), (1 << 20, 1)]);
                assert_eq!(statistics.calls.len(), 1);
                comm.barrier().expect("both");
            })
        });
    }
}

#[test]
fn failures_are_counted_and_refused_calls_are_not() {
    within(20, || {
        on_all(world(2), |comm| {
            if comm.rank() == 1 {
                return;
            }
            comm.record_statistics(true);
            assert!(matches!(comm.broadcast(&mut [1_i64], 5), Err(Error::Refused(_))));
            comm.all_reduce(&mut data(0, 10), ReduceOp::Sum).expect_err("rank 1 left");
            comm.recv(&mut [0_i64], 1, 0).expect_err("rank 1 left");
            let statistics = comm.statistics();
            let rows: Vec<_> =
                statistics.calls.iter().map(|row| (row.kind, row.calls, row.failures)).collect();
            let reduce = CallKind::Collective(Collective::AllReduce);
            assert_eq!(rows, [(reduce, 1, 1), (CallKind::Receive, 1, 1)]);
            assert!(statistics.calls.iter().all(|row| row.bytes == 0 && row.max_ns == 0));
        })
    });
}

#[test]
fn they_can_be_read_while_a_call_runs() {
    within(20, || {
        on_all(world(2), |comm| {
            comm.record_statistics(true);
            if comm.rank() == 1 {
                sleep(Duration::from_millis(500));
                comm.barrier().expect("both");
                return;
            }
            std::thread::scope(|s| {
                let waiting = s.spawn(|| comm.barrier().expect("both"));
                sleep(Duration::from_millis(50));
                let from = Instant::now();
                assert_eq!(comm.statistics(), Statistics::default(), "it has not ended");
                comm.record_statistics(true);
                assert!(from.elapsed() < Duration::from_millis(400), "{:?}", from.elapsed());
                waiting.join().expect("no panic");
            });
            assert_eq!(comm.statistics().calls.len(), 1);
        })
    });
}

#[test]
fn the_slowest_link_is_that_between_hosts_and_says_where_it_is_from() {
    for over in OVER {
        let links: Vec<_> = on_all(over.world(2), |comm| comm.link());
        assert_eq!(links[0], links[1], "all ranks go by the same");
        assert!(links[0].bytes_per_s > 1e6 && links[0].bytes_per_s < 1e12, "{links:?}");
        assert!(links[0].latency > Duration::ZERO && !links[0].measured, "{links:?}");
    }
    let file = std::env::temp_dir().join(format!("hcomm-link-{}.toml", std::process::id()));
    let prices = "latency_ns = 700.0\nmessage_ns = 50.0\nwait_ns = 60.0\nbyte_ns = 0.25\nreduce_byte_ns = 0.1\ncopy_byte_ns = 0.1";
    let both: String = ["inproc", "inproc_crowded"]
        .iter()
        .map(|link| {
            let crowd = if link.ends_with("crowded") { "\nranks_per_processor = 1.0" } else { "" };
            format!("[links.{link}]\n{prices}{crowd}\n")
        })
        .collect();
    std::fs::write(&file, format!("format = 1\n{both}")).expect("a folder for small files");
    let path = file.to_str().expect("plain").to_owned();
    let one: Vec<Communicator> = world_with(1, &[("HCOMM_TUNING", &path)]);
    let link = one[0].link();
    std::fs::remove_file(&file).expect("it was written");
    assert!(link.measured, "{link:?}");
    assert_eq!((link.bytes_per_s, link.latency), (4e9, Duration::from_nanos(700)));
}
