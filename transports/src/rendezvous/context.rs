//! [`Context`]: what every step of a rendezvous needs to know of this rank.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hcomm_ops::Rank;
use tokio::time::Instant;

use super::cancel::{Awaited, Cancel};
use super::error::JoinError;
use super::host::Host;
use super::interfaces::InterfaceFilter;
use super::token::Token;
use super::{Find, Join, Transports};

/// How long a connection may take to be made or proved before the next attempt: much longer than any network needs.
pub(super) const ATTEMPT: Duration = Duration::from_secs(5);

/// One rank's part in a rendezvous.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) rank: Rank,
    pub(super) world: usize,
    pub(super) address: String,
    pub(super) token: Token,
    /// Where the two above are to be learnt.
    pub(super) find: Option<Arc<Find>>,
    pub(super) within: Duration,
    pub(super) until: Instant,
    pub(super) transports: Transports,
    pub(super) interfaces: InterfaceFilter,
    pub(super) host: Host,
    pub(super) cancel: Cancel,
    pub(super) awaited: Awaited,
}

impl Context {
    /// From what the caller gave, whose deadline runs from now.
    pub(super) fn of(join: &mut Join) -> Result<Self, JoinError> {
        let is_sound = join.rank < join.world && u32::try_from(join.world).is_ok();
        if !is_sound {
            return Err(JoinError::Rank { rank: join.rank, world: join.world });
        }
        Ok(Context {
            rank: join.rank,
            world: join.world,
            address: join.address.clone(),
            token: join.token.clone(),
            find: join.find.take().map(Arc::new),
            within: join.deadline,
            until: Instant::now() + join.deadline,
            transports: join.transports,
            interfaces: join.interfaces.clone(),
            host: Host::of_this_process(),
            cancel: join.cancel.clone(),
            awaited: Awaited::default(),
        })
    }

    /// The same, once it is known where rank 0 is and what the token is.
    pub(super) fn with_meeting(&self, address: String, token: Token) -> Self {
        Context { address, token, ..self.clone() }
    }

    /// The host of rank 0's address.
    pub(super) fn host_of_zero(&self) -> &str {
        let host = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Whether rank 0's address can only mean this host.
    pub(super) fn is_loopback(&self) -> bool {
        let host = self.host_of_zero();
        let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
        host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
    }
}
