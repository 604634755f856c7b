//! [`Doorman`]: lets in the connections that prove the job token, each at its own pace, and keeps everybody else out of the way.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::context::ATTEMPT;
use super::handshake::{self, HandshakeError};
use super::token::Token;
use crate::control::socket::Socket;

/// Connections that may be proving themselves at once; more wait in the system's queue.
const MAX_UNPROVED: usize = 256;
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
    _tasks: JoinSet<()>,
}

/// Why others were refused.
#[derive(Clone, Debug, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Doorman {
    /// Begins to listen.
    pub(super) fn new(token: &Token, tcp: TcpListener, unix: Option<UnixListener>) -> Self {
        let (sender, proved) = mpsc::channel(MAX_UNPROVED);
        let notes = Notes::default();
        let door = Door {
            token: token.clone(),
            unproved: Arc::new(Semaphore::new(MAX_UNPROVED)),
            proved: sender,
            notes: notes.clone(),
        };
        let mut tasks = JoinSet::new();
        if let Some(unix) = unix {
            tasks.spawn(door.clone().stand(Listener::Unix(unix)));
        }
        tasks.spawn(door.stand(Listener::Tcp(tcp)));
        Doorman { proved, notes, _tasks: tasks }
    }

    /// The next that has proved itself. Cancel safe.
    pub(super) async fn next(&mut self) -> Proved {
        match self.proved.recv().await {
            Some(proved) => proved,
            // The tasks end with the doorman only.
            None => std::future::pending().await,
        }
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
    unproved: Arc<Semaphore>,
    proved: mpsc::Sender<Proved>,
    notes: Notes,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Door {
    async fn stand(self, listener: Listener) {
        let mut visitors = JoinSet::new();
        loop {
            let Ok(permit) = Arc::clone(&self.unproved).acquire_owned().await else { return };
            match listener.accept().await {
                Ok(visitor) => {
                    let door = self.clone();
                    visitors.spawn(async move {
                        door.prove(visitor).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
            while visitors.try_join_next().is_some() {}
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
            let mut notes = self.notes.0.lock().unwrap_or_else(PoisonError::into_inner);
            if notes.len() < MAX_NOTES {
                notes.push(format!("{from}, because {error}"));
            }
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
