//! The launchers whose variables are understood, one file each, and what they have in common.

mod hcomm;
mod mpirun;
mod pmix;
mod slurm;
mod torchrun;

use super::token::hash;
use super::{Address, EnvironmentError, Placement, Token, Variables};

/// How one launcher tells its processes who they are.
pub struct Launcher {
    /// Its name, as errors and `doctor` say it.
    pub name: &'static str,
    /// Whether its variables are there.
    pub is_present: fn(&Variables) -> bool,
    /// Reads them.
    pub read: fn(&Variables) -> Result<Placement, EnvironmentError>,
}

/// Every launcher. The first one that shows is believed, so the innermost come first: a program under torchrun under srun
/// belongs to torchrun, and one under mpirun in a Slurm job to mpirun.
pub static LAUNCHERS: &[&Launcher] = &[
    &hcomm::LAUNCHER,
    &torchrun::LAUNCHER,
    &mpirun::OPEN_MPI,
    &mpirun::HYDRA,
    &slurm::LAUNCHER,
    &pmix::LAUNCHER,
];

/// The variables in which a launcher gives numbers.
struct Names {
    rank: &'static str,
    world: &'static str,
    local_rank: &'static str,
    /// `None` where the launcher has no plain number for it.
    local_world: Option<&'static str>,
}

/// The numbers of a placement.
struct Numbers {
    rank: usize,
    world: usize,
    local_rank: Option<usize>,
    local_world: Option<usize>,
}

/// What `read_numbers` says of a rank that is not set.
const RANK: &str = "this process's rank, a number from 0";
/// And of the number of ranks.
const WORLD: &str = "the number of ranks, at least 1";

impl Numbers {
    fn read(launcher: &'static str, names: &Names, variables: &Variables) -> Result<Self, EnvironmentError> {
        let missing = |name, expected| EnvironmentError::Missing { launcher, name, expected };
        let rank = variables.number(names.rank)?.ok_or_else(|| missing(names.rank, RANK))?;
        let world = variables.number(names.world)?.ok_or_else(|| missing(names.world, WORLD))?;
        let local_rank = variables.number(names.local_rank)?;
        let local_world = names.local_world.map(|name| variables.number(name)).transpose()?.flatten();
        check(names.rank, rank, names.world, world)?;
        if let (Some(rank), Some(name), Some(world)) = (local_rank, names.local_world, local_world) {
            check(names.local_rank, rank, name, world)?;
        }
        Ok(Numbers { rank, world, local_rank, local_world })
    }

    /// Whether the launcher says that all ranks are on this host.
    fn is_one_host(&self) -> bool {
        self.world == 1 || self.local_world == Some(self.world)
    }

    fn place(self, address: Address, token: Token, source: &'static str) -> Placement {
        let Numbers { rank, world, local_rank, local_world } = self;
        Placement { rank, world, local_rank, local_world, address, token, source }
    }
}

fn check(
    rank_name: &'static str,
    rank: usize,
    world_name: &'static str,
    world: usize,
) -> Result<(), EnvironmentError> {
    if world == 0 {
        return Err(EnvironmentError::Malformed { name: world_name, value: "0".to_owned(), expected: WORLD });
    }
    if rank >= world {
        return Err(EnvironmentError::OutOfWorld { rank_name, rank, world_name, world });
    }
    Ok(())
}

/// Where rank 0 listens when the launcher has no word for it: `HCOMM_ADDRESS`, or the host that `host` finds (loopback where all ranks
/// share one) with the port of `HCOMM_PORT`, one more than `MASTER_PORT` (torch's own store listens at that), or one derived
/// from the job's identity.
fn rendezvous_address(
    launcher: &'static str,
    numbers: &Numbers,
    variables: &Variables,
    identity: &[&str],
    host: Option<String>,
) -> Result<Address, EnvironmentError> {
    if let Some(address) = variables.address("HCOMM_ADDRESS")? {
        return Ok(address);
    }
    let named = variables.text("MASTER_ADDR").map(str::to_owned);
    let loopback = || numbers.is_one_host().then(|| "127.0.0.1".to_owned());
    let missing = || EnvironmentError::Missing {
        launcher,
        name: "MASTER_ADDR",
        expected: "the name or address of rank 0's host, since not all ranks are known to share one",
    };
    let host = named.or_else(loopback).or(host).ok_or_else(missing)?;
    Ok(Address { host, port: rendezvous_port(variables, identity)? })
}

fn rendezvous_port(variables: &Variables, identity: &[&str]) -> Result<u16, EnvironmentError> {
    if let Some(port) = variables.port("HCOMM_PORT")? {
        return Ok(port);
    }
    match variables.port("MASTER_PORT")? {
        Some(port) => port.checked_add(1).ok_or_else(|| EnvironmentError::Malformed {
            name: "MASTER_PORT",
            value: port.to_string(),
            expected: "a port below 65535, or HCOMM_PORT, since hcomm listens one port above it",
        }),
        None => Ok(derived_port(identity)),
    }
}

/// A port from 20000 to 31999: below what Linux hands to outgoing connections, above most services.
fn derived_port(identity: &[&str]) -> u16 {
    20_000 + (hash(0, identity) % 12_000) as u16
}

/// `HCOMM_TOKEN`, or one derived from the job's identity.
fn job_token(variables: &Variables, identity: &[&str]) -> Result<Token, EnvironmentError> {
    Ok(variables.token()?.unwrap_or_else(|| Token::derived(identity)))
}
