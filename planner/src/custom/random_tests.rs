//! Random programs that carry their collective out in roundabout ways: each is compiled, fused and proved.

use super::*;
use crate::shape::BufferKind;
use crate::topology::Topology;
use crate::verify::verify;

/// A small generator of numbers; equal seeds give equal programs.
struct Dice(u64);

impl Dice {
    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }

    fn take<T>(&mut self, from: &mut Vec<T>) -> T {
        let at = self.below(from.len());
        from.swap_remove(at)
    }
}

/// One step of a program, less its channel.
type Move = (Vec<Place>, Place, bool);

/// What the steps for some chunks begin with and where their result goes.
struct Task {
    /// Folded together, where there are several.
    from: Vec<Place>,
    to: Vec<Place>,
    /// Scratch that no other task uses: first chunk, and how many runs.
    scratch: (usize, usize),
    count: usize,
}

/// A block of a rank's buffer.
type Block = (Rank, usize);

/// For each result of the collective, whose blocks it is made of and where it goes.
fn results(collective: Collective, world: usize, root: Rank) -> Vec<(Vec<Block>, Vec<Block>)> {
    let every = |block: usize| (0..world).map(|rank| (rank, block)).collect::<Vec<_>>();
    let by_rank =
        |result: &dyn Fn(Rank) -> (Vec<Block>, Vec<Block>)| (0..world).map(result).collect::<Vec<_>>();
    match collective {
        Collective::AllReduce | Collective::Barrier => vec![(every(0), every(0))],
        Collective::Reduce => vec![(every(0), vec![(root, 0)])],
        Collective::Broadcast => vec![(vec![(root, 0)], every(0))],
        Collective::ReduceScatter => by_rank(&|rank| (every(rank), vec![(rank, 0)])),
        Collective::AllGather => by_rank(&|rank| (vec![(rank, 0)], every(rank))),
        Collective::Gather => by_rank(&|rank| (vec![(rank, 0)], vec![(root, rank)])),
        Collective::Scatter => by_rank(&|rank| (vec![(root, rank)], vec![(rank, 0)])),
        Collective::AllToAll => {
            let pair = |pair: usize| (pair / world, pair % world);
            (0..world * world).map(pair).map(|(a, b)| (vec![(a, b)], vec![(b, a)])).collect()
        }
    }
}

fn tasks(results: &[(Vec<Block>, Vec<Block>)], parts: usize, dice: &mut Dice) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    for (from, to) in results {
        let mut part = 0;
        while part < parts {
            let count = 1 + dice.below(parts - part);
            let chunks = |block: usize| block * parts + part..block * parts + part + count;
            tasks.push(Task {
                from: from.iter().map(|(rank, block)| input(*rank, chunks(*block))).collect(),
                to: to.iter().map(|(rank, block)| output(*rank, chunks(*block))).collect(),
                scratch: (tasks.len() * 100, 1 + dice.below(3)),
                count,
            });
            part += count;
        }
    }
    tasks
}

impl Task {
    fn room(&self, world: usize, dice: &mut Dice) -> Place {
        let first = self.scratch.0 + dice.below(self.scratch.1) * self.count;
        scratch(dice.below(world), first..first + self.count)
    }

    /// Steps that leave the fold of `from` in all of `to`, by way of scratch.
    fn moves(&self, world: usize, detour: bool, dice: &mut Dice) -> (Vec<Move>, Vec<Move>) {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut left = self.from.clone();
        while left.len() > 1 || dice.below(3) > 0 || (detour && before.is_empty()) {
            let mut sources = vec![dice.take(&mut left)];
            while !left.is_empty() && dice.below(2) == 0 {
                sources.push(dice.take(&mut left));
            }
            let to = self.room(world, dice);
            if left.contains(&to) || (sources == [to]) {
                left.extend(sources);
                continue;
            }
            let adds = sources.contains(&to);
            sources.retain(|place| *place != to);
            before.push((sources, to, adds));
            left.push(to);
        }
        let mut holders = left;
        let mut to = self.to.clone();
        while !to.is_empty() {
            let next = dice.take(&mut to);
            let from = holders[dice.below(holders.len())];
            after.push((vec![from], next, false));
            holders.push(next);
            // An input is gone where its own output is written in place.
            holders.retain(|place| place.buffer != BufferKind::Input);
        }
        (before, after)
    }
}

/// Mixes the steps of all tasks, each task's own in their order.
fn mix(mut lists: Vec<Vec<Move>>, dice: &mut Dice) -> Vec<Move> {
    let mut mixed = Vec::new();
    lists.iter_mut().for_each(|list| list.reverse());
    lists.retain(|list| !list.is_empty());
    while !lists.is_empty() {
        let at = dice.below(lists.len());
        mixed.extend(lists[at].pop());
        lists.retain(|list| !list.is_empty());
    }
    mixed
}

fn program(seed: u64) -> PlanBuilder {
    let mut dice = Dice(seed);
    let collective = Collective::ALL[dice.below(Collective::ALL.len())];
    let (world, parts) = (2 + dice.below(5), 1 + dice.below(4));
    let root = if collective.is_rooted() { dice.below(world) } else { 0 };
    let mut plan = PlanBuilder::new("random", collective, world).parts(parts).root(root);
    let tasks = tasks(&results(collective, world, root), parts, &mut dice);
    // Where an output lies on another task's input, all inputs are read before any output is written.
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for task in &tasks {
        let (first, then) = task.moves(world, collective == Collective::AllToAll, &mut dice);
        before.push(first);
        after.push(then);
    }
    let widest = 1 + dice.below(3);
    for (sources, to, adds) in mix(before, &mut dice).into_iter().chain(mix(after, &mut dice)) {
        let channel = dice.below(widest);
        if dice.below(12) == 0 {
            plan.stage();
        }
        if adds { plan.reduce(sources, to) } else { plan.fold(sources, to) }.on(channel);
    }
    plan
}

#[test]
fn random_programs_become_plans() {
    let (mut copying, mut nodes) = (0, 0);
    for seed in 0..400 {
        let plan = program(seed);
        let topology = match seed % 3 {
            0 => Topology::from_host_of(&(0..plan.world).map(|rank| rank % 2).collect::<Vec<_>>()),
            _ => Topology::single_host(plan.world),
        };
        let plans = plan.build(&topology).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        copying += usize::from(plans[0].buffered);
        nodes += verify(&plans, 3).expect("deeper channels do no harm").nodes;
    }
    println!("{nodes} nodes, {copying} plans need copying");
    assert!(copying < 200 && nodes > 400);
}
