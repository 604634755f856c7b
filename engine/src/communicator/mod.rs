//! [`Communicator`]: the ranks that call together, and this rank's place among them. Calls are checked, bound and submitted
//! here; `collectives`, `owned` and `scope` say which calls there are.

mod agreed;
mod allocate;
mod calls;
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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hcomm_ops::{Rank, ReduceOp};
use hcomm_planner::{Plan, Planner, Request};
use hcomm_transports::Control;
use hcomm_transports::shm::Heap;

use self::options::Options;
use crate::bindings::Buffers;
use crate::cache::PlanCache;
use crate::domain::core::Local;
use crate::domain::notes::Farewell;
use crate::domain::{Domain, Intake};
use crate::error::{Error, Failure, Refused, WorkError};
use crate::log::Log;
use crate::operation::Operation;
use crate::profile::Profile;
use crate::settings::Settings;
use crate::work::{Pending, Work};

/// How long a communicator that has failed, or whose program has, takes at most to say goodbye.
const AFTER_AN_ERROR: Duration = Duration::from_secs(1);

/// A handle on a communicator. Clones share it; the last one that goes closes it.
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
    control: Arc<dyn Control>,
    heap: Option<Arc<Heap>>,
    cache: PlanCache,
    settings: Settings,
    facts: Facts,
    link: Link,
    log: Log,
    driver: Mutex<Option<JoinHandle<()>>>,
    /// The process that made it. A child that the process forks has the memory, but neither the threads nor a place among the ranks.
    process: u32,
    closed: AtomicBool,
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

    /// Waits for all operations, sends what peers still need, and says goodbye. Dropping the last handle does the same
    /// without telling what went wrong.
    ///
    /// # Errors
    /// The first failure that the communicator has met, such as calls that differed between ranks.
    pub fn close(&self) -> Result<(), Error> {
        self.inner.close(None)
    }

    /// The same for a program that ends by an error: nothing more is waited for than that what was sent leaves the process, and the errors of
    /// peers that need this rank quote `error`, so that the first cause is read on every rank.
    ///
    /// # Errors
    /// As [`Communicator::close`].
    pub fn close_because(&self, error: &str) -> Result<(), Error> {
        self.inner.close(Some(error))
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

    fn close(&self, because: Option<&str>) -> Result<(), Error> {
        let is_forked = std::process::id() != self.process;
        if is_forked || self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let now = Instant::now();
        let limit = self.settings.close_deadline;
        let limit = if because.is_some() { limit.min(AFTER_AN_ERROR) } else { limit };
        let last = because.map_or(Failure::Closed, |error| Failure::Aborted {
            rank: self.rank,
            cause: format!("its program ends by an error ({error})"),
        });
        let mut failure = self.domain.drain(now + limit, &last);
        // Whoever knows of a failure has less to wait for: peers that are gone answer no goodbye.
        let limit = if failure.is_some() { limit.min(AFTER_AN_ERROR) } else { limit };
        let farewell = match (because, &failure) {
            (Some(error), _) => Farewell::Because(error.to_owned()),
            (None, Some(_)) => Farewell::Failed,
            (None, None) => self.domain.watch.farewell(),
        };
        let deadline = if failure.is_some() { Instant::now() + limit } else { now + limit };
        self.control.leave(self.domain.watch.made(), farewell.encode(), deadline);
        if matches!(farewell, Farewell::Well { .. }) {
            failure = self.domain.watch.miscount(self.rank);
        }
        self.domain.close();
        let driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The driver may itself drop the last handle; it does not wait for itself.
        if let Some(driver) = driver.filter(|d| d.thread().id() != std::thread::current().id()) {
            let _ = driver.join();
        }
        failure.map_or(Ok(()), |failure| Err(Error::Failed(failure)))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(error) = self.close(None) {
            self.log.info(&format!("closed after a failure: {error}"));
        }
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
