//! [`Options`]: what a handle asks of the calls that are made through it, and the handles that ask it.

use std::sync::Arc;
use std::time::Duration;

use super::{Communicator, pins};
use crate::error::Error;
use crate::operation::Operation;
use crate::settings::AlgorithmPins;
use crate::work::Predecessor;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    priority: i32,
    deadline: Option<Duration>,
    pub after: Vec<Arc<Operation>>,
    pub deterministic: bool,
    /// The handle's own pins.
    pub pins: Option<Arc<AlgorithmPins>>,
    /// What a communicator that is split off is to be called.
    pub name: Option<Arc<str>>,
}

impl Communicator {
    /// A handle whose operations go before those of lower priority that are in flight on this rank; 0 is usual.
    #[must_use]
    pub fn priority(&self, priority: i32) -> Communicator {
        self.with(|options| options.priority = priority)
    }

    /// A handle whose operations fail if they take longer.
    #[must_use]
    pub fn deadline(&self, deadline: Duration) -> Communicator {
        self.with(|options| options.deadline = Some(deadline))
    }

    /// A handle whose operations start when `works` have ended well, and fail if one of them fails. The executor follows
    /// the edge; the caller is not woken in between.
    #[must_use]
    pub fn after(&self, works: &[&dyn Predecessor]) -> Communicator {
        self.with(|options| options.after.extend(works.iter().map(|work| work.ticket().0)))
    }

    /// A handle whose reductions are the left fold over the ranks in the accumulate type, rounded once, whatever the size,
    /// algorithm, tiles and transport; `HCOMM_DETERMINISTIC` asks it of all. All ranks must call through such a handle alike.
    #[must_use]
    pub fn deterministic(&self) -> Communicator {
        self.with(|options| options.deterministic = true)
    }

    /// A handle whose calls are carried out by given algorithms: `ring` for whatever that does, or pins as in `HCOMM_ALGORITHM`, such as
    /// `all_reduce@..64KB=one_shot,broadcast=chain`; nothing leaves the choice to the planner again. They go before the settings' and the tuning file's; other calls are left alone.
    /// All ranks must call through such a handle alike. Communicators that are split from it inherit the pins, as far as they can.
    ///
    /// # Errors
    /// Where the text is no pin, an algorithm is unknown, or cannot do what it is pinned for.
    pub fn algorithm(&self, pins: &str) -> Result<Communicator, Error> {
        let pins = pins::read(pins, self.planner(), self.inner.settings.deterministic)?;
        Ok(self.with(|options| options.pins = Some(Arc::new(pins))))
    }

    /// A handle that gives the communicators which are split from it a name, by which a tuning file can pin their algorithms. It is that
    /// of the first rank.
    #[must_use]
    pub fn named(&self, name: &str) -> Communicator {
        self.with(|options| options.name = Some(name.into()))
    }

    fn with(&self, change: impl FnOnce(&mut Options)) -> Communicator {
        let mut handle = self.clone();
        change(&mut handle.options);
        handle
    }
}

impl Options {
    /// Whether its operations wait for nothing but their turn.
    pub fn is_usual(&self) -> bool {
        self.priority == 0 && self.deadline.is_none() && self.after.is_empty()
    }

    /// An operation with these options.
    pub fn operation(&self) -> Operation {
        let operation = Operation::default();
        operation.set_priority(self.priority);
        if let Some(deadline) = self.deadline {
            operation.set_deadline(deadline);
        }
        operation
    }
}
