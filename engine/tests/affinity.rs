//! `HCOMM_DRIVER_CPUS` says where hcomm's own threads run, and nothing else of the process. By itself in its program, because it reads all
//! of the process's threads.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use hcomm_engine::Communicator;
use hcomm_engine::environment::{Address, Placement, Token};
use hcomm_engine::settings::Settings;

/// The name of every thread of this process, and the processors that it may run on.
fn threads() -> Vec<(String, String)> {
    let tasks = fs::read_dir("/proc/self/task").expect("the system lists threads");
    let of = |task: fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some((name.trim().to_owned(), allowed.trim().to_owned()))
    };
    tasks.flatten().filter_map(of).collect()
}

/// How many threads of this name may run on these processors only.
fn kept(name: &str, processors: &str) -> usize {
    threads().iter().filter(|(thread, allowed)| thread == name && allowed == processors).count()
}

#[test]
fn only_own_threads_keep_to_the_driver_cpus() {
    let own = threads().first().expect("this thread").1.clone();
    let last = own.rsplit([',', '-']).next().expect("a list names a processor").to_owned();
    let settings = Settings::from_pairs([("HCOMM_DRIVER_CPUS", last.as_str())]).expect("legal settings");
    let connect = |rank: usize| {
        let placement = Placement {
            rank,
            world: 2,
            local_rank: None,
            local_world: None,
            address: Address { host: "127.77.1.1".to_owned(), port: 29_417 },
            secret: Token::derived(&["affinity"]).into(),
            source: "by hand",
        };
        Communicator::connect(&placement, settings.clone()).expect("the ranks meet")
    };
    let comms: Vec<Communicator> = thread::scope(|scope| {
        let ranks = [0, 1].map(|rank| scope.spawn(move || connect(rank)));
        ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
    });
    // A thread keeps itself to them when it begins, which may be a moment after it was made.
    let deadline = Instant::now() + Duration::from_secs(10);
    let expected = [("hcomm-control", 2), ("hcomm-driver", 2)];
    while Instant::now() < deadline && expected.iter().any(|(name, count)| kept(name, &last) != *count) {
        thread::sleep(Duration::from_millis(5));
    }
    for (name, count) in expected {
        assert_eq!(kept(name, &last), count, "{name}: {:?}", threads());
    }
    let others = threads().into_iter().filter(|(name, _)| !name.starts_with("hcomm-"));
    others.for_each(|(name, allowed)| assert_eq!(allowed, own, "{name}"));
    drop(comms);
}
