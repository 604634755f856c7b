//! Whole ranks on the simulated network: one thread drives the cores of all ranks of several communicators in random order. Random
//! programs of concurrent operations always complete and are always right, with room for one operation per window and two
//! tiny messages per channel; and an operation sends the same messages on its caller's stack as in the table.

use std::sync::Arc;
use std::time::Duration;

use hcomm_ops::buffer::Borrowed;
use hcomm_ops::{DType, ReduceOp};
use hcomm_planner::choose::Candidate;
use hcomm_planner::request::Counts;
use hcomm_planner::{Collective, Planner, Request, Topology};
use hcomm_transports::sim::{Lending, SimConfig, SimLink, SimNet};
use hcomm_transports::{Doorbell, Endpoint, WireConfig, control};
use proptest::prelude::*;

use super::core::{Core, Limits, Local, Submission};
use super::p2p::PORT;
use super::peers::Peers;
use super::watch::Watch;
use crate::bindings::{Apart, Binding, Buffers, InPlace, InputOnly, Nothing, OutputOnly, Spans};
use crate::call::Call;
use crate::execution::{Execution, Progress};
use crate::log::Log;
use crate::operation::Operation;
use crate::profile::Recorder;
use crate::settings::DebugLevel;

/// The least that a wire may hold: two messages on each port, of 16 elements.
const TINY: WireConfig = WireConfig { ports: PORT + 1, depth: 2, slot_bytes: 128 };

/// One communicator: a network of its own and every rank's core.
struct Group {
    net: SimNet,
    cores: Vec<Core>,
    planner: Planner,
    /// The number of the first call.
    first: u64,
    /// Calls submitted, by rank.
    made: Vec<u64>,
}

impl Group {
    fn new(world: usize, chance: &mut Chance) -> Self {
        let jitter = Duration::from_micros(chance.below(200) as u64);
        let link = SimLink { delay: Duration::from_micros(5), jitter, bytes_per_s: Some(1_000_000_000) };
        let lending = [Lending::Never, Lending::Always, Lending::Sometimes][chance.below(3)];
        let first = [0, 5, (1 << 32) - 3][chance.below(3)];
        let config = SimConfig { link, lending, first: first as u32, ..SimConfig::default() };
        let (net, wires) = SimNet::new(world, TINY, config, chance.next());
        let watches: Vec<Arc<Watch>> = (0..world).map(|_| Watch::new(first)).collect();
        let handler = |watch: &Arc<Watch>| {
            let watch = watch.clone();
            Arc::new(move |event| watch.handle(event)) as control::Handler
        };
        let controls = control::inproc_mesh(watches.iter().map(handler).collect());
        let ranks = wires.into_iter().zip(controls).zip(watches).enumerate();
        let core = |(rank, ((wires, control), watch))| {
            let doorbell = Doorbell::new().expect("an eventfd");
            let endpoint = Endpoint { wires, doorbell, heap: None };
            let peers = Peers::new(rank, world, Arc::from(control), watch, Log::new(rank, DebugLevel::Off));
            let limits = Limits { deadline: Duration::MAX, stall_warning: Duration::MAX };
            Core::new(endpoint, peers, Recorder::new(1 << 14).expect("there is memory"), limits, first)
        };
        let cores = ranks.map(core).collect();
        Group { net, cores, planner: Planner::new(Topology::single_host(world)), first, made: vec![0; world] }
    }

    /// The next operation of a rank.
    fn execution(&mut self, rank: usize, request: &Request, spans: &Spans) -> (u64, Execution) {
        let number = self.first + self.made[rank];
        self.made[rank] += 1;
        let plan = Arc::new(self.planner.compile(request, rank).expect("a supported call"));
        let call = Call::bind(request.clone(), plan, TINY.slot_bytes).expect("a good plan");
        let mut execution = Execution::new(Arc::new(call), number);
        execution.bind(spans);
        (number, execution)
    }

    /// One round of every rank, and one event where none moved. Whether anything happened.
    fn sweep(&mut self) -> bool {
        let moved = self.cores.iter_mut().fold(false, |moved, core| core.round() | moved);
        moved || self.net.advance_to_next_event()
    }
}

/// A call with every rank's buffers.
#[derive(Debug)]
struct Operand {
    request: Request,
    in_place: bool,
    inputs: Vec<Vec<i64>>,
    outputs: Vec<Vec<i64>>,
}

fn element(seed: usize, rank: usize, i: usize) -> i64 {
    (seed as i64 + 1) * 1_000_003 + (rank as i64) * 10_007 + (i as i64) * 7 + ((i * (rank + 2)) % 5) as i64
}

impl Operand {
    fn new(request: Request, in_place: bool, seed: usize, world: usize) -> Self {
        let blocks = |rank: usize| request.blocks(rank, world);
        let length = |blocks: Option<Vec<u64>>| blocks.map_or(0, |b| b.iter().sum::<u64>() as usize);
        let input = |rank: usize| (0..length(blocks(rank).input)).map(|i| element(seed, rank, i)).collect();
        let inputs: Vec<Vec<i64>> = (0..world).map(input).collect();
        let output = |rank: usize| vec![-77; length(blocks(rank).output)];
        let mut operand = Operand { in_place, inputs, outputs: (0..world).map(output).collect(), request };
        if operand.in_place {
            (0..world).for_each(|rank| operand.put_in_place(rank));
        }
        operand
    }

    /// Moves a rank's input to where an in-place call has it.
    fn put_in_place(&mut self, rank: usize) {
        let (input, output) = (&self.inputs[rank], &mut self.outputs[rank]);
        match self.request.collective {
            Collective::AllGather => output[rank * input.len()..][..input.len()].copy_from_slice(input),
            Collective::ReduceScatter => *output = input.clone(),
            _ => output[..input.len()].copy_from_slice(input),
        }
    }

    fn spans(&mut self, rank: usize, world: usize) -> Spans {
        let Request { collective, root, .. } = self.request;
        let binding = Binding { collective, rank, world, root };
        let (input, output) = (&self.inputs[rank], &mut self.outputs[rank]);
        let blocks = self.request.blocks(rank, world);
        let spans = match (blocks.input.is_some(), blocks.output.is_some()) {
            _ if collective == Collective::Barrier => Nothing.spans(binding),
            _ if self.in_place => InPlace(Borrowed::from_mut(output)).spans(binding),
            (true, true) => Apart(Borrowed::from_ref(input), Borrowed::from_mut(output)).spans(binding),
            (true, false) => InputOnly(Borrowed::from_ref(input)).spans(binding),
            (false, true) => OutputOnly(Borrowed::from_mut(output)).spans(binding),
            (false, false) => Nothing.spans(binding),
        };
        spans.expect("buffers apart or in place")
    }

    /// Whether a rank's output is right.
    fn is_right(&self, rank: usize) -> bool {
        let (world, root) = (self.inputs.len(), self.request.root);
        let (output, input) = (&self.outputs[rank], &self.inputs);
        let count = input[rank].len();
        let sum = |i: usize| (0..world).map(|r| input[r][i]).sum::<i64>();
        match self.request.collective {
            Collective::AllReduce => (0..count).all(|i| output[i] == sum(i)),
            Collective::Reduce => rank != root || (0..count).all(|i| output[i] == sum(i)),
            Collective::ReduceScatter => {
                let own = self.own_block(rank);
                let at = if self.in_place { own.start } else { 0 };
                (0..own.len()).all(|i| output[at + i] == sum(own.start + i))
            }
            Collective::AllGather => *output == input.concat(),
            Collective::Gather => rank != root || *output == input.concat(),
            Collective::Broadcast => *output == input[root],
            Collective::Scatter => *output == input[root][self.own_block(rank)],
            Collective::AllToAll => (0..world).all(|from| {
                let (sent, got) = (self.block(from, rank), self.block(rank, from));
                input[from][sent] == output[got]
            }),
            Collective::Barrier => true,
        }
    }

    /// The elements of block `rank` of what is scattered.
    fn own_block(&self, rank: usize) -> std::ops::Range<usize> {
        let world = self.inputs.len();
        let blocks = self.request.blocks(self.request.root, world).input.unwrap_or_default();
        let start = blocks[..rank].iter().sum::<u64>() as usize;
        start..start + blocks[rank] as usize
    }

    /// Block `index` of an all_to_all's buffers on rank `of`.
    fn block(&self, of: usize, index: usize) -> std::ops::Range<usize> {
        let blocks = self.request.blocks(of, self.inputs.len()).input.unwrap_or_default();
        let start = blocks[..index].iter().sum::<u64>() as usize;
        start..start + blocks[index] as usize
    }
}

/// A small deterministic generator: a run is a function of its seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// A call that some algorithm serves, perhaps by a pinned one, perhaps with blocks of very different lengths.
fn any_request(chance: &mut Chance, world: usize, planner: &Planner) -> Request {
    loop {
        let collective = Collective::ALL[chance.below(Collective::ALL.len())];
        let count = if collective == Collective::Barrier { 0 } else { chance.below(120) as u64 };
        let root = if collective.is_rooted() { chance.below(world) } else { 0 };
        let mut request = Request::new(collective, DType::I64, ReduceOp::Sum, count).with_root(root);
        let takes_a_list = matches!(collective, Collective::AllGather | Collective::ReduceScatter);
        if takes_a_list && chance.coin() {
            request.counts = Counts::Listed((0..world).map(|_| [0, 1, 17, 140][chance.below(4)]).collect());
        }
        if chance.coin() {
            let candidates = Candidate::all().count();
            let pin = Candidate::all().nth(chance.below(candidates)).expect("one of them").to_string();
            request = request.with_algorithm(&pin);
        }
        if planner.key(&request).is_ok() {
            return request;
        }
    }
}

fn may_be_in_place(request: &Request) -> bool {
    let is_even = matches!(request.counts, Counts::Even(_));
    let same = matches!(request.collective, Collective::AllReduce | Collective::AllToAll);
    is_even && (same || matches!(request.collective, Collective::AllGather | Collective::ReduceScatter))
}

/// One step of a program, the same on all ranks.
struct Step {
    group: usize,
    operand: Operand,
    /// Earlier steps that must end before; a local closure may stand between.
    after: Vec<usize>,
    through_closure: bool,
    /// By rank.
    operations: Vec<Arc<Operation>>,
}

struct Program {
    world: usize,
    groups: Vec<Group>,
    steps: Vec<Step>,
    /// Steps submitted, by rank.
    at: Vec<usize>,
    chance: Chance,
}

impl Program {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let world = 2 + chance.below(4);
        let groups: Vec<Group> = (0..1 + chance.below(3)).map(|_| Group::new(world, &mut chance)).collect();
        let length = 1 + chance.below(30);
        let mut program = Program { world, groups, steps: Vec::new(), at: vec![0; world], chance };
        (0..length).for_each(|number| program.add_step(number));
        program
    }

    fn add_step(&mut self, number: usize) {
        let chance = &mut self.chance;
        let group = chance.below(self.groups.len());
        let request = any_request(chance, self.world, &self.groups[group].planner);
        let in_place = may_be_in_place(&request) && chance.coin();
        let edges = if number > 0 && chance.below(3) == 0 { 1 + chance.below(2) } else { 0 };
        let after = (0..edges).map(|_| chance.below(number)).collect();
        let operation = |chance: &mut Chance| {
            let operation = Operation::default();
            operation.set_priority(chance.below(5) as i32 - 2);
            Arc::new(operation)
        };
        let operations = (0..self.world).map(|_| operation(chance)).collect();
        let operand = Operand::new(request, in_place, number, self.world);
        self.steps.push(Step { group, operand, after, through_closure: chance.coin(), operations });
    }

    /// Submits a rank's next step.
    fn submit(&mut self, rank: usize) -> bool {
        let Some(step) = self.at.get(rank).copied().filter(|at| *at < self.steps.len()) else { return false };
        self.at[rank] += 1;
        let after: Vec<_> =
            self.steps[step].after.iter().map(|s| self.steps[*s].operations[rank].clone()).collect();
        let Step { group, operand, through_closure, operations, .. } = &mut self.steps[step];
        let group = &mut self.groups[*group];
        let spans = operand.spans(rank, self.world);
        let (number, execution) = group.execution(rank, &operand.request, &spans);
        let core = &mut group.cores[rank];
        let after = match *through_closure && !after.is_empty() {
            true => {
                let operation = Arc::new(Operation::default());
                core.submit_local(Local { run: Box::new(|| {}), operation: operation.clone(), after });
                vec![operation]
            }
            false => after,
        };
        let operation = operations[rank].clone();
        core.submit(Submission {
            number,
            execution: Some(Box::new(execution)),
            operation,
            after,
            claims: Vec::new(),
            since: None,
        });
        true
    }

    fn is_done(&self) -> bool {
        self.steps.iter().all(|step| step.operations.iter().all(|operation| operation.is_done()))
    }

    /// Something at random: a rank submits its next step, a core makes a round, a message arrives.
    fn stir(&mut self) {
        let (group, rank) = (self.chance.below(self.groups.len()), self.chance.below(self.world));
        match self.chance.below(8) {
            0 => {
                self.submit(rank);
            }
            1..=4 => {
                self.groups[group].cores[rank].round();
            }
            _ => {
                self.groups[group].net.advance_to_next_event();
            }
        }
    }

    /// Runs to the end; an error says who stands still.
    fn run(&mut self) -> Result<(), String> {
        while !self.is_done() {
            (0..50).for_each(|_| self.stir());
            let moved = self.groups.iter_mut().fold(false, |moved, group| group.sweep() | moved);
            if !moved && !self.submit_any() && !self.is_done() {
                return Err(self.positions());
            }
        }
        Ok(())
    }

    fn submit_any(&mut self) -> bool {
        let first = self.chance.below(self.world);
        (0..self.world).any(|i| self.submit((first + i) % self.world))
    }

    fn positions(&self) -> String {
        let step = |(number, step): (usize, &Step)| {
            let done: Vec<bool> = step.operations.iter().map(|operation| operation.is_done()).collect();
            format!("step {number} of group {}: {:?}, done {done:?}", step.group, step.operand.request)
        };
        self.steps.iter().enumerate().map(step).collect::<Vec<_>>().join("\n")
    }

    fn check(&self) -> Result<(), String> {
        for (number, step) in self.steps.iter().enumerate() {
            for rank in 0..self.world {
                let outcome = step.operations[rank].outcome();
                if outcome != Some(Ok(())) || !step.operand.is_right(rank) {
                    let Step { group, operand, .. } = step;
                    return Err(format!(
                        "step {number}, group {group}, rank {rank}: {outcome:?}, {operand:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_complete_and_are_right(seed in any::<u64>()) {
        let mut program = Program::new(seed);
        prop_assert_eq!(program.run(), Ok(()));
        prop_assert_eq!(program.check(), Ok(()));
    }

    #[test]
    fn inline_and_in_the_table_send_the_same_messages(seed in any::<u64>()) {
        let mut chance = Chance(seed);
        let world = 1 + chance.below(5);
        let planner = Planner::new(Topology::single_host(world));
        let request = any_request(&mut chance, world, &planner);
        let in_place = may_be_in_place(&request) && chance.coin();
        let all_in_table = run_alone(&request, in_place, vec![Some(0); world], &mut chance);
        let all_inline = run_alone(&request, in_place, vec![None; world], &mut chance);
        let switches = (0..world).map(|_| [None, Some(0), Some(1), Some(3), Some(9)][chance.below(5)]).collect();
        let mixed = run_alone(&request, in_place, switches, &mut chance);
        prop_assert_eq!(&all_inline, &all_in_table, "{:?}", request);
        prop_assert_eq!(&mixed, &all_in_table, "{:?}", request);
    }
}

/// What a run leaves: the issues of each lane in order, which are the messages of each channel, and the outputs.
type Trace = (Vec<Vec<Vec<(u32, u32, usize)>>>, Vec<Vec<i64>>);

/// Runs one call on all ranks. A rank goes on in the table after so many advances of its own; `None`: never.
fn run_alone(request: &Request, in_place: bool, switches: Vec<Option<usize>>, chance: &mut Chance) -> Trace {
    let world = switches.len();
    let mut group = Group::new(world, chance);
    let mut operand = Operand::new(request.clone(), in_place, 1, world);
    let operations: Vec<Arc<Operation>> = (0..world).map(|_| Arc::default()).collect();
    let mut inline: Vec<Option<Execution>> = Vec::new();
    for rank in 0..world {
        let (number, mut execution) = group.execution(rank, request, &operand.spans(rank, world));
        assert!(group.cores[rank].admits(number, execution.call()), "the first call");
        group.cores[rank].pass(number, &mut execution);
        inline.push(Some(execution));
    }
    let (number, mut advances) = (group.first, vec![0; world]);
    while !operations.iter().all(|operation| operation.is_done()) {
        let mut moved = false;
        for rank in 0..world {
            let Some(mut execution) = inline[rank].take() else { continue };
            if switches[rank].is_some_and(|limit| advances[rank] >= limit) {
                group.cores[rank].insert(number, Box::new(execution), operations[rank].clone());
                moved = true;
                continue;
            }
            advances[rank] += 1;
            match group.cores[rank].advance_alone(&mut execution, number) {
                Progress::Finished => operations[rank].complete(Ok(())),
                other => {
                    assert!(!matches!(other, Progress::Differs { .. }), "{other:?}");
                    moved |= other == Progress::Moved;
                    inline[rank] = Some(execution);
                }
            }
        }
        let waits = inline.iter().zip(&switches).any(|(left, switch)| left.is_some() && switch.is_some());
        assert!(
            group.sweep() || moved || waits || operations.iter().all(|o| o.is_done()),
            "stuck: {request:?}"
        );
    }
    let right = (0..world).all(|rank| operand.is_right(rank));
    assert!(right, "{request:?}: {operand:?}");
    (group.cores.iter_mut().map(|core| issues(core, request, &group.planner)).collect(), operand.outputs)
}

/// The issues of a rank's one call, by lane.
fn issues(core: &mut Core, request: &Request, planner: &Planner) -> Vec<Vec<(u32, u32, usize)>> {
    let plan = planner.compile(request, core.peers.rank()).expect("a supported call");
    let mut lanes = vec![Vec::new(); plan.lanes.len()];
    for issue in core.recorder.take().events.into_iter().filter_map(|event| event.issue) {
        lanes[plan.nodes[issue.node as usize].lane as usize].push((issue.node, issue.tile, issue.bytes));
    }
    lanes
}
