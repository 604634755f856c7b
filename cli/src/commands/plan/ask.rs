//! [`Asked`]: what `hcomm plan` is asked for: the request, the topology, and the choice of algorithm that a communicator would make.

use std::fs;
use std::path::Path;

use clap::ValueEnum;
use hcomm::planner::choose::Candidate;
use hcomm::planner::export::Sizing;
use hcomm::planner::timeline::{Model, Timeline, TimelineError, predict};
use hcomm::planner::{self, Choice, Costs, PlanError};
use hcomm::settings::Settings;
use hcomm::{Plan, Rank, Request, Topology};

use super::Arguments;
use crate::mistake::CommandError;

/// Most ranks that a plan is compiled for.
pub const MOST_RANKS: usize = 1 << 16;

/// What a tile is where the settings leave it to the transport.
const TILE_BYTES: u64 = 64 << 10;

/// What joins the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// Shared memory inside a host, TCP between hosts.
    Shm,
    /// TCP between all ranks, which count as a host each.
    Tcp,
}

/// See the module.
pub struct Asked {
    /// The call with its size.
    pub sizing: Sizing,
    /// Bytes of the full buffer; what was asked for, less what does not fill whole blocks.
    pub bytes: u64,
    /// Where the ranks are.
    pub topology: Topology,
    choice: Choice,
    /// Messages that a channel holds.
    depth: usize,
}

impl Asked {
    /// Reads the arguments; the topology from its file, where one is named.
    pub fn new(arguments: &Arguments, settings: &Settings) -> Result<Self, CommandError> {
        let topology = topology(arguments)?;
        let world = topology.world();
        if let Some(rank) = arguments.rank.filter(|rank| *rank >= world) {
            let message =
                format!("--rank: no rank {rank} in a world of {world}; expected 0 to {}", world - 1);
            return Err(CommandError::Usage(message));
        }
        let count = arguments.call.count(arguments.bytes.0, world);
        let request = arguments.call.request(count);
        request.check(world).map_err(|error| CommandError::Usage(error.to_string()))?;
        let tile_bytes = if settings.tile_bytes.0 == 0 { TILE_BYTES } else { settings.tile_bytes.0 };
        // A communicator chooses by the default costs too.
        let choice = Choice::new(&topology, Costs::default());
        let bytes = arguments.call.full_bytes(count, world);
        let depth = settings.depth as usize;
        Ok(Asked { sizing: Sizing { request, tile_bytes }, bytes, topology, choice, depth })
    }

    /// The call.
    pub fn request(&self) -> &Request {
        &self.sizing.request
    }

    /// Ranks.
    pub fn world(&self) -> usize {
        self.topology.world()
    }

    /// The algorithm that serves it.
    pub fn candidate(&self) -> Result<Candidate, CommandError> {
        planner::candidate(self.request(), &self.topology, &self.choice).map_err(refused)
    }

    /// One rank's slice.
    pub fn compile(&self, rank: Rank) -> Result<Plan, CommandError> {
        planner::compile(self.request(), rank, &self.topology, &self.choice).map_err(refused)
    }

    /// All ranks' slices.
    pub fn compile_all(&self) -> Result<Vec<Plan>, CommandError> {
        planner::compile_all(self.request(), &self.topology, &self.choice).map_err(refused)
    }

    /// When each node of all ranks' slices runs, by the cost model.
    pub fn timeline(&self, plans: &[Plan]) -> Result<Timeline, TimelineError> {
        let model = Model { depth: self.depth, ..Model::new(*self.choice.costs()) };
        predict(plans, &self.sizing, &self.topology, &model)
    }

    /// Why the call gets its algorithm.
    pub fn explain(&self) -> Result<String, CommandError> {
        planner::explain(self.request(), &self.topology, &self.choice).map_err(refused)
    }
}

fn refused(error: PlanError) -> CommandError {
    CommandError::Usage(error.to_string())
}

fn topology(arguments: &Arguments) -> Result<Topology, CommandError> {
    if let Some(path) = &arguments.topology {
        return from_file(path, arguments.ranks);
    }
    let ranks =
        arguments.ranks.ok_or_else(|| CommandError::Usage("missing --ranks <N>; see --help".to_owned()))?;
    match (arguments.hosts, arguments.transport) {
        (Some(hosts), _) if hosts > 0 && ranks % hosts == 0 => Ok(Topology::hosts(hosts, ranks / hosts)),
        (Some(hosts), _) => {
            let message = format!("--hosts: {ranks} ranks on {hosts} hosts; expected a divisor of {ranks}");
            Err(CommandError::Usage(message))
        }
        (None, Transport::Shm) => Ok(Topology::single_host(ranks)),
        (None, Transport::Tcp) => Ok(Topology::hosts(ranks, 1)),
    }
}

fn from_file(path: &Path, ranks: Option<usize>) -> Result<Topology, CommandError> {
    let name = path.display();
    let text = fs::read_to_string(path)
        .map_err(|cause| CommandError::Failed { code: 1, message: format!("cannot read {name}: {cause}") })?;
    let topology =
        Topology::parse(&text).map_err(|error| CommandError::Usage(format!("--topology {name}: {error}")))?;
    match ranks.filter(|ranks| *ranks != topology.world()) {
        Some(ranks) => Err(CommandError::Usage(format!(
            "--ranks {ranks}: {name} has {world} ranks; expected {world}, or no --ranks",
            world = topology.world()
        ))),
        None => Ok(topology),
    }
}
