//! Ranks that go in the middle of a split: those that wait for them hear of it from the communicator that they split, at once, and in its numbers.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use hcomm_engine::{Communicator, Error, Failure};
use hcomm_ops::ReduceOp;

use crate::common::{Over, on_all, within};

/// How long the others may take: the rendezvous deadline is two minutes.
const SOON: Duration = Duration::from_secs(20);

/// A rank's part in a split up to where the ranks are to meet: its numbers, and where it would listen. Then it goes.
fn half_a_split(comm: Communicator, key: i64) {
    comm.all_gather(&[0_i64, key], &mut vec![0; 2 * comm.world()]).expect("all");
    let mut address = [0_u8; 128];
    address[..11].copy_from_slice(b"127.0.0.1:9");
    comm.all_gather(&address, &mut vec![0; 128 * comm.world()]).expect("all");
}

#[test]
fn who_waits_for_a_rank_that_has_gone_hears_of_it_at_once_in_the_old_numbers() {
    for over in [Over::Shm, Over::Tcp] {
        // Keys that run backwards: rank 2 leads the new communicator.
        for goes in 0..3 {
            within(60, move || {
                // A survivor that goes as well, before the other has heard of the first, would be named beside it.
                let survivors = Barrier::new(2);
                on_all(over.world(3), |comm| {
                    let (rank, key) = (comm.rank(), -(comm.rank() as i64));
                    if rank == goes {
                        return half_a_split(comm, key);
                    }
                    let started = Instant::now();
                    let error = comm.split(Some(0), key).expect_err("a rank is gone");
                    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
                    let text = error.to_string();
                    assert!(text.starts_with(&format!("rank {goes} is lost")), "{text}");
                    assert!(text.contains("the new communicator of ranks 2, 1, 0"), "{text}");
                    let later = comm.all_reduce(&mut [1_i64], ReduceOp::Sum).expect_err("a rank is gone");
                    let Error::Failed(failure) = &later else { panic!("{later}") };
                    assert!(!matches!(failure, Failure::Deadline { .. }), "{failure}");
                    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
                    survivors.wait();
                })
            });
        }
    }
}

#[test]
fn ranks_that_cannot_meet_are_named_in_both_numberings() {
    use hcomm_engine::settings::Settings;
    let settings = Settings::from_pairs([("HCOMM_TRANSPORT", "tcp"), ("HCOMM_RENDEZVOUS_DEADLINE", "700ms")]);
    let settings = settings.expect("legal settings");
    within(60, move || {
        on_all(Over::Tcp.world(3), |comm| {
            let (rank, key) = (comm.rank(), -(comm.rank() as i64));
            if rank == 0 {
                // It lives, and does not come.
                half_a_split(comm.clone(), key);
                std::thread::sleep(Duration::from_millis(2500));
                return;
            }
            let error = comm.split_with(Some(0), key, settings.clone()).expect_err("rank 0 does not come");
            let text = error.to_string();
            assert!(
                text.starts_with("ranks 2, 1, 0 were to be ranks 0 to 2 of a new communicator: rank 2 "),
                "{text}"
            );
        })
    });
}
