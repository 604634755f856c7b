//! Connects this rank with every other: the higher rank of a pair connects, the lower one accepts.
//!
//! Two ranks that can open each other's Unix socket share one connection, over which the memory is handed and which then carries
//! control frames. Others have two TCP connections, one for control frames and one for the wire.

use std::collections::HashMap;
use std::sync::Arc;

use hcomm_ops::Rank;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use super::connect::Connector;
use super::context::{ATTEMPT, Context};
use super::doorman::{Doorman, Proved};
use super::error::JoinError;
use super::message::{self, Message, PairHello, Purpose};
use super::roster::{Member, Route};
use crate::control::socket::Socket;
use crate::wire::WireConfig;

/// A connected pair, seen from one side.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) peer: Rank,
    pub(super) control: Socket,
    pub(super) data: Data,
    pub(super) route: Route,
}

/// What a wire is built on.
#[derive(Debug)]
pub(super) enum Data {
    Tcp(TcpStream),
}

/// Connects with all others, or says with whom it could not.
pub(super) async fn connect_all(
    context: &Arc<Context>,
    doorman: &mut Doorman,
    members: &[Member],
    config: WireConfig,
) -> Result<Vec<Pair>, JoinError> {
    let mut tasks = JoinSet::new();
    for (peer, member) in members.iter().enumerate().take(context.rank) {
        let connector = Connector { context: Arc::clone(context), peer, member: member.clone(), config };
        tasks.spawn(connector.connect());
    }
    let mut lobby = Lobby::new(context, config);
    let mut pairs = Vec::new();
    while pairs.len() + 1 < context.world {
        tokio::select! {
            proved = doorman.next() => lobby.greet(proved),
            Some(greeted) = lobby.greeted.recv() => pairs.extend(lobby.handle_greeted(greeted)?),
            Some(connected) = tasks.join_next() => pairs.push(finished(context, connected)?),
            () = sleep_until(context.until) => return Err(unconnected(context, &pairs)),
        }
    }
    Ok(pairs)
}

fn finished(
    context: &Context,
    connected: Result<Result<Pair, JoinError>, tokio::task::JoinError>,
) -> Result<Pair, JoinError> {
    connected.unwrap_or_else(|error| {
        Err(JoinError::Pair { rank: context.rank, peer: context.rank, cause: error.to_string() })
    })
}

fn unconnected(context: &Context, pairs: &[Pair]) -> JoinError {
    let is_absent = |&peer: &Rank| peer != context.rank && pairs.iter().all(|pair| pair.peer != peer);
    let peers = (0..context.world).filter(is_absent).collect();
    JoinError::Unconnected { rank: context.rank, peers, within: context.within }
}

/// Where connections of higher ranks wait until both of a pair's are there.
struct Lobby {
    rank: Rank,
    world: usize,
    config: WireConfig,
    waiting: HashMap<Rank, Waiting>,
    greeted: mpsc::Receiver<Greeted>,
    greets: mpsc::Sender<Greeted>,
    tasks: JoinSet<()>,
}

#[derive(Default)]
struct Waiting {
    control: Option<Socket>,
    data: Option<TcpStream>,
}

struct Greeted {
    hello: PairHello,
    socket: Socket,
}

impl Lobby {
    fn new(context: &Context, config: WireConfig) -> Self {
        let (greets, greeted) = mpsc::channel(256);
        let (rank, world) = (context.rank, context.world);
        Lobby { rank, world, config, waiting: HashMap::new(), greeted, greets, tasks: JoinSet::new() }
    }

    /// Hears what a proved connection is for, without waiting for it here.
    fn greet(&mut self, proved: Proved) {
        let (greets, mut socket) = (self.greets.clone(), proved.socket);
        self.tasks.spawn(async move {
            match timeout(ATTEMPT, message::read(&mut socket)).await {
                Ok(Ok(Message::Pair(hello))) => drop(greets.send(Greeted { hello, socket }).await),
                _ => tracing::debug!(
                    proved.from,
                    "a connection proved the job token and did not say what it is for"
                ),
            }
        });
    }

    /// A pair, where this was what it lacked.
    fn handle_greeted(&mut self, greeted: Greeted) -> Result<Option<Pair>, JoinError> {
        let Greeted { hello, socket } = greeted;
        let peer = self.check(&hello)?;
        let waiting = self.waiting.entry(peer).or_default();
        let is_double = match (hello.purpose, socket) {
            (Purpose::Control, socket) => waiting.control.replace(socket).is_some(),
            (Purpose::Data, Socket::Tcp(stream)) => waiting.data.replace(stream).is_some(),
            (purpose, _) => {
                return Err(
                    self.fault(peer, format!("it wants a connection for {purpose:?} of the wrong kind"))
                );
            }
        };
        if is_double {
            return Err(self.fault(peer, format!("it has connected twice for {:?}", hello.purpose)));
        }
        Ok(self.take_complete(peer, hello.why_not_shm))
    }

    fn take_complete(&mut self, peer: Rank, why_not_shm: Option<String>) -> Option<Pair> {
        let waiting = self.waiting.remove(&peer)?;
        match waiting {
            Waiting { control: Some(control), data: Some(data) } => {
                let route = Route::Tcp { why_not_shm: why_not_shm.unwrap_or_default() };
                Some(Pair { peer, control, data: Data::Tcp(data), route })
            }
            incomplete => {
                self.waiting.insert(peer, incomplete);
                None
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
