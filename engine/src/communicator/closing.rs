//! [`Closing`]: how a communicator ends, once: what is in flight ends, what was sent leaves the process, and the peers hear a goodbye.
//!
//! Who calls `close` does so on its own thread. Who only begins it (the drop of the last handle, an async close, a close in code that
//! runs where an operation ends) leaves it to a thread made for that, and an exit of the process waits until that has finished.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hcomm_ops::Rank;
use hcomm_transports::exit::Unfinished;
use hcomm_transports::{Control, schedule};

use crate::contained::{contained, is_driving};
use crate::domain::Domain;
use crate::domain::notes::Farewell;
use crate::error::{Error, Failure};
use crate::log::Log;
use crate::settings::{CpuSet, Settings};

/// How long a communicator that has failed, or whose program has, takes at most to say goodbye.
const AFTER_AN_ERROR: Duration = Duration::from_secs(1);

/// How long a drop waits: enough for peers that are there, and nothing to an event loop.
const AFTER_A_DROP: Duration = Duration::from_millis(20);

/// What a close may take beyond its deadline: the grace that peers and the system get.
const GRACE: Duration = Duration::from_secs(4);

/// What is needed to close a communicator, without the communicator.
pub(super) struct Closing {
    rank: Rank,
    domain: Arc<Domain>,
    control: Arc<dyn Control>,
    driver: Mutex<Option<JoinHandle<()>>>,
    /// `HCOMM_CLOSE_DEADLINE`.
    limit: Duration,
    /// `HCOMM_DRIVER_CPUS`.
    cpus: CpuSet,
    log: Log,
    /// The process that made it. A child that the process forks has the memory, but neither the threads nor a place among the ranks.
    process: u32,
    progress: Arc<Progress>,
}

/// How far it is. Lives longer than the rest, so that whoever learns that it is closed finds all of it let go.
#[derive(Default)]
struct Progress {
    stage: Mutex<Stage>,
    ended: Condvar,
}

#[derive(Default)]
enum Stage {
    #[default]
    Open,
    /// With who is to be woken at the end.
    Begun(Vec<Waker>),
    /// With what it came to, until somebody has been told.
    Ended(Result<(), Error>),
}

impl Closing {
    pub fn new(
        rank: Rank,
        (domain, control, driver): (&Arc<Domain>, Arc<dyn Control>, JoinHandle<()>),
        settings: &Settings,
        log: &Log,
    ) -> Self {
        Closing {
            rank,
            domain: domain.clone(),
            control,
            driver: Mutex::new(Some(driver)),
            limit: settings.close_deadline,
            cpus: settings.driver_cpus.clone(),
            log: log.clone(),
            process: std::process::id(),
            progress: Arc::default(),
        }
    }

    /// Closes, or waits for who does; only begins it where the thread drives.
    pub fn close(self: &Arc<Self>, because: Option<&str>) -> Result<(), Error> {
        if is_driving() {
            self.begin(because);
            return Ok(());
        }
        if self.is_mine() && self.progress.begin() {
            let outcome = self.run(because);
            self.progress.end(outcome);
        }
        self.outcome_within(self.at_most())
    }

    /// Closes on a thread of its own, if nobody does yet; here where there is no thread left, or an exit would not wait for it.
    pub fn begin(self: &Arc<Self>, because: Option<&str>) {
        if !self.is_mine() || !self.progress.begin() {
            return;
        }
        let made = Unfinished::new(self.at_most()).map(|unfinished| {
            let (closing, because) = (self.clone(), because.map(str::to_owned));
            let body = move || closing.run_aside(because.as_deref(), unfinished);
            std::thread::Builder::new().name("hcomm-close".to_owned()).spawn(body)
        });
        if !matches!(made, Some(Ok(_))) {
            self.progress.end(self.run(because));
        }
    }

    /// What the drop of the last handle does.
    pub fn abandon(self: &Arc<Self>) {
        self.begin(None);
        let patience = if is_driving() { Duration::ZERO } else { AFTER_A_DROP };
        if let Err(error) = self.outcome_within(patience) {
            self.log.info(&format!("closed after a failure: {error}"));
        }
    }

    /// What it came to, if that is known; wakes the caller then.
    pub fn poll(&self, context: &Context<'_>) -> Poll<Result<(), Error>> {
        if !self.is_mine() {
            return Poll::Ready(Ok(()));
        }
        let waker = context.waker().clone();
        let mut stage = self.progress.stage();
        let Stage::Begun(wakers) = &mut *stage else { return Poll::Ready(stage.told()) };
        if wakers.iter().all(|known| !known.will_wake(&waker)) {
            wakers.push(waker);
        }
        Poll::Pending
    }

    /// Whether this process made it.
    fn is_mine(&self) -> bool {
        std::process::id() == self.process
    }

    /// How long it may take in all.
    fn at_most(&self) -> Duration {
        self.limit.saturating_add(GRACE)
    }

    fn outcome_within(&self, patience: Duration) -> Result<(), Error> {
        if !self.is_mine() {
            return Ok(());
        }
        let is_begun = |stage: &mut Stage| matches!(stage, Stage::Begun(_));
        let ended = self.progress.ended.wait_timeout_while(self.progress.stage(), patience, is_begun);
        ended.unwrap_or_else(PoisonError::into_inner).0.told()
    }

    /// The same as `run`, for a thread that has nothing else to do. All is let go before anybody hears of the end.
    fn run_aside(self: Arc<Self>, because: Option<&str>, unfinished: Unfinished) {
        if let Err(error) = schedule::stay_on(self.cpus.as_slice()) {
            tracing::debug!(%error, "a closing thread runs on any processor");
        }
        let outcome = contained("what closes a communicator", || self.run(because));
        let cause = "closing it panicked".to_owned();
        let failure = |_| Err(Error::Failed(Failure::Aborted { rank: self.rank, cause }));
        let outcome = outcome.unwrap_or_else(failure);
        let progress = self.progress.clone();
        drop(self);
        progress.end(outcome);
        drop(unfinished);
    }

    fn run(&self, because: Option<&str>) -> Result<(), Error> {
        let now = Instant::now();
        let limit = if because.is_some() { self.limit.min(AFTER_AN_ERROR) } else { self.limit };
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
        // The driver may have found no thread to leave this to; it does not wait for itself.
        if let Some(driver) = driver.filter(|d| d.thread().id() != std::thread::current().id()) {
            let _ = driver.join();
        }
        failure.map_or(Ok(()), |failure| Err(Error::Failed(failure)))
    }
}

impl Progress {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is the caller who closes.
    fn begin(&self) -> bool {
        let mut stage = self.stage();
        let is_first = matches!(*stage, Stage::Open);
        if is_first {
            *stage = Stage::Begun(Vec::new());
        }
        is_first
    }

    fn end(&self, outcome: Result<(), Error>) {
        let before = std::mem::replace(&mut *self.stage(), Stage::Ended(outcome));
        self.ended.notify_all();
        let Stage::Begun(wakers) = before else { return };
        for waker in wakers {
            let _ = contained("a waker", || waker.wake());
        }
    }
}

impl Stage {
    /// What it came to, told once; well as long as it is not known.
    fn told(&mut self) -> Result<(), Error> {
        match self {
            Stage::Ended(outcome) => std::mem::replace(outcome, Ok(())),
            _ => Ok(()),
        }
    }
}
