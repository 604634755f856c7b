//! [`inproc_mesh`]: the control plane of ranks that are threads of one process: a send is a call of the peer's handler.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use bytes::Bytes;
use hcomm_ops::Rank;

use super::{Control, Event, Handler, MAX_BODY_BYTES, MAX_WORDS_BYTES};

/// A control plane among `handlers.len()` ranks; the rank with `handlers[r]` is to own the r-th control.
pub fn inproc_mesh(handlers: Vec<Handler>) -> Vec<Box<dyn Control>> {
    let seats: Arc<[Seat]> = handlers.into_iter().map(|handler| RwLock::new(Some(handler))).collect();
    let control = |rank| Box::new(InprocControl { rank, seats: Arc::clone(&seats) }) as Box<dyn Control>;
    (0..seats.len()).map(control).collect()
}

/// A rank's handler, until the rank is gone.
type Seat = RwLock<Option<Handler>>;

/// One rank's end.
struct InprocControl {
    rank: Rank,
    seats: Arc<[Seat]>,
}

impl InprocControl {
    /// Leaves the seat; false where it is empty already.
    fn rise(&self) -> bool {
        self.seats[self.rank].write().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }

    fn tell_others(&self, event: &Event) {
        let others = self.seats.iter().enumerate().filter(|(rank, _)| *rank != self.rank);
        others.for_each(|(_, seat)| call(seat, || event.clone()));
    }
}

impl Control for InprocControl {
    fn send(&self, to: Rank, body: Bytes) {
        if body.len() > MAX_BODY_BYTES {
            tracing::error!(
                to,
                bytes = body.len(),
                "a control message longer than {MAX_BODY_BYTES} bytes is dropped"
            );
        } else if let Some(seat) = self.seats.get(to).filter(|_| is_taken(&self.seats[self.rank])) {
            call(seat, || Event::Message { from: self.rank, body });
        }
    }

    fn leave(&self, last: u64, words: Bytes, _deadline: Instant) {
        // The own seat is left last: who leaves at the same time is heard, or has heard this.
        if is_taken(&self.seats[self.rank]) {
            let words = words.slice(..words.len().min(MAX_WORDS_BYTES));
            self.tell_others(&Event::Left { rank: self.rank, last, words });
            self.rise();
        }
    }
}

impl Drop for InprocControl {
    fn drop(&mut self) {
        if self.rise() {
            let cause = "it dropped its communicator without a goodbye".to_owned();
            self.tell_others(&Event::Lost { rank: self.rank, cause });
        }
    }
}

fn is_taken(seat: &Seat) -> bool {
    seat.read().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// Calls the handler without holding the seat, so that it may send and leave itself.
fn call(seat: &Seat, event: impl FnOnce() -> Event) {
    let handler = seat.read().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(handler) = handler {
        handler(event());
    }
}
