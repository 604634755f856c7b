//! Ranks that are threads come together over the loopback interface, or fail to, all with the same words.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{Dimensions, Join, JoinError, Route, Session, Stall, Token, Transports, join};
use crate::control::{Event, Handler};
use crate::wire::{Arrival, Key, Sent, Wire, WireConfig, Word};

const CONFIG: WireConfig = WireConfig { ports: 33, depth: 4, slot_bytes: 4096 };
const PATIENCE: Duration = Duration::from_secs(20);

type Log = Arc<Mutex<Vec<Event>>>;
type Outcome = Result<(Session, Log), JoinError>;

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn part(rank: usize, world: usize, address: SocketAddr) -> (Join, Log) {
    let log = Log::default();
    let events = Arc::clone(&log);
    let join = Join {
        rank,
        world,
        address: address.to_string(),
        find: None,
        listener: None,
        token: Token::new(b"the token of this test"),
        deadline: PATIENCE,
        transports: Transports::Tcp,
        settings: Bytes::from(format!("settings of rank {rank}")),
        interfaces: "".parse().unwrap(),
        cpus: Vec::new(),
        cancel: Default::default(),
        stall: Default::default(),
        handler: Arc::new(move |event| events.lock().unwrap().push(event)) as Handler,
        dimensions: Box::new(|_, _| Dimensions { wire: CONFIG, tcp: Default::default() }),
    };
    (join, log)
}

/// Lets the ranks come together, each as `change` has it; by position in `ranks`.
fn meet(ranks: &[usize], world: usize, change: impl Fn(&mut Join) + Sync) -> Vec<Outcome> {
    let (listener, address) = listener();
    let listener = Mutex::new(Some(listener));
    std::thread::scope(|scope| {
        let start = |&rank: &usize| {
            let (listener, change) = (&listener, &change);
            scope.spawn(move || {
                let (mut own, log) = part(rank, world, address);
                if rank == 0 {
                    own.listener = listener.lock().unwrap().take();
                }
                change(&mut own);
                join(own).map(|session| (session, log))
            })
        };
        let threads: Vec<_> = ranks.iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn all(world: usize) -> Vec<usize> {
    (0..world).collect()
}

fn error(outcome: &Outcome) -> String {
    outcome.as_ref().map(|(session, _)| format!("{session:?}")).expect_err("the rendezvous fails").to_string()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} did not happen within 10 s");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// One message each way between all pairs.
fn exchange(sessions: &mut [Session]) {
    let key = Key { port: 32, word: Word { operation: 9, fingerprint: 9 } };
    for session in sessions.iter_mut() {
        for wire in session.endpoint.wires.iter_mut().flatten() {
            assert_eq!(wire.send_from(key, &[], false), Sent::Done);
        }
    }
    for session in sessions.iter_mut() {
        for wire in session.endpoint.wires.iter_mut().flatten() {
            until("a message", || {
                wire.progress();
                matches!(wire.poll(key, 0), Arrival::Here(_))
            });
            wire.release(32);
        }
    }
}

fn succeeded(outcomes: Vec<Outcome>) -> (Vec<Session>, Vec<Log>) {
    outcomes.into_iter().map(|outcome| outcome.expect("the rendezvous succeeds")).unzip()
}

#[test]
fn worlds_come_together_and_every_pair_is_connected() {
    for world in [1, 2, 3, 5] {
        let (mut sessions, logs) = succeeded(meet(&all(world), world, |_| {}));
        exchange(&mut sessions);
        for (rank, session) in sessions.iter().enumerate() {
            assert_eq!(session.agreed.settings, "settings of rank 0");
            assert_eq!(session.roster.members.len(), world);
            assert_eq!(session.roster.neighbours(rank), all(world));
            assert!(session.roster.routes[rank].is_none() && session.endpoint.wires[rank].is_none());
            session.control.send((rank + 1) % world, Bytes::from(format!("from {rank}")));
        }
        for (rank, log) in logs.iter().enumerate() {
            let from = (rank + world - 1) % world;
            let expected = Event::Message { from, body: Bytes::from(format!("from {from}")) };
            until("a control message", || log.lock().unwrap().first() == Some(&expected));
        }
    }
}

#[test]
fn a_rank_that_leaves_has_left_and_one_that_is_dropped_is_lost() {
    let (mut sessions, logs) = succeeded(meet(&all(3), 3, |_| {}));
    sessions[0].control.send(2, Bytes::from_static(b"last words"));
    sessions[0].control.leave(42, Bytes::new(), Instant::now() + PATIENCE);
    drop(sessions.remove(0));
    let said = Event::Message { from: 0, body: Bytes::from_static(b"last words") };
    let left = Event::Left { rank: 0, last: 42, words: Bytes::new() };
    until("rank 2 to hear of it", || *logs[2].lock().unwrap() == [said.clone(), left.clone()]);
    drop(sessions.remove(0));
    until("rank 2 to hear of the loss", || logs[2].lock().unwrap().len() == 3);
    let events = logs[2].lock().unwrap();
    let Event::Lost { rank: 1, cause } = &events[2] else { panic!("expected a loss, got {events:?}") };
    assert_eq!(cause, "it closed its connection without a goodbye");
    assert!(logs[0].lock().unwrap().is_empty());
}

#[test]
fn many_communicators_come_and_go() {
    for round in 0..200 {
        let (mut sessions, logs) = succeeded(meet(&all(2), 2, |_| {}));
        if round % 10 == 0 {
            exchange(&mut sessions);
        }
        std::thread::scope(|scope| {
            for session in sessions {
                scope.spawn(move || session.control.leave(round, Bytes::new(), Instant::now() + PATIENCE));
            }
        });
        for (rank, log) in logs.iter().enumerate() {
            let events = log.lock().unwrap();
            let is_goodbye =
                |event: &Event| *event == Event::Left { rank: 1 - rank, last: round, words: Bytes::new() };
            assert!(events.iter().all(is_goodbye), "round {round}: {events:?}");
        }
        let heard = logs.iter().any(|log| !log.lock().unwrap().is_empty());
        assert!(heard, "round {round}: of two that leave at once one hears of the other");
    }
}

#[test]
fn ranks_that_never_come_are_named_by_all() {
    let outcomes = meet(&[0, 1, 3, 4], 6, |join| join.deadline = Duration::from_millis(600));
    for outcome in &outcomes {
        assert_eq!(error(outcome), "ranks 2, 5 did not arrive within 0.6 s");
    }
}

#[test]
fn a_member_whose_deadline_comes_first_names_them_too() {
    let outcomes = meet(&[0, 1], 3, |join| {
        join.deadline = Duration::from_millis(if join.rank == 0 { 9000 } else { 500 })
    });
    assert_eq!(error(&outcomes[1]), "rank 2 did not arrive within 0.5 s");
    assert!(error(&outcomes[0]).starts_with("rank 2 did not arrive within"), "{}", error(&outcomes[0]));
}

#[test]
fn without_rank_zero_its_address_is_named() {
    let (listener, address) = listener();
    drop(listener);
    let (mut own, _) = part(1, 2, address);
    own.deadline = Duration::from_millis(300);
    let text = join(own).unwrap_err().to_string();
    assert!(text.starts_with("rank 0 did not arrive within 0.3 s: "), "{text}");
    assert!(text.contains(&address.to_string()), "{text}");
}

#[test]
fn rank_zero_may_come_late() {
    let (listener, address) = listener();
    drop(listener);
    std::thread::scope(|scope| {
        let early = scope.spawn(move || join(part(1, 2, address).0));
        std::thread::sleep(Duration::from_millis(300));
        let late = scope.spawn(move || join(part(0, 2, address).0));
        late.join().unwrap().unwrap();
        early.join().unwrap().unwrap();
    });
}

#[test]
fn a_wrong_token_is_refused_and_tells_nothing() {
    let outcomes = meet(&[0, 1, 2], 3, |join| {
        join.deadline = Duration::from_millis(800);
        if join.rank == 2 {
            join.token = Token::new(b"a guess");
        }
    });
    assert!(
        error(&outcomes[2]).ends_with("it does not accept the job token of this process"),
        "{}",
        error(&outcomes[2])
    );
    let text = error(&outcomes[0]);
    assert!(text.starts_with("rank 2 did not arrive within 0.8 s (refused meanwhile: 127.0.0.1:"), "{text}");
    assert!(text.ends_with("because it does not know the job token of this process)"), "{text}");
    assert_eq!(error(&outcomes[1]), "rank 2 did not arrive within 0.8 s");
}

#[test]
fn wrong_numbers_are_named_on_both_sides() {
    let outcomes = meet(&[0, 1], 2, |join| join.world = if join.rank == 1 { 4 } else { 2 });
    for outcome in &outcomes {
        let text = error(outcome);
        assert!(text.starts_with("rank 1 (at 127.0.0.1:"), "{text}");
        assert!(text.ends_with("was started for a world of 4, rank 0 for one of 2"), "{text}");
    }
    let outcomes = meet(&[0, 1, 1], 3, |_| {});
    for outcome in &outcomes {
        assert!(error(outcome).starts_with("two processes say that they are rank 1: "), "{}", error(outcome));
    }
    let outcomes = meet(&[3], 3, |_| {});
    assert_eq!(error(&outcomes[0]), "rank 3 is outside a world of 3; ranks are 0 to world size - 1");
}

#[test]
fn dimensions_that_differ_are_named_by_all() {
    let outcomes = meet(&all(3), 3, |join| {
        let slot_bytes = if join.rank == 1 { 256 } else { 128 };
        join.dimensions = Box::new(move |_, _| Dimensions {
            wire: WireConfig { slot_bytes, ..CONFIG },
            tcp: Default::default(),
        });
    });
    for outcome in &outcomes {
        assert!(error(outcome).contains("cannot connect with rank"), "{}", error(outcome));
        assert!(error(outcome).contains("slot_bytes: 256"), "{}", error(outcome));
    }
}

#[test]
fn a_rank_that_vanishes_meanwhile_is_named() {
    let outcomes = std::thread::scope(|scope| {
        let (listener, address) = listener();
        let (mut zero, _) = part(0, 3, address);
        zero.listener = Some(listener);
        let zero = scope.spawn(move || join(zero));
        let one = scope.spawn(move || join(part(1, 3, address).0));
        let two = scope.spawn(move || {
            let (mut own, _) = part(2, 3, address);
            own.dimensions = Box::new(|_, _| panic!("this rank dies here (on purpose)"));
            own.deadline = Duration::from_millis(100);
            join(own)
        });
        let _ = two.join().unwrap().unwrap_err();
        [zero.join().unwrap(), one.join().unwrap()]
    });
    for outcome in outcomes {
        let text = outcome.unwrap_err().to_string();
        assert_eq!(text, "rank 2 vanished during the rendezvous: it closed the connection");
    }
}

#[test]
fn the_interface_filter_is_kept_to() {
    let (mut sessions, _) = succeeded(meet(&all(3), 3, |join| join.interfaces = "=lo".parse().unwrap()));
    exchange(&mut sessions);
    let outcomes = meet(&all(2), 2, |join| {
        join.deadline = Duration::from_millis(500);
        join.interfaces = if join.rank == 1 { "nic".parse().unwrap() } else { "".parse().unwrap() };
    });
    let text = error(&outcomes[1]);
    assert!(text.starts_with("no network interface matches \"nic\"; up are "), "{text}");
    assert!(text.contains("lo (127.0.0.1)"), "{text}");
    assert_eq!(error(&outcomes[0]), "rank 1 did not arrive within 0.5 s");
}

#[test]
fn strangers_disturb_nobody() {
    let (listener, address) = listener();
    let mut silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    for (at, stranger) in silent.iter_mut().enumerate() {
        let _ = stranger.write_all(&b"hcomm\r\n\x1a\x01\0\0\0 and then too little"[..at]);
    }
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 5000], &[0; 44]] {
        let mut stranger = TcpStream::connect(address).unwrap();
        let _ = stranger.write_all(garbage);
    }
    std::thread::scope(|scope| {
        let (mut zero, _) = part(0, 3, address);
        zero.listener = Some(listener);
        let zero = scope.spawn(move || join(zero));
        let others: Vec<_> = (1..3).map(|rank| scope.spawn(move || join(part(rank, 3, address).0))).collect();
        zero.join().unwrap().unwrap();
        others.into_iter().for_each(|other| drop(other.join().unwrap().unwrap()));
    });
    let mut answer = Vec::new();
    silent[0].read_to_end(&mut answer).unwrap_or_default();
    assert!(answer.is_empty(), "a stranger was told {answer:?}");
}

#[test]
fn another_version_is_refused_at_the_handshake_and_named() {
    let (listener, address) = listener();
    let (mut zero, _) = part(0, 2, address);
    zero.listener = Some(listener);
    zero.deadline = Duration::from_millis(500);
    let zero = std::thread::spawn(move || join(zero));
    let mut other = TcpStream::connect(address).unwrap();
    other.write_all(&[&b"hcomm\r\n\x1a"[..], &77_u32.to_le_bytes(), &[1; 32]].concat()).unwrap();
    let mut hello = [0; 44];
    other.read_exact(&mut hello).unwrap();
    assert_eq!(hello[8..12], 1_u32.to_le_bytes());
    let text = zero.join().unwrap().unwrap_err().to_string();
    assert!(text.contains("because it speaks protocol version 77, this process version 1"), "{text}");
}

#[test]
fn tcp_within_a_host_says_why() {
    let (sessions, _) = succeeded(meet(&all(2), 2, |_| {}));
    let route = Some(Route::Tcp { why_not_shm: "rank 0 is to use TCP only".to_owned() });
    assert_eq!([&sessions[0].roster.routes[1], &sessions[1].roster.routes[0]], [&route, &route]);
}

#[test]
fn ranks_of_one_host_share_memory() {
    for world in [2, 3, 5] {
        let (mut sessions, logs) =
            succeeded(meet(&all(world), world, |join| join.transports = Transports::Auto));
        exchange(&mut sessions);
        for session in &sessions {
            assert!(session.roster.routes.iter().flatten().all(|route| *route == Route::Shm), "{session:?}");
            session.control.send(0, Bytes::from_static(b"hello"));
        }
        until("the messages", || logs[0].lock().unwrap().len() == world);
        let last = sessions.pop().unwrap();
        last.control.leave(5, Bytes::new(), Instant::now() + PATIENCE);
        drop(last);
        let left = Event::Left { rank: world - 1, last: 5, words: Bytes::new() };
        until("the goodbye", || {
            logs[..world - 1].iter().all(|log| log.lock().unwrap().last() == Some(&left))
        });
    }
}

#[test]
fn ranks_that_share_memory_and_ranks_that_do_not_come_together() {
    let (mut sessions, _) = succeeded(meet(&all(4), 4, |join| {
        join.transports = if join.rank == 1 { Transports::Tcp } else { Transports::Auto };
    }));
    exchange(&mut sessions);
    let why_not_shm = "rank 1 is to use TCP only".to_owned();
    let tcp = Some(Route::Tcp { why_not_shm });
    let shm = Some(Route::Shm);
    assert_eq!(sessions[0].roster.routes, [None, tcp.clone(), shm.clone(), shm.clone()]);
    assert_eq!(sessions[3].roster.routes, [shm.clone(), tcp, shm, None]);
}

#[test]
fn memory_that_must_be_shared_and_cannot_is_an_error_of_all() {
    let outcomes = meet(&all(3), 3, |join| {
        join.transports = if join.rank == 1 { Transports::Tcp } else { Transports::Shm };
    });
    for outcome in &outcomes {
        let text = error(outcome);
        assert!(text.ends_with("rank 1: they cannot share memory: rank 1 is to use TCP only"), "{text}");
    }
}

#[test]
fn more_memory_than_there_is_is_an_error_of_all() {
    let outcomes = meet(&all(2), 2, |join| {
        join.transports = Transports::Auto;
        join.dimensions = Box::new(|_, _| {
            let wire = WireConfig { ports: 33, depth: 1 << 16, slot_bytes: 1 << 30 };
            Dimensions { wire, tcp: Default::default() }
        });
    });
    for outcome in &outcomes {
        assert!(error(outcome).contains("cannot make its shared memory: "), "{}", error(outcome));
    }
}

/// What the handler leads to may hold the control in turn, as a communicator does; both go all the same.
#[test]
fn a_rank_that_has_left_lets_go_of_its_handler() {
    let outcomes = meet(&all(2), 2, |_| ());
    let sessions: Vec<(Session, Log)> = outcomes.into_iter().map(Result::unwrap).collect();
    for (session, log) in &sessions {
        assert!(Arc::strong_count(log) > 1, "the handler holds the log");
        session.control.leave(0, Bytes::new(), Instant::now() + PATIENCE);
    }
    for (_, log) in &sessions {
        until("the handler's end", || Arc::strong_count(log) == 1);
    }
}

#[test]
fn a_rendezvous_that_is_given_up_frees_its_port_and_its_peers() {
    let (listener, address) = listener();
    let (mut zero, _) = part(0, 3, address);
    zero.listener = Some(listener);
    let cancel = zero.cancel.clone();
    let start = Instant::now();
    let (zero, one) = std::thread::scope(|scope| {
        let zero = scope.spawn(move || join(zero));
        let one = scope.spawn(move || join(part(1, 3, address).0));
        std::thread::sleep(Duration::from_millis(300));
        cancel.cancel();
        (zero.join().unwrap(), one.join().unwrap())
    });
    assert!(start.elapsed() < PATIENCE / 2, "{:?}", start.elapsed());
    for outcome in [zero, one] {
        assert_eq!(outcome.unwrap_err().to_string(), "rank 0 was interrupted during the rendezvous");
    }
    drop(TcpListener::bind(address).expect("the port is free"));
}

#[test]
fn a_member_that_gives_up_is_gone_at_once() {
    let (listener, address) = listener();
    let (mut zero, _) = part(0, 3, address);
    zero.listener = Some(listener);
    let (one, _) = part(1, 3, address);
    let cancel = one.cancel.clone();
    let start = Instant::now();
    let (zero, one) = std::thread::scope(|scope| {
        let zero = scope.spawn(move || join(zero));
        let one = scope.spawn(move || join(one));
        std::thread::sleep(Duration::from_millis(300));
        cancel.cancel();
        (zero.join().unwrap(), one.join().unwrap())
    });
    assert!(start.elapsed() < PATIENCE / 2, "{:?}", start.elapsed());
    assert_eq!(one.unwrap_err().to_string(), "rank 1 was interrupted during the rendezvous");
    let text = zero.unwrap_err().to_string();
    assert_eq!(text, "rank 1 vanished during the rendezvous: it closed the connection");
}

#[test]
fn a_long_wait_is_told_of_with_those_that_are_missing() {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let outcomes = meet(&[0, 2], 4, |join| {
        let (told, rank) = (Arc::clone(&told), join.rank);
        join.deadline = Duration::from_millis(1500);
        let say = move |text: &str| told.lock().unwrap().push(format!("rank {rank}: {text}"));
        join.stall = Stall { after: Duration::from_millis(300), say: Arc::new(say) };
    });
    assert_eq!(error(&outcomes[0]), "ranks 1, 3 did not arrive within 1.5 s");
    let told = told.lock().unwrap();
    for rank in [0, 2] {
        let is_told = |text: &String| {
            text.starts_with(&format!("rank {rank}: the rendezvous has waited ")) && text.contains(MISSING)
        };
        assert!(told.iter().any(is_told), "{told:?}");
    }
    const MISSING: &str = " s for ranks 1, 3, which have not arrived; it ends after 1.5s";
}

#[test]
fn a_wait_for_rank_zero_says_where() {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let (listener, address) = listener();
    drop(listener);
    let (mut own, _) = part(1, 2, address);
    own.deadline = Duration::from_millis(1000);
    let heard = Arc::clone(&told);
    let say = move |text: &str| heard.lock().unwrap().push(text.to_owned());
    own.stall = Stall { after: Duration::from_millis(300), say: Arc::new(say) };
    join(own).unwrap_err();
    let told = told.lock().unwrap();
    assert!(told[0].contains("for rank 0, which has not arrived: "), "{told:?}");
    assert!(told[0].contains(&address.to_string()), "{told:?}");
}

/// The others are told elsewhere how to find rank 0; first wrongly.
#[test]
fn rank_zero_is_looked_for_until_it_is_found() {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let asked = &*Box::leak(Box::new(asked));
    let outcomes = meet(&all(2), 2, |join| {
        if join.rank == 1 {
            let (address, token) = (std::mem::take(&mut join.address), join.token.clone());
            join.find =
                Some(Box::new(move || match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                    0 => Err("nobody knows yet".to_owned()),
                    1 => Ok((address.clone(), Token::new(b"an earlier token"))),
                    _ => Ok((address.clone(), token.clone())),
                }));
        }
    });
    let (mut sessions, _) = succeeded(outcomes);
    exchange(&mut sessions);
    assert_eq!(sessions[0].address, sessions[1].address);
    assert!(sessions[0].token == sessions[1].token);
}

#[test]
fn what_is_never_found_is_told_of() {
    let (mut own, _) = part(1, 2, SocketAddr::from(([127, 0, 0, 1], 1)));
    own.deadline = Duration::from_millis(300);
    own.find = Some(Box::new(|| Err("nobody knows".to_owned())));
    let text = join(own).unwrap_err().to_string();
    assert_eq!(text, "rank 0 did not arrive within 0.3 s: nobody knows");
}

/// Rank 0's own name may not be known yet; it needs the port only.
#[test]
fn rank_zero_does_not_look_up_its_own_name() {
    let (listener, address) = listener();
    drop(listener);
    std::thread::scope(|scope| {
        let zero = scope.spawn(move || {
            let (mut zero, _) = part(0, 2, address);
            zero.address = format!("no-such-host.invalid:{}", address.port());
            join(zero)
        });
        let one = scope.spawn(move || join(part(1, 2, address).0));
        zero.join().unwrap().unwrap();
        one.join().unwrap().unwrap();
    });
}

#[test]
fn an_address_of_ipv6_serves() {
    let Ok(listener) = TcpListener::bind((std::net::Ipv6Addr::LOCALHOST, 0)) else {
        eprintln!("no IPv6 here: not tested");
        return;
    };
    let address = listener.local_addr().unwrap();
    drop(listener);
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..3).map(|rank| scope.spawn(move || join(part(rank, 3, address).0))).collect();
        let mut sessions: Vec<Session> =
            ranks.into_iter().map(|rank| rank.join().unwrap().unwrap()).collect();
        exchange(&mut sessions);
    });
}

/// Idle strangers, who come again whenever they are put out, are more than the doorman lets in at once.
#[test]
fn a_crowd_of_strangers_keeps_no_rank_out() {
    let (listener, address) = listener();
    let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let strangers: Vec<_> = (0..super::queue::MOST_UNPROVED * 2)
        .map(|_| {
            let is_over = Arc::clone(&is_over);
            let haunt = move || {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    match TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
                        Ok(mut stranger) => {
                            stranger.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
                            let _ = stranger.read(&mut [0; 64]);
                        }
                        Err(_) => std::thread::sleep(Duration::from_millis(20)),
                    }
                }
            };
            std::thread::Builder::new().stack_size(64 << 10).spawn(haunt).unwrap()
        })
        .collect();
    let (mut zero, _) = part(0, 2, address);
    zero.listener = Some(listener);
    let zero = std::thread::spawn(move || join(zero));
    std::thread::sleep(Duration::from_millis(300));
    let one = join(part(1, 2, address).0);
    is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    one.expect("rank 1 gets in");
    zero.join().unwrap().expect("rank 0 sees it");
    strangers.into_iter().for_each(|stranger| stranger.join().unwrap());
}

/// Longer than one attempt takes: a rank that is stopped for a while, or has much to do.
#[test]
fn a_slow_rank_shares_memory_all_the_same() {
    let (sessions, _) = succeeded(meet(&all(3), 3, |join| {
        join.transports = Transports::Auto;
        if join.rank == 1 {
            join.dimensions = Box::new(|_, _| {
                std::thread::sleep(super::context::ATTEMPT + Duration::from_millis(500));
                Dimensions { wire: CONFIG, tcp: Default::default() }
            });
        }
    }));
    for session in &sessions {
        assert!(session.roster.routes.iter().flatten().all(|route| *route == Route::Shm), "{session:?}");
    }
}

#[test]
fn ranks_that_say_nothing_are_heard_all_the_same() {
    let silence = Duration::from_millis(400);
    let (sessions, _) = succeeded(meet(&all(2), 2, |join| {
        join.transports = Transports::Tcp;
        let tcp = crate::tcp::TcpOptions { silence, ..Default::default() };
        join.dimensions = Box::new(move |_, _| Dimensions { wire: CONFIG, tcp });
    }));
    std::thread::sleep(3 * silence);
    // On a busy machine a beat may come late, but none comes where there are none.
    let is_heard = || (0..2).all(|rank| sessions[rank].control.condition(1 - rank).is_none());
    until("both to be heard", is_heard);
}
