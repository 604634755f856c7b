//! [`Communicator::split`] and [`Communicator::duplicate`]: new communicators among the ranks of an old one. Each is a
//! progress domain of its own, made as the first one was; the old one only carries the address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hcomm_ops::Rank;

use super::agreed::Agreed;
use super::create::tuned;
use super::{Communicator, CreateError};
use crate::environment::{Address, Token};
use crate::error::{Failure, Ranks};
use crate::settings::Settings;

/// Where the communicators of a split between threads wait for their ranks, by (split, rank of the old communicator).
#[derive(Debug, Default)]
pub(super) struct Hall {
    ready: Mutex<HashMap<(u64, Rank), Communicator>>,
}

/// After ranks did not meet, how long the old communicator may take to hear that one of them has ended.
const NEWS: Duration = Duration::from_millis(400);

/// Bytes in which a leader's address travels.
const ADDRESS_BYTES: usize = 128;

impl Communicator {
    /// A communicator of the same ranks with calls, progress and staging of its own, for use by another thread. All ranks
    /// call it, as they would a collective.
    ///
    /// # Errors
    /// As [`Communicator::split`].
    pub fn duplicate(&self) -> Result<Communicator, CreateError> {
        let copy = self.split(Some(0), 0)?;
        Ok(copy.expect("every rank is in the one group of a duplicate"))
    }

    /// Communicators among those ranks that give the same `group`, numbered by `key`, then by rank; a rank that gives `None`
    /// is in none. All ranks call it, as they would a collective.
    ///
    /// # Errors
    /// Where the ranks do not find each other, or the old communicator has failed.
    pub fn split(&self, group: Option<u32>, key: i64) -> Result<Option<Communicator>, CreateError> {
        self.split_with(group, key, self.settings().clone())
    }

    /// [`Communicator::split`] into communicators made with these settings. Where all must agree, those of each group's first rank count;
    /// between threads of a process all of that rank's do. Where that rank asks for another tuning than this communicator was
    /// made with, it is read anew.
    ///
    /// # Errors
    /// As [`Communicator::split`], and where a tuning or a topology that the settings name cannot be used.
    pub fn split_with(
        &self,
        group: Option<u32>,
        key: i64,
        settings: Settings,
    ) -> Result<Option<Communicator>, CreateError> {
        let mine = [group.map_or(-1, i64::from), key];
        let mut all = vec![0; 2 * self.world()];
        self.all_gather(&mine, &mut all)?;
        let mut members: Vec<Rank> = (0..self.world()).filter(|r| all[2 * r] == mine[0]).collect();
        members.sort_by_key(|r| (all[2 * r + 1], *r));
        let number = self.inner.domain.watch.made();
        let split = Split { members, group: mine[0], number, settings };
        let made = match &self.inner.facts.hall {
            Some(hall) => self.split_threads(&split, hall),
            None => self.split_processes(&split),
        };
        Ok(made?.filter(|_| group.is_some()))
    }

    fn split_threads(&self, split: &Split, hall: &Hall) -> Result<Option<Communicator>, CreateError> {
        let leads = split.members.first() == Some(&self.rank());
        let make = |agreed| Communicator::in_process_by(split.members.len(), &split.settings, agreed);
        let made = match leads {
            true => self.passed_on(&split.settings).and_then(make),
            false => Ok(Vec::new()),
        };
        let failed = made.map(|communicators| {
            let mut ready = hall.ready.lock().unwrap_or_else(PoisonError::into_inner);
            for (member, communicator) in split.members.iter().zip(communicators) {
                ready.insert((split.number, *member), communicator);
            }
        });
        self.barrier()?;
        failed?;
        let mut ready = hall.ready.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(ready.remove(&(split.number, self.rank())))
    }

    fn split_processes(&self, split: &Split) -> Result<Option<Communicator>, CreateError> {
        let leads = split.members.first() == Some(&self.rank());
        // Who cannot lead tells the others so, by no address.
        let lead = || Ok::<_, CreateError>((self.listen()?, self.passed_on(&split.settings)?));
        let lead = if leads { lead().map(Some) } else { Ok(None) };
        let mut own = [0_u8; ADDRESS_BYTES];
        if let Ok(Some(((_, address), _))) = &lead {
            let text = address.to_string();
            own[..text.len().min(ADDRESS_BYTES)]
                .copy_from_slice(&text.as_bytes()[..text.len().min(ADDRESS_BYTES)]);
        }
        let mut addresses = vec![0_u8; ADDRESS_BYTES * self.world()];
        self.all_gather(&own, &mut addresses)?;
        let lead = lead?;
        if split.group < 0 {
            return Ok(None);
        }
        let leader = split.members.first().copied().unwrap_or(self.rank());
        let text = String::from_utf8_lossy(&addresses[leader * ADDRESS_BYTES..(leader + 1) * ADDRESS_BYTES]);
        let placement = crate::environment::Placement {
            rank: split.members.iter().position(|m| *m == self.rank()).unwrap_or(0),
            world: split.members.len(),
            local_rank: None,
            local_world: None,
            address: text
                .trim_end_matches('\0')
                .parse::<Address>()
                .map_err(|e| CreateError::Address(e.to_string()))?,
            secret: self.token_of(split).into(),
            source: "split",
        };
        let (listener, agreed) = match lead {
            Some(((listener, _), agreed)) => (Some(listener), agreed),
            None => (None, Agreed::default()),
        };
        // The old communicator hears at once of a death that the ranks which meet would only miss at their deadline.
        let endings = &self.inner.domain.watch.endings;
        let alarm = endings.alarm(&split.members);
        let met =
            Communicator::connect_at(&placement, split.settings.clone(), agreed, listener, alarm.cancel());
        met.map(Some).map_err(|cause| self.not_split(split, cause))
    }

    /// Why the members of a new communicator did not meet, in the old one's numbers: by the end of some of them, or with both.
    fn not_split(&self, split: &Split, cause: CreateError) -> CreateError {
        let endings = &self.inner.domain.watch.endings;
        if !endings.among(&split.members, NEWS).is_empty() {
            std::thread::sleep(NEWS / 4);
        }
        let mut ended = endings.among(&split.members, Duration::ZERO).into_iter();
        let members = split.members.clone();
        match ended.next() {
            Some((rank, how)) => {
                let call = format!("the new communicator of ranks {}", Ranks(&members));
                let others = ended.collect();
                crate::Error::Failed(Failure::PeerLost { rank, cause: how, others, call }).into()
            }
            None => CreateError::Split { members, cause: Box::new(cause) },
        }
    }

    /// What a communicator split from this handle, with these settings, goes by.
    fn passed_on(&self, settings: &Settings) -> Result<Agreed, CreateError> {
        let agreed =
            self.inner.facts.agreed.split(self.options.name.as_deref(), self.options.pins.as_deref());
        match settings.tuning == self.settings().tuning {
            true => Ok(agreed),
            false => Ok(Agreed { tuned: tuned(settings)?, ..agreed }),
        }
    }

    /// A listener where the other ranks can reach this one.
    fn listen(&self) -> Result<(TcpListener, Address), CreateError> {
        let near = &self.inner.facts.address;
        let places = (near.host.as_str(), near.port.max(1)).to_socket_addrs();
        let host = places.into_iter().flatten().find_map(|place| own_address(place).ok());
        let host = host.unwrap_or(Ipv4Addr::LOCALHOST.into());
        let listener = TcpListener::bind((host, 0))?;
        let port = listener.local_addr()?.port();
        Ok((listener, Address { host: host.to_string(), port }))
    }

    fn token_of(&self, split: &Split) -> Token {
        let facts = [self.inner.facts.token.to_hex(), split.number.to_string(), split.group.to_string()];
        Token::derived(&facts.each_ref().map(String::as_str))
    }
}

/// By which of its addresses this host reaches another.
fn own_address(other: SocketAddr) -> std::io::Result<IpAddr> {
    let any: IpAddr =
        if other.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let probe = UdpSocket::bind((any, 0))?;
    // Connecting a datagram socket sends nothing.
    probe.connect(other)?;
    Ok(probe.local_addr()?.ip())
}

/// What all members of a new communicator know alike.
struct Split {
    members: Vec<Rank>,
    group: i64,
    number: u64,
    /// This rank's, for the new communicator.
    settings: Settings,
}

impl Hall {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }
}
