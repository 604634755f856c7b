//! [`Writer`]: one of this process's output streams, written by a thread of its own, so that a reader who stops (a pager, Ctrl-S) keeps
//! the launcher's loop from nothing. The loop hands over bytes, and stops reading from the ranks while too many are on their way.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Bytes on their way beyond which no more should be taken from the ranks.
const MOST_BYTES: usize = 1 << 20;

/// Where the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// See the module. Dropping it leaves what is on its way to the thread, which ends after that.
pub struct Writer {
    bytes: Sender<Vec<u8>>,
    shared: Arc<Shared>,
    /// Readable when some bytes have been written or an error has come.
    progress: UnixStream,
}

struct Shared {
    on_their_way: AtomicUsize,
    error: Mutex<Option<io::Error>>,
}

impl Writer {
    /// Starts the thread.
    pub fn start(stream: Stream) -> io::Result<Self> {
        let (bytes, queue) = mpsc::channel();
        let (progress, notice) = UnixStream::pair()?;
        progress.set_nonblocking(true)?;
        notice.set_nonblocking(true)?;
        let shared = Arc::new(Shared { on_their_way: AtomicUsize::new(0), error: Mutex::new(None) });
        let own = shared.clone();
        let run = move || write_all_that_comes(stream, &queue, &own, notice);
        thread::Builder::new().name("hcomm-output".to_owned()).spawn(run)?;
        Ok(Writer { bytes, shared, progress })
    }

    /// Hands over bytes; they are written soon, in order.
    pub fn write(&self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.shared.on_their_way.fetch_add(bytes.len(), Ordering::AcqRel);
            // The thread takes what comes for as long as there is a sender.
            let _ = self.bytes.send(bytes);
        }
    }

    /// Whether it has taken enough for now.
    pub fn is_full(&self) -> bool {
        self.shared.on_their_way.load(Ordering::Acquire) >= MOST_BYTES
    }

    /// Whether all is written, or cannot be.
    pub fn is_idle(&self) -> bool {
        self.shared.on_their_way.load(Ordering::Acquire) == 0
    }

    /// Why writing failed, once. All that came after it is lost.
    pub fn take_error(&self) -> Option<io::Error> {
        self.shared.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes note that progress was seen.
    pub fn handle_progress(&mut self) {
        let mut bytes = [0; 64];
        while matches!(self.progress.read(&mut bytes), Ok(1..)) {}
    }
}

impl AsFd for Writer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.progress.as_fd()
    }
}

fn write_all_that_comes(stream: Stream, queue: &Receiver<Vec<u8>>, shared: &Shared, mut notice: UnixStream) {
    let mut is_broken = false;
    while let Ok(bytes) = queue.recv() {
        let written = match (is_broken, stream) {
            (true, _) => Ok(()),
            (false, Stream::Out) => write_all(io::stdout(), &bytes),
            (false, Stream::Err) => write_all(io::stderr(), &bytes),
        };
        if let Err(error) = written {
            is_broken = true;
            *shared.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
        shared.on_their_way.fetch_sub(bytes.len(), Ordering::AcqRel);
        // That it is full says as much.
        let _ = notice.write(&[0]);
    }
}

/// Straight to the descriptor; waits where that does not block. A descriptor that is closed takes everything, as with Rust's own streams.
fn write_all(stream: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(&stream, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                // Whatever it says, the next write finds out.
                let _ = poll(&mut [PollFd::new(&stream, PollFlags::OUT)], None);
            }
            Err(Errno::BADF) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
