//! [`Planner`]: a topology and the choices made for it, kept for the life of a communicator.

use hcomm_ops::Rank;

use crate::algorithm::{Call, Pair, Variant};
use crate::choose::{Basis, Candidate, Choice, Costs, Pin, PinError, check};
use crate::compile::{PlanError, candidate, compile};
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

impl PlanKey {
    /// The key of the plan by which a candidate carries out a request, whatever its tiles.
    pub fn of(request: &Request, candidate: &Candidate) -> PlanKey {
        let Candidate { algorithm, channels, pair, .. } = *candidate;
        let Request { collective, root, .. } = *request;
        let variant = request.counts.variant();
        PlanKey { collective, algorithm: algorithm.name, channels, pair, root, variant }
    }
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

    /// A planner that chooses by all that is given, which all ranks have alike.
    ///
    /// # Errors
    /// Where a pin cannot be followed.
    pub fn with(topology: Topology, basis: &Basis) -> Result<Planner, PinError> {
        let choice = Choice::with(&topology, basis)?;
        Ok(Planner { topology, choice })
    }

    /// By which algorithm, with which parameters, a request is carried out.
    ///
    /// # Errors
    /// Where the request is malformed or no algorithm supports it.
    pub fn candidate(&self, request: &Request) -> Result<Candidate, PlanError> {
        candidate(request, &self.topology, &self.choice)
    }

    /// Which plan a request gets.
    ///
    /// # Errors
    /// As [`Planner::candidate`].
    pub fn key(&self, request: &Request) -> Result<PlanKey, PlanError> {
        Ok(PlanKey::of(request, &self.candidate(request)?))
    }

    /// Most bytes of one message in a call of a request by a given plan.
    pub fn tile_bytes(&self, request: &Request, plan: &Plan) -> u64 {
        let world = self.topology.world();
        let call = Call::new(request, world, &self.topology);
        self.choice.tile_bytes((&plan.algorithm, plan.id), &call, request.full_bytes(world))
    }

    /// Checks a pin as [`Planner::with`] does those of its basis.
    ///
    /// # Errors
    /// Where it cannot be followed.
    pub fn check_pin(&self, pin: &Pin, deterministic: bool) -> Result<(), PinError> {
        check(pin, &self.topology, deterministic)
    }

    /// Compiles rank `rank`'s plan of a request.
    ///
    /// # Errors
    /// As [`Planner::candidate`].
    pub fn compile(&self, request: &Request, rank: Rank) -> Result<Plan, PlanError> {
        compile(request, rank, &self.topology, &self.choice)
    }
}
