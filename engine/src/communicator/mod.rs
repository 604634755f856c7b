//! [`Communicator`]: the ranks that call together, and this rank's place among them. Calls are checked, bound and submitted
//! here; `collectives`, `owned` and `scope` say which calls there are.

mod agreed;
mod allocate;
mod calls;
mod closing;
mod collectives;
mod create;
mod fit;
mod group;
mod messages;
mod options;
mod owned;
mod pins;
mod place;
mod scope;
mod split;
mod statistics;
mod summon;
mod variable;

pub use calls::Ask;
pub use create::CreateError;
pub use group::{Group, GroupWork};
pub use scope::{Scope, ScopedWork};
pub use statistics::Link;

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;

use hcomm_ops::{Rank, ReduceOp};
use hcomm_planner::{Plan, Planner, Request};
use hcomm_transports::shm::Heap;

use self::closing::Closing;
use self::options::Options;
use crate::bindings::Buffers;
use crate::cache::PlanCache;
use crate::domain::core::Local;
use crate::domain::{Domain, Intake};
use crate::error::{Error, Failure, Refused, WorkError};
use crate::log::Log;
use crate::operation::Operation;
use crate::profile::Profile;
use crate::settings::Settings;
use crate::work::{Pending, Work};

/// A handle on a communicator. Clones share it; the last one that goes closes it, in the background: a drop waits some 20 ms
/// at most, and the process sees to the rest before it exits.
///
/// All ranks make the same collective calls in the same order. Threads that share a communicator order their
/// calls themselves, or [`Communicator::duplicate`] it. A handle carries options ([`Communicator::priority`],
/// [`Communicator::deadline`], [`Communicator::after`]) for the calls that are made through it.
#[derive(Clone)]
pub struct Communicator {
    inner: Arc<Inner>,
    options: Options,
}

struct Inner {
    rank: Rank,
    world: usize,
    domain: Arc<Domain>,
    heap: Option<Arc<Heap>>,
    cache: PlanCache,
    settings: Settings,
    facts: Facts,
    link: Link,
    log: Log,
    closing: Arc<Closing>,
}

/// What a communicator was made of, for people and for splitting it again.
#[derive(Clone, Debug)]
struct Facts {
    /// Whether this rank's machine has more ranks than they have processors together.
    is_crowded: bool,
    /// By rank: what joins this rank to it, and why nothing faster.
    links: Vec<String>,
    /// Where splits meet, when the ranks are threads of this process.
    hall: Option<Arc<split::Hall>>,
    /// Where rank 0 was met.
    address: crate::environment::Address,
    /// The secret of the job.
    token: crate::environment::Token,
    /// What all ranks go by beside the settings.
    agreed: Arc<agreed::Agreed>,
}

impl Communicator {
    /// This process's place, 0 up to the world size.
    pub fn rank(&self) -> Rank {
        self.inner.rank
    }

    /// How many ranks there are.
    pub fn world(&self) -> usize {
        self.inner.world
    }

    /// The settings that it was made with, rank 0's where they must agree.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// What chooses and compiles its plans.
    pub fn planner(&self) -> &Planner {
        self.inner.cache.planner()
    }

    /// By rank: what joins this rank to it (such as `shm` or `tcp: reason`).
    pub fn links(&self) -> &[String] {
        &self.inner.facts.links
    }

    /// The communicator's name: `world`, or what it was given when it was split.
    pub fn name(&self) -> &str {
        &self.inner.facts.agreed.name
    }

    /// Why a call of this request through this handle gets the algorithm it gets, and what the others would take.
    ///
    /// # Errors
    /// Where the request is malformed or no algorithm supports it.
    pub fn explain(&self, request: &Request) -> Result<String, Refused> {
        let planner = self.planner();
        let request = self.as_asked(Cow::Borrowed(request));
        Ok(hcomm_planner::explain(&request, planner.topology(), planner.choice())?)
    }

    /// A request with what this handle asks of its calls (an algorithm, the order of folds), where the request itself does not say.
    pub fn as_called(&self, request: &Request) -> Request {
        self.as_asked(Cow::Borrowed(request)).into_owned()
    }

    /// The plan that a call of this request through this handle will run on this rank.
    ///
    /// # Errors
    /// Where the request is malformed or no algorithm supports it.
    pub fn plan(&self, request: &Request) -> Result<Arc<Plan>, Refused> {
        request.check(self.inner.world)?;
        self.inner.cache.plan(&self.as_asked(Cow::Borrowed(request)))
    }

    /// Runs a plan (one's own, an imported one, or `plan`'s) on buffers; all ranks submit theirs as the same call. The element
    /// type and count are the buffers'.
    ///
    /// # Errors
    /// Gives the buffers back where the plan is not for this rank, or the buffers do not fit it: their sizes, or (a plan from a file may be
    /// right only in place, or only out of place) how they lie.
    pub fn submit<B: Buffers + 'static>(
        &self,
        plan: &Arc<Plan>,
        op: ReduceOp,
        mut buffers: B,
    ) -> Result<Work<B>, WorkError<B::Returned>> {
        match self.prepare_plan(plan, op, &mut buffers) {
            Ok((call, spans)) => {
                let ends = self.ends(plan.collective, plan.root, &mut buffers);
                Ok(Work::new(self.launch(&call, &spans, buffers, ends)))
            }
            Err(refused) => {
                self.inner.domain.refuse(&format!(
                    "{} by plan '{}': {refused}",
                    plan.collective.name(),
                    plan.algorithm
                ));
                Err(WorkError { error: refused.into(), buffer: buffers.into_returned() })
            }
        }
    }

    /// Runs a closure when the operations of this handle's `after` have ended; others can come after it in turn. It runs on
    /// whatever thread drives the communicator then and must not block.
    pub fn local(&self, run: impl FnOnce() + Send + 'static) -> Work<crate::bindings::Nothing> {
        let operation = Arc::new(Operation::default());
        let after = self.options.after.clone();
        let local = Local { run: Box::new(run), operation: operation.clone(), after };
        self.inner.domain.submit(Intake::Local(local));
        let pending =
            Pending::running(self.inner.domain.clone(), operation, u64::MAX, crate::bindings::Nothing);
        Work::new(pending)
    }

    /// Node events recorded since the last call; `HCOMM_TRACE_EVENTS` says how many are kept.
    pub fn take_profile(&self) -> Profile {
        self.inner.domain.profile()
    }

    /// Ends every operation in flight, here and, as soon as they need this rank, elsewhere. The communicator is of no
    /// further use.
    pub fn abort(&self, reason: &str) {
        let failure = Failure::Aborted { rank: self.inner.rank, cause: reason.to_owned() };
        self.inner.domain.submit(Intake::Abort(failure));
    }

    /// Waits for all operations, sends what peers still need, and says goodbye. Dropping the last handle begins the same
    /// without telling what went wrong. In code that runs where an operation ends (a call of `notify`, a waker, a buffer's `Drop`)
    /// nothing can be waited for: there it begins the same, and is `Ok`.
    ///
    /// # Errors
    /// The first failure that the communicator has met, such as calls that differed between ranks.
    pub fn close(&self) -> Result<(), Error> {
        self.inner.closing.close(None)
    }

    /// [`Communicator::close`] for async code: it begins at once, on a thread of its own, and goes on where the future is dropped.
    ///
    /// # Errors
    /// As [`Communicator::close`].
    pub fn close_async(&self) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        let closing = self.inner.closing.clone();
        closing.begin(None);
        std::future::poll_fn(move |context| closing.poll(context))
    }

    /// The same for a program that ends by an error: nothing more is waited for than that what was sent leaves the process, and the errors of
    /// peers that need this rank quote `error`, so that the first cause is read on every rank.
    ///
    /// # Errors
    /// As [`Communicator::close`].
    pub fn close_because(&self, error: &str) -> Result<(), Error> {
        self.inner.closing.close(Some(error))
    }
}

impl Inner {
    /// Says what the communicator was made of.
    fn introduce(&self) {
        let links: Vec<String> =
            self.facts.links.iter().enumerate().map(|(r, link)| format!("{r} {link}")).collect();
        self.log.info(&format!(
            "hcomm {} rank {} of {}; links: {}; staging {} per rank, depth {}; tuning: {}",
            env!("CARGO_PKG_VERSION"),
            self.rank,
            self.world,
            links.join(", "),
            self.settings.buffer_size,
            self.settings.depth,
            self.cache.planner().choice().source(),
        ));
        // One rank says what all see alike.
        for error in self.cache.planner().choice().set_aside().iter().filter(|_| self.rank == 0) {
            self.log.warn(&format!("a pin does not fit communicator '{}': {error}", self.facts.agreed.name));
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.closing.abandon();
    }
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { rank, world, facts, .. } = &*self.inner;
        f.debug_struct("Communicator")
            .field("rank", rank)
            .field("world", world)
            .field("facts", facts)
            .finish_non_exhaustive()
    }
}
