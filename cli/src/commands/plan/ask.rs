//! [`Asked`]: what `hcomm plan` is asked for: the request, the topology, and the choice of algorithm that a communicator would make.

use std::path::Path;

use clap::ValueEnum;
use hcomm::file::read_text;
use hcomm::planner::algorithm::Call;
use hcomm::planner::choose::{Candidate, LinkKind, Threshold, Why};
use hcomm::planner::export::Sizing;
use hcomm::planner::timeline::{Model, Timeline, TimelineError, predict};
use hcomm::planner::{self, Choice, PlanError};
use hcomm::settings::{Settings, TuningChoice};
use hcomm::tuning::{self, Spread, Tuned};
use hcomm::{Plan, Rank, Request, Topology};

use super::Arguments;
use crate::mistake::CommandError;

/// Most ranks that a plan is compiled for.
pub const MOST_RANKS: usize = 1 << 16;

/// Bytes of the longest topology.
const MOST_TOPOLOGY_BYTES: u64 = 64 << 20;

/// What joins the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// Shared memory inside a host, TCP between hosts.
    Shm,
    /// TCP between all ranks, which count as a host each for the choice of algorithms.
    Tcp,
    /// The memory of one process, whose threads they are.
    Inproc,
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
        let choice = choice(arguments, settings, &topology)?;
        let sizing = Sizing::chosen(request, &topology, &choice).map_err(refused)?;
        let bytes = arguments.call.full_bytes(count, world);
        let depth = settings.depth as usize;
        Ok(Asked { sizing, bytes, topology, choice, depth })
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

    /// Why that one does, in a few words.
    pub fn how(&self) -> String {
        if self.request().algorithm.is_some() {
            return "asked for".to_owned();
        }
        let call = Call::new(self.request(), self.world(), &self.topology);
        let step = self.choice.thresholds(&call).and_then(|table| table.at(self.bytes));
        match step.map(|Threshold { why, .. }| *why) {
            Some(Why::Pinned(index)) => format!("pinned by {}", self.choice.pins()[index].source),
            Some(Why::Measured) => format!("chosen by times measured in {}", self.choice.source()),
            _ => "chosen by predicted cost".to_owned(),
        }
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

    /// What the call takes by the model that the choice is made by.
    pub fn chosen_by_ns(&self) -> Result<f64, CommandError> {
        let call = Call::new(self.request(), self.world(), &self.topology);
        let contender = self.choice.model().contender(self.candidate()?, &call);
        Ok(contender.predict(self.bytes).time_ns())
    }

    /// Why the call gets its algorithm.
    pub fn explain(&self) -> Result<String, CommandError> {
        planner::explain(self.request(), &self.topology, &self.choice).map_err(refused)
    }
}

/// The choice that a communicator would make.
fn choice(arguments: &Arguments, settings: &Settings, topology: &Topology) -> Result<Choice, CommandError> {
    let named = arguments.tuning.clone().map(TuningChoice::File);
    let usage = |error: String| CommandError::Usage(error);
    let tuned =
        Tuned::load(named.as_ref().unwrap_or(&settings.tuning)).map_err(|error| usage(error.to_string()))?;
    let local = if arguments.transport == Transport::Inproc { LinkKind::Inproc } else { LinkKind::Shm };
    let basis = tuning::basis(settings, &tuned, local, Spread::of(topology));
    Choice::with(topology, &basis).map_err(|error| usage(error.to_string()))
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
    let hosts = arguments.hosts.unwrap_or(1);
    if hosts == 0 || ranks % hosts != 0 {
        let message = format!("--hosts: {ranks} ranks on {hosts} hosts; expected a divisor of {ranks}");
        return Err(CommandError::Usage(message));
    }
    let on_one_machine = ranks / hosts;
    let topology = match arguments.transport {
        Transport::Shm => Topology::hosts(hosts, on_one_machine),
        Transport::Inproc if hosts == 1 => Topology::single_host(ranks),
        Transport::Inproc => {
            let message =
                format!("--hosts: one process is not on {hosts} hosts; expected --transport shm or tcp");
            return Err(CommandError::Usage(message));
        }
        Transport::Tcp => Topology::hosts(ranks, 1),
    };
    let processors = arguments.processors.map_or(on_one_machine, usize::from);
    Ok(topology.with_crowd(on_one_machine, processors))
}

fn from_file(path: &Path, ranks: Option<usize>) -> Result<Topology, CommandError> {
    let name = path.display();
    let text = read_text(path, MOST_TOPOLOGY_BYTES)
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
