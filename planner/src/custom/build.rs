//! Compiles every rank's slice of a program by the passes that all plans go through, and verifies them together.

use super::error::CustomError;
use super::lower::{Share, lower};
use super::{Place, PlanBuilder};
use crate::algorithm::Layout;
use crate::freeze::{Header, freeze};
use crate::graph::{Builder, Graph};
use crate::hash::Fnv;
use crate::pass::{self, Placement};
use crate::plan::Plan;
use crate::shape::BufferKind;
use crate::topology::Topology;
use crate::verify::{VerifyError, verify};

/// The least depth that a channel may have: what holds there holds in deeper ones.
const DEPTH: usize = 2;

/// What is done to a graph before it is frozen.
type Passes = fn(&mut Graph, &Topology) -> Placement;

impl PlanBuilder {
    /// Compiles and verifies the program: the slices of all ranks, in rank order. Rank r submits slice r; the slices of one
    /// program have the same id on all ranks that build it, and of different programs different ones.
    ///
    /// Where the plan is right only if a message is copied as it is sent, it is marked so ([`Plan::buffered`]).
    ///
    /// # Errors
    /// [`CustomError::Step`] names the first step that makes no sense and why; [`CustomError::Wrong`] has what `verify` found
    /// where the whole is not the collective, or not in place.
    pub fn build(&self, topology: &Topology) -> Result<Vec<Plan>, CustomError> {
        self.check_header()?;
        if topology.world() != self.world {
            return Err(CustomError::TopologySize { given: topology.world(), world: self.world });
        }
        let shares = lower(self)?;
        let fused = prove(self.compile(&shares, topology, pass::run_all));
        let proved = match fused {
            Err(VerifyError::Deadlock { .. } | VerifyError::Cycle(_)) => {
                prove(self.compile(&shares, topology, pass::run_unfused))
            }
            proved => proved,
        };
        proved.map_err(|fault| {
            let (name, collective) = (self.name.clone(), self.collective);
            CustomError::Wrong { name, collective, fault: Box::new(fault) }
        })
    }

    fn compile(&self, shares: &[Share], topology: &Topology, passes: Passes) -> Vec<Plan> {
        let header = self.header();
        let compiled = shares.iter().enumerate().map(|(rank, share)| {
            let mut builder = Builder::new(self.collective, self.world, rank, self.root, self.parts as u32);
            share.write(&mut builder);
            let mut graph = builder.build();
            let placement = passes(&mut graph, topology);
            freeze(&graph, &placement, &header)
        });
        let mut plans: Vec<Plan> = compiled.collect();
        note_widths(&mut plans);
        plans
    }

    fn header(&self) -> Header {
        Header {
            collective: self.collective,
            algorithm: self.name.clone(),
            world: self.world,
            root: self.root,
            id: self.id(),
            layout: Layout { even: true, ..Layout::of(self.parts) },
        }
    }

    /// A hash of the whole program.
    fn id(&self) -> u64 {
        let mut hash = Fnv::new();
        for text in [self.name.as_str(), self.collective.name()] {
            add_text(&mut hash, text);
        }
        add_numbers(&mut hash, &[self.world, self.root, self.parts, self.steps.len()]);
        for step in &self.steps {
            add_numbers(&mut hash, &[step.channel, step.stage, step.sources.len()]);
            hash.bytes(&[u8::from(step.adds)]);
            step.sources.iter().chain([&step.to]).for_each(|place| add_place(&mut hash, place));
        }
        hash.finish()
    }
}

/// Verifies slices, and marks them as in need of copying paths if only those make them right.
fn prove(mut plans: Vec<Plan>) -> Result<Vec<Plan>, VerifyError> {
    let mut verified = verify(&plans, DEPTH);
    if matches!(verified, Err(VerifyError::NeedsCopying(_))) {
        plans.iter_mut().for_each(|plan| plan.buffered = true);
        verified = verify(&plans, DEPTH);
    }
    verified?.note_in(&mut plans);
    plans.iter_mut().for_each(Plan::note_sum);
    Ok(plans)
}

/// Says in all slices how many channels the widest pair has, and how many chunks the longest message.
fn note_widths(plans: &mut [Plan]) {
    let channels = plans.iter().flat_map(|plan| &plan.channels).map(|channel| channel.index + 1).max();
    let chunks = plans.iter().flat_map(|plan| &plan.nodes).map(|node| node.extent.count).max();
    for plan in plans {
        plan.channels_per_pair = channels.unwrap_or(1);
        plan.span_chunks = chunks.unwrap_or(1);
    }
}

fn add_text(hash: &mut Fnv, text: &str) {
    hash.number(text.len() as u64);
    hash.bytes(text.as_bytes());
}

fn add_numbers(hash: &mut Fnv, numbers: &[usize]) {
    numbers.iter().for_each(|number| hash.number(*number as u64));
}

fn add_place(hash: &mut Fnv, place: &Place) {
    let buffer = match place.buffer {
        BufferKind::Input => 0,
        BufferKind::Output => 1,
        BufferKind::Scratch => 2,
    };
    add_numbers(hash, &[place.rank, buffer, place.chunk(0), place.count()]);
    add_text(hash, place.name);
}
