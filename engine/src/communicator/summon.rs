//! [`Call`]: calls the ranks of a placement together: what the rendezvous needs to know, and what the user is to know of how it went.

use std::net::TcpListener;
use std::sync::Arc;

use hcomm_transports::rendezvous::{self, Cancel, Find, Join, JoinError, Route, Session, Stall, Transports};

use super::CreateError;
use super::agreed::Agreed;
use super::create::wires_of;
use super::place::quota;
use crate::domain::watch::Watch;
use crate::environment::{Address, Placement, Secret, Token};
use crate::log::Log;
use crate::meeting::{self, Left};
use crate::settings::value::Value;
use crate::settings::{Settings, TransportChoice};

/// What one rank calls the others with.
pub(super) struct Call<'a> {
    pub placement: &'a Placement,
    pub settings: &'a Settings,
    pub agreed: Agreed,
    pub listener: Option<TcpListener>,
    pub cancel: &'a Cancel,
}

/// Where the ranks meet.
struct Place {
    address: String,
    token: rendezvous::Token,
    find: Option<Find>,
    listener: Option<TcpListener>,
    /// What rank 0 has left for the others, until they are there.
    left: Option<Left>,
}

impl Call<'_> {
    /// Brings the ranks together.
    pub fn answer(mut self, watch: &Arc<Watch>) -> Result<Session, CreateError> {
        let source = self.placement.source;
        let place = self.place()?;
        rendezvous::join(self.join(place, watch)).map_err(|error| with_way_out(error, source))
    }

    fn place(&mut self) -> Result<Place, CreateError> {
        let Placement { rank, address, secret, .. } = self.placement;
        let listener = self.listener.take();
        let known = |address: &Address, token: Token, listener, left| Place {
            address: address.to_string(),
            token: rendezvous::Token::new(token.as_bytes()),
            find: None,
            listener,
            left,
        };
        match secret {
            Secret::Given(token) | Secret::Public(token) => Ok(known(address, *token, listener, None)),
            Secret::Left(job) if *rank == 0 => {
                let (left, listener, address, token) = Left::leave(job, address, listener)?;
                Ok(known(&address, token, Some(listener), Some(left)))
            }
            Secret::Left(job) => {
                let job = job.clone();
                let find = move || {
                    let (address, token) = meeting::find(&job)?;
                    Ok((address.to_string(), rendezvous::Token::new(token.as_bytes())))
                };
                let token = rendezvous::Token::new(&[]);
                Ok(Place {
                    address: String::new(),
                    token,
                    find: Some(Box::new(find)),
                    listener: None,
                    left: None,
                })
            }
        }
    }

    fn join(self, place: Place, watch: &Arc<Watch>) -> Join {
        let Call { placement, settings, agreed, cancel, .. } = self;
        let Place { address, token, find, listener, left } = place;
        let (watch, own) = (watch.clone(), settings.clone());
        let agreed = Agreed { quota: quota(), ..agreed };
        Join {
            rank: placement.rank,
            world: placement.world,
            address,
            find,
            listener,
            token,
            deadline: settings.rendezvous_deadline,
            transports: transports(settings.transport),
            settings: agreed.encode(settings).into(),
            interfaces: settings.socket_ifname.show().parse().unwrap_or_default(),
            cpus: settings.driver_cpus.as_slice().to_vec(),
            cancel: cancel.clone(),
            stall: stall(placement, settings),
            handler: Arc::new(move |event| watch.handle(event)),
            dimensions: Box::new(move |agreed, roster| {
                // All have come, and none has gone on: a later rendezvous of the same job cannot take this one's word for its own.
                drop(left);
                // What does not decode is reported by `connect_at`; here the own settings do.
                let agreed = Agreed::decode(&agreed.settings, &own).map(|(settings, _)| settings);
                wires_of(&agreed.unwrap_or(own), roster)
            }),
        }
    }
}

fn transports(choice: TransportChoice) -> Transports {
    match choice {
        TransportChoice::Auto => Transports::Auto,
        TransportChoice::Shm => Transports::Shm,
        TransportChoice::Tcp => Transports::Tcp,
    }
}

/// Warns while ranks are missing.
fn stall(placement: &Placement, settings: &Settings) -> Stall {
    let log = Log::new(placement.rank, settings.debug);
    let (world, source) = (placement.world, placement.source);
    let say = move |text: &str| log.warn(&format!("{text}; there are to be {world} ranks ({source})"));
    Stall { after: settings.stall_warning, say: Arc::new(say) }
}

/// Where rank 0's address is taken, or somebody else answers there, the user is told how to choose another.
fn with_way_out(error: JoinError, source: &'static str) -> CreateError {
    let is_taken = match &error {
        JoinError::Listen { source, .. } => source.kind() == std::io::ErrorKind::AddrInUse,
        JoinError::Stranger { .. } => true,
        _ => false,
    };
    let way_out = match source {
        _ if !is_taken => return CreateError::Join(error),
        "split" => return CreateError::Join(error),
        "python" => {
            "if another program listens there, give rank 0 an address of its own, the same in all ranks' calls"
        }
        "hcomm launch" => {
            "if another program listens there, set HCOMM_ADDRESS to one with a free port, the same on all ranks"
        }
        _ => "if another program listens there, set HCOMM_PORT to a free port, the same on all ranks",
    };
    CreateError::AddressInUse { cause: error, way_out }
}

/// Where the ranks have met.
pub(super) fn met_at(session: &Session, placement: &Placement) -> Address {
    session.address.parse().unwrap_or_else(|_| placement.address.clone())
}

/// What they have proved to know.
pub(super) fn token_of(session: &Session) -> Token {
    // It is made of a token, and has as many bytes.
    Token::new(session.token.as_bytes().try_into().unwrap_or_default())
}

/// Something about the way in which the ranks have met.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Remark {
    Warning(String),
    Info(String),
}

impl Remark {
    pub fn tell(&self, log: &Log) {
        match self {
            Remark::Warning(text) => log.warn(text),
            Remark::Info(text) => log.info(text),
        }
    }
}

/// What the user is to know.
pub(super) fn remarks(placement: &Placement, settings: &Settings, session: &Session) -> Vec<Remark> {
    let slow = slow_neighbours(placement, settings, session).map(Remark::Warning);
    let open = match (&placement.secret, placement.rank, placement.world > 1) {
        (Secret::Public(_), 0, true) => Some(Remark::Info(format!(
            "{} hands over no secret: whoever reaches {} could join this job; HCOMM_TOKEN keeps others out",
            placement.source, session.address
        ))),
        _ => None,
    };
    slow.into_iter().chain(open).collect()
}

/// Ranks of this machine that are reached by TCP although nobody asked for that.
fn slow_neighbours(placement: &Placement, settings: &Settings, session: &Session) -> Option<String> {
    let roster = &session.roster;
    let slow = roster.neighbours(placement.rank).into_iter().filter_map(|rank| match &roster.routes[rank] {
        Some(Route::Tcp { why_not_shm }) => Some((rank, why_not_shm)),
        _ => None,
    });
    let slow: Vec<_> = slow.filter(|_| settings.transport == TransportChoice::Auto).collect();
    let (_, why_not) = slow.first()?;
    let ranks: Vec<String> = slow.iter().map(|(rank, _)| rank.to_string()).collect();
    let (s, are) = if ranks.len() == 1 { ("", "is") } else { ("s", "are") };
    let ranks = ranks.join(", ");
    Some(format!(
        "rank{s} {ranks} {are} on this host, but {are} reached by TCP, not by shared memory: {why_not}"
    ))
}
