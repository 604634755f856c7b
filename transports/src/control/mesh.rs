//! [`MeshControl`]: the control plane between processes: one connection for each pair of ranks, all served by one thread.
//!
//! Every rank sees with its own eyes that another has left (a goodbye on their connection, after that rank's messages) or is lost
//! (the end of the stream without one, or the end of its process). So no rank is needed for the others to hear of each other, and
//! nothing stops working when any one of them goes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, bounded};
use hcomm_ops::Rank;
use tokio::sync::{mpsc, watch};

use super::frame::Frame;
use super::peer::{Peer, drive_peer};
use super::pulse::Pulse;
use super::socket::Socket;
use super::watch::Watch;
use super::{Control, Event, Handler, MAX_BODY_BYTES};

/// Bytes that may wait for a peer that does not read; what comes beyond is dropped.
const MAX_QUEUED_BYTES: usize = 16 << 20;
/// How long a control that is dropped waits for its thread.
const THREAD_END: Duration = Duration::from_secs(1);

/// What the control thread needs of a peer.
pub(crate) struct Connected {
    /// Who it is.
    pub(crate) peer: Rank,
    /// The proved connection, between two frames.
    pub(crate) socket: Socket,
    /// Its process, where it is on this host.
    pub(crate) watch: Watch,
}

/// One rank's end.
pub(crate) struct MeshControl {
    rank: Rank,
    gate: Arc<Gate>,
    peers: HashMap<Rank, Outgoing>,
    stop: watch::Sender<bool>,
    thread: ThreadId,
    ended: Receiver<()>,
}

/// The part that stays on the control thread.
pub(crate) struct MeshTasks {
    peers: Vec<Peer>,
    stop: watch::Receiver<bool>,
    /// Dropped when the thread is through.
    _ended: Sender<()>,
}

struct Outgoing {
    queue: mpsc::UnboundedSender<Order>,
    queued_bytes: Arc<AtomicUsize>,
    pulse: Arc<Pulse>,
}

/// What a peer's writer is told to do.
pub(crate) enum Order {
    /// Write this.
    Write(Frame),
    /// Write a goodbye and drop the sender once the peer's system has it.
    Goodbye(Frame, Sender<()>),
}

impl MeshControl {
    /// The two halves; to be called on the control thread, which is then to run the second.
    /// A peer may be silent for so long before that is worth a word; zero is for ever.
    pub(crate) fn new(
        rank: Rank,
        handler: Handler,
        connected: Vec<Connected>,
        silence: Duration,
    ) -> (Self, MeshTasks) {
        let gate = Arc::new(Gate(Mutex::new(Some(handler))));
        let (stop, stopped) = watch::channel(false);
        let (ending, ended) = bounded(0);
        let (mut peers, mut tasks) = (HashMap::new(), Vec::new());
        for Connected { peer, socket, watch } in connected {
            let (queue, orders) = mpsc::unbounded_channel();
            let queued_bytes = Arc::new(AtomicUsize::new(0));
            let pulse = Arc::new(Pulse::new(silence, &watch));
            let outgoing =
                Outgoing { queue, queued_bytes: Arc::clone(&queued_bytes), pulse: Arc::clone(&pulse) };
            peers.insert(peer, outgoing);
            let behind = Arc::clone(&gate);
            let handler: Handler = Arc::new(move |event| behind.handle(event));
            tasks.push(Peer { rank: peer, socket, watch, pulse, silence, orders, queued_bytes, handler });
        }
        let thread = std::thread::current().id();
        let control = MeshControl { rank, gate, peers, stop, thread, ended };
        (control, MeshTasks { peers: tasks, stop: stopped, _ended: ending })
    }
}

impl MeshTasks {
    /// Serves the connections until the control is dropped.
    pub(crate) async fn drive(mut self) {
        let mut tasks = tokio::task::JoinSet::new();
        for peer in self.peers.drain(..) {
            tasks.spawn(drive_peer(peer));
        }
        // An error means that the control is gone, too.
        let _ = self.stop.wait_for(|stop| *stop).await;
    }
}

impl Control for MeshControl {
    fn send(&self, to: Rank, body: Bytes) {
        if body.len() > MAX_BODY_BYTES {
            tracing::error!(
                to,
                bytes = body.len(),
                "a control message longer than {MAX_BODY_BYTES} bytes is dropped"
            );
        } else if to == self.rank {
            self.gate.handle(Event::Message { from: to, body });
        } else if let Some(peer) = self.peers.get(&to) {
            peer.send(to, body);
        }
    }

    fn condition(&self, rank: Rank) -> Option<String> {
        self.peers.get(&rank).and_then(|peer| peer.pulse.condition())
    }

    fn leave(&self, last: u64, words: Bytes, deadline: Instant) {
        let goodbye = Frame::Goodbye(last, words);
        let (done, all_done) = bounded::<()>(0);
        for peer in self.peers.values() {
            // The queue of a peer that is gone is closed: nobody is left to say goodbye to.
            let _ = peer.queue.send(Order::Goodbye(goodbye.clone(), done.clone()));
        }
        drop(done);
        // Nothing is ever sent: the channel closes when every goodbye is through.
        let _ = all_done.recv_deadline(deadline);
        self.gate.close();
    }
}

impl Drop for MeshControl {
    fn drop(&mut self) {
        self.gate.close();
        let _ = self.stop.send(true);
        if std::thread::current().id() != self.thread {
            let _ = self.ended.recv_timeout(THREAD_END);
        }
    }
}

impl Outgoing {
    fn send(&self, to: Rank, body: Bytes) {
        let bytes = body.len();
        if self.queued_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_QUEUED_BYTES {
            self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            tracing::warn!(
                to,
                bytes,
                "the peer does not read its control connection; a message to it is dropped"
            );
        } else {
            let _ = self.queue.send(Order::Write(Frame::Message(body)));
        }
    }
}

/// The handler until this rank has left. It is let go then: what it leads to holds this control in turn.
struct Gate(Mutex<Option<Handler>>);

impl Gate {
    /// Calls the handler without holding it, so that it may send and leave itself.
    fn handle(&self, event: Event) {
        let handler = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(handler) = handler {
            handler(event);
        }
    }

    fn close(&self) {
        let handler = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Not under the lock: with it may go much else.
        drop(handler);
    }
}

/// A thread named for its work.
pub(crate) fn spawn_control_thread(body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("hcomm-control".to_owned()).spawn(body)
}
