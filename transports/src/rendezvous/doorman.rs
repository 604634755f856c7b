//! [`Doorman`]: lets in the connections that prove the job token, each at its own pace, and keeps everybody else out of the way.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::context::ATTEMPT;
use super::handshake::{self, HandshakeError};
use super::queue::Queue;
use super::token::Token;
use crate::control::socket::Socket;
use crate::files;

/// Proved connections that nobody has taken yet.
const MOST_PROVED: usize = 256;
/// Different refusals that are remembered.
const MAX_NOTES: usize = 4;
/// After a failed accept (out of descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A connection whose other end knows the job token.
#[derive(Debug)]
pub(super) struct Proved {
    pub(super) socket: Socket,
    /// Where it comes from, for people.
    pub(super) from: String,
}

/// Stands at this rank's listening sockets until it is dropped.
#[derive(Debug)]
pub(super) struct Doorman {
    proved: mpsc::Receiver<Proved>,
    notes: Notes,
    tasks: JoinSet<()>,
}

/// Why others were refused.
#[derive(Clone, Debug, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Doorman {
    /// Begins to listen.
    pub(super) fn new(token: &Token, tcp: TcpListener, unix: Option<UnixListener>) -> Self {
        let (sender, proved) = mpsc::channel(MOST_PROVED);
        let notes = Notes::default();
        let door = Door { token: token.clone(), proved: sender, notes: notes.clone() };
        let mut tasks = JoinSet::new();
        if let Some(unix) = unix {
            tasks.spawn(door.clone().stand(Listener::Unix(unix)));
        }
        tasks.spawn(door.stand(Listener::Tcp(tcp)));
        Doorman { proved, notes, tasks }
    }

    /// The next that has proved itself. Cancel safe.
    pub(super) async fn next(&mut self) -> Proved {
        match self.proved.recv().await {
            Some(proved) => proved,
            // The tasks end with the doorman only.
            None => std::future::pending().await,
        }
    }

    /// Lets nobody in any more.
    pub(super) fn close(&mut self) {
        self.tasks.abort_all();
    }

    /// Who was refused and why, as a clause to end a sentence with; empty where nobody was.
    pub(super) fn notes(&self) -> String {
        let notes = self.notes.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.is_empty() { String::new() } else { format!(" (refused meanwhile: {})", notes.join("; ")) }
    }
}

#[derive(Clone)]
struct Door {
    token: Token,
    proved: mpsc::Sender<Proved>,
    notes: Notes,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Door {
    async fn stand(self, listener: Listener) {
        let mut visitors = Visitors::default();
        loop {
            let due = visitors.queue.poll_out().filter(|_| visitors.queue.is_full());
            tokio::select! {
                id = visitors.next_end() => visitors.queue.handle_end(id),
                id = next_out(due) => visitors.put_out(id),
                accepted = listener.accept(), if !visitors.queue.is_full() => match accepted {
                    Ok(visitor) => visitors.let_in(self.clone(), visitor),
                    Err(error) => {
                        tracing::debug!(%error, "a connection could not be accepted");
                        self.remember(format!("a connection, since {}", files::explain(&error)));
                        visitors.make_room().await;
                    }
                },
            }
        }
    }

    async fn prove(&self, mut visitor: Proved) {
        match timeout(ATTEMPT, handshake::accept(&mut visitor.socket, &self.token)).await {
            // The receiver is gone when the rendezvous is over.
            Ok(Ok(())) => drop(self.proved.send(visitor).await),
            Ok(Err(error)) => self.note(&visitor.from, &error),
            Err(_) => tracing::debug!(visitor.from, "a connection did not prove the job token in time"),
        }
    }

    /// Remembers a refusal that may explain why a rank is missing.
    fn note(&self, from: &str, error: &HandshakeError) {
        tracing::debug!(from, %error, "a connection was refused");
        if matches!(error, HandshakeError::Version { .. } | HandshakeError::Unproved) {
            self.remember(format!("{from}, because {error}"));
        }
    }

    fn remember(&self, note: String) {
        let mut notes = self.notes.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < MAX_NOTES && !notes.contains(&note) {
            notes.push(note);
        }
    }
}

/// Those who are proving themselves.
#[derive(Default)]
struct Visitors {
    queue: Queue,
    tasks: JoinSet<()>,
    handles: HashMap<Id, AbortHandle>,
}

impl Visitors {
    fn let_in(&mut self, door: Door, visitor: Proved) {
        let address = visitor.address();
        let handle = self.tasks.spawn(async move { door.prove(visitor).await });
        self.queue.handle_visitor(handle.id(), address, Instant::now());
        self.handles.insert(handle.id(), handle);
    }

    /// The next that has proved itself or gone. Cancel safe.
    async fn next_end(&mut self) -> Id {
        let id = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
            None => std::future::pending().await,
        };
        self.handles.remove(&id);
        id
    }

    fn put_out(&mut self, id: Id) {
        self.queue.handle_end(id);
        if let Some(handle) = self.handles.get(&id) {
            handle.abort();
        }
    }

    /// The system has no descriptor left, say: whoever has been here long goes.
    async fn make_room(&mut self) {
        if let Some((id, _)) = self.queue.poll_out().filter(|&(_, at)| at <= Instant::now()) {
            self.put_out(id);
        }
        sleep(ACCEPT_PAUSE).await;
    }
}

/// Who has to go, once its time has come. Cancel safe.
async fn next_out(due: Option<(Id, Instant)>) -> Id {
    match due {
        Some((id, at)) => {
            sleep_until(at).await;
            id
        }
        None => std::future::pending().await,
    }
}

impl Proved {
    fn address(&self) -> Option<IpAddr> {
        match &self.socket {
            Socket::Tcp(stream) => stream.peer_addr().ok().map(|from| from.ip().to_canonical()),
            Socket::Unix(_) => None,
        }
    }
}

impl Listener {
    async fn accept(&self) -> io::Result<Proved> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Proved { socket: Socket::Tcp(stream), from: from.to_string() })
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok(Proved { socket: Socket::Unix(stream), from: "a process of this host".to_owned() })
            }
        }
    }
}
