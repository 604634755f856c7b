//! The rendezvous as ranks other than 0 see it: connect with rank 0, say where one is, wait for the others.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use hcomm_ops::Rank;
use tokio::io::{ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::context::{ATTEMPT, Context};
use super::doorman::Doorman;
use super::error::{JoinError, list};
use super::handshake::{self, HandshakeError, PROTOCOL_VERSION};
use super::message::{self, Message, ReadError};
use super::roster::Member;
use super::token::Token;
use super::{Agreed, doors};
use crate::control::socket::Socket;

/// Pauses between attempts to reach rank 0.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// How long rank 0's last word may take after this rank's own deadline.
const VERDICT: Duration = Duration::from_millis(1000);

/// A member's connection with rank 0, once it has arrived.
pub(super) struct Arrived {
    output: WriteHalf<Socket>,
    heard: mpsc::Receiver<Result<Message, ReadError>>,
    zero: SocketAddr,
    /// This rank's own address on that connection.
    own: Option<IpAddr>,
    _reader: JoinSet<()>,
}

impl Arrived {
    /// Goes to rank 0, wherever it is; what is learnt of that comes with the context.
    pub(super) async fn reach(context: &Context) -> Result<(Arrived, Context), JoinError> {
        let Reached { stream, zero, address, token } = reach(context).await?;
        let own = stream.local_addr().ok().map(|address| address.ip().to_canonical());
        let (input, output) = tokio::io::split(Socket::Tcp(stream));
        let (sender, heard) = mpsc::channel(16);
        let mut reader = JoinSet::new();
        reader.spawn(listen(input, sender));
        let arrived = Arrived { output, heard, zero, own, _reader: reader };
        Ok((arrived, context.with_meeting(address, token)))
    }

    /// Says where this rank is, and waits until all are there.
    pub(super) async fn arrive(
        &mut self,
        context: &Context,
    ) -> Result<(Doorman, Agreed, Vec<Member>), JoinError> {
        let (doorman, member) = doors::open(context, self.own)?;
        let (rank, world) = (context.rank as u32, context.world as u32);
        self.say(&Message::Arrive { rank, world, member }).await?;
        let (settings, members) = self.welcome(context).await?;
        Ok((doorman, Agreed { settings, world: context.world, version: PROTOCOL_VERSION }, members))
    }

    /// Connects with the others, unless rank 0 has bad news; then waits until all have done so.
    pub(super) async fn agree<T>(
        &mut self,
        context: &Context,
        pairs: impl Future<Output = Result<T, JoinError>>,
    ) -> Result<T, JoinError> {
        let connected = tokio::select! {
            connected = pairs => connected,
            news = self.heard.recv() => return Err(self.bad_news(context, news)),
        };
        match connected {
            Ok(pairs) => {
                self.say(&Message::Ready).await?;
                context.awaited.set("the other ranks, which are not all connected".to_owned());
                self.go(context).await.map(|()| pairs)
            }
            Err(error) => {
                // Where rank 0 is gone, too, this rank's own error is the better one.
                let _ = self.say(&Message::Failed(error.to_string())).await;
                Err(error)
            }
        }
    }

    async fn go(&mut self, context: &Context) -> Result<(), JoinError> {
        match timeout_at(context.until + VERDICT, self.heard.recv()).await {
            Ok(Some(Ok(Message::Go))) => Ok(()),
            Ok(news) => Err(self.bad_news(context, news)),
            Err(_) => {
                Err(JoinError::Unconnected { rank: context.rank, peers: vec![0], within: context.within })
            }
        }
    }

    async fn welcome(&mut self, context: &Context) -> Result<(Bytes, Vec<Member>), JoinError> {
        let mut missing = Vec::new();
        loop {
            match timeout_at(context.until, self.heard.recv()).await {
                Ok(Some(Ok(Message::Waiting(ranks)))) => {
                    context.awaited.set(absent(&ranks.iter().map(|&rank| rank as Rank).collect::<Vec<_>>()));
                    missing = ranks;
                }
                Ok(Some(Ok(Message::Welcome { settings, members }))) => {
                    return self.check(context, settings, members);
                }
                Ok(news) => return Err(self.bad_news(context, news)),
                Err(_) => return Err(self.give_up(context, &missing).await),
            }
        }
    }

    /// The roster, with rank 0 where it was reached.
    fn check(
        &self,
        context: &Context,
        settings: Bytes,
        members: Vec<Member>,
    ) -> Result<(Bytes, Vec<Member>), JoinError> {
        let mut members = members;
        if members.len() != context.world {
            let reason = format!(
                "rank 0 names {} ranks, rank {} expected {}",
                members.len(),
                context.rank,
                context.world
            );
            return Err(JoinError::Disagreement { reason });
        }
        let zero = &mut members[0].doors.addresses;
        if zero.is_empty() {
            zero.push(self.zero.ip().to_canonical());
        }
        Ok((settings, members))
    }

    /// The deadline has passed. Rank 0 may know more than it has told, so it is given a moment to answer.
    async fn give_up(&mut self, context: &Context, missing: &[u32]) -> JoinError {
        // Where rank 0 is gone, what it told before has to do.
        let _ = self.say(&Message::GaveUp).await;
        let verdict = async {
            loop {
                match self.heard.recv().await {
                    Some(Ok(Message::Refused { missing, reason })) => return Some((missing, reason)),
                    Some(Ok(_)) => {}
                    _ => return None,
                }
            }
        };
        let (missing, reason) = match timeout(VERDICT, verdict).await {
            Ok(Some(verdict)) => verdict,
            _ if missing.is_empty() => (vec![0], String::new()),
            _ => (missing.to_vec(), String::new()),
        };
        JoinError::from_refusal(&missing, reason, context.within)
    }

    fn bad_news(&self, context: &Context, news: Option<Result<Message, ReadError>>) -> JoinError {
        let cause = match news {
            Some(Ok(Message::Refused { missing, reason })) => {
                return JoinError::from_refusal(&missing, reason, context.within);
            }
            Some(Ok(_)) => "it sent a message out of turn".to_owned(),
            Some(Err(error)) => error.to_string(),
            None => "it closed the connection".to_owned(),
        };
        JoinError::Vanished { rank: 0, cause }
    }

    async fn say(&mut self, message: &Message) -> Result<(), JoinError> {
        let lost = |cause: String| JoinError::Vanished { rank: 0 as Rank, cause };
        match timeout(ATTEMPT, message::write(&mut self.output, message)).await {
            Ok(written) => written.map_err(|error| lost(error.to_string())),
            Err(_) => Err(lost("it does not read from its connection".to_owned())),
        }
    }
}

async fn listen(mut input: ReadHalf<Socket>, heard: mpsc::Sender<Result<Message, ReadError>>) {
    loop {
        let message = message::read(&mut input).await;
        let is_last = message.is_err();
        if heard.send(message).await.is_err() || is_last {
            return;
        }
    }
}

/// What a rank waits for while these have not arrived.
pub(super) fn absent(ranks: &[Rank]) -> String {
    let have = if ranks.len() == 1 { "has" } else { "have" };
    format!("{}, which {have} not arrived", list(ranks))
}

/// A proved connection with rank 0.
struct Reached {
    stream: TcpStream,
    zero: SocketAddr,
    address: String,
    token: Token,
}

/// Connects with rank 0, again and again where it is not there yet.
async fn reach(context: &Context) -> Result<Reached, JoinError> {
    let mut pause = FIRST_PAUSE;
    loop {
        let limit = (Instant::now() + ATTEMPT).min(context.until);
        let cause = match timeout_at(limit, attempt(context)).await {
            Ok(Ok(reached)) => return Ok(reached),
            Ok(Err(Failure::Final(error))) => return Err(error),
            Ok(Err(Failure::Passing(cause))) => cause,
            Err(_) => format!("no answer (at {:?})", context.address),
        };
        context.awaited.set(format!("rank 0, which has not arrived: {cause}"));
        if Instant::now() + pause >= context.until {
            return Err(JoinError::NoRankZero { within: context.within, cause });
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

enum Failure {
    /// Rank 0 may come yet.
    Passing(String),
    Final(JoinError),
}

async fn attempt(context: &Context) -> Result<Reached, Failure> {
    let (address, token) = match &context.find {
        Some(find) => find().map_err(Failure::Passing)?,
        None => (context.address.clone(), context.token.clone()),
    };
    let passing = |error: std::io::Error| Failure::Passing(format!("{error} (at {address:?})"));
    let mut stream = TcpStream::connect(address.as_str()).await.map_err(passing)?;
    stream.set_nodelay(true).map_err(passing)?;
    let zero = stream.peer_addr().map_err(passing)?;
    if stream.local_addr().map_err(passing)? == zero {
        // With nobody listening, a port of the ephemeral range can be connected with itself.
        return Err(passing(std::io::ErrorKind::ConnectionRefused.into()));
    }
    match handshake::connect(&mut stream, &token, PROTOCOL_VERSION).await {
        Ok(()) => Ok(Reached { stream, zero, address, token }),
        Err(HandshakeError::Broken(error)) => Err(passing(error)),
        // Who was told of the address may have been told of an earlier one.
        Err(error) if context.find.is_some() => Err(Failure::Passing(format!("{error} (at {address:?})"))),
        Err(error) => {
            let peer = format!("rank 0 at {address}");
            Err(Failure::Final(JoinError::Stranger { peer, cause: error.to_string() }))
        }
    }
}
