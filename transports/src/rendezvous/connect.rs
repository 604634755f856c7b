//! [`Connector`]: the connecting side of one pair of ranks.

use std::io;
use std::sync::Arc;

use hcomm_ops::Rank;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::Transports;
use super::context::{ATTEMPT, Context};
use super::error::JoinError;
use super::handshake::{self, PROTOCOL_VERSION};
use super::message::{self, Message, PairHello, Purpose};
use super::pairs::{Data, Pair};
use super::roster::{Member, Route};
use crate::control::socket::Socket;
use crate::wire::WireConfig;

/// Pause before the addresses of a peer are tried again.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// Everything about a lower rank that it takes to connect with it.
pub(super) struct Connector {
    pub(super) context: Arc<Context>,
    pub(super) peer: Rank,
    pub(super) member: Member,
    pub(super) config: WireConfig,
}

impl Connector {
    /// Makes what connections the pair needs.
    pub(super) async fn connect(self) -> Result<Pair, JoinError> {
        let why_not_shm = self.why_not_shm();
        match self.context.transports {
            Transports::Shm => Err(self.fault(why_not_shm)),
            Transports::Auto | Transports::Tcp => self.connect_tcp(why_not_shm).await,
        }
    }

    fn why_not_shm(&self) -> String {
        "shared memory is not handed over yet".to_owned()
    }

    async fn connect_tcp(&self, why_not_shm: String) -> Result<Pair, JoinError> {
        let control = Socket::Tcp(self.open_tcp(Purpose::Control, &why_not_shm).await?);
        let data = Data::Tcp(self.open_tcp(Purpose::Data, &why_not_shm).await?);
        Ok(Pair { peer: self.peer, control, data, route: Route::Tcp { why_not_shm } })
    }

    /// A connection that has proved the token and said what it is for.
    async fn open_tcp(&self, purpose: Purpose, why_not_shm: &str) -> Result<TcpStream, JoinError> {
        let mut stream = self.reach().await?;
        let rank = self.context.rank as u32;
        let hello =
            PairHello { rank, purpose, config: self.config, why_not_shm: Some(why_not_shm.to_owned()) };
        match timeout(ATTEMPT, message::write(&mut stream, &Message::Pair(hello))).await {
            Ok(written) => written.map_err(|error| self.fault(error.to_string()))?,
            Err(_) => return Err(self.fault("it does not read from its connection".to_owned())),
        }
        Ok(stream)
    }

    async fn reach(&self) -> Result<TcpStream, JoinError> {
        loop {
            let mut cause = "it has no address".to_owned();
            for &address in &self.member.doors.addresses {
                match timeout(ATTEMPT, self.attempt((address, self.member.doors.port))).await {
                    Ok(Ok(stream)) => return Ok(stream),
                    Ok(Err(error)) => {
                        cause = format!("at {address} port {}: {error}", self.member.doors.port)
                    }
                    Err(_) => cause = format!("at {address} port {}: no answer", self.member.doors.port),
                }
            }
            if Instant::now() + PAUSE >= self.context.until {
                return Err(self.fault(cause));
            }
            sleep(PAUSE).await;
        }
    }

    async fn attempt(&self, to: (std::net::IpAddr, u16)) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        handshake::connect(&mut stream, &self.context.token, PROTOCOL_VERSION)
            .await
            .map_err(io::Error::other)?;
        Ok(stream)
    }

    fn fault(&self, cause: String) -> JoinError {
        JoinError::Pair { rank: self.context.rank, peer: self.peer, cause }
    }
}
