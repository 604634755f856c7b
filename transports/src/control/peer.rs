//! [`drive_peer`]: serves the control connection to one rank.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hcomm_ops::Rank;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::frame::{self, Frame};
use super::mesh::Order;
use super::socket::Socket;
use super::watch::Watch;
use super::{Event, Handler};
use crate::tcp::unacknowledged_bytes;

/// After the end of a peer's process, how long what it sent may still be on its way within this host.
const LAST_WORDS: Duration = Duration::from_millis(50);
/// After the end of a stream, how long the end of the process may take to show: only for a better cause.
const PROCESS_END: Duration = Duration::from_millis(50);
/// How often a goodbye looks whether it has been acknowledged.
const ACKNOWLEDGED_POLL: Duration = Duration::from_micros(500);
/// How long it looks; the caller of `leave` has a deadline of its own.
const ACKNOWLEDGED_LIMIT: Duration = Duration::from_secs(10);

/// A peer and everything that serves it.
pub(crate) struct Peer {
    pub(crate) rank: Rank,
    pub(crate) socket: Socket,
    pub(crate) watch: Watch,
    pub(crate) orders: mpsc::UnboundedReceiver<Order>,
    pub(crate) queued_bytes: Arc<AtomicUsize>,
    pub(crate) handler: Handler,
}

/// Reads what the peer says until it is gone, and writes what it is to be told.
pub(crate) async fn drive_peer(peer: Peer) {
    let Peer { rank, socket, watch, orders, queued_bytes, handler } = peer;
    let probe = match &socket {
        Socket::Tcp(stream) => stream.as_fd().try_clone_to_owned().ok().map(Arc::new),
        // What was written to a Unix socket lies with the peer at once.
        Socket::Unix(_) => None,
    };
    let (input, output) = tokio::io::split(socket);
    let is_gone = Arc::new(AtomicBool::new(false));
    let reader = Reader { rank, input, stream: BytesMut::new(), probe: probe.clone(), watch, handler };
    let writer = Writer { output, probe, is_gone: Arc::clone(&is_gone), orders, queued_bytes };
    let read = async {
        reader.drive().await;
        is_gone.store(true, Ordering::Relaxed);
    };
    tokio::join!(read, writer.drive());
}

/// The same socket, where it is one of TCP.
type Probe = Option<Arc<OwnedFd>>;

struct Reader {
    rank: Rank,
    input: ReadHalf<Socket>,
    stream: BytesMut,
    probe: Probe,
    watch: Watch,
    handler: Handler,
}

/// How a peer's words ended.
enum Ending {
    Left(u64, Bytes),
    Lost(String),
    Closed,
}

impl Reader {
    async fn drive(mut self) {
        match self.listen().await {
            Ending::Left(last, words) => {
                if let Some(socket) = &self.probe {
                    // The peer waits for the acknowledgement, which the system would put off.
                    let _ = rustix::net::sockopt::set_tcp_quickack(socket, true);
                }
                (self.handler)(Event::Left { rank: self.rank, last, words });
                self.discard().await;
            }
            Ending::Lost(cause) => (self.handler)(Event::Lost { rank: self.rank, cause }),
            Ending::Closed => {
                let cause = self.cause_of_end().await.to_owned();
                (self.handler)(Event::Lost { rank: self.rank, cause });
            }
        }
    }

    async fn listen(&mut self) -> Ending {
        tokio::select! {
            biased;
            ending = hear(self.rank, &mut self.input, &mut self.stream, &self.handler) => return ending,
            () = self.watch.ended() => {}
        }
        let last_words = hear(self.rank, &mut self.input, &mut self.stream, &self.handler);
        timeout(LAST_WORDS, last_words).await.unwrap_or(Ending::Closed)
    }

    async fn cause_of_end(&self) -> &'static str {
        match timeout(PROCESS_END, self.watch.ended()).await {
            Ok(()) => "its process ended without closing the communicator",
            Err(_) => "it closed its connection without a goodbye",
        }
    }

    /// Takes what still comes, so that closing the socket destroys nothing.
    async fn discard(&mut self) {
        while self.input.read_buf(&mut self.stream).await.is_ok_and(|count| count > 0) {
            self.stream.clear();
        }
    }
}

/// Hands the peer's messages on until there are no more. Cancel safe: what was read stays in `stream`.
async fn hear(rank: Rank, input: &mut ReadHalf<Socket>, stream: &mut BytesMut, handler: &Handler) -> Ending {
    loop {
        match frame::decode(stream) {
            Ok(Some(Frame::Message(body))) => handler(Event::Message { from: rank, body }),
            Ok(Some(Frame::Goodbye(last, words))) => return Ending::Left(last, words),
            Ok(Some(Frame::Heartbeat)) => {}
            Err(malformed) => return Ending::Lost(format!("it sent a malformed control frame: {malformed}")),
            Ok(None) => match input.read_buf(stream).await {
                Ok(0) => return Ending::Closed,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ending::Closed,
                Err(error) => return Ending::Lost(format!("the control connection to it broke: {error}")),
            },
        }
    }
}

struct Writer {
    output: WriteHalf<Socket>,
    probe: Probe,
    /// Nobody is left to acknowledge anything.
    is_gone: Arc<AtomicBool>,
    orders: mpsc::UnboundedReceiver<Order>,
    queued_bytes: Arc<AtomicUsize>,
}

impl Writer {
    async fn drive(mut self) {
        while let Some(order) = self.orders.recv().await {
            let written = match order {
                Order::Write(frame) => self.write(&frame).await,
                Order::Goodbye(goodbye, _done) => self.say_goodbye(&goodbye).await,
            };
            if written.is_err() {
                return;
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
        let unacknowledged = self.probe.as_ref().and_then(|socket| unacknowledged_bytes(socket.as_fd()));
        unacknowledged.is_some_and(|bytes| bytes > 0) && !self.is_gone.load(Ordering::Relaxed)
    }
}
