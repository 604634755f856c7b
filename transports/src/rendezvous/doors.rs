//! The sockets at which the other ranks reach this one, and what is told of them.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::{TcpListener, UnixListener};

use super::Transports;
use super::context::Context;
use super::doorman::Doorman;
use super::error::JoinError;
use super::handshake::fill_random;
use super::interfaces::interfaces_of_host;
use super::roster::{Doors, Member};
use crate::shm::Segment;

/// Opens this rank's doors. `near` is its own address on its connection with rank 0, where it has one.
pub(super) fn open(context: &Context, near: Option<IpAddr>) -> Result<(Doorman, Member), JoinError> {
    let addresses = addresses(context, near)?;
    let listener =
        listen(&addresses, context.is_loopback()).map_err(JoinError::system("listen for the other ranks"))?;
    let port =
        listener.local_addr().map_err(JoinError::system("read the port of a listening socket"))?.port();
    let (unix, name) = match context.transports {
        Transports::Tcp => (None, Err("is to use TCP only".to_owned())),
        Transports::Auto | Transports::Shm => open_unix()?,
    };
    let doors = Doors { transports: context.transports, addresses, port, unix: name };
    let member = Member::here(context, doors);
    Ok((Doorman::new(&context.token, listener, unix), member))
}

/// Where others should try, best first. Without a filter the way to rank 0 is the best guess; where that is a loopback
/// address, though rank 0's is not, it means nothing to other hosts.
fn addresses(context: &Context, near: Option<IpAddr>) -> Result<Vec<IpAddr>, JoinError> {
    if context.interfaces.is_empty() && context.is_loopback() {
        return Ok(near.into_iter().collect());
    }
    let interfaces = interfaces_of_host().map_err(JoinError::system("list the network interfaces"))?;
    let mut addresses = context.interfaces.select(&interfaces);
    if addresses.is_empty() && !context.interfaces.is_empty() {
        let there = interfaces.iter().fold(String::new(), |mut there, (name, address)| {
            // Writing to a string cannot fail.
            let _ = write!(there, "{}{name} ({address})", if there.is_empty() { "" } else { ", " });
            there
        });
        return Err(JoinError::NoInterface { filter: context.interfaces.to_string(), there });
    }
    match near {
        _ if !context.interfaces.is_empty() => {}
        Some(near) if !near.is_loopback() => {
            addresses.retain(|&address| address != near);
            addresses.insert(0, near);
        }
        Some(_) => {}
        None => addresses.clear(),
    }
    Ok(addresses)
}

/// Listens at the one address there is, or at all.
fn listen(addresses: &[IpAddr], is_loopback: bool) -> io::Result<TcpListener> {
    let address = match addresses {
        [only] => *only,
        [] if is_loopback => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => return anywhere(0),
    };
    from_std(std::net::TcpListener::bind((address, 0))?)
}

/// Listens at all addresses of this host.
pub(super) fn anywhere(port: u16) -> io::Result<TcpListener> {
    let [v6, v4] = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    let listener = std::net::TcpListener::bind(SocketAddr::new(v6, port))
        .or_else(|_| std::net::TcpListener::bind(SocketAddr::new(v4, port)))?;
    from_std(listener)
}

/// Moves a listener to the control thread.
pub(super) fn from_std(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// A Unix socket without a file, under a name that nobody can guess; who connects must prove the token all the same. A rank that
/// could hand no memory over it has none, but says why.
fn open_unix() -> Result<(Option<UnixListener>, Result<String, String>), JoinError> {
    let mut random = [0; 16];
    fill_random(&mut random).map_err(JoinError::system("read random bytes"))?;
    let name = format!("hcomm-{:032x}", u128::from_le_bytes(random));
    let opened = Segment::try_one().map_err(|error| format!("cannot share memory: {error}")).and_then(|()| {
        UnixListener::bind(format!("\0{name}")).map_err(|error| format!("cannot open a Unix socket: {error}"))
    });
    match opened {
        Ok(listener) => Ok((Some(listener), Ok(name))),
        Err(why_not) => {
            tracing::debug!(why_not, "this rank shares no memory; it uses TCP, also within its host");
            Ok((None, Err(why_not)))
        }
    }
}
