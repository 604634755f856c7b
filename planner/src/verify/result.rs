//! Carries the plan out on expressions, in any one order (the race check has shown that all give the same), and
//! compares every output chunk with what the collective asks for; also every mark of average and pre-multiplied sum.

use hcomm_ops::Rank;

use super::FoldOrder;
use super::error::{Chain, VerifyError};
use super::expression::{BadFold, Expressions, Id};
use super::joined::{Global, Joined};
use super::places::{Place, Places};
use crate::buffers::BlockCounts;
use crate::plan::{Plan, Sink, Source, Span};
use crate::request::Collective;
use crate::shape::BufferKind;

pub(super) fn check(joined: &Joined<'_>, order: &[Global], in_place: bool) -> Result<FoldOrder, VerifyError> {
    let mut run = Run::new(joined, in_place);
    for at in order {
        run.carry_out(*at)?;
    }
    for plan in joined.plans {
        run.check_output(plan)?;
    }
    run.check_same_order()?;
    Ok(run.fold_order())
}

/// What a chunk or message holds, and the node that put it there.
#[derive(Clone, Copy)]
struct Value {
    id: Id,
    by: Option<Global>,
}

struct Run<'j, 'a> {
    joined: &'j Joined<'a>,
    collective: Collective,
    in_place: bool,
    places: Vec<Places>,
    /// Per rank, by [`Places::index`].
    memory: Vec<Vec<Option<Value>>>,
    /// Per message under way, the value of each of its chunks.
    messages: Vec<Vec<Value>>,
    expressions: Expressions,
}

impl<'j, 'a> Run<'j, 'a> {
    fn new(joined: &'j Joined<'a>, in_place: bool) -> Self {
        let world = joined.plans.len();
        let mut run = Run {
            joined,
            collective: joined.plans[0].collective,
            in_place,
            places: joined.plans.iter().map(|plan| Places::new(plan, in_place)).collect(),
            memory: Vec::with_capacity(world),
            messages: vec![Vec::new(); joined.messages.len()],
            expressions: Expressions::new(world, world * joined.plans[0].parts as usize),
        };
        for plan in joined.plans {
            let blocks = BlockCounts::of(plan.collective, world, plan.rank, plan.root);
            let places = run.places[plan.rank];
            let mut memory = vec![None; places.count()];
            for chunk in 0..blocks.input.unwrap_or(0) * plan.parts {
                let id = run.expressions.raw(plan.rank, chunk);
                memory[places.index(places.place(BufferKind::Input, chunk))] = Some(Value { id, by: None });
            }
            run.memory.push(memory);
        }
        run
    }

    fn carry_out(&mut self, at: Global) -> Result<(), VerifyError> {
        let (plan, node) = self.joined.node(at);
        let count = node.extent.count as usize;
        let mut operands: Vec<Vec<Value>> = Vec::with_capacity(node.sources.len());
        let mut received = self.joined.links[at].received.iter();
        for source in plan.sources_of(node) {
            operands.push(match source {
                Source::Span { span, .. } => self.read(at, plan.rank, *span)?,
                Source::Message { .. } => {
                    received.next().map_or_else(Vec::new, |m| std::mem::take(&mut self.messages[*m]))
                }
            });
        }
        let mut results = Vec::with_capacity(count);
        for chunk in 0..count {
            let values: Vec<Value> = operands.iter().filter_map(|o| o.get(chunk).copied()).collect();
            let id = self.fold(at, &values)?;
            self.check_marks(at, &values, id)?;
            results.push(Value { id, by: Some(at) });
        }
        let mut sent = self.joined.links[at].sent.iter();
        for sink in plan.sinks_of(node) {
            match sink {
                Sink::Span(span) => self.store(plan.rank, *span, &results),
                Sink::Message { .. } => {
                    let message = sent.next().copied();
                    message.into_iter().for_each(|m| self.messages[m] = results.clone());
                }
            }
        }
        Ok(())
    }

    fn read(&self, at: Global, rank: Rank, span: Span) -> Result<Vec<Value>, VerifyError> {
        let value = |place: Place| {
            self.memory[rank][self.places[rank].index(place)]
                .ok_or_else(|| VerifyError::ReadsNothing { at: self.joined.at(at), chunk: place.to_string() })
        };
        self.places[rank].of(span).map(value).collect()
    }

    fn store(&mut self, rank: Rank, span: Span, results: &[Value]) {
        for (place, value) in self.places[rank].of(span).zip(results) {
            self.memory[rank][self.places[rank].index(place)] = Some(*value);
        }
    }

    fn fold(&mut self, at: Global, values: &[Value]) -> Result<Id, VerifyError> {
        if let [only] = values {
            return Ok(only.id);
        }
        let ids: Vec<Id> = values.iter().map(|value| value.id).collect();
        let mixed = |what: String| VerifyError::MixedFold { at: self.joined.at(at), what };
        if !self.collective.reduces() && self.collective != Collective::Barrier {
            return Err(mixed(format!("in {}, which reduces nothing", self.collective)));
        }
        self.expressions.fold(&ids, self.collective == Collective::Barrier).map_err(|bad| match bad {
            BadFold::Mixed(a, b) => mixed(format!("chunk {a} with chunk {b}")),
            BadFold::Twice(contributor, first, second) => {
                let mut chain = vec![(self.joined.at(at), "folds what comes from both".to_owned())];
                let makers = [first, second].into_iter().filter_map(|i| values[i].by);
                chain.extend(makers.map(|by| (self.joined.at(by), String::new())));
                VerifyError::DoubleCount { contributor, chain: Chain(chain) }
            }
        })
    }

    fn check_marks(&self, at: Global, values: &[Value], result: Id) -> Result<(), VerifyError> {
        if !self.collective.reduces() {
            return Ok(());
        }
        let (plan, node) = self.joined.node(at);
        let folds = values.len() > 1 || plan.world == 1;
        let wrong = |what: String| Err(VerifyError::WrongMark { at: self.joined.at(at), what });
        for (i, (source, value)) in plan.sources_of(node).iter().zip(values).enumerate() {
            let (Source::Span { first, .. } | Source::Message { first, .. }) = source;
            let raw = folds && self.expressions.is_raw(value.id);
            if raw != *first {
                let not = if raw { "does not mark" } else { "marks" };
                return wrong(format!("{not} source {i} as a raw contribution"));
            }
        }
        let complete = folds && self.expressions.contributions(result) == plan.world;
        if complete != node.finish {
            return wrong(format!("is {}marked as the last fold", if complete { "not " } else { "" }));
        }
        Ok(())
    }

    /// The least orderly fold of any output.
    fn fold_order(&self) -> FoldOrder {
        if !self.collective.reduces() {
            return FoldOrder::AtOnce;
        }
        let outputs = self.joined.plans.iter().flat_map(|plan| {
            let blocks = BlockCounts::of(plan.collective, plan.world, plan.rank, plan.root);
            (0..blocks.output.unwrap_or(0) * plan.parts).filter_map(|chunk| self.output(plan.rank, chunk))
        });
        let mut ids: Vec<Id> = outputs.map(|value| value.id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().map(|id| self.expressions.fold_order(id)).min().unwrap_or(FoldOrder::AtOnce)
    }

    fn output(&self, rank: Rank, chunk: u32) -> Option<Value> {
        let places = self.places[rank];
        self.memory[rank][places.index(places.place(BufferKind::Output, chunk))]
    }

    fn check_output(&self, plan: &Plan) -> Result<(), VerifyError> {
        let blocks = BlockCounts::of(plan.collective, plan.world, plan.rank, plan.root);
        for chunk in 0..blocks.output.unwrap_or(0) * plan.parts {
            let wanted = Wanted::of(plan, chunk);
            let found = self.output(plan.rank, chunk);
            if !found.is_some_and(|value| self.is_wanted(value.id, &wanted, plan.world)) {
                return Err(VerifyError::WrongResult {
                    rank: plan.rank,
                    chunk,
                    found: found.map_or_else(|| "not written".to_owned(), |v| self.expressions.words(v.id)),
                    expected: wanted.words(),
                    in_place: self.in_place,
                    chain: self.history(found),
                });
            }
        }
        Ok(())
    }

    fn is_wanted(&self, id: Id, wanted: &Wanted, world: usize) -> bool {
        match *wanted {
            Wanted::Of { rank, chunk } => self.expressions.is(id, rank, chunk),
            Wanted::All { chunk } => {
                self.expressions.chunk(id) == chunk && self.expressions.contributions(id) == world
            }
        }
    }

    /// The nodes that a value came through unchanged, the last one first, down to the one that made it.
    fn history(&self, value: Option<Value>) -> Chain {
        let mut chain = Vec::new();
        let mut next = value.and_then(|v| v.by);
        while let Some(at) = next {
            let (plan, node) = self.joined.node(at);
            let source = match plan.sources_of(node) {
                [Source::Message { .. }] => self.joined.links[at].received.first(),
                _ => None,
            };
            next = source.map(|message| self.joined.messages[*message].sender);
            let why = if next.is_some() { "got it from" } else { "" };
            chain.push((self.joined.at(at), why.to_owned()));
        }
        Chain(chain)
    }

    /// All ranks of an all_reduce have folded in the same order.
    fn check_same_order(&self) -> Result<(), VerifyError> {
        if self.collective != Collective::AllReduce {
            return Ok(());
        }
        for chunk in 0..self.joined.plans[0].parts {
            let Some(first) = self.output(0, chunk) else { continue };
            for rank in 1..self.joined.plans.len() {
                let Some(other) = self.output(rank, chunk).filter(|other| other.id != first.id) else {
                    continue;
                };
                return Err(VerifyError::OrderDiffers {
                    chunk,
                    first_rank: 0,
                    first: self.expressions.words(first.id),
                    second_rank: rank,
                    second: self.expressions.words(other.id),
                });
            }
        }
        Ok(())
    }
}

/// What an output chunk should be.
enum Wanted {
    /// Input chunk `chunk` of rank `rank`.
    Of { rank: Rank, chunk: u32 },
    /// Input chunk `chunk` of all ranks, folded.
    All { chunk: u32 },
}

impl Wanted {
    fn of(plan: &Plan, chunk: u32) -> Wanted {
        let (block, part) = ((chunk / plan.parts) as Rank, chunk % plan.parts);
        let own = plan.rank as u32 * plan.parts + part;
        match plan.collective {
            Collective::AllReduce | Collective::Reduce | Collective::Barrier => Wanted::All { chunk },
            Collective::ReduceScatter => Wanted::All { chunk: own },
            Collective::AllGather | Collective::Gather => Wanted::Of { rank: block, chunk: part },
            Collective::Broadcast => Wanted::Of { rank: plan.root, chunk },
            Collective::Scatter => Wanted::Of { rank: plan.root, chunk: own },
            Collective::AllToAll => Wanted::Of { rank: block, chunk: own },
        }
    }

    fn words(&self) -> String {
        match self {
            Wanted::Of { rank, chunk } => format!("{rank} of chunk {chunk}"),
            Wanted::All { chunk } => format!("all ranks of chunk {chunk}"),
        }
    }
}
