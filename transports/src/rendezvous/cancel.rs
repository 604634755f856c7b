//! [`Cancel`]: gives a rendezvous up from another thread. [`Stall`]: what the user is told while ranks are missing.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// Ends a rendezvous from outside: its port and its peers are free at once. Clones are one and the same.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<watch::Sender<bool>>);

impl Default for Cancel {
    fn default() -> Self {
        Cancel(Arc::new(watch::Sender::new(false)))
    }
}

impl Cancel {
    /// Gives it up, also where it has not begun. What has ended stays as it is.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Whether the two give up the same.
    pub fn is_same(&self, other: &Cancel) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns once it has been given up. Cancel safe.
    pub(super) async fn cancelled(&self) {
        // The sender lives as long as this.
        let _ = self.0.subscribe().wait_for(|is_cancelled| *is_cancelled).await;
    }
}

/// Who is told, in a sentence, for whom a rendezvous waits, whenever it has waited so long again.
#[derive(Clone)]
pub struct Stall {
    /// How long; zero is never.
    pub after: Duration,
    /// Who is told. Called on the control thread.
    pub say: Arc<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stall {{ after {:?} }}", self.after)
    }
}

impl Default for Stall {
    fn default() -> Self {
        Stall { after: Duration::ZERO, say: Arc::new(|_| ()) }
    }
}

impl Stall {
    /// Speaks up from time to time, and never ends.
    pub(super) async fn watch(&self, awaited: &Awaited, within: Duration) {
        let start = Instant::now();
        loop {
            match self.after {
                Duration::ZERO => std::future::pending().await,
                after => sleep(after).await,
            }
            let waited = start.elapsed().as_secs_f64().round();
            let text = awaited.text();
            (self.say)(&format!("the rendezvous has waited {waited} s for {text}; it ends after {within:?}"));
        }
    }
}

/// Whom this rank waits for now, as the end of a sentence.
#[derive(Clone, Debug, Default)]
pub(super) struct Awaited(Arc<Mutex<String>>);

impl Awaited {
    pub(super) fn set(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
