//! [`Lowered`]: one rank's nodes as steps, in an order in which they can be carried out one by one.
//!
//! A fold goes from left to right, two operands at a time, in the span where its result is to lie or in scratch of its own; a message is
//! folded as it arrives. Of two operands either may come first, as a + b = b + a.

use super::ExportError;
use super::within;
use crate::buffers::BlockCounts;
use crate::import::msccl::words::{STEPS, Side, StepKind};
use crate::plan::{NodeId, Overlay, Plan, Sink, Source, Span};
use crate::shape::{BufferKind, alias};

/// Most chunks that one step moves.
const MAX_COUNT: usize = 71;

/// A step; channels are indices into the plan's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    pub receives: Option<u32>,
    pub sends: Option<u32>,
    pub src: Option<Span>,
    pub dst: Option<Span>,
    /// Adds to what is in `dst`.
    pub accumulates: bool,
}

impl Step {
    /// What MSCCL calls it.
    pub fn kind(&self) -> &'static StepKind {
        let reads: &[Side] = match (self.accumulates, self.src) {
            (true, _) => &[Side::Dst, Side::Src],
            (false, Some(_)) => &[Side::Src],
            (false, None) => &[],
        };
        let (receives, sends, writes) = (self.receives.is_some(), self.sends.is_some(), self.dst.is_some());
        let is = |kind: &&StepKind| {
            kind.receives == receives && kind.sends == sends && kind.writes == writes && kind.reads == reads
        };
        STEPS.iter().find(is).expect("steps are made in MSCCL's own shapes")
    }

    /// Chunks that it moves.
    pub fn count(&self) -> u32 {
        self.dst.or(self.src).map_or(0, |span| span.count)
    }
}

/// Where a fold builds its result, once that is known.
struct Home {
    span: Option<Span>,
    /// How long it is.
    extent: Span,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Lowered<'a> {
    pub plan: &'a Plan,
    pub steps: Vec<Step>,
    /// The plan's scratch, and what folds and relays need besides: for each chunk one of the same size.
    pub scratch: Vec<Span>,
    /// By channel: the one that shares its block, so that a step can receive from one and send on the other.
    pub ties: Vec<Option<u32>>,
}

impl<'a> Lowered<'a> {
    /// No steps yet.
    pub fn new(plan: &'a Plan) -> Lowered<'a> {
        Lowered {
            plan,
            steps: Vec::new(),
            scratch: plan.scratch.clone(),
            ties: vec![None; plan.channels.len()],
        }
    }

    /// Appends a node's steps.
    pub fn add(&mut self, id: NodeId) {
        let plan = self.plan;
        let node = &plan.nodes[id as usize];
        let (mut spans, mut messages) = (Vec::new(), Vec::new());
        for sink in plan.sinks_of(node) {
            match sink {
                Sink::Span(span) => spans.push(*span),
                Sink::Message { channel } => messages.push(*channel),
            }
        }
        match plan.sources_of(node) {
            [Source::Span { span, .. }] => self.pass_on(*span, &spans, &messages),
            [Source::Message { channel, .. }] => self.receive(*channel, &spans, &messages, node.extent),
            sources => self.fold(sources, &spans, &messages, node.extent),
        }
    }

    /// What no step of MSCCL's can be.
    pub fn check(&self) -> Result<(), ExportError> {
        let longest = self.steps.iter().map(Step::count).max().unwrap_or(0) as usize;
        within(|| format!("chunks in one step of rank {}", self.plan.rank), longest, MAX_COUNT)
    }

    fn pass_on(&mut self, from: Span, spans: &[Span], messages: &[u32]) {
        for to in spans {
            if self.are_same(from, *to) {
                continue;
            }
            self.steps.push(Step { src: Some(from), dst: Some(*to), ..Step::default() });
        }
        for channel in messages {
            self.steps.push(Step { src: Some(from), sends: Some(*channel), ..Step::default() });
        }
    }

    fn receive(&mut self, channel: u32, spans: &[Span], messages: &[u32], extent: Span) {
        let to = spans.first().copied().unwrap_or_else(|| self.fresh(extent));
        let sends = self.forwarded(channel, messages);
        self.steps.push(Step { receives: Some(channel), sends, dst: Some(to), ..Step::default() });
        self.pass_on(to, spans, &others(messages, sends));
    }

    fn fold(&mut self, sources: &[Source], spans: &[Span], messages: &[u32], extent: Span) {
        let free = spans.first().copied().filter(|home| self.is_free(sources, *home));
        let mut home = Home { span: free, extent };
        let mut left = sources[0];
        for next in &sources[1..sources.len() - 1] {
            let to = self.home(&mut home);
            self.combine(left, *next, Some(to), None, &mut home);
            left = Source::Span { span: to, first: false };
        }
        let last = sources[sources.len() - 1];
        let Some(channel) = arriving(last).or(arriving(left)) else {
            self.combine(left, last, None, None, &mut home);
            let made = self.home(&mut home);
            return self.pass_on(made, spans, messages);
        };
        let sends = self.forwarded(channel, messages);
        let stored = match (spans.first(), sends, messages) {
            (None, Some(_), [_]) => None,
            (Some(first), ..) => Some(*first),
            (None, ..) => Some(self.home(&mut home)),
        };
        self.combine(left, last, stored, sends, &mut home);
        if let Some(stored) = stored {
            self.pass_on(stored, spans, &others(messages, sends));
        }
    }

    /// Folds two operands, at least one of which arrives, into `to` and a message; or two local spans at `home`.
    fn combine(
        &mut self,
        left: Source,
        right: Source,
        to: Option<Span>,
        sends: Option<u32>,
        home: &mut Home,
    ) {
        let arriving = |channel, src| Step {
            receives: Some(channel),
            sends,
            src: Some(src),
            dst: to,
            accumulates: false,
        };
        match (left, right) {
            (Source::Span { span, .. }, Source::Message { channel, .. })
            | (Source::Message { channel, .. }, Source::Span { span, .. }) => {
                self.steps.push(arriving(channel, span));
            }
            (Source::Message { channel: first, .. }, Source::Message { channel: second, .. }) => {
                let home = self.home(home);
                self.steps.push(Step { receives: Some(first), dst: Some(home), ..Step::default() });
                self.steps.push(arriving(second, home));
            }
            (Source::Span { span: a, .. }, Source::Span { span: b, .. }) => {
                let home = self.home(home);
                // What lies where the result goes must be there first.
                let (first, second) =
                    if self.overlap(b, home) && !self.are_same(a, home) { (b, a) } else { (a, b) };
                self.pass_on(first, &[home], &[]);
                let add = Step { src: Some(second), dst: Some(home), accumulates: true, ..Step::default() };
                self.steps.push(add);
            }
        }
    }

    /// Where a fold builds its result: scratch, unless the result may lie there at once.
    fn home(&mut self, home: &mut Home) -> Span {
        *home.span.get_or_insert_with(|| self.fresh(home.extent))
    }

    /// The message that can be sent in the very step that receives from `channel`.
    fn forwarded(&mut self, channel: u32, messages: &[u32]) -> Option<u32> {
        let index = |channel: u32| self.plan.channels[channel as usize].index;
        let free =
            |ties: &[Option<u32>], out: u32| (ties[channel as usize], ties[out as usize]) == (None, None);
        let tied = |ties: &[Option<u32>], out: u32| ties[channel as usize] == Some(out);
        let can = |out: &&u32| {
            index(**out) == index(channel) && (tied(&self.ties, **out) || free(&self.ties, **out))
        };
        let out = messages.iter().find(can).copied()?;
        self.ties[channel as usize] = Some(out);
        self.ties[out as usize] = Some(channel);
        Some(out)
    }

    /// Whether a fold may build its result in `home`: no source after the first two lies there.
    fn is_free(&self, sources: &[Source], home: Span) -> bool {
        !sources[2..]
            .iter()
            .any(|source| matches!(source, Source::Span { span, .. } if self.overlap(*span, home)))
    }

    /// Whether two spans share bytes, if only in place.
    fn overlap(&self, a: Span, b: Span) -> bool {
        let places = |span: Span| span.chunks().map(move |chunk| self.place(span.buffer, chunk));
        places(a).any(|place| places(b).any(|other| other == place))
    }

    /// Whether two spans are the same bytes, however the plan may be called.
    fn are_same(&self, a: Span, b: Span) -> bool {
        let in_place = self.plan.overlay == Overlay::InPlace;
        let places = |span: Span| span.chunks().map(move |chunk| self.place(span.buffer, chunk));
        a == b || (in_place && places(a).eq(places(b)))
    }

    fn place(&self, buffer: BufferKind, chunk: u32) -> (BufferKind, u32) {
        let Plan { collective, world, rank, root, parts, .. } = *self.plan;
        let outputs = BlockCounts::of(collective, world, rank, root).output.unwrap_or(0) * parts;
        match alias(collective, rank, parts, chunk).filter(|twin| *twin < outputs) {
            Some(twin) if buffer == BufferKind::Input => (BufferKind::Output, twin),
            _ => (buffer, chunk),
        }
    }

    /// Scratch that nothing else uses, as long as `like`.
    fn fresh(&mut self, like: Span) -> Span {
        let first = self.scratch.len() as u32;
        for chunk in like.chunks() {
            self.scratch.push(match like.buffer {
                BufferKind::Scratch => self.plan.scratch[chunk as usize],
                buffer => Span::new(buffer, chunk, 1),
            });
        }
        Span::new(BufferKind::Scratch, first, like.count)
    }
}

fn arriving(source: Source) -> Option<u32> {
    match source {
        Source::Message { channel, .. } => Some(channel),
        Source::Span { .. } => None,
    }
}

fn others(messages: &[u32], sent: Option<u32>) -> Vec<u32> {
    messages.iter().copied().filter(|message| Some(*message) != sent).collect()
}
