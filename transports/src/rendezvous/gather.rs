//! The rendezvous as rank 0 sees it: wait for the others, tell them of each other, and let all go at once.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use hcomm_ops::Rank;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until, timeout, timeout_at};

use super::arrive::absent;
use super::context::Context;
use super::doorman::{Doorman, Proved};
use super::doors;
use super::error::{JoinError, list};
use super::message::{self, Message, ReadError};
use super::roster::Member;
use crate::control::socket::Socket;

/// How often those that are here are told who is not.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// How long a rank's own account of a failure may take after the deadline.
const VERDICT: Duration = Duration::from_millis(300);
/// How long the others have to take in the last words of a rendezvous that failed.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Rank 0's connections with all that have arrived.
pub(super) struct Gathering {
    world: usize,
    doorman: Doorman,
    members: Vec<Option<Member>>,
    /// What the writers of those that are here are to tell them.
    outputs: Vec<Option<mpsc::UnboundedSender<Bytes>>>,
    writers: JoinSet<()>,
    heard: mpsc::Receiver<Heard>,
    /// For the readers to be.
    hears: mpsc::Sender<Heard>,
    readers: JoinSet<()>,
}

enum Heard {
    Arrived { rank: u32, world: u32, member: Member, output: WriteHalf<Socket>, from: String },
    Said { rank: u32, what: Result<Message, ReadError> },
}

/// Opens rank 0's address.
pub(super) async fn listen(
    context: &Context,
    given: Option<std::net::TcpListener>,
) -> Result<TcpListener, JoinError> {
    let failed = |source| JoinError::Listen { address: context.address.clone(), source };
    if let Some(listener) = given {
        return doors::from_std(listener).map_err(failed);
    }
    let port = context.address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let port = port.ok_or_else(|| failed(std::io::ErrorKind::InvalidInput.into()))?;
    bind(context, port).map_err(failed)
}

/// A loopback address is meant as it is; of others only the port: a host's own name may lead to its loopback address, or nowhere yet.
fn bind(context: &Context, port: u16) -> std::io::Result<TcpListener> {
    if !context.is_loopback() {
        return doors::anywhere(port);
    }
    let named: Vec<IpAddr> = match context.host_of_zero().parse() {
        Ok(address) => vec![address],
        Err(_) => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
    };
    let addresses: Vec<SocketAddr> = named.into_iter().map(|address| (address, port).into()).collect();
    doors::from_std(std::net::TcpListener::bind(&addresses[..])?)
}

impl Gathering {
    /// Begins with rank 0 itself.
    pub(super) fn new(context: &Context, listener: TcpListener, own: Member) -> Self {
        let (hears, heard) = mpsc::channel(256);
        let doorman = Doorman::new(&context.token, listener, None);
        let members = std::iter::once(Some(own)).chain((1..context.world).map(|_| None)).collect();
        let outputs = (0..context.world).map(|_| None).collect();
        let (readers, writers) = (JoinSet::new(), JoinSet::new());
        Gathering { world: context.world, doorman, members, outputs, writers, heard, hears, readers }
    }

    /// Waits until all are here, and tells them.
    pub(super) async fn gather(
        &mut self,
        context: &Context,
        settings: &Bytes,
    ) -> Result<Vec<Member>, JoinError> {
        let gathered = self.wait_for_all(context).await;
        match gathered {
            Ok(members) => {
                self.tell_all(&Message::Welcome { settings: settings.clone(), members: members.clone() });
                Ok(members)
            }
            Err(error) => Err(self.refuse(error).await),
        }
    }

    /// Connects with the others, collects from all that they have done so, and lets them go.
    pub(super) async fn agree<T>(
        &mut self,
        context: &Context,
        pairs: impl Future<Output = Result<T, JoinError>>,
    ) -> Result<T, JoinError> {
        match self.oversee(context, pairs).await {
            Ok(pairs) => {
                self.tell_all(&Message::Go);
                self.finish(context.until + VERDICT).await;
                Ok(pairs)
            }
            Err(error) => Err(self.refuse(error).await),
        }
    }

    async fn wait_for_all(&mut self, context: &Context) -> Result<Vec<Member>, JoinError> {
        let mut tell = interval(TELL_EVERY);
        let mut told = usize::MAX;
        loop {
            if self.members.iter().all(Option::is_some) {
                return Ok(self.members.iter().flatten().cloned().collect());
            }
            tokio::select! {
                () = sleep_until(context.until) => return Err(self.missing(context)),
                () = context.cancel.cancelled() => return Err(JoinError::Cancelled { rank: context.rank }),
                proved = self.doorman.next() => {
                    drop(self.readers.spawn(attend(proved, self.hears.clone(), context.until)));
                }
                Some(heard) = self.heard.recv() => self.handle_heard(context, heard).await?,
                _ = tell.tick() => {
                    let missing = self.missing_ranks();
                    if missing.len() != told {
                        told = missing.len();
                        context.awaited.set(absent(&missing));
                        self.tell_all(&Message::Waiting(missing.iter().map(|&rank| rank as u32).collect()));
                    }
                }
            }
        }
    }

    async fn handle_heard(&mut self, context: &Context, heard: Heard) -> Result<(), JoinError> {
        match heard {
            Heard::Arrived { rank, world, member, mut output, from } => {
                match self.admit(rank, world, &from) {
                    Ok(rank) => {
                        self.members[rank] = Some(member);
                        let (tell, told) = mpsc::unbounded_channel();
                        self.outputs[rank] = Some(tell);
                        self.writers.spawn(pass_on(output, told));
                        Ok(())
                    }
                    Err(error) => {
                        // It may have gone already; the others and this rank have the error in any case.
                        let _ = timeout(LAST_WORDS, message::write(&mut output, &error.as_refusal())).await;
                        let _ = output.shutdown().await;
                        Err(error)
                    }
                }
            }
            Heard::Said { what: Ok(Message::GaveUp), .. } => Err(self.missing(context)),
            Heard::Said { rank, what } => Err(vanished(rank, what)),
        }
    }

    /// Whether a rank may take part, all things considered that it says of itself.
    fn admit(&self, rank: u32, world: u32, from: &str) -> Result<Rank, JoinError> {
        let ours = self.world;
        let refuse = |reason| Err(JoinError::Disagreement { reason });
        if world as usize != ours {
            return refuse(format!(
                "rank {rank} (at {from}) was started for a world of {world}, rank 0 for one of {ours}"
            ));
        }
        match self.members.get(rank as usize) {
            None => refuse(format!(
                "a process at {from} says that it is rank {rank} of {ours}; ranks are 0 to {}",
                ours - 1
            )),
            Some(Some(other)) => refuse(format!(
                "two processes say that they are rank {rank}: number {} on {} and one at {from}",
                other.pid, other.host.name
            )),
            Some(None) => Ok(rank as usize),
        }
    }

    async fn oversee<T>(
        &mut self,
        context: &Context,
        pairs: impl Future<Output = Result<T, JoinError>>,
    ) -> Result<T, JoinError> {
        tokio::pin!(pairs);
        let mut connected = None;
        let mut unready: Vec<Rank> = (1..self.world).collect();
        loop {
            context.awaited.set(match unready.is_empty() {
                true => "its own connections".to_owned(),
                false => format!("{}, not connected with all others", list(&unready)),
            });
            tokio::select! {
                () = context.cancel.cancelled() => return Err(JoinError::Cancelled { rank: context.rank }),
                outcome = &mut pairs, if connected.is_none() => connected = Some(outcome?),
                Some(heard) = self.heard.recv() => self.handle_report(context, heard, &mut unready).await?,
                () = sleep_until(context.until + VERDICT) => {
                    return Err(JoinError::Unconnected { rank: 0, peers: unready, within: context.within });
                }
            }
            if unready.is_empty()
                && let Some(pairs) = connected.take()
            {
                return Ok(pairs);
            }
        }
    }

    async fn handle_report(
        &mut self,
        context: &Context,
        heard: Heard,
        unready: &mut Vec<Rank>,
    ) -> Result<(), JoinError> {
        match heard {
            Heard::Said { rank, what: Ok(Message::Ready) } => unready.retain(|&other| other != rank as Rank),
            Heard::Said { rank, what } => return Err(vanished(rank, what)),
            // One too many: its rank is taken.
            late @ Heard::Arrived { .. } => self.handle_heard(context, late).await?,
        }
        Ok(())
    }

    fn missing_ranks(&self) -> Vec<Rank> {
        (0..self.world).filter(|&rank| self.members[rank].is_none()).collect()
    }

    fn missing(&self, context: &Context) -> JoinError {
        JoinError::Missing {
            ranks: self.missing_ranks(),
            within: context.within,
            notes: self.doorman.notes(),
        }
    }

    /// Tells all that are here, each at its own pace; one that does not listen will be noticed by its reader or by its peers.
    fn tell_all(&mut self, message: &Message) {
        let bytes = message::encode(message);
        for output in self.outputs.iter().flatten() {
            // A writer ends early where its connection has broken.
            let _ = output.send(bytes.clone());
        }
    }

    /// Waits until all has been written that was told, and closes the connections.
    async fn finish(&mut self, until: Instant) {
        self.outputs.clear();
        let written = async { while self.writers.join_next().await.is_some() {} };
        let _ = timeout_at(until, written).await;
    }

    /// Tells all why it will not be, and gives them a moment to take it in before the connections close.
    async fn refuse(&mut self, error: JoinError) -> JoinError {
        self.doorman.close();
        self.tell_all(&error.as_refusal());
        let until = Instant::now() + LAST_WORDS;
        self.finish(until).await;
        let readers = async { while self.readers.join_next().await.is_some() {} };
        self.heard.close();
        let _ = timeout_at(until, readers).await;
        error
    }
}

/// Writes what a member is told until there is no more.
async fn pass_on(mut output: WriteHalf<Socket>, mut told: mpsc::UnboundedReceiver<Bytes>) {
    while let Some(bytes) = told.recv().await {
        if output.write_all(&bytes).await.is_err() {
            return;
        }
    }
    let _ = output.shutdown().await;
}

/// Takes in one connection: the arrival, then whatever else comes.
async fn attend(proved: Proved, hears: mpsc::Sender<Heard>, until: Instant) {
    let Proved { socket, from } = proved;
    let (mut input, output) = tokio::io::split(socket);
    let Ok(Ok(Message::Arrive { rank, world, member })) = timeout_at(until, message::read(&mut input)).await
    else {
        tracing::debug!(from, "a connection proved the job token and did not say who it is");
        return;
    };
    if hears.send(Heard::Arrived { rank, world, member, output, from }).await.is_ok() {
        listen_to(rank, input, hears).await;
    }
}

async fn listen_to(rank: u32, mut input: ReadHalf<Socket>, hears: mpsc::Sender<Heard>) {
    loop {
        let what = message::read(&mut input).await;
        let is_last = what.is_err();
        if hears.send(Heard::Said { rank, what }).await.is_err() || is_last {
            return;
        }
    }
}

/// What it means that a rank says this when it should say nothing, or `Ready`.
fn vanished(rank: u32, what: Result<Message, ReadError>) -> JoinError {
    let rank = rank as Rank;
    match what {
        Ok(Message::Failed(reason)) => JoinError::Elsewhere { reason },
        Ok(Message::GaveUp) => {
            JoinError::Vanished { rank, cause: "its deadline passed before that of rank 0".to_owned() }
        }
        Ok(_) => JoinError::Vanished { rank, cause: "it sent a message out of turn".to_owned() },
        Err(error) => JoinError::Vanished { rank, cause: error.to_string() },
    }
}
