//! The background driver: one thread per communicator, asleep unless operations remain that nobody waits for.
//!
//! After a shift it dozes for a while: it looks again every [`DOZE`] without being woken, so that submitting one
//! operation after another costs no system call; then it sleeps until rung.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hcomm_transports::schedule;

use super::Domain;
use crate::settings::CpuSet;

/// Between two looks; also how long a fresh operation is left to its submitter.
const DOZE: Duration = Duration::from_micros(100);

/// Looks before it sleeps for good.
const DOZES: u32 = 10;

impl Domain {
    /// Starts the background driver on the given processors (none: any); it ends with `Domain::close`.
    ///
    /// # Errors
    /// Where the system has no thread left.
    pub fn spawn_driver(self: &Arc<Self>, cpus: &CpuSet) -> io::Result<JoinHandle<()>> {
        let (domain, cpus) = (self.clone(), cpus.clone());
        std::thread::Builder::new().name("hcomm-driver".to_owned()).spawn(move || {
            if let Err(error) = schedule::stay_on(cpus.as_slice()) {
                tracing::warn!(%error, "the background driver could not be kept on processors {:?}", cpus.as_slice());
            }
            if let Err(error) = schedule::wake_promptly() {
                tracing::debug!(%error, "the background driver is scheduled like any thread");
            }
            domain.work_shifts();
        })
    }

    fn work_shifts(&self) {
        let mut dozes = DOZES;
        loop {
            let patience = if dozes < DOZES { Duration::ZERO } else { Duration::from_secs(3600) };
            // A panic has ended what was in flight; what is still to come must be told so.
            let shift = catch_unwind(AssertUnwindSafe(|| self.shift(patience)));
            match shift.unwrap_or(Some(true)) {
                None => return,
                Some(true) => dozes = 0,
                Some(false) if patience.is_zero() => dozes += 1,
                Some(false) => dozes = 0,
            }
            if dozes < DOZES {
                std::thread::sleep(DOZE);
            }
        }
    }
}
