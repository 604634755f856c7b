//! What a rank's process does, by its role.

use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use hcomm_transports::rendezvous::{Dimensions, Join, Session, Token, Transports, join};
use hcomm_transports::{Arrival, Event, Key, Sent, Wire, WireConfig, Word};

use crate::parent::{ADDRESS, DEADLINE_MS, MARK, RANK, ROLE, TRANSPORT, VICTIM, WORLD};

const CONFIG: WireConfig = WireConfig { ports: 33, depth: 4, slot_bytes: 64 * 1024 };
const PATIENCE: Duration = Duration::from_secs(15);
/// How long after a rank's end something that contradicts it would come.
const AFTERMATH: Duration = Duration::from_millis(200);

/// Does nothing where this process is no child.
pub fn run() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (events, heard) = channel();
    let handler = std::sync::Arc::new(move |event| drop(events.send(event)));
    let outcome = join(Join {
        rank: number(RANK),
        world: number(WORLD),
        address: std::env::var(ADDRESS).unwrap(),
        find: None,
        listener: None,
        token: Token::new(b"a test's token"),
        deadline: Duration::from_millis(number(DEADLINE_MS) as u64),
        transports: if std::env::var(TRANSPORT).unwrap() == "tcp" {
            Transports::Tcp
        } else {
            Transports::Auto
        },
        settings: Default::default(),
        interfaces: Default::default(),
        cpus: Vec::new(),
        cancel: Default::default(),
        stall: Default::default(),
        handler,
        dimensions: Box::new(|_, _| Dimensions { wire: CONFIG, tcp: Default::default() }),
    });
    match outcome {
        Ok(session) => play(&role, session, &heard),
        Err(error) => say(&format!("no session: {error}")),
    }
}

fn play(role: &str, session: Session, heard: &Receiver<Event>) {
    match role {
        "exchange" => exchange(session),
        "watch" => watch(session, heard),
        "stay" => {
            say("ready");
            std::thread::sleep(PATIENCE);
        }
        "exit" => {
            say("ready");
            std::process::exit(0);
        }
        "leave" => {
            say("ready");
            session.control.leave(7, bytes::Bytes::new(), Instant::now() + PATIENCE);
        }
        "bequeath" => {
            bequeath();
            say("ready");
            std::thread::sleep(PATIENCE);
        }
        other => panic!("no role {other}"),
    }
}

/// Says what becomes of the victim.
fn watch(session: Session, heard: &Receiver<Event>) {
    say("ready");
    let victim = number(VICTIM);
    match heard.recv_timeout(PATIENCE).expect("something becomes of the victim") {
        Event::Lost { rank, cause } if rank == victim => say(&format!("lost {rank} because {cause}")),
        Event::Left { rank, last, .. } if rank == victim => say(&format!("left {rank} after {last}")),
        other => panic!("unexpected {other:?}"),
    }
    match heard.recv_timeout(AFTERMATH) {
        Ok(Event::Left { rank, .. }) if rank != victim => say("nothing more"),
        Ok(other) => say(&format!("more: {other:?}")),
        Err(_) => say("nothing more"),
    }
    session.control.leave(0, bytes::Bytes::new(), Instant::now() + PATIENCE);
}

/// Messages of three sizes both ways between all pairs, more than a port holds; then goes as a good rank does.
fn exchange(session: Session) {
    let Session { mut endpoint, control, .. } = session;
    let own = number(RANK);
    for (round, bytes) in [8, 5000, 65536].into_iter().cycle().take(30).enumerate() {
        let key = Key { port: 3, word: Word { operation: round as u32, fingerprint: 1 } };
        for peer in 0..endpoint.wires.len() {
            let mut message = content(own, peer, round, bytes);
            let span = hcomm_ops::StableBuffer::span(&mut message);
            wait(&mut endpoint.wires, peer, |wire| match wire.send_from(key, &[span], false) {
                Sent::Done => Some(()),
                Sent::Full => None,
                Sent::Lent(_) => panic!("lent although it may not"),
            });
        }
        for peer in 0..endpoint.wires.len() {
            let got = wait(&mut endpoint.wires, peer, |wire| match wire.poll(key, bytes) {
                Arrival::Here(span) => Some(span.to_vec()),
                Arrival::NotYet => None,
                other => panic!("unexpected {other:?}"),
            });
            assert!(
                got.is_none_or(|got| got == content(peer, own, round, bytes)),
                "round {round} from {peer}"
            );
            endpoint.wires[peer].iter_mut().for_each(|wire| wire.release(3));
        }
    }
    say("exchanged");
    for peer in 0..endpoint.wires.len() {
        wait(&mut endpoint.wires, peer, |wire| (wire.is_flushed() || wire.lost().is_some()).then_some(()));
    }
    control.leave(30, bytes::Bytes::new(), Instant::now() + PATIENCE);
}

/// Asks the peer's wire until it answers; `None` where there is no such wire.
fn wait<T>(
    wires: &mut [Option<hcomm_transports::AnyWire>],
    peer: usize,
    mut ask: impl FnMut(&mut hcomm_transports::AnyWire) -> Option<T>,
) -> Option<T> {
    wires[peer].as_ref()?;
    let start = Instant::now();
    loop {
        for wire in wires.iter_mut().flatten() {
            wire.progress();
        }
        if let Some(answer) = wires[peer].as_mut().and_then(&mut ask) {
            return Some(answer);
        }
        assert!(start.elapsed() < PATIENCE, "peer {peer} does not answer");
        std::thread::yield_now();
    }
}

fn content(from: usize, to: usize, round: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 256 + from * 7 + to * 3 + round) as u8).collect()
}

/// Starts a child that inherits every socket, as a fork without exec does.
fn bequeath() {
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let entry = entry.unwrap();
        let is_socket =
            std::fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
        if is_socket {
            let number: i32 = entry.file_name().to_string_lossy().parse().unwrap();
            survive_exec(number);
        }
    }
    let spawned = Command::new("sleep").arg("3").stdout(std::process::Stdio::null()).spawn();
    // Nobody waits for it: this process is about to be killed.
    std::mem::forget(spawned.unwrap());
}

fn survive_exec(number: i32) {
    // SAFETY: the descriptor was just listed as open and belongs to a session that outlives this call.
    let file = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty()).unwrap();
}

fn number(name: &str) -> usize {
    std::env::var(name).unwrap().parse().unwrap()
}

fn say(words: &str) {
    println!("\n{MARK}{words}");
}
