//! What the ranks of a launch share and what each is told: the address, the token, the environment variables.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::{env, io};

use hcomm_engine::environment::{Address, Token, is_superseded};
use hcomm_ops::Rank;

use super::LaunchError;

/// Ports that Linux does not hand to outgoing connections, so that none takes ours before rank 0 listens.
const FIRST_PORT: u16 = 20_000;
const LAST_PORT: u16 = 31_999;

/// What all ranks of a launch have in common.
pub struct Job {
    world: usize,
    address: Address,
    token: Token,
    torch_port: u16,
}

impl Job {
    /// A new job: a random token, and two free ports of the loopback interface.
    pub fn new(world: usize) -> Result<Self, LaunchError> {
        let token = Token::draw().map_err(LaunchError::System)?;
        let host = loopback();
        let (port, torch_port) = (free_port(host)?, free_port(host)?);
        Ok(Job { world, address: Address { host: host.to_string(), port }, token, torch_port })
    }

    /// The variables of one rank: hcomm's own, and those that programs written for torchrun read. torch's store gets a port
    /// of its own.
    pub fn variables(&self, rank: Rank) -> [(&'static str, String); 12] {
        let (rank, world) = (rank.to_string(), self.world.to_string());
        [
            ("HCOMM_RANK", rank.clone()),
            ("HCOMM_WORLD", world.clone()),
            ("HCOMM_LOCAL_RANK", rank.clone()),
            ("HCOMM_LOCAL_WORLD", world.clone()),
            ("HCOMM_ADDRESS", self.address.to_string()),
            ("HCOMM_TOKEN", self.token.to_hex()),
            ("RANK", rank.clone()),
            ("WORLD_SIZE", world.clone()),
            ("LOCAL_RANK", rank),
            ("LOCAL_WORLD_SIZE", world),
            ("MASTER_ADDR", self.address.host.clone()),
            ("MASTER_PORT", self.torch_port.to_string()),
        ]
    }

    /// The variables of this process that its ranks do not inherit: those by which other launchers say who this process is, and the stores and
    /// sockets that go with that.
    pub fn superseded() -> impl Iterator<Item = OsString> {
        env::vars_os().map(|(name, _)| name).filter(|name| name.to_str().is_some_and(is_superseded))
    }

    /// Variables that a rank is given where its environment has none of the name: how many threads libraries that read it may use, so that
    /// the ranks together do not start more than there are processors; and that Python writes what it prints at once, since what lies in the
    /// buffers of a rank that is killed would be lost.
    pub fn usual(&self) -> [(&'static str, String); 2] {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let share = (processors / self.world.max(1)).max(1);
        [("OMP_NUM_THREADS", share.to_string()), ("PYTHONUNBUFFERED", "1".to_owned())]
    }
}

/// This host's own address, which may be of IPv6 only.
fn loopback() -> IpAddr {
    let [v4, v6] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let is_there = |address: IpAddr| TcpListener::bind((address, 0)).is_ok();
    if !is_there(v4) && is_there(v6) { v6 } else { v4 }
}

/// A port that nobody listens at now. Where to begin is drawn at random, so that launches at the same time find different ones.
fn free_port(host: IpAddr) -> Result<u16, LaunchError> {
    let span = LAST_PORT - FIRST_PORT + 1;
    let drawn = Token::draw().map_err(LaunchError::System)?;
    let start = u16::from_le_bytes([drawn.as_bytes()[0], drawn.as_bytes()[1]]) % span;
    let mut cause = io::Error::from(io::ErrorKind::AddrInUse);
    for offset in (start..span).chain(0..start).take(1000) {
        match TcpListener::bind((host, FIRST_PORT + offset)) {
            Ok(_) => return Ok(FIRST_PORT + offset),
            Err(error) => cause = error,
        }
    }
    Err(LaunchError::NoPort { first: FIRST_PORT, last: LAST_PORT, cause })
}

#[cfg(test)]
mod tests {
    use hcomm_engine::environment::{Placement, Variables};

    use super::*;

    #[test]
    fn ranks_read_what_they_are_told() {
        let job = Job::new(3).expect("there are free ports");
        let placements: Vec<Placement> = (0..3)
            .map(|rank| {
                Placement::from_variables(&Variables::from_pairs(job.variables(rank))).expect("complete")
            })
            .collect();
        for (rank, placement) in placements.iter().enumerate() {
            assert_eq!((placement.rank, placement.world), (rank, 3));
            assert_eq!((placement.local_rank, placement.local_world), (Some(rank), Some(3)));
            assert_eq!((&placement.address, placement.secret.clone()), (&job.address, job.token.into()));
        }
    }

    #[test]
    fn jobs_differ_in_their_secret() {
        let (one, two) = (Job::new(1).expect("free ports"), Job::new(1).expect("free ports"));
        assert_ne!(one.token, two.token);
    }
}
