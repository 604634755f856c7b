//! [`TcpWire`]: a wire over a connected TCP socket.
//!
//! Whoever drives the communicator makes the socket calls, inside [`Wire::progress`] and the sending calls; none of them
//! blocks. `frame` says what passes over the socket, `inbox` and `outbox` are the two directions without the socket, `pace` plays a
//! slower link. The connection is made and proved by `rendezvous`.
//!
//! A message goes to the kernel at once, from where it lies, when nothing is queued before it; what the kernel does not take is
//! copied or lent, and leaves with as much as fits in one call when it takes more. Releases go back with the next message
//! of the same port, or in a frame of their own: at once when half a port's messages are released, else when a round of progress finds
//! nothing else to do. So no release is kept back for long, and a busy wire tells of many at once.

pub mod frame;
mod inbox;
mod outbox;
mod pace;
mod pool;
mod sys;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use hcomm_ops::RawSpan;

use self::frame::{Credit, HEADER_BYTES, encode_credits, encode_nudge};
use self::inbox::Inbox;
use self::outbox::Outbox;
use self::pace::Bucket;
use self::sys::MAX_SPANS;
pub(crate) use self::sys::unacknowledged_bytes;
use crate::fork::Kept;
use crate::wire::{Arrival, Key, Lost, Room, Sent, Ticket, Wire, WireConfig};

/// Reads in one round of progress, so that one busy wire does not hold up the others.
const READS_PER_ROUND: usize = 8;
/// What is left of a lent message below this size is copied: cheaper than keeping account of it.
const COPY_BYTES: usize = 4096;
/// Rounds of reading in which a wire that ends looks for what has arrived.
const MAX_DRAIN_ROUNDS: usize = 1 << 16;
/// How long a wire that is dropped waits for its last bytes to be acknowledged.
const LINGER: Duration = Duration::from_millis(50);

/// What a TCP wire may be told; need not be equal at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// Bytes under way, half in the wire's queue and half unsent in the kernel, beyond which it says [`Room::Full`]. What the
    /// network carries in about 200 us: an urgent message waits behind no more. One message may always be under way.
    pub inflight_bytes: usize,
    /// Sends no faster than this, to play a slower link.
    pub link_bytes_per_s: Option<u64>,
    /// How long the peer's host may be silent before the connection counts as broken; zero is for ever.
    pub silence: Duration,
}

impl Default for TcpOptions {
    fn default() -> Self {
        TcpOptions { inflight_bytes: 512 * 1024, link_bytes_per_s: None, silence: Duration::from_secs(5) }
    }
}

/// One end of a TCP connection as a [`Wire`].
#[derive(Debug)]
pub struct TcpWire {
    config: WireConfig,
    // Before the socket, which is closed after it is dropped.
    _kept: Kept,
    socket: TcpStream,
    inbox: Inbox,
    outbox: Outbox,
    bucket: Option<Bucket>,
    /// The kernel takes no more: what is sent now goes nowhere, what has come can still be read.
    is_deaf: bool,
    /// Bytes that the kernel has taken.
    sent_bytes: u64,
    /// What `sent_bytes` was after the last nudge.
    nudged_at: u64,
    lost: Option<Lost>,
    /// Why the kernel takes no more, where it said so: it may not say it again to who reads.
    broke: Option<String>,
    credits: Vec<Credit>,
    frame: Vec<u8>,
}

impl TcpWire {
    /// A wire over a connection on which the next byte of either side is the first of a frame.
    pub fn new(socket: TcpStream, config: WireConfig, options: TcpOptions) -> io::Result<Self> {
        Self::with_first(socket, config, options, 0)
    }

    /// As `new`, with the number of each port's first message: the same at both ends.
    #[doc(hidden)]
    pub fn with_first(
        socket: TcpStream,
        config: WireConfig,
        options: TcpOptions,
        first: u32,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let half = options.inflight_bytes / 2;
        if let Err(error) =
            sys::limit_unsent_bytes(socket.as_fd(), u32::try_from(half.max(1)).unwrap_or(u32::MAX))
        {
            tracing::debug!(%error, "the system does not bound unsent bytes; only the wire's own queue is bounded");
        }
        keep_alive(socket.as_fd(), options.silence);
        Ok(TcpWire {
            config,
            _kept: Kept::new(&socket),
            socket,
            inbox: Inbox::new(config, first),
            outbox: Outbox::new(config, half, first),
            bucket: options.link_bytes_per_s.map(Bucket::new),
            is_deaf: false,
            sent_bytes: 0,
            nudged_at: 0,
            lost: None,
            broke: None,
            credits: Vec::new(),
            frame: Vec::new(),
        })
    }

    /// Takes what has arrived, which credit bounds; a peer that keeps sending beyond that is not listened to for ever.
    fn drain(&mut self) {
        for _ in 0..MAX_DRAIN_ROUNDS {
            if self.lost.is_some() || !self.receive() {
                return;
            }
        }
    }

    fn give_up(&mut self, cause: String) {
        if self.lost.is_none() {
            self.lost = Some(Lost { cause });
            self.go_deaf();
        }
    }

    /// Stops sending; a failed shutdown means that the connection is gone already.
    fn go_deaf(&mut self) {
        self.is_deaf = true;
        self.outbox.clear();
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Gives the kernel up to `wanted` bytes of `spans`; how many it took.
    fn send_now(&mut self, spans: &[RawSpan], wanted: usize) -> usize {
        let limit = self.bucket.as_mut().map_or(wanted, |bucket| bucket.available(wanted, Instant::now()));
        if limit == 0 {
            return 0;
        }
        match sys::send(self.socket.as_fd(), spans, limit) {
            Ok(sent) => {
                self.sent_bytes += sent as u64;
                if let Some(bucket) = &mut self.bucket {
                    bucket.take(sent, wanted - sent);
                }
                sent
            }
            Err(error) => {
                tracing::debug!(%error, "a TCP wire can send no more");
                self.broke = Some(format!("the connection to it broke: {error}"));
                self.go_deaf();
                wanted
            }
        }
    }

    /// Sends header and pieces straight from where they lie if nothing is before them; how many bytes are gone.
    fn send_direct(&mut self, header: &[u8; HEADER_BYTES], pieces: &[RawSpan], bytes: usize) -> usize {
        if self.is_deaf {
            return HEADER_BYTES + bytes;
        }
        if self.outbox.queued_bytes() > 0 || pieces.len() >= MAX_SPANS {
            return 0;
        }
        let mut spans = [RawSpan::empty(); MAX_SPANS];
        spans[0] = sys::span_of(header);
        spans[1..=pieces.len()].copy_from_slice(pieces);
        self.send_now(&spans[..=pieces.len()], HEADER_BYTES + bytes)
    }

    /// Queues the frames that tell the peer of releases.
    fn push_credits(&mut self) {
        loop {
            self.inbox.poll_credits(&mut self.credits);
            if self.credits.is_empty() {
                return;
            }
            self.frame.clear();
            encode_credits(&self.credits, &mut self.frame);
            self.outbox.push_frame(&self.frame);
        }
    }

    /// Gives the kernel what is queued, and the credits if they are urgent or `all` is to go.
    fn flush(&mut self, all: bool) -> bool {
        if self.is_deaf {
            return false;
        }
        if all || self.inbox.is_urgent() {
            self.push_credits();
        }
        let mut moved = false;
        while self.outbox.queued_bytes() > 0 {
            let (spans, count) = self.outbox.front();
            let wanted = spans[..count].iter().map(|span| span.len()).sum();
            let sent = self.send_now(&spans[..count], wanted);
            if self.is_deaf || sent == 0 {
                break;
            }
            self.outbox.handle_taken(sent);
            moved = true;
            if sent < wanted {
                break;
            }
        }
        moved
    }

    /// Takes what the socket has; whether it had something.
    fn receive(&mut self) -> bool {
        let mut moved = false;
        for _ in 0..READS_PER_ROUND {
            let spare = self.inbox.spare();
            match sys::receive(self.socket.as_fd(), &spare) {
                Ok(None) => break,
                Ok(Some(0)) => {
                    self.handle_end();
                    break;
                }
                Ok(Some(count)) => {
                    moved = true;
                    if let Err(malformed) = self.inbox.handle_filled(count, &mut self.outbox) {
                        self.give_up(format!("it sent a malformed frame: {malformed}"));
                        break;
                    }
                    if count < spare[0].len() + spare[1].len() {
                        break;
                    }
                }
                Err(error) => {
                    self.give_up(format!("the connection to it broke: {error}"));
                    break;
                }
            }
        }
        if self.inbox.take_nudge() {
            // Where the system cannot, the peer waits a moment longer.
            let _ = rustix::net::sockopt::set_tcp_quickack(&self.socket, true);
        }
        moved
    }

    /// Asks the peer's system not to put off its acknowledgement, once for all that has been sent.
    fn nudge(&mut self) {
        if self.nudged_at != self.sent_bytes {
            self.outbox.push_frame(&encode_nudge());
            self.flush(true);
            self.nudged_at = self.sent_bytes;
        }
    }

    fn handle_end(&mut self) {
        let cause = match (self.broke.take(), self.inbox.is_between_frames()) {
            (Some(broke), _) => broke,
            (None, true) => "it closed the connection".to_owned(),
            (None, false) => "it closed the connection in the middle of a message".to_owned(),
        };
        self.give_up(cause);
    }

    /// Whether all bytes have been acknowledged by the peer's system.
    fn is_acknowledged(&self) -> bool {
        sys::unacknowledged_bytes(self.socket.as_fd()).is_none_or(|bytes| bytes == 0)
    }
}

impl Wire for TcpWire {
    fn config(&self) -> WireConfig {
        self.config
    }

    fn reserve(&mut self, key: Key, bytes: usize) -> Room {
        self.outbox.reserve(key.port, bytes)
    }

    fn commit(&mut self, key: Key, bytes: usize) {
        let Some(slot) = self.outbox.take_reserved(key.port) else {
            debug_assert!(false, "commit without reserve on port {}", key.port);
            return;
        };
        let released = self.inbox.tell(key.port);
        let header = self.outbox.next_header(key, bytes, released);
        let sent = self.send_direct(&header, &[slot.span().slice(0, bytes)], bytes);
        if let Some(rest) = header.get(sent..) {
            self.outbox.push_frame(rest);
        }
        match sent.saturating_sub(HEADER_BYTES) {
            gone if gone < bytes => self.outbox.push_slot(slot, gone, bytes),
            _ => self.outbox.put_slot(slot),
        }
    }

    fn send_from(&mut self, key: Key, pieces: &[RawSpan], may_lend: bool) -> Sent {
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        if !self.outbox.has_room(key.port, bytes) {
            return Sent::Full;
        }
        let released = self.inbox.tell(key.port);
        let header = self.outbox.next_header(key, bytes, released);
        let sent = self.send_direct(&header, pieces, bytes);
        if let Some(rest) = header.get(sent..) {
            self.outbox.push_frame(rest);
        }
        let gone = sent.saturating_sub(HEADER_BYTES);
        let rest = || rests(pieces, gone);
        if may_lend && bytes - gone > COPY_BYTES {
            return Sent::Lent(self.outbox.push_lent(key, rest()));
        }
        rest().for_each(|piece| self.outbox.push_copy(piece));
        Sent::Done
    }

    fn is_done(&mut self, ticket: Ticket) -> bool {
        self.outbox.is_done(ticket)
    }

    fn post(&mut self, key: Key, span: RawSpan) -> bool {
        self.lost.is_none() && self.inbox.post(key, span)
    }

    fn poll(&mut self, key: Key, bytes: usize) -> Arrival {
        self.inbox.poll(key, bytes)
    }

    fn release(&mut self, port: u16) {
        self.inbox.release(port);
    }

    fn progress(&mut self) -> bool {
        let flushed = self.flush(false);
        let received = self.lost.is_none() && self.receive();
        flushed || received || self.flush(true)
    }

    fn lost(&self) -> Option<&Lost> {
        self.lost.as_ref()
    }

    fn mark_lost(&mut self, lost: Lost) {
        self.drain();
        self.give_up(lost.cause);
    }

    fn poll_fd(&self) -> Option<(BorrowedFd<'_>, bool)> {
        let wants_write = self.outbox.queued_bytes() > 0 && self.bucket.is_none();
        self.lost.is_none().then(|| (self.socket.as_fd(), wants_write))
    }

    fn next_wakeup(&self) -> Option<Duration> {
        let queued = self.outbox.queued_bytes();
        let bucket = self.bucket.as_ref().filter(|_| queued > 0 && self.lost.is_none())?;
        Some(bucket.wait(queued, Instant::now()).max(Duration::from_micros(1)))
    }

    fn is_flushed(&mut self) -> bool {
        self.flush(true);
        if self.is_deaf {
            return true;
        }
        if self.outbox.queued_bytes() > 0 {
            return false;
        }
        let is_acknowledged = self.is_acknowledged();
        if !is_acknowledged {
            self.nudge();
            self.receive();
        }
        is_acknowledged || self.is_deaf
    }

    fn revoke(&mut self, operation: u32) -> bool {
        self.outbox.revoke(operation);
        self.inbox.revoke(operation);
        true
    }
}

impl Drop for TcpWire {
    /// Closing a socket that holds unread bytes makes the system throw away what it has not yet sent. So what comes is read
    /// until the last bytes have been acknowledged, for a bounded time.
    fn drop(&mut self) {
        if self.lost.is_some() {
            return;
        }
        let until = Instant::now() + LINGER;
        while !self.is_flushed() && self.lost.is_none() && Instant::now() < until {
            if !self.receive() {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        self.drain();
        self.go_deaf();
    }
}

/// Probes in the time for which a host may be silent.
const PROBES: u32 = 5;

/// Lets the system ask the peer's system whether it is there, while nothing else passes; that also keeps what stands between the two (a
/// firewall, an address translation) from forgetting the connection. Where the system cannot, nothing changes.
pub(crate) fn keep_alive(socket: BorrowedFd<'_>, silence: Duration) {
    use rustix::net::sockopt;
    if silence.is_zero() {
        return;
    }
    let interval = (silence / PROBES).clamp(Duration::from_secs(1), Duration::from_secs(30_000));
    let set = sockopt::set_tcp_keepidle(socket, interval)
        .and_then(|()| sockopt::set_tcp_keepintvl(socket, interval))
        .and_then(|()| sockopt::set_tcp_keepcnt(socket, PROBES))
        .and_then(|()| sockopt::set_socket_keepalive(socket, true));
    if let Err(error) = set {
        tracing::debug!(%error, "the system does not look after idle connections");
    }
}

/// What is left of `pieces` after their first `gone` bytes.
fn rests(pieces: &[RawSpan], gone: usize) -> impl Iterator<Item = RawSpan> + '_ {
    let mut skip = gone;
    pieces.iter().filter_map(move |piece| {
        let skipped = skip.min(piece.len());
        skip -= skipped;
        (skipped < piece.len()).then(|| piece.slice(skipped, piece.len() - skipped))
    })
}
