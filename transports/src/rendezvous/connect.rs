//! [`Connector`]: the connecting side of one pair of ranks.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hcomm_ops::Rank;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Transports;
use super::context::{ATTEMPT, Context};
use super::error::JoinError;
use super::handshake::{self, PROTOCOL_VERSION};
use super::local::{Local, why_not_shm};
use super::message::{self, Message, PairHello, Purpose};
use super::pairs::{Data, Pair};
use super::roster::{Doors, Member, Route};
use crate::control::socket::Socket;
use crate::files;
use crate::wire::WireConfig;

/// Pause before the addresses of a peer are tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// Everything that it takes to connect with a lower rank.
pub(super) struct Connector {
    pub(super) context: Arc<Context>,
    pub(super) members: Arc<[Member]>,
    pub(super) local: Option<Arc<Local>>,
    pub(super) config: WireConfig,
    pub(super) peer: Rank,
}

impl Connector {
    /// Makes what connections the pair needs.
    pub(super) async fn connect(self) -> Result<Pair, JoinError> {
        let why_not_shm = match self.open_unix().await {
            Ok((stream, local)) => return self.share(stream, &local).await,
            Err(why_not_shm) => why_not_shm,
        };
        match self.context.transports {
            Transports::Shm => Err(self.fault(format!("they cannot share memory: {why_not_shm}"))),
            Transports::Auto | Transports::Tcp => self.connect_tcp(why_not_shm).await,
        }
    }

    /// A proved connection to the peer's Unix socket, or why there is none.
    async fn open_unix(&self) -> Result<(UnixStream, Arc<Local>), String> {
        if let Some(why_not) = why_not_shm(&self.context, &self.members, self.peer) {
            return Err(why_not);
        }
        let (Some(local), Ok(name)) = (&self.local, &self.doors().unix) else {
            return Err("this rank has no memory to share".to_owned());
        };
        let mut cause = format!("the Unix socket of rank {} does not answer", self.peer);
        loop {
            let left = self.context.until.saturating_duration_since(Instant::now());
            match timeout(left.min(ATTEMPT), self.attempt_unix(name)).await {
                Ok(Ok(stream)) => return Ok((stream, Arc::clone(local))),
                Ok(Err(error)) => {
                    let why = files::explain(&error);
                    cause = format!("the Unix socket of rank {} cannot be opened: {why}", self.peer);
                    if is_final(&error) {
                        return Err(cause);
                    }
                }
                // It may be slow, or stopped for a while: as long as there is time, that is no reason to do without.
                Err(_) => {}
            }
            if Instant::now() + PAUSE >= self.context.until {
                return Err(cause);
            }
            sleep(PAUSE).await;
        }
    }

    async fn attempt_unix(&self, name: &str) -> io::Result<UnixStream> {
        let mut stream = UnixStream::connect(format!("\0{name}")).await?;
        self.prove(&mut stream).await?;
        Ok(stream)
    }

    async fn share(&self, mut stream: UnixStream, local: &Local) -> Result<Pair, JoinError> {
        self.introduce(&mut stream, Purpose::Shared, None).await?;
        let (stream, wire) = local
            .hand_over(stream, self.peer, self.context.until)
            .await
            .map_err(|cause| self.fault(cause))?;
        let (control, data) = (Socket::Unix(stream), Data::Shm(Box::new(wire)));
        Ok(Pair { peer: self.peer, control, data, route: Route::Shm })
    }

    async fn connect_tcp(&self, why_not_shm: String) -> Result<Pair, JoinError> {
        let control = Socket::Tcp(self.open_tcp(Purpose::Control, &why_not_shm).await?);
        let data = Data::Tcp(self.open_tcp(Purpose::Data, &why_not_shm).await?);
        Ok(Pair { peer: self.peer, control, data, route: Route::Tcp { why_not_shm } })
    }

    async fn open_tcp(&self, purpose: Purpose, why_not_shm: &str) -> Result<TcpStream, JoinError> {
        let mut stream = self.reach().await?;
        self.introduce(&mut stream, purpose, Some(why_not_shm.to_owned())).await?;
        Ok(stream)
    }

    /// Says who this is and what the connection is for.
    async fn introduce(
        &self,
        stream: &mut (impl AsyncWrite + Unpin),
        purpose: Purpose,
        why_not_shm: Option<String>,
    ) -> Result<(), JoinError> {
        let hello = PairHello { rank: self.context.rank as u32, purpose, config: self.config, why_not_shm };
        match timeout_at(self.context.until, message::write(stream, &Message::Pair(hello))).await {
            Ok(written) => written.map_err(|error| self.fault(error.to_string())),
            Err(_) => Err(self.fault("it does not read from its connection".to_owned())),
        }
    }

    /// A proved TCP connection, at whichever of the peer's addresses answers.
    async fn reach(&self) -> Result<TcpStream, JoinError> {
        let Doors { addresses, port, .. } = self.doors();
        loop {
            let mut cause = "it has no address".to_owned();
            for &address in addresses {
                match timeout(ATTEMPT, self.attempt((address, *port))).await {
                    Ok(Ok(stream)) => return Ok(stream),
                    Ok(Err(error)) => cause = format!("at {address} port {port}: {error}"),
                    Err(_) => cause = format!("at {address} port {port}: no answer"),
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
        self.prove(&mut stream).await?;
        Ok(stream)
    }

    async fn prove(&self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
        handshake::connect(stream, &self.context.token, PROTOCOL_VERSION).await.map_err(io::Error::other)
    }

    fn doors(&self) -> &Doors {
        &self.members[self.peer].doors
    }

    fn fault(&self, cause: String) -> JoinError {
        JoinError::Pair { rank: self.context.rank, peer: self.peer, cause }
    }
}

/// Whether another attempt to open a Unix socket would come to the same: it is not there, or this process may not open it.
fn is_final(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, InvalidInput, NotFound, PermissionDenied, Unsupported};
    matches!(error.kind(), ConnectionRefused | InvalidInput | NotFound | PermissionDenied | Unsupported)
}
