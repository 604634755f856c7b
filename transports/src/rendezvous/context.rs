//! [`Context`]: what every step of a rendezvous needs to know of this rank.

use std::time::Duration;

use hcomm_ops::Rank;
use tokio::time::Instant;

use super::error::JoinError;
use super::host::Host;
use super::interfaces::InterfaceFilter;
use super::token::Token;
use super::{Join, Transports};

/// How long a connection may take to be made or proved before the next attempt: much longer than any network needs.
pub(super) const ATTEMPT: Duration = Duration::from_secs(5);

/// One rank's part in a rendezvous.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) rank: Rank,
    pub(super) world: usize,
    pub(super) address: String,
    pub(super) token: Token,
    pub(super) within: Duration,
    pub(super) until: Instant,
    pub(super) transports: Transports,
    pub(super) interfaces: InterfaceFilter,
    pub(super) host: Host,
}

impl Context {
    /// From what the caller gave, whose deadline runs from now.
    pub(super) fn of(join: &Join) -> Result<Self, JoinError> {
        let is_sound = join.rank < join.world && u32::try_from(join.world).is_ok();
        if !is_sound {
            return Err(JoinError::Rank { rank: join.rank, world: join.world });
        }
        Ok(Context {
            rank: join.rank,
            world: join.world,
            address: join.address.clone(),
            token: join.token.clone(),
            within: join.deadline,
            until: Instant::now() + join.deadline,
            transports: join.transports,
            interfaces: join.interfaces.clone(),
            host: Host::of_this_process(),
        })
    }

    /// Whether rank 0's address can only mean this host.
    pub(super) fn is_loopback(&self) -> bool {
        let host = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}
