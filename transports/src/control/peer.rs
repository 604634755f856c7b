//! [`drive_peer`]: serves the control connection to one rank.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hcomm_ops::Rank;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::frame::{self, Frame};
use super::mesh::Order;
use super::pulse::Pulse;
use super::socket::{OwnSocket, Socket};
use super::watch::Watch;
use super::{Event, Handler};
use crate::fork::Kept;
use crate::tcp::{keep_alive, unacknowledged_bytes};

/// After the end of a peer's process, how long what it sent may still be on its way within this host.
const LAST_WORDS: Duration = Duration::from_millis(50);
/// After the end of a stream, how long the end of the process may take to show: only for a better cause.
const PROCESS_END: Duration = Duration::from_millis(50);
/// How many times fewer heartbeats a peer is sent that is silent itself.
const SPARSE: u32 = 8;
/// How often a goodbye looks whether it has been acknowledged.
const ACKNOWLEDGED_POLL: Duration = Duration::from_micros(500);
/// How long it looks; the caller of `leave` has a deadline of its own.
const ACKNOWLEDGED_LIMIT: Duration = Duration::from_secs(10);

/// A peer and everything that serves it.
pub(crate) struct Peer {
    pub(crate) rank: Rank,
    pub(crate) socket: Socket,
    pub(crate) watch: Watch,
    pub(crate) pulse: Arc<Pulse>,
    /// How long its host may be silent before it counts as lost; zero is for ever.
    pub(crate) silence: Duration,
    pub(crate) orders: mpsc::UnboundedReceiver<Order>,
    pub(crate) queued_bytes: Arc<AtomicUsize>,
    pub(crate) handler: Handler,
}

/// Reads what the peer says until it is gone, and writes what it is to be told.
pub(crate) async fn drive_peer(peer: Peer) {
    let Peer { rank, socket, watch, pulse, silence, orders, queued_bytes, handler } = peer;
    let probe = match &socket {
        Socket::Tcp(stream) => {
            end_when_silent(stream, silence);
            Probe::new(stream).map(Arc::new)
        }
        // What was written to a Unix socket lies with the peer at once.
        Socket::Unix(_) => None,
    };
    let (input, output) = tokio::io::split(OwnSocket::new(socket));
    let is_gone = Arc::new(AtomicBool::new(false));
    let stream = BytesMut::new();
    let hearing = Hearing { rank, input, stream, pulse: Arc::clone(&pulse), handler, silence };
    let reader = Reader { hearing, probe: probe.clone(), watch };
    let writer = Writer { output, probe, pulse, is_gone: Arc::clone(&is_gone), orders, queued_bytes };
    let read = async {
        reader.drive().await;
        is_gone.store(true, Ordering::Relaxed);
    };
    tokio::join!(read, writer.drive());
}

/// The same socket again, where it is one of TCP.
struct Probe {
    // Before the descriptor, which is closed after it is dropped.
    _kept: Kept,
    file: OwnedFd,
}

impl Probe {
    fn new(stream: &TcpStream) -> Option<Probe> {
        let file = stream.as_fd().try_clone_to_owned().ok()?;
        Some(Probe { _kept: Kept::new(&file), file })
    }
}

/// Lets the system end a connection on which nothing that was sent, nor any question of its own, is acknowledged for so long. Only where little
/// is sent: a peer that does not read for long would count as silent, too.
fn end_when_silent(stream: &TcpStream, silence: Duration) {
    keep_alive(stream.as_fd(), silence);
    let limit_ms = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
    if limit_ms > 0
        && let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(stream, limit_ms)
    {
        tracing::debug!(%error, "the system does not end silent connections");
    }
}

struct Reader {
    hearing: Hearing,
    probe: Option<Arc<Probe>>,
    watch: Watch,
}

/// What comes from a peer.
struct Hearing {
    rank: Rank,
    input: ReadHalf<OwnSocket>,
    stream: BytesMut,
    pulse: Arc<Pulse>,
    handler: Handler,
    silence: Duration,
}

/// How a peer's words ended.
enum Ending {
    Left(u64, Bytes),
    Lost(String),
    Closed,
}

impl Reader {
    async fn drive(mut self) {
        let ending = self.listen().await;
        let rank = self.hearing.rank;
        match ending {
            Ending::Left(last, words) => {
                if let Some(probe) = &self.probe {
                    // The peer waits for the acknowledgement, which the system would put off.
                    let _ = rustix::net::sockopt::set_tcp_quickack(&probe.file, true);
                }
                (self.hearing.handler)(Event::Left { rank, last, words });
                self.hearing.discard().await;
            }
            Ending::Lost(cause) => (self.hearing.handler)(Event::Lost { rank, cause }),
            Ending::Closed => {
                let cause = self.cause_of_end().await.to_owned();
                (self.hearing.handler)(Event::Lost { rank, cause });
            }
        }
    }

    async fn listen(&mut self) -> Ending {
        tokio::select! {
            biased;
            ending = self.hearing.hear() => return ending,
            () = self.watch.ended() => {}
        }
        timeout(LAST_WORDS, self.hearing.hear()).await.unwrap_or(Ending::Closed)
    }

    async fn cause_of_end(&self) -> &'static str {
        match timeout(PROCESS_END, self.watch.ended()).await {
            Ok(()) => "its process ended without closing the communicator",
            Err(_) => "it closed its connection without a goodbye",
        }
    }
}

impl Hearing {
    /// Hands the peer's messages on until there are no more. Cancel safe: what was read stays in `stream`.
    async fn hear(&mut self) -> Ending {
        loop {
            match frame::decode(&mut self.stream) {
                Ok(Some(Frame::Message(body))) => (self.handler)(Event::Message { from: self.rank, body }),
                Ok(Some(Frame::Goodbye(last, words))) => return Ending::Left(last, words),
                Ok(Some(Frame::Heartbeat)) => {}
                Err(malformed) => {
                    return Ending::Lost(format!("it sent a malformed control frame: {malformed}"));
                }
                Ok(None) => match self.input.read_buf(&mut self.stream).await {
                    Ok(0) => return Ending::Closed,
                    Ok(_) => self.pulse.beat(),
                    Err(error) => return self.broken(&error),
                },
            }
        }
    }

    fn broken(&self, error: &io::Error) -> Ending {
        match error.kind() {
            io::ErrorKind::ConnectionReset => Ending::Closed,
            io::ErrorKind::TimedOut => {
                let silence = self.silence.as_secs_f64();
                Ending::Lost(format!("its host has not answered for {silence:.1} s"))
            }
            _ => Ending::Lost(format!("the control connection to it broke: {error}")),
        }
    }

    /// Takes what still comes, so that closing the socket destroys nothing.
    async fn discard(&mut self) {
        while self.input.read_buf(&mut self.stream).await.is_ok_and(|count| count > 0) {
            self.stream.clear();
        }
    }
}

struct Writer {
    output: WriteHalf<OwnSocket>,
    probe: Option<Arc<Probe>>,
    pulse: Arc<Pulse>,
    /// Nobody is left to acknowledge anything.
    is_gone: Arc<AtomicBool>,
    orders: mpsc::UnboundedReceiver<Order>,
    queued_bytes: Arc<AtomicUsize>,
}

impl Writer {
    async fn drive(mut self) {
        while let Some(order) = self.next().await {
            let written = match order {
                Order::Write(frame) => self.write(&frame).await,
                Order::Goodbye(goodbye, _done) => self.say_goodbye(&goodbye).await,
            };
            if written.is_err() {
                return;
            }
        }
    }

    /// The next order; a heartbeat where there is none for long. A peer that does not read is sent few.
    async fn next(&mut self) -> Option<Order> {
        let Some(interval) = self.pulse.interval() else { return self.orders.recv().await };
        loop {
            let pause = if self.pulse.silent_for().is_some() { SPARSE * interval } else { interval };
            match timeout(pause, self.orders.recv()).await {
                Ok(order) => return order,
                Err(_) if self.is_gone.load(Ordering::Relaxed) => {}
                Err(_) => return Some(Order::Write(Frame::Heartbeat)),
            }
        }
    }

    async fn write(&mut self, frame: &Frame) -> io::Result<()> {
        if let Frame::Message(body) = frame {
            self.queued_bytes.fetch_sub(body.len(), Ordering::Relaxed);
        }
        let mut bytes = BytesMut::new();
        frame::encode(frame, &mut bytes);
        self.output.write_all(&bytes).await
    }

    async fn say_goodbye(&mut self, goodbye: &Frame) -> io::Result<()> {
        self.write(goodbye).await?;
        // Now the peer's goodbye has arrived here, or it will find this one. What has arrived is read before this thread wakes from a sleep.
        tokio::time::sleep(ACKNOWLEDGED_POLL).await;
        let acknowledged = async {
            while self.is_unacknowledged() {
                tokio::time::sleep(ACKNOWLEDGED_POLL).await;
            }
        };
        let _ = timeout(ACKNOWLEDGED_LIMIT, acknowledged).await;
        Ok(())
    }

    fn is_unacknowledged(&self) -> bool {
        let unacknowledged = self.probe.as_ref().and_then(|probe| unacknowledged_bytes(probe.file.as_fd()));
        unacknowledged.is_some_and(|bytes| bytes > 0) && !self.is_gone.load(Ordering::Relaxed)
    }
}
