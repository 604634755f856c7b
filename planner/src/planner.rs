//! [`Planner`]: a topology and the choices made for it, kept for the life of a communicator.

use hcomm_ops::Rank;

use crate::algorithm::{Call, Pair, Variant};
use crate::choose::{Candidate, Choice, Costs};
use crate::compile::{PlanError, compile, select};
use crate::plan::Plan;
use crate::request::{Collective, Request};
use crate::topology::Topology;

/// Compiles requests for one communicator.
#[derive(Clone, Debug)]
pub struct Planner {
    topology: Topology,
    choice: Choice,
}

/// What of a request decides its plan: requests with equal keys share one, whatever their sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanKey {
    /// The collective.
    pub collective: Collective,
    /// Registry name of the algorithm.
    pub algorithm: &'static str,
    /// Channels that it spreads its bytes over.
    pub channels: u8,
    /// The two algorithms that it is made of, if so.
    pub pair: Option<Pair>,
    /// The special rank.
    pub root: Rank,
    /// Who knows the counts.
    pub variant: Variant,
}

impl Planner {
    /// A planner with the default costs.
    pub fn new(topology: Topology) -> Planner {
        let choice = Choice::new(&topology, Costs::default());
        Planner { topology, choice }
    }

    /// Hosts, ranks, devices and links.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Which algorithm serves which size.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Which plan a request gets.
    ///
    /// # Errors
    /// Where the request is malformed or no algorithm supports it.
    pub fn key(&self, request: &Request) -> Result<PlanKey, PlanError> {
        let world = self.topology.world();
        request.check(world)?;
        let call = Call::new(request, world, &self.topology);
        let Candidate { algorithm, channels, pair } = select(request, &call, &self.choice)?;
        let Request { collective, root, .. } = *request;
        Ok(PlanKey { collective, algorithm: algorithm.name, channels, pair, root, variant: call.variant })
    }

    /// Compiles rank `rank`'s plan of a request.
    ///
    /// # Errors
    /// As [`Planner::key`].
    pub fn compile(&self, request: &Request, rank: Rank) -> Result<Plan, PlanError> {
        compile(request, rank, &self.topology, &self.choice)
    }
}
