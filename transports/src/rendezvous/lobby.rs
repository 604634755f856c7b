//! [`Lobby`]: the accepting side of the pairs: hears what each proved connection is for, and keeps it until its pair is complete.

use std::collections::HashMap;
use std::sync::Arc;

use hcomm_ops::Rank;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::context::Context;
use super::doorman::Proved;
use super::error::JoinError;
use super::local::Local;
use super::message::{self, Message, PairHello, Purpose};
use super::pairs::{Data, Pair};
use super::roster::Route;
use crate::control::socket::Socket;
use crate::wire::WireConfig;

/// Where connections of higher ranks wait until both of a pair's are there.
pub(super) struct Lobby {
    host: Host,
    waiting: HashMap<Rank, Waiting>,
    greeted: mpsc::Receiver<Result<Greeted, JoinError>>,
    greets: mpsc::Sender<Result<Greeted, JoinError>>,
    tasks: JoinSet<()>,
}

#[derive(Default)]
struct Waiting {
    control: Option<Socket>,
    data: Option<TcpStream>,
}

/// What came with a connection.
enum Greeted {
    Part { peer: Rank, socket: Socket, is_data: bool, why_not_shm: String },
    Whole(Pair),
}

/// Who receives: what a greeting is checked against.
#[derive(Clone)]
struct Host {
    rank: Rank,
    world: usize,
    config: WireConfig,
    local: Option<Arc<Local>>,
    until: Instant,
}

impl Lobby {
    /// An empty one.
    pub(super) fn new(context: &Context, local: Option<Arc<Local>>, config: WireConfig) -> Self {
        let (greets, greeted) = mpsc::channel(256);
        let host = Host { rank: context.rank, world: context.world, config, local, until: context.until };
        Lobby { host, waiting: HashMap::new(), greeted, greets, tasks: JoinSet::new() }
    }

    /// Hears what a proved connection is for, without waiting for it here.
    pub(super) fn greet(&mut self, proved: Proved) {
        let (host, greets) = (self.host.clone(), self.greets.clone());
        self.tasks.spawn(async move {
            if let Some(greeted) = host.greet(proved).await {
                drop(greets.send(greeted).await);
            }
        });
    }

    /// The next pair that is complete. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Pair, JoinError> {
        loop {
            let greeted = self.greeted.recv().await.expect("the lobby keeps a sender itself")?;
            if let Some(pair) = self.handle_greeted(greeted)? {
                return Ok(pair);
            }
        }
    }

    /// Ends what is still under way.
    pub(super) async fn close(mut self) {
        self.tasks.shutdown().await;
    }

    fn handle_greeted(&mut self, greeted: Greeted) -> Result<Option<Pair>, JoinError> {
        let (peer, socket, is_data, why_not_shm) = match greeted {
            Greeted::Whole(pair) => return Ok(Some(pair)),
            Greeted::Part { peer, socket, is_data, why_not_shm } => (peer, socket, is_data, why_not_shm),
        };
        let waiting = self.waiting.entry(peer).or_default();
        let is_double = match socket {
            Socket::Tcp(stream) if is_data => waiting.data.replace(stream).is_some(),
            socket => waiting.control.replace(socket).is_some(),
        };
        if is_double {
            return Err(self.host.fault(peer, "it has connected twice".to_owned()));
        }
        Ok(self.take_complete(peer, why_not_shm))
    }

    fn take_complete(&mut self, peer: Rank, why_not_shm: String) -> Option<Pair> {
        match self.waiting.remove(&peer)? {
            Waiting { control: Some(control), data: Some(data) } => {
                Some(Pair { peer, control, data: Data::Tcp(data), route: Route::Tcp { why_not_shm } })
            }
            incomplete => {
                self.waiting.insert(peer, incomplete);
                None
            }
        }
    }
}

impl Host {
    /// Nothing where the connection has no more to say.
    async fn greet(&self, proved: Proved) -> Option<Result<Greeted, JoinError>> {
        let Proved { mut socket, from } = proved;
        let Ok(Ok(Message::Pair(hello))) = timeout_at(self.until, message::read(&mut socket)).await else {
            tracing::debug!(from, "a connection proved the job token and did not say what it is for");
            return None;
        };
        Some(self.accept(hello, socket).await)
    }

    async fn accept(&self, hello: PairHello, socket: Socket) -> Result<Greeted, JoinError> {
        let peer = self.check(&hello)?;
        let why_not_shm = hello.why_not_shm.unwrap_or_default();
        match (hello.purpose, socket, &self.local) {
            (Purpose::Shared, Socket::Unix(stream), Some(local)) => {
                let handed = local.hand_over(stream, peer, self.until).await;
                let (stream, wire) = handed.map_err(|cause| self.fault(peer, cause))?;
                let (control, data) = (Socket::Unix(stream), Data::Shm(Box::new(wire)));
                Ok(Greeted::Whole(Pair { peer, control, data, route: Route::Shm }))
            }
            (Purpose::Control, socket @ Socket::Tcp(_), _) => {
                Ok(Greeted::Part { peer, socket, is_data: false, why_not_shm })
            }
            (Purpose::Data, socket @ Socket::Tcp(_), _) => {
                Ok(Greeted::Part { peer, socket, is_data: true, why_not_shm })
            }
            (purpose, _, _) => {
                Err(self.fault(peer, format!("its connection is of the wrong kind for {purpose:?}")))
            }
        }
    }

    fn check(&self, hello: &PairHello) -> Result<Rank, JoinError> {
        let peer = hello.rank as Rank;
        if peer <= self.rank || peer >= self.world {
            return Err(self.fault(
                peer,
                "it has no business to connect here: the higher rank of a pair connects".to_owned(),
            ));
        }
        if hello.config != self.config {
            return Err(
                self.fault(peer, format!("it builds {:?}, this rank {:?}", hello.config, self.config))
            );
        }
        Ok(peer)
    }

    fn fault(&self, peer: Rank, cause: String) -> JoinError {
        JoinError::Pair { rank: self.rank, peer, cause }
    }
}
