//! [`Spec`]: what is to be measured, and [`Size`]: what one size means in elements. Equal on all ranks.

use std::path::PathBuf;

use clap::ValueEnum;
use hcomm::planner::choose::LinkKind;
use hcomm::settings::{AlgorithmPins, Settings, TransportChoice};
use hcomm::tuning::{self, Spread, Tuned};
use hcomm::{Collective, Communicator, Factor, Planner, ReduceOp, Topology};

use crate::commands::call::CallArguments;
use crate::mistake::CommandError;

/// Plan-node events that a rank keeps where a trace is asked for; a call of 1 GiB has about a tenth.
const TRACE_EVENTS: u32 = 1 << 18;

/// See the module.
pub struct Spec {
    /// The call.
    pub call: CallArguments,
    /// Ranks to start; `None` in a rank that has been started.
    pub ranks: Option<usize>,
    /// What joins them, where the command line says.
    pub transport: Option<Transport>,
    /// The environment's settings.
    pub settings: Settings,
    /// Sizes of the full buffer, in bytes, as asked for.
    pub sizes: Vec<u64>,
    /// Timed calls, in place of the usual number.
    pub iters: Option<u32>,
    /// Calls before those, in place of the usual number.
    pub warmup: Option<u32>,
    /// What memory the buffers are in.
    pub buffers: Buffers,
    /// Futures instead of blocking calls.
    pub is_async: bool,
    /// Whether results are checked.
    pub checks: bool,
    /// How to print.
    pub format: Format,
    /// Where the plan nodes of one more call of the largest size are written to.
    pub trace: Option<PathBuf>,
}

/// What joins the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// Shared memory within a host, TCP between hosts.
    Auto,
    /// Shared memory.
    Shm,
    /// TCP.
    Tcp,
    /// Threads of one process.
    Inproc,
}

/// What memory the buffers are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Buffers {
    /// The process's own.
    #[default]
    Plain,
    /// Allocated by the communicator: the ranks of a host read it where it lies.
    Shared,
}

/// How the figures are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Table,
    /// A row per size.
    Csv,
    /// One object.
    Json,
}

/// One size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes of the full buffer, as asked for.
    pub asked: u64,
    /// Bytes of the full buffer that whole blocks of whole elements fill.
    pub bytes: u64,
    /// Elements per block.
    pub count: u64,
}

impl Spec {
    /// A size in a world.
    pub fn size(&self, asked: u64, world: usize) -> Size {
        let count = self.call.count(asked, world);
        Size { asked, bytes: self.call.full_bytes(count, world), count }
    }

    /// Timed calls and those before, as all ranks agree.
    pub fn calls(&self, asked: u64) -> (u32, u32) {
        let usual = match asked {
            0..=0x1_0000 => 2000,
            0x1_0001..=0x10_0000 => 200,
            0x10_0001..=0x100_0000 => 40,
            _ => 12,
        };
        let timed = self.iters.unwrap_or(usual);
        (timed, self.warmup.unwrap_or(timed / 5 + 1))
    }

    /// The settings, with what the command line says in place of the environment.
    pub fn rank_settings(&self) -> Result<Settings, CommandError> {
        let mut settings = self.settings.clone();
        match self.transport {
            Some(Transport::Auto) => settings.transport = TransportChoice::Auto,
            Some(Transport::Shm) => settings.transport = TransportChoice::Shm,
            Some(Transport::Tcp) => settings.transport = TransportChoice::Tcp,
            Some(Transport::Inproc) | None => {}
        }
        settings.deterministic |= self.call.deterministic;
        if self.trace.is_some() {
            settings.trace_events = settings.trace_events.max(TRACE_EVENTS);
        }
        Ok(settings)
    }

    /// A handle that calls by the algorithm asked for.
    pub fn pinned(&self, comm: Communicator) -> Result<Communicator, CommandError> {
        let Some(name) = &self.call.algorithm else { return Ok(comm) };
        let pinned = comm.algorithm(&format!("{}={name}", self.call.collective));
        pinned.map_err(|refused| CommandError::Usage(refused.to_string()))
    }

    /// Refuses here, once, what every rank would refuse.
    pub fn check(&self, world: usize) -> Result<(), CommandError> {
        if let ReduceOp::PreMulSum(Factor(factor)) = self.call.op
            && self.checks
            && !factor.is_finite()
        {
            let message = format!(
                "--op: premulsum:{factor} has no result that could be foreseen; expected a finite factor, or --no-check"
            );
            return Err(CommandError::Usage(message));
        }
        if let Some(name) = &self.call.algorithm {
            let pins = AlgorithmPins::parse(&format!("{}={name}", self.call.collective));
            let expected =
                || format!("--algorithm: '{name}' is no name of an algorithm; expected one such as ring");
            pins.ok_or_else(|| CommandError::Usage(expected()))?;
        }
        let settings = self.rank_settings()?;
        let topology = match settings.transport {
            // The file's topology is for the ranks to read.
            _ if settings.topology.is_some() => return Ok(()),
            TransportChoice::Tcp if self.transport != Some(Transport::Inproc) => Topology::hosts(world, 1),
            _ => Topology::single_host(world),
        };
        let refused = |error: String| CommandError::Usage(error);
        let tuned = Tuned::load(&settings.tuning).map_err(|error| refused(error.to_string()))?;
        let basis = tuning::basis(&settings, &tuned, LinkKind::Shm, Spread::of(&topology));
        let planner = Planner::with(topology, &basis).map_err(|error| refused(error.to_string()))?;
        for asked in &self.sizes {
            let size = self.size(*asked, world);
            let planned = planner.key(&self.call.request(size.count));
            planned.map_err(|error| CommandError::Usage(error.to_string()))?;
        }
        Ok(())
    }

    /// The largest full buffer.
    pub fn largest_bytes(&self) -> u64 {
        match self.call.collective {
            Collective::Barrier => 0,
            _ => self.sizes.iter().copied().max().unwrap_or(0),
        }
    }
}
