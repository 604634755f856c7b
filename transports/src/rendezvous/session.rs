//! [`join`] itself: the steps of a rendezvous in their order, on the control thread.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use hcomm_ops::Rank;

use super::arrive::Arrived;
use super::context::Context;
use super::doorman::Doorman;
use super::error::JoinError;
use super::gather::{self, Gathering};
use super::handshake::PROTOCOL_VERSION;
use super::pairs::{Data, Pair, Place, connect_all};
use super::roster::{Member, Roster};
use super::{Agreed, Derive, Dimensions, Join, Session, doors};
use crate::control::mesh::{Connected, MeshControl, MeshTasks, spawn_control_thread};
use crate::control::socket::Socket;
use crate::control::watch::Watch;
use crate::endpoint::{Doorbell, Endpoint};
use crate::tcp::{TcpOptions, TcpWire};
use crate::{AnyWire, files, schedule};

/// How much longer than the deadline the caller waits for the control thread to say what went wrong.
const VERDICT: Duration = Duration::from_secs(5);

/// Comes together with the other ranks. Returns within the deadline and a few seconds in any case.
///
/// # Errors
/// See [`JoinError`]. All ranks that have arrived fail, with the same cause.
pub fn join(join: Join) -> Result<Session, JoinError> {
    files::raise_limit();
    let limit = join.deadline + VERDICT;
    let (answer, answered) = bounded(1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(JoinError::system("start the control plane"))?;
    spawn_control_thread(move || {
        if let Err(error) = schedule::stay_on(&join.cpus) {
            tracing::warn!(%error, "the control thread could not be kept on processors {:?}", join.cpus);
        }
        runtime.block_on(run(join, answer));
    })
    .map_err(JoinError::system("start the control thread"))?;
    match answered.recv_timeout(limit) {
        Ok(outcome) => outcome,
        Err(_) => Err(JoinError::system("hear from the control thread")(std::io::ErrorKind::TimedOut.into())),
    }
}

async fn run(mut join: Join, answer: Sender<Result<Session, JoinError>>) {
    let assembled = match Context::of(&mut join) {
        Ok(context) => supervise(join, Arc::new(context)).await,
        Err(error) => Err(error),
    };
    match assembled {
        Ok((session, tasks)) => {
            // A caller that has stopped waiting drops the session with the channel, which ends the tasks.
            drop(answer.send(Ok(session)));
            tasks.drive().await;
        }
        Err(error) => drop(answer.send(Err(error))),
    }
}

/// The rendezvous, unless it is given up; meanwhile the user is told who is missing.
async fn supervise(join: Join, context: Arc<Context>) -> Result<(Session, MeshTasks), JoinError> {
    let (cancel, stall) = (join.cancel.clone(), join.stall.clone());
    let (rank, world) = (context.rank, context.world);
    let awaited = context.awaited.clone();
    let within = context.within;
    tokio::select! {
        assembled = assemble(join, context) => assembled,
        // Rank 0 has others to tell of it first.
        () = cancel.cancelled(), if rank > 0 || world == 1 => Err(JoinError::Cancelled { rank }),
        () = stall.watch(&awaited, within) => unreachable!("a watch does not end"),
    }
}

async fn assemble(join: Join, context: Arc<Context>) -> Result<(Session, MeshTasks), JoinError> {
    let mut parts = Parts { context: Arc::clone(&context), dimensions: Some(join.dimensions) };
    let Assembled { agreed, members, pairs, place, dimensions } = match join.rank {
        _ if join.world == 1 => parts.be_alone(join.settings)?,
        0 => parts.lead(join.listener, join.settings).await?,
        _ => parts.follow().await?,
    };
    let context = parts.context;
    let roster = Roster { routes: routes(&context, &pairs), members };
    let (wires, connected) = part(&context, &roster, pairs, dimensions)?;
    let silence = dimensions.tcp.silence;
    let (control, tasks) = MeshControl::new(context.rank, join.handler, connected, silence);
    let (doorbell, heap) = place;
    let endpoint = Endpoint { wires, doorbell, heap };
    let (address, token) = (context.address.clone(), context.token.clone());
    Ok((Session { endpoint, control: Box::new(control), agreed, roster, address, token }, tasks))
}

struct Assembled {
    agreed: Agreed,
    members: Vec<Member>,
    pairs: Vec<Pair>,
    place: Place,
    dimensions: Dimensions,
}

/// What is used up on the way.
struct Parts {
    context: Arc<Context>,
    dimensions: Option<Derive>,
}

impl Parts {
    fn be_alone(&mut self, settings: bytes::Bytes) -> Result<Assembled, JoinError> {
        let member = Member::alone(&self.context);
        let (agreed, members) = (self.agreed(settings), vec![member]);
        let dimensions = self.dimensions(&agreed, &members)?;
        let place = (Doorbell::new().map_err(JoinError::system("make a doorbell"))?, None);
        Ok(Assembled { agreed, members, pairs: Vec::new(), place, dimensions })
    }

    async fn lead(
        &mut self,
        listener: Option<std::net::TcpListener>,
        settings: bytes::Bytes,
    ) -> Result<Assembled, JoinError> {
        let context = Arc::clone(&self.context);
        let listener = gather::listen(&context, listener).await?;
        let near =
            listener.local_addr().ok().map(|address| address.ip()).filter(|address| address.is_loopback());
        let (mut doorman, own) = doors::open(&context, near)?;
        let mut gathering = Gathering::new(&context, listener, own);
        let members = gathering.gather(&context, &settings).await?;
        let agreed = self.agreed(settings);
        let dimensions = self.dimensions(&agreed, &members)?;
        let pairs = connect_all(&context, &mut doorman, &members, dimensions.wire);
        let (pairs, place) = gathering.agree(&context, pairs).await?;
        Ok(Assembled { agreed, members, pairs, place, dimensions })
    }

    async fn follow(&mut self) -> Result<Assembled, JoinError> {
        let (mut arrived, context) = Arrived::reach(&self.context).await?;
        let context = Arc::new(context);
        self.context = Arc::clone(&context);
        let (mut doorman, agreed, members): (Doorman, _, _) = arrived.arrive(&context).await?;
        let dimensions = self.dimensions(&agreed, &members)?;
        let pairs = connect_all(&context, &mut doorman, &members, dimensions.wire);
        let (pairs, place) = arrived.agree(&context, pairs).await?;
        Ok(Assembled { agreed, members, pairs, place, dimensions })
    }

    fn agreed(&self, settings: bytes::Bytes) -> Agreed {
        Agreed { settings, world: self.context.world, version: PROTOCOL_VERSION }
    }

    fn dimensions(&mut self, agreed: &Agreed, members: &[Member]) -> Result<Dimensions, JoinError> {
        let roster = Roster { members: members.to_vec(), routes: vec![None; members.len()] };
        let derive = self.dimensions.take().expect("the dimensions are derived once, by one of three ways");
        Ok(derive(agreed, &roster))
    }
}

fn routes(context: &Context, pairs: &[Pair]) -> Vec<Option<super::Route>> {
    let mut routes = vec![None; context.world];
    for pair in pairs {
        routes[pair.peer] = Some(pair.route.clone());
    }
    routes
}

/// Parts each pair into its wire and its control connection.
fn part(
    context: &Context,
    roster: &Roster,
    pairs: Vec<Pair>,
    dimensions: Dimensions,
) -> Result<(Vec<Option<AnyWire>>, Vec<Connected>), JoinError> {
    let mut wires: Vec<Option<AnyWire>> = (0..context.world).map(|_| None).collect();
    let mut connected = Vec::new();
    for Pair { peer, control, data, .. } in pairs {
        let watch = watch(context, roster, peer, &control);
        wires[peer] = Some(wire(data, dimensions).map_err(JoinError::system("build a wire"))?);
        connected.push(Connected { peer, socket: control, watch });
    }
    Ok((wires, connected))
}

fn wire(data: Data, dimensions: Dimensions) -> std::io::Result<AnyWire> {
    let tcp: TcpOptions = dimensions.tcp;
    match data {
        Data::Shm(wire) => Ok(*wire),
        Data::Tcp(stream) => Ok(TcpWire::new(stream.into_std()?, dimensions.wire, tcp)?.into()),
    }
}

/// Watches a peer of this host: by what the system says of a Unix socket's other end, else by the number that the peer gave where numbers
/// mean the same to both.
fn watch(context: &Context, roster: &Roster, peer: Rank, control: &Socket) -> Watch {
    let member = &roster.members[peer];
    match control {
        Socket::Unix(stream) => match stream.peer_cred().ok().and_then(|cred| cred.pid()) {
            Some(pid) if pid > 0 => Watch::process(pid.unsigned_abs()),
            _ => Watch::nothing(),
        },
        Socket::Tcp(_) if context.host.shares_processes(&member.host) => Watch::process(member.pid),
        Socket::Tcp(_) => Watch::nothing(),
    }
}
