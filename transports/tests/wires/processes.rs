//! Shared memory between two real processes: this test binary starts itself again as the peer.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hcomm_ops::StableBuffer;
use hcomm_transports::{AnyWire, Arrival, Doorbell, Key, Lost, Sent, Wire};

use crate::pair::{CONFIG, keyed, message};
use crate::shm::Own;

const CHILD: &str = "HCOMM_TEST_PEER";
const ROUNDS: u32 = 500;
const LONG: Duration = Duration::from_secs(20);

/// One end and where its process sleeps.
struct Rank {
    wires: Vec<Option<AnyWire>>,
    doorbell: Doorbell,
}

impl Rank {
    fn join(index: u32, stream: &UnixStream) -> Rank {
        let own = Own::new(CONFIG, index);
        own.hand_over(stream);
        let (wire, doorbell) = own.join(stream, 0);
        Rank { wires: vec![Some(wire)], doorbell }
    }

    fn wire(&mut self) -> &mut AnyWire {
        self.wires[0].as_mut().unwrap()
    }

    fn wait<T>(&mut self, mut ask: impl FnMut(&mut AnyWire) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            self.doorbell.arm();
            if let Some(answer) = ask(self.wire()) {
                self.doorbell.disarm();
                return answer;
            }
            self.doorbell.sleep(&self.wires, LONG);
            assert!(start.elapsed() < LONG, "a wake was missed");
        }
    }

    fn send(&mut self, key: Key, mut bytes: Vec<u8>) {
        self.wait(|wire| (wire.send_from(key, &[bytes.span()], true) == Sent::Done).then_some(()));
    }

    fn receive(&mut self, key: Key, bytes: usize) -> Vec<u8> {
        self.wait(|wire| match wire.poll(key, bytes) {
            Arrival::NotYet => None,
            Arrival::Here(span) => {
                let got = span.to_vec();
                wire.release(key.port);
                Some(got)
            }
            other => panic!("unexpected {other:?}"),
        })
    }
}

fn start_peer(role: &str) -> (Child, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::peer", "--nocapture"])
        .env(CHILD, role)
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    (child, ours)
}

fn size(round: u32) -> usize {
    [0, 8, 1128, 1129, 1000, 4096][round as usize % 6]
}

/// The other process's part; nothing when the suite runs it as a test.
#[test]
fn peer() {
    let Ok(role) = std::env::var(CHILD) else { return };
    let stream = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let mut rank = Rank::join(1, &stream);
    match role.as_str() {
        "echo" => (0..ROUNDS).for_each(|round| {
            let got = rank.receive(keyed(0, round), size(round));
            rank.send(keyed(1, round), got);
        }),
        _ => {
            (0..CONFIG.depth).for_each(|n| rank.send(keyed(2, n), message(n, 4000)));
            std::thread::sleep(LONG);
        }
    }
}

#[test]
fn two_processes_exchange_messages_and_wake_each_other() {
    let (mut child, stream) = start_peer("echo");
    let mut rank = Rank::join(0, &stream);
    for round in 0..ROUNDS {
        rank.send(keyed(0, round), message(round, size(round)));
        assert_eq!(rank.receive(keyed(1, round), size(round)), message(round, size(round)));
    }
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_a_killed_process_sent_stays_readable() {
    let (mut child, stream) = start_peer("die");
    let mut rank = Rank::join(0, &stream);
    rank.wait(|wire| matches!(wire.poll(keyed(2, 0), 4000), Arrival::Here(_)).then_some(()));
    std::thread::sleep(Duration::from_millis(50));
    child.kill().unwrap();
    child.wait().unwrap();
    rank.wire().mark_lost(Lost { cause: "its process was killed".into() });
    for n in 0..CONFIG.depth {
        assert_eq!(rank.receive(keyed(2, n), 4000), message(n, 4000));
    }
    assert_eq!(rank.wire().poll(keyed(2, 9), 4000), Arrival::NotYet);
    assert!(rank.wire().lost().is_some());
    assert_eq!(rank.wire().send_from(keyed(0, 0), &[message(0, 4096).span()], false), Sent::Done);
}
