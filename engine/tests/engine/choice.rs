//! Which algorithm carries a call out: rank 0's tuning and pins hold for all, wherever they come from; what cannot be followed is an error
//! when the communicator is made; handles and splits.

use std::path::PathBuf;

use hcomm_engine::settings::Settings;
use hcomm_engine::{Communicator, CreateError, Error, Refused};
use hcomm_ops::{DType, ReduceOp};
use hcomm_planner::choose::Why;
use hcomm_planner::{Collective, Request};

use crate::common::{connected, data, on_all, sum, within, world, world_with};

/// A file of this text that goes with the value.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> File {
        let path = std::env::temp_dir().join(format!("hcomm-choice-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("a temporary file");
        File(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn settings(pairs: &[(&str, &str)]) -> Settings {
    Settings::from_pairs(pairs.iter().copied()).expect("legal settings")
}

fn request(collective: Collective, bytes: u64) -> Request {
    Request::new(collective, DType::U8, ReduceOp::Sum, bytes)
}

/// The algorithm that an all_reduce of so many bytes gets.
fn all_reduce(comm: &Communicator, bytes: u64) -> String {
    comm.plan(&request(Collective::AllReduce, bytes)).expect("a plan").algorithm.clone()
}

/// A real call of so many elements comes out right.
fn check(comm: &Communicator, count: usize) {
    let mut buffer = data(comm.rank(), count);
    comm.all_reduce(&mut buffer, ReduceOp::Sum).expect("all ranks call alike");
    assert!(buffer == sum(comm.world(), count));
}

/// Rank 0's costs make long messages dear, rank 1's short ones; their pins differ too.
#[test]
fn rank_0_s_tuning_and_pins_are_everybody_s() {
    within(60, || {
        let link = |latency: &str, byte: &str| {
            format!(
                "format = 1\n[links.shm]\nlatency_ns = {latency}\nmessage_ns = 1\nwait_ns = 1\nbyte_ns = {byte}\n\
                 reduce_byte_ns = 0\ncopy_byte_ns = 0\n"
            )
        };
        let crowded = |text: &str| text.replace("links.shm", "links.shm_crowded").replace("format = 1\n", "");
        let [first, second] = [link("1e9", "0"), link("0", "1e9")].map(|text| text.clone() + &crowded(&text));
        let pin = "[[pin]]\ncollective = 'broadcast'\nalgorithm = 'chain'\n";
        let (first, second) = (File::new("first", &(first + pin)), File::new("second", &second));
        let made = connected(&[
            settings(&[("HCOMM_TUNING", first.path()), ("HCOMM_ALGORITHM", "all_gather=ring")]),
            settings(&[
                ("HCOMM_TUNING", second.path()),
                ("HCOMM_ALGORITHM", "all_gather=direct,reduce=chain"),
            ]),
        ]);
        let comms: Vec<_> = made.into_iter().map(|made| made.expect("the ranks meet")).collect();
        let asks = |comm: &Communicator| {
            let choice = comm.planner().choice();
            assert_eq!(choice.source(), first.path());
            let algorithm = |collective| {
                let plan = comm.plan(&request(collective, 4096)).expect("a plan");
                (plan.algorithm.clone(), plan.id)
            };
            let all = Collective::ALL.into_iter().filter(|c| *c != Collective::Barrier);
            all.map(algorithm).collect::<Vec<_>>()
        };
        let plans: Vec<_> = comms.iter().map(asks).collect();
        assert_eq!(plans[0], plans[1]);
        let named = |collective: Collective| plans[1][collective as usize].0.as_str();
        assert_eq!(named(Collective::AllGather), "ring");
        assert_eq!(named(Collective::Broadcast), "chain");
        assert_ne!(named(Collective::Reduce), "chain");
        // Where a step costs a second, whatever has one step is best.
        assert!(["one_shot", "recursive_doubling"].contains(&named(Collective::AllReduce)), "{plans:?}");
        on_all(comms, |comm| check(&comm, 100_003));
    });
}

#[test]
fn a_pin_holds_for_its_sizes() {
    within(60, || {
        let pins =
            "all_reduce@..1KiB=two_shot,all_reduce@1KiB..64KiB=ring,all_reduce@1MiB..=recursive_doubling";
        let comms = world_with(3, &[("HCOMM_ALGORITHM", pins)]);
        let free = world(3);
        for comm in &comms {
            let found = [0, 1023, 1024, 65_535, 1 << 20, 1 << 30].map(|bytes| all_reduce(comm, bytes));
            assert_eq!(found[..4], ["two_shot", "two_shot", "ring", "ring"]);
            assert_eq!(found[4..], ["recursive_doubling", "recursive_doubling"]);
            assert_eq!(all_reduce(comm, 65_536), all_reduce(&free[0], 65_536));
        }
        on_all(comms, |comm| [1, 1000, 20_000, 300_000].map(|count| check(&comm, count)));
    });
}

#[test]
fn what_cannot_be_followed_is_an_error_at_start_up_on_every_rank() {
    within(60, || {
        let cases = [
            (
                "all_reduce=rung",
                "all_reduce=rung of HCOMM_ALGORITHM: unknown algorithm 'rung'; expected one of",
            ),
            (
                "broadcast=ring",
                "broadcast=ring of HCOMM_ALGORITHM: broadcast of f32 in a world of 3 is not supported by 'ring'",
            ),
            ("all_gather@8..64=recursive_doubling", "supported by: direct, "),
            ("all_reduce=hierarchical", "needs at least 2 hosts, not 1"),
        ];
        for (pins, expected) in cases {
            let refused = connected(&vec![settings(&[("HCOMM_ALGORITHM", pins)]); 3]);
            let threads =
                Communicator::in_process_with(3, &settings(&[("HCOMM_ALGORITHM", pins)])).map(|_| ());
            let errors = refused.into_iter().map(|made| made.map(|_| ())).chain([threads]);
            for error in errors.map(|made| made.expect_err(pins)) {
                assert!(matches!(error, CreateError::Pin(_)), "{error}");
                assert!(error.to_string().contains(expected), "{error}");
            }
        }
    });
}

#[test]
fn a_tuning_file_s_faults_are_errors_at_start_up() {
    let cases = [
        (
            "[[pin]]\ncollective = 'reduce'\nalgorithm = 'rung'",
            ", line 4, 'algorithm = 'rung'': unknown algorithm 'rung'",
        ),
        ("[[pin]]\ncollective = 'reduce'\nalgorithm = 'ring'", "reduce=ring of /"),
        ("[links.shm]\nlatency = 3", ", line 3, 'latency = 3': unknown field `latency`, expected"),
    ];
    for (text, expected) in cases {
        let file = File::new("faulty", &format!("format = 1\n{text}\n"));
        let settings = settings(&[("HCOMM_TUNING", file.path())]);
        let error = Communicator::in_process_with(2, &settings).map(|_| ()).expect_err(text).to_string();
        assert!(error.contains(expected) && error.contains(file.path()), "{error}");
    }
    let missing = settings(&[("HCOMM_TUNING", "/no/such/file.toml")]);
    let error = Communicator::in_process_with(2, &missing).map(|_| ()).expect_err("no file").to_string();
    assert!(error.starts_with("cannot read the tuning file /no/such/file.toml: "), "{error}");
}

#[test]
fn a_handle_has_algorithms_of_its_own() {
    within(60, || {
        on_all(world_with(3, &[("HCOMM_ALGORITHM", "all_reduce=two_shot")]), |comm| {
            let ring = comm.algorithm("ring").expect("three ranks can");
            let small = comm.algorithm("all_reduce@..64KiB=one_shot").expect("three ranks can");
            for handle in [&comm, &ring, &small, &comm] {
                [1, 1000, 100_003].into_iter().for_each(|count| check(handle, count));
            }
            let text = comm.explain(&request(Collective::AllReduce, 8)).expect("a call");
            assert!(text.contains("two_shot, pinned by HCOMM_ALGORITHM"), "{text}");
            let text = ring.explain(&request(Collective::AllReduce, 8)).expect("a call");
            assert!(text.lines().next().is_some_and(|head| head.contains("ring")), "{text}");
            assert_eq!(all_reduce(&ring, 8), "ring");
            let floats = Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 2);
            let text = comm.deterministic().explain(&floats).expect("a call");
            assert!(text.lines().next().is_some_and(|head| head.contains("deterministic")), "{text}");
            for (pins, expected) in [
                ("rung", "unknown algorithm 'rung'"),
                ("hierarchical", "needs at least 2 hosts"),
                ("all_gather=recursive_doubling", "all_gather=recursive_doubling of this handle: "),
                (
                    "all_reduce@=ring",
                    "'all_reduce@=ring' pins no algorithm; expected the name of one, or pairs",
                ),
                ("=", "'=' pins no algorithm"),
            ] {
                let refused = comm.algorithm(pins).map(|_| ()).expect_err(pins);
                assert!(matches!(
                    refused,
                    Error::Refused(Refused::Pin(_) | Refused::Pins { .. } | Refused::Plan(_))
                ));
                assert!(refused.to_string().contains(expected), "{refused}");
            }
        });
    });
}

#[test]
fn handles_that_differ_between_ranks_are_found() {
    within(60, || {
        let outcomes = on_all(world(2), |comm| {
            let mut buffer = data(comm.rank(), 10);
            // A call that was made before is looked up anew through another handle.
            comm.all_reduce(&mut buffer, ReduceOp::Sum).expect("the same on both");
            let plain = comm.plan(&Request::new(Collective::AllReduce, DType::I64, ReduceOp::Sum, 10));
            let other = if plain.expect("a plan").algorithm == "ring" { "two_shot" } else { "ring" };
            let handle = comm.algorithm(other).expect("two ranks can");
            if comm.rank() == 0 { &handle } else { &comm }.all_reduce(&mut buffer, ReduceOp::Sum)
        });
        assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
        assert!(outcomes.iter().any(|o| o.as_ref().is_err_and(|e| e.to_string().contains("calls differ"))));
    });
}

#[test]
fn tiles_that_differ_between_ranks_are_found() {
    within(60, || {
        let outcomes = on_all(world(2), |comm| {
            let name = if comm.rank() == 0 { "ring/4KiB" } else { "ring/8KiB" };
            let mut buffer = data(comm.rank(), 10);
            comm.algorithm(name).expect("two ranks can").all_reduce(&mut buffer, ReduceOp::Sum)
        });
        assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
        let says =
            |tile: &str| outcomes.iter().any(|o| o.as_ref().is_err_and(|e| e.to_string().contains(tile)));
        assert!(says("tiles of 4096 bytes") && says("tiles of 8192 bytes"), "{outcomes:?}");
    });
}

#[test]
fn every_length_of_tiles_gives_the_same() {
    within(60, || {
        on_all(world(3), |comm| {
            for name in ["ring", "two_shot", "recursive_doubling", "one_shot", "halving_doubling"] {
                for tile in ["", "/4KiB", "/16KiB", "/5000", "/100MiB", "/104857600"] {
                    let Ok(handle) = comm.algorithm(&format!("all_reduce={name}{tile}")) else {
                        assert_eq!(tile, "/100MiB");
                        continue;
                    };
                    [1, 5000, 100_003].into_iter().for_each(|count| check(&handle, count));
                }
            }
        });
    });
}

/// By processes and by threads: what is split off inherits a handle's pins, as far as it can follow them.
#[test]
fn splits_inherit_pins_and_have_names() {
    within(60, || {
        let text =
            "format = 1\n[[pin]]\ncollective = 'broadcast'\nalgorithm = 'chain'\ncommunicator = 'data'\n";
        let file = File::new("named", text);
        let own =
            settings(&[("HCOMM_TUNING", file.path()), ("HCOMM_ALGORITHM", "all_gather=recursive_doubling")]);
        let threads = Communicator::in_process_with(4, &own).expect("little memory");
        let processes =
            connected(&vec![own.clone(); 4]).into_iter().map(|made| made.expect("the ranks meet")).collect();
        for comms in [threads, processes] {
            on_all(comms, |comm| {
                assert_eq!(comm.name(), "world");
                let handle = comm.algorithm("all_reduce=ring").expect("four ranks can").named("data");
                let group = u32::from(comm.rank() == 3);
                let part = handle.split(Some(group), 0).expect("all split").expect("all are in one");
                assert_eq!((part.name(), part.world()), ("data", if group == 0 { 3 } else { 1 }));
                if part.world() == 1 {
                    return;
                }
                assert_eq!(all_reduce(&part, 1), "ring");
                assert_eq!(part.plan(&request(Collective::Broadcast, 1)).expect("a plan").algorithm, "chain");
                check(&part, 1000);
                let choice = part.planner().choice();
                let aside: Vec<&str> = choice.set_aside().iter().map(|e| &*e.pin.algorithm).collect();
                assert_eq!(aside, ["recursive_doubling"], "three ranks cannot");
                let copy = part.duplicate().expect("all duplicate");
                assert_eq!((copy.name(), all_reduce(&copy, 1)), ("split", "ring".to_owned()));
                assert_ne!(copy.plan(&request(Collective::Broadcast, 1)).expect("a plan").algorithm, "chain");
                check(&copy, 1000);
            });
        }
    });
}

#[test]
fn a_size_never_seen_gets_what_its_table_says() {
    let comms = world(4);
    let choice = comms[0].planner().choice();
    for shift in 0..40 {
        let bytes = (1_u64 << shift) + 3;
        let request = request(Collective::AllReduce, bytes);
        let call = hcomm_planner::algorithm::Call::new(&request, 4, comms[0].planner().topology());
        let step = choice.thresholds(&call).expect("a table").at(bytes).expect("a step");
        assert_eq!(step.why, Why::Predicted);
        let plan = comms[0].plan(&request).expect("a plan");
        assert!(
            step.candidate.to_string().starts_with(&plan.algorithm),
            "{} {}",
            step.candidate,
            plan.algorithm
        );
    }
}
