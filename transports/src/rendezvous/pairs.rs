//! Connects this rank with every other: the higher rank of a pair connects, the lower one accepts.
//!
//! Two ranks that can open each other's Unix socket share one connection, over which the memory is handed and which then carries
//! control frames. Others have two TCP connections, one for control frames and one for the wire.

use std::sync::Arc;

use hcomm_ops::Rank;
use tokio::net::TcpStream;
use tokio::task::{self, JoinSet};
use tokio::time::sleep_until;

use super::connect::Connector;
use super::context::Context;
use super::doorman::Doorman;
use super::error::{JoinError, list};
use super::lobby::Lobby;
use super::local::{Local, why_not_shm};
use super::roster::{Member, Route};
use crate::control::socket::Socket;
use crate::shm::Heap;
use crate::wire::WireConfig;
use crate::{AnyWire, Doorbell, files};

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
    Shm(Box<AnyWire>),
}

/// Where a rank sleeps, and its heap.
pub(super) type Place = (Doorbell, Option<Arc<Heap>>);

/// Connects with all others, or says with whom it could not. With the pairs comes the place where this rank sleeps.
pub(super) async fn connect_all(
    context: &Arc<Context>,
    doorman: &mut Doorman,
    members: &[Member],
    config: WireConfig,
) -> Result<(Vec<Pair>, Place), JoinError> {
    check_files(context, members)?;
    let local = Local::new(context, members, config)?.map(Arc::new);
    let mut lobby = Lobby::new(context, local.clone(), config);
    let pairs =
        meet_all(context, doorman, &mut lobby, connect_lower(context, &local, members, config)).await?;
    lobby.close().await;
    Ok((pairs, place(local)?))
}

/// What a connection keeps open: with a rank of this host its socket, the eventfd that wakes it, and a handle of its process; with another
/// two sockets.
const FILES_OF_NEAR: u64 = 3;
const FILES_OF_FAR: u64 = 2;

/// Says before anything is opened that the connections need more files than this process may have.
fn check_files(context: &Context, members: &[Member]) -> Result<(), JoinError> {
    let (Some(limit), Some(open)) = (files::limit(), files::open()) else { return Ok(()) };
    let files_of = |peer: Rank| match why_not_shm(context, members, peer) {
        None => FILES_OF_NEAR,
        Some(_) => FILES_OF_FAR,
    };
    let needed = (0..members.len()).filter(|peer| *peer != context.rank).map(files_of).sum();
    if open.saturating_add(needed) <= limit {
        return Ok(());
    }
    Err(JoinError::Files { rank: context.rank, peers: members.len() - 1, needed, open, limit })
}

/// Begins to connect with the lower ranks.
fn connect_lower(
    context: &Arc<Context>,
    local: &Option<Arc<Local>>,
    members: &[Member],
    config: WireConfig,
) -> JoinSet<Result<Pair, JoinError>> {
    let (mut tasks, members) = (JoinSet::new(), Arc::<[Member]>::from(members));
    for peer in 0..context.rank {
        let (context, members, local) = (Arc::clone(context), Arc::clone(&members), local.clone());
        tasks.spawn(Connector { context, members, local, config, peer }.connect());
    }
    tasks
}

async fn meet_all(
    context: &Context,
    doorman: &mut Doorman,
    lobby: &mut Lobby,
    mut tasks: JoinSet<Result<Pair, JoinError>>,
) -> Result<Vec<Pair>, JoinError> {
    let mut pairs = Vec::new();
    while pairs.len() + 1 < context.world {
        if context.rank > 0 {
            let absent = unpaired(context, &pairs);
            context.awaited.set(format!("its connections with {}", list(&absent)));
        }
        tokio::select! {
            proved = doorman.next() => lobby.greet(proved),
            pair = lobby.next() => pairs.push(pair?),
            Some(connected) = tasks.join_next() => pairs.push(finished(context, connected)?),
            () = sleep_until(context.until) => return Err(unconnected(context, &pairs)),
        }
    }
    Ok(pairs)
}

fn finished(
    context: &Context,
    connected: Result<Result<Pair, JoinError>, task::JoinError>,
) -> Result<Pair, JoinError> {
    connected.unwrap_or_else(|error| {
        Err(JoinError::Pair { rank: context.rank, peer: context.rank, cause: error.to_string() })
    })
}

fn unpaired(context: &Context, pairs: &[Pair]) -> Vec<Rank> {
    let is_absent = |&peer: &Rank| peer != context.rank && pairs.iter().all(|pair| pair.peer != peer);
    (0..context.world).filter(is_absent).collect()
}

fn unconnected(context: &Context, pairs: &[Pair]) -> JoinError {
    let peers = unpaired(context, pairs);
    JoinError::Unconnected { rank: context.rank, peers, within: context.within }
}

fn place(local: Option<Arc<Local>>) -> Result<Place, JoinError> {
    match local {
        Some(local) => {
            let local = Arc::into_inner(local).expect("connectors and lobby, which shared it, are gone");
            Ok(local.into_parts())
        }
        None => Ok((Doorbell::new().map_err(JoinError::system("make a doorbell"))?, None)),
    }
}
