//! Communicators made with a listener of the caller's, and split with settings of their own.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use hcomm_engine::environment::{Address, Placement, Token};
use hcomm_engine::settings::Settings;
use hcomm_engine::{Communicator, CreateError};
use hcomm_ops::ReduceOp;

use crate::common::{OVER, Over, connected, data, on_all, sum, within};

/// A port that the system chose, at which no other test can listen.
#[test]
fn rank_0_brings_the_listener_at_which_it_is_found() {
    within(30, || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it has one").port();
        let other = TcpListener::bind("127.0.0.1:0").expect("a port");
        let connect = |rank: usize, listener: Option<TcpListener>| {
            let placement = Placement {
                rank,
                world: 3,
                local_rank: None,
                local_world: None,
                address: Address { host: "127.0.0.1".to_owned(), port },
                secret: Token::derived(&["a listener", &port.to_string()]).into(),
                source: "by hand",
            };
            Communicator::connect_with(&placement, Settings::default(), listener)
        };
        let listeners = [Some(listener), Some(other), None];
        thread::scope(|s| {
            for (rank, listener) in listeners.into_iter().enumerate() {
                s.spawn(move || {
                    let comm = connect(rank, listener).expect("the ranks meet");
                    let mut buffer = data(rank, 100);
                    comm.all_reduce(&mut buffer, ReduceOp::Sum).expect("all ranks came");
                    assert_eq!(buffer, sum(3, 100));
                });
            }
        });
    });
}

fn settings(pairs: &[(&str, &str)]) -> Settings {
    Settings::from_pairs(pairs.iter().copied()).expect("legal settings")
}

#[test]
fn a_split_has_the_settings_of_its_first_rank() {
    for over in OVER {
        within(60, move || {
            on_all(over.world(4), |comm| {
                let rank = comm.rank();
                let transport = comm.settings().clone();
                let depth = [5, 6, 7, 9][rank];
                let own = Settings { depth, deadline: Duration::from_secs(100 + rank as u64), ..transport };
                // Groups {0, 2} and {1, 3}; the higher rank of the old one is first of the new.
                let group = u32::from(rank % 2 == 1);
                let part =
                    comm.split_with(Some(group), -(rank as i64), own).expect("all split").expect("in one");
                assert_eq!((part.world(), part.rank()), (2, usize::from(rank < 2)));
                assert_eq!(part.settings().depth, if rank % 2 == 0 { 7 } else { 9 }, "agreed");
                let own_deadline = Duration::from_secs(100 + rank as u64);
                assert!(over == Over::Inproc || part.settings().deadline == own_deadline, "local");
                let mut buffer = data(part.rank(), 10_000);
                part.all_reduce(&mut buffer, ReduceOp::Sum).expect("both");
                assert!(buffer == sum(2, 10_000));
                // The old one is as it was, and a plain split is like it.
                let copy = comm.duplicate().expect("all");
                assert_eq!(copy.settings().depth, comm.settings().depth);
                assert!(comm.split_with(None, 0, settings(&[])).expect("all").is_none());
            })
        });
    }
}

#[test]
fn a_first_rank_that_cannot_make_its_group_fails_all_of_it() {
    for transport in [None, Some("shm")] {
        within(60, move || {
            let comms: Vec<Communicator> = match transport {
                None => Over::Inproc.world(3),
                Some(name) => {
                    let all = vec![settings(&[("HCOMM_TRANSPORT", name)]); 3];
                    connected(&all).into_iter().map(|made| made.expect("they meet")).collect()
                }
            };
            on_all(comms, |comm| {
                let bad = settings(&[("HCOMM_TUNING", "/no/such/tuning.toml")]);
                let outcome = comm.split_with(Some(0), 0, bad);
                if comm.rank() == 0 {
                    let Err(CreateError::Tuning(error)) = outcome else { panic!("{outcome:?}") };
                    assert!(error.to_string().contains("/no/such/tuning.toml"), "{error}");
                } else {
                    assert!(!matches!(outcome, Ok(Some(_))), "there is no communicator");
                }
                comm.barrier().expect("the old one goes on");
            })
        });
    }
}
