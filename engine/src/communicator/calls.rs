//! How a call is made: again as it was made before, or looked up, checked and bound to its buffers.

use std::borrow::Cow;
use std::sync::Arc;

use hcomm_ops::buffer::{Landing, Takeoff};
use hcomm_ops::{DType, Rank, ReduceOp};
use hcomm_planner::request::Counts;
use hcomm_planner::verify::check_slice;
use hcomm_planner::{Collective, LaneKind, Plan, Request};

use super::{Communicator, Inner, fit};
use crate::bindings::{Binding, Buffers, Spans};
use crate::call::{Call, Outline};
use crate::domain::Order;
use crate::error::{Error, Failure, Refused};
use crate::operation::Operation;
use crate::statistics::Subject;
use crate::work::Pending;

/// A call, less its buffers: what [`Communicator::call`] takes from those who know only when they run which call it is.
#[derive(Clone, Debug)]
pub struct Ask {
    pub(super) collective: Collective,
    pub(super) op: ReduceOp,
    pub(super) root: Rank,
    pub(super) counts: Option<Counts>,
}

/// What buffers still have to do before an operation begins and after it has ended well.
pub(super) struct Ends {
    takeoff: Option<Takeoff>,
    landing: Option<Landing>,
}

impl Ends {
    #[inline]
    fn are_none(&self) -> bool {
        self.takeoff.is_none() && self.landing.is_none()
    }
}

impl Communicator {
    /// Runs a call to its end on borrowed buffers.
    pub(crate) fn run<B: Buffers>(&self, ask: &Ask, mut buffers: B) -> Result<(), Error> {
        let ends = self.ends(ask.collective, ask.root, &mut buffers);
        if ends.are_none()
            && let Some(outcome) = self.run_again(ask, &mut buffers)
        {
            return outcome.map_err(|failure| Error::Failed(*failure));
        }
        self.run_anew(ask, buffers, ends)
    }

    /// What is to be done before a call and after it. What comes before is done at once where nothing else does.
    #[inline]
    pub(super) fn ends<B: Buffers>(&self, collective: Collective, root: Rank, buffers: &mut B) -> Ends {
        let landing = buffers.landing(self.binding(collective, root));
        let takeoff = buffers.takeoff().and_then(|takeoff| self.take_off(takeoff, buffers));
        Ends { takeoff, landing }
    }

    /// Does what comes before a call, where the call may begin at once; gives it back where not.
    pub(super) fn take_off<B: Buffers>(&self, takeoff: Takeoff, buffers: &B) -> Option<Takeoff> {
        let comes_first = self.options.after.is_empty() && buffers.claims().is_empty();
        if !comes_first {
            return Some(takeoff);
        }
        takeoff();
        None
    }

    /// Looks a call up and runs it to its end.
    fn run_anew<B: Buffers>(&self, ask: &Ask, mut buffers: B, ends: Ends) -> Result<(), Error> {
        match self.prepare(ask, &mut buffers) {
            Ok((call, spans)) if self.options.is_usual() && ends.are_none() => {
                let _span = self.span(&call).entered();
                let domain = &self.inner.domain;
                let measure = domain.ledger.measure(|| Subject::Call(call.clone()));
                let outcome = domain.run(&call, &spans);
                if let Some(measure) = measure {
                    measure.end(0, outcome.is_ok());
                }
                outcome.map_err(Error::Failed)
            }
            Ok((call, spans)) => match self.launch(&call, &spans, buffers, ends).wait() {
                Ok(_) => Ok(()),
                Err(failed) => Err(failed.error),
            },
            Err(refused) => {
                self.inner.domain.refuse(&format!("{}: {refused}", ask.collective.name()));
                Err(refused.into())
            }
        }
    }

    /// Makes one of the last calls once more, with the same or other buffers of the same length: nothing of it has to be looked
    /// up or checked again.
    #[inline]
    fn run_again<B: Buffers>(&self, ask: &Ask, buffers: &mut B) -> Option<Result<(), Box<Failure>>> {
        let (outline, spans) = self.outline(ask, buffers)?;
        self.inner.domain.run_again(&outline, &spans)
    }

    /// The same without waiting.
    #[inline]
    fn start_again<B: Buffers>(&self, ask: &Ask, buffers: &mut B) -> Option<(Arc<Operation>, u64)> {
        let (outline, spans) = self.outline(ask, buffers).filter(|_| buffers.claims().is_empty())?;
        self.inner.domain.start_again(&outline, &spans)
    }

    /// What it takes to make a call again, and its buffers' bytes; nothing where more has to be looked at.
    #[inline]
    fn outline<B: Buffers>(&self, ask: &Ask, buffers: &mut B) -> Option<(Outline, Spans)> {
        let is_usual = self.options.is_usual() && self.options.pins.is_none() && ask.counts.is_none();
        // Whoever traces gets a span, which is opened where the call has been looked up.
        if !is_usual || tracing::enabled!(tracing::Level::DEBUG) {
            return None;
        }
        let Ask { collective, op, root, .. } = *ask;
        let dtype = buffers.dtype().ok()?.unwrap_or(DType::U8);
        let spans = buffers.spans(self.binding(collective, root)).ok()?;
        let deterministic = self.is_deterministic(collective);
        Some((Outline { collective, dtype, op, root, deterministic }, spans))
    }

    /// What buffers need to know of a call on this rank.
    #[inline]
    pub(super) fn binding(&self, collective: Collective, root: Rank) -> Binding {
        let Inner { rank, world, .. } = &*self.inner;
        Binding { collective, rank: *rank, world: *world, root }
    }

    /// Whether a call through this handle is to be folded in rank order.
    #[inline]
    fn is_deterministic(&self, collective: Collective) -> bool {
        collective.reduces() && (self.options.deterministic || self.inner.settings.deterministic)
    }

    /// A request with what this handle asks of its calls, where the request itself does not say.
    pub(super) fn as_asked<'a>(&self, mut request: Cow<'a, Request>) -> Cow<'a, Request> {
        if !request.deterministic && self.is_deterministic(request.collective) {
            request.to_mut().deterministic = true;
        }
        if let Some(pins) = self.options.pins.as_ref().filter(|_| request.algorithm.is_none()) {
            let bytes = request.full_bytes(self.inner.world).unwrap_or(0);
            request.to_mut().algorithm = pins.of(request.collective, bytes).cloned();
        }
        request
    }

    /// Starts a call; what is refused comes out of the result.
    pub(crate) fn start<B: Buffers>(&self, ask: &Ask, mut buffers: B) -> Pending<B> {
        let ends = self.ends(ask.collective, ask.root, &mut buffers);
        if ends.are_none()
            && let Some((operation, number)) = self.start_again(ask, &mut buffers)
        {
            return Pending::running(self.inner.domain.clone(), operation, number, buffers);
        }
        match self.prepare(ask, &mut buffers) {
            Ok((call, spans)) => self.launch(&call, &spans, buffers, ends),
            Err(refused) => {
                self.inner.domain.refuse(&format!("{}: {refused}", ask.collective.name()));
                Pending::refused(refused, buffers)
            }
        }
    }

    pub(super) fn launch<B: Buffers>(
        &self,
        call: &Arc<Call>,
        spans: &Spans,
        buffers: B,
        Ends { takeoff, landing }: Ends,
    ) -> Pending<B> {
        let measure = self.inner.domain.ledger.measure(|| Subject::Call(call.clone()));
        let operation = self.options.operation().within(self.span(call)).measured(measure);
        let rank = self.inner.rank;
        let operation = Arc::new(operation.taking_off(rank, takeoff).landing(rank, landing));
        let order = Order { after: self.options.after.clone(), claims: buffers.claims() };
        let domain = &self.inner.domain;
        let number = domain.start(call, spans, &operation, order);
        Pending::running(domain.clone(), operation, number, buffers)
    }

    /// The one span that an operation has in a trace: from its call to its end.
    fn span(&self, call: &Call) -> tracing::Span {
        tracing::debug_span!(
            "operation",
            rank = self.inner.rank,
            collective = call.request.collective.name(),
            algorithm = call.plan.algorithm.as_str(),
            bytes = call.input_bytes.max(call.output_bytes),
        )
    }

    /// Checks a call and binds it to its plan.
    pub(super) fn prepare<B: Buffers>(
        &self,
        ask: &Ask,
        buffers: &mut B,
    ) -> Result<(Arc<Call>, Spans), Refused> {
        let (rank, world) = (self.inner.rank, self.inner.world);
        let dtype = buffers.dtype()?.unwrap_or(DType::U8);
        if ask.root >= world {
            return Err(Refused::Rank { rank: ask.root, world });
        }
        let spans = buffers.spans(Binding { collective: ask.collective, rank, world, root: ask.root })?;
        let counts = match &ask.counts {
            Some(counts) => counts.clone(),
            None => Counts::Even(even_count(ask.collective, &spans, dtype, world)?),
        };
        let Ask { collective, op, root, .. } = *ask;
        let request = Request { collective, dtype, op, counts, root, algorithm: None, deterministic: false };
        let request = self.as_asked(Cow::Owned(request)).into_owned();
        let call = self.inner.cache.call(request, |call| self.inner.domain.watch.describe(call))?;
        check_sizes(&call, &spans)?;
        Ok((call, spans))
    }

    pub(super) fn prepare_plan<B: Buffers>(
        &self,
        plan: &Arc<Plan>,
        op: ReduceOp,
        buffers: &mut B,
    ) -> Result<(Arc<Call>, Spans), Refused> {
        let (rank, world) = (self.inner.rank, self.inner.world);
        if plan.rank != rank || plan.world != world {
            return Err(Refused::ForeignPlan { plan_rank: plan.rank, plan_world: plan.world, rank, world });
        }
        check_slice(plan).map_err(|fault| Refused::Malformed(fault.to_string()))?;
        if let Some(refused) = plan.lanes.iter().find_map(|lane| unsupported(lane.kind)) {
            return Err(refused);
        }
        let dtype = buffers.dtype()?.unwrap_or(DType::U8);
        let spans = buffers.spans(Binding { collective: plan.collective, rank, world, root: plan.root })?;
        let count = even_count(plan.collective, &spans, dtype, world)?;
        let request = Request::new(plan.collective, dtype, op, count).with_root(plan.root);
        request.check(world)?;
        fit::check(plan, &request, &spans)?;
        if self.is_deterministic(plan.collective) {
            fit::check_order(plan, dtype)?;
        }
        let call = self.inner.cache.bind(request, plan)?;
        fit::check_scratch(&call)?;
        if !plan.is_unchanged() {
            return Err(Refused::ChangedPlan { algorithm: plan.algorithm.clone() });
        }
        self.inner.domain.watch.describe(&call);
        check_sizes(&call, &spans)?;
        Ok((Arc::new(call), spans))
    }
}

impl Ask {
    /// A call of this kind; it sums where it reduces, rank 0 is its root where it has one, and its counts are even.
    pub fn new(collective: Collective) -> Self {
        Ask { collective, op: ReduceOp::Sum, root: 0, counts: None }
    }

    /// What kind of call it is.
    pub fn collective(&self) -> Collective {
        self.collective
    }

    /// With another reduction.
    pub fn op(self, op: ReduceOp) -> Self {
        Ask { op, ..self }
    }

    /// With another root.
    pub fn root(self, root: Rank) -> Self {
        Ask { root, ..self }
    }

    /// With blocks of different lengths.
    pub fn counts(self, counts: Counts) -> Self {
        Ask { counts: Some(counts), ..self }
    }
}

/// The count of an even call, from the buffers that this rank has.
fn even_count(collective: Collective, spans: &Spans, dtype: DType, world: usize) -> Result<u64, Refused> {
    let size = dtype.size_bytes() as u64;
    let (input, output) = (spans.input_bytes() / size, spans.output_bytes() / size);
    Ok(match collective {
        Collective::AllReduce | Collective::ReduceScatter | Collective::Scatter => output,
        Collective::AllGather | Collective::Gather | Collective::Reduce => input,
        Collective::Broadcast => output.max(input),
        Collective::Barrier => 0,
        Collective::AllToAll if input % world as u64 == 0 => input / world as u64,
        Collective::AllToAll => {
            let expected = input / world as u64 * world as u64;
            return Err(Refused::BufferSize { which: "input", elements: input, expected, dtype });
        }
    })
}

/// A rank must have the buffers that its call needs, of exactly the size needed; others are left alone.
fn check_sizes(call: &Call, spans: &Spans) -> Result<(), Refused> {
    let dtype = call.request.dtype;
    let size = dtype.size_bytes() as u64;
    let check = |which, given: u64, needed: Option<u64>| match needed {
        Some(needed) if given != needed => {
            Err(Refused::BufferSize { which, elements: given / size, expected: needed / size, dtype })
        }
        _ => Ok(()),
    };
    check("input", spans.input_bytes(), call.input_bytes)?;
    check("output", spans.output_bytes(), call.output_bytes)
}

fn unsupported(lane: LaneKind) -> Option<Refused> {
    let needs = match lane {
        LaneKind::Stream { .. } => "CUDA",
        LaneKind::QueuePair { .. } => "RDMA",
        _ => return None,
    };
    Some(Refused::Lane { lane: format!("{lane}"), needs })
}
