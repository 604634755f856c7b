//! The control plane among threads; `rendezvous` tests the one between processes.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;

use super::{Control, Event, Handler, MAX_BODY_BYTES, inproc_mesh};

type Log = Arc<Mutex<Vec<Event>>>;

fn mesh(world: usize) -> (Vec<Box<dyn Control>>, Vec<Log>) {
    let logs: Vec<Log> = (0..world).map(|_| Log::default()).collect();
    let handler = |log: &Log| {
        let log = Arc::clone(log);
        Arc::new(move |event| log.lock().unwrap().push(event)) as Handler
    };
    (inproc_mesh(logs.iter().map(handler).collect()), logs)
}

fn message(from: usize, body: &'static [u8]) -> Event {
    Event::Message { from, body: Bytes::from_static(body) }
}

#[test]
fn messages_keep_their_order_and_the_end_comes_last() {
    let (mut controls, logs) = mesh(3);
    controls[0].send(2, Bytes::from_static(b"one"));
    controls[0].send(2, Bytes::from_static(b"two"));
    controls[0].leave(7, Bytes::from_static(b"words"), Instant::now());
    controls[0].send(2, Bytes::from_static(b"late"));
    drop(controls.remove(0));
    let left = Event::Left { rank: 0, last: 7, words: Bytes::from_static(b"words") };
    assert_eq!(*logs[2].lock().unwrap(), [message(0, b"one"), message(0, b"two"), left.clone()]);
    assert_eq!(*logs[1].lock().unwrap(), [left]);
    assert!(logs[0].lock().unwrap().is_empty());
}

#[test]
fn a_control_dropped_without_a_goodbye_is_lost() {
    let (mut controls, logs) = mesh(2);
    drop(controls.remove(1));
    controls[0].send(1, Bytes::from_static(b"to nobody"));
    let events = logs[0].lock().unwrap();
    let [Event::Lost { rank: 1, cause }] = &events[..] else { panic!("expected a loss, got {events:?}") };
    assert!(cause.contains("without a goodbye"), "{cause}");
    assert!(logs[1].lock().unwrap().is_empty());
}

#[test]
fn a_rank_that_is_not_there_and_a_body_too_long_are_dropped() {
    let (controls, logs) = mesh(2);
    controls[0].send(9, Bytes::from_static(b"hello"));
    controls[0].send(1, vec![0; MAX_BODY_BYTES + 1].into());
    controls[0].send(1, vec![0; MAX_BODY_BYTES].into());
    assert_eq!(logs[1].lock().unwrap().len(), 1);
}

#[test]
fn of_two_that_leave_at_once_one_hears_of_the_other() {
    for _ in 0..200 {
        let (controls, logs) = mesh(2);
        std::thread::scope(|s| {
            for control in &controls {
                s.spawn(|| control.leave(1, Bytes::new(), Instant::now()));
            }
        });
        assert!(logs.iter().any(|log| !log.lock().unwrap().is_empty()));
    }
}
