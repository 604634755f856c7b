//! [`Ledger`]: where the ends of operations are entered, under a lock that is held for no longer than that takes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hcomm_ops::DType;
use hcomm_planner::bandwidth::{algorithm_gb_per_s, bus_factor};

use super::histogram::Histogram;
use super::{CallKind, CallStatistics, SizeCount, Statistics, TimeCount};
use crate::call::Call;

/// Kinds, types and algorithms that are told apart; plans may have any name.
const MAX_ROWS: usize = 256;

/// Sizes: 0, and every power of two.
const SIZES: usize = 65;

/// See the module.
#[derive(Debug)]
pub(crate) struct Ledger {
    is_on: AtomicBool,
    world: usize,
    rows: Mutex<Vec<Row>>,
}

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// A collective call.
    Call(Arc<Call>),
    /// A message of so many bytes.
    Send(DType, u64),
    /// A message of a length that its end tells.
    Receive(DType),
}

/// An operation under way, from its call on.
#[derive(Debug)]
pub(crate) struct Measure {
    ledger: Arc<Ledger>,
    subject: Subject,
    from: Instant,
}

#[derive(Debug)]
struct Row {
    kind: CallKind,
    dtype: DType,
    algorithm: String,
    calls: u64,
    failures: u64,
    bytes: u64,
    sent_bytes: u64,
    /// By size; of one that there was.
    sizes: [Option<Histogram>; SIZES],
    times: Histogram,
}

impl Ledger {
    /// One of a world of so many ranks, switched off.
    pub fn new(world: usize) -> Ledger {
        Ledger { is_on: AtomicBool::new(false), world, rows: Mutex::default() }
    }

    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Switches it on, from nothing whether it was on or not, or off.
    pub fn switch(&self, on: bool) {
        if on {
            self.rows().clear();
        }
        self.is_on.store(on, Ordering::Relaxed);
    }

    /// Begins to measure, if it is on.
    pub fn measure(self: &Arc<Self>, subject: impl FnOnce() -> Subject) -> Option<Measure> {
        self.is_on().then(|| Measure { ledger: self.clone(), subject: subject(), from: Instant::now() })
    }

    pub fn statistics(&self) -> Statistics {
        Statistics { calls: self.rows().iter().map(|row| row.statistics(self.world)).collect() }
    }

    fn enter(&self, subject: &Subject, received_bytes: u64, time: Duration, is_well: bool) {
        let (kind, dtype, algorithm) = subject.key();
        let mut rows = self.rows();
        let row = row_of(&mut rows, kind, dtype, algorithm);
        row.calls += 1;
        if !is_well {
            row.failures += 1;
            return;
        }
        let (bytes, sent_bytes) = subject.bytes(received_bytes, self.world);
        row.bytes = row.bytes.saturating_add(bytes);
        row.sent_bytes = row.sent_bytes.saturating_add(sent_bytes);
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        row.sizes[(u64::BITS - bytes.leading_zeros()) as usize].get_or_insert_default().add(ns);
        row.times.add(ns);
    }

    fn rows(&self) -> MutexGuard<'_, Vec<Row>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Measure {
    /// The operation has ended; a receive has got so many bytes.
    pub fn end(self, received_bytes: u64, is_well: bool) {
        self.ledger.enter(&self.subject, received_bytes, self.from.elapsed(), is_well);
    }
}

impl Subject {
    fn key(&self) -> (CallKind, DType, &str) {
        match self {
            Subject::Call(call) => {
                let kind = CallKind::Collective(call.request.collective);
                (kind, call.request.dtype, &call.plan.algorithm)
            }
            Subject::Send(dtype, _) => (CallKind::Send, *dtype, "message"),
            Subject::Receive(dtype) => (CallKind::Receive, *dtype, "message"),
        }
    }

    /// Bytes of the full buffer, and bytes sent.
    fn bytes(&self, received_bytes: u64, world: usize) -> (u64, u64) {
        match self {
            Subject::Call(call) => {
                let longer = call.input_bytes.max(call.output_bytes).unwrap_or(0);
                (call.request.full_bytes(world).unwrap_or(longer), call.sent_bytes)
            }
            Subject::Send(_, bytes) => (*bytes, *bytes),
            Subject::Receive(_) => (received_bytes, 0),
        }
    }
}

/// The row of a kind of calls; past the most that there may be, one for all others of the kind and type.
fn row_of<'a>(rows: &'a mut Vec<Row>, kind: CallKind, dtype: DType, algorithm: &str) -> &'a mut Row {
    let find = |rows: &[Row], algorithm: &str| {
        rows.iter().position(|row| (row.kind, row.dtype, &*row.algorithm) == (kind, dtype, algorithm))
    };
    let name = match find(rows, algorithm) {
        None if rows.len() >= MAX_ROWS => "others",
        _ => algorithm,
    };
    let at = find(rows, name).unwrap_or_else(|| {
        rows.push(Row::new(kind, dtype, name.to_owned()));
        rows.len() - 1
    });
    &mut rows[at]
}

impl Row {
    fn new(kind: CallKind, dtype: DType, algorithm: String) -> Row {
        let (sizes, times) = ([const { None }; SIZES], Histogram::default());
        Row { kind, dtype, algorithm, calls: 0, failures: 0, bytes: 0, sent_bytes: 0, sizes, times }
    }

    fn statistics(&self, world: usize) -> CallStatistics {
        let factor = match self.kind {
            CallKind::Collective(collective) => bus_factor(collective, world),
            CallKind::Send | CallKind::Receive => 1.0,
        };
        let from_bytes = |at: usize| if at == 0 { 0 } else { 1 << (at - 1) };
        let sizes = self.sizes.iter().enumerate().filter_map(|(at, times)| Some((at, times.as_ref()?)));
        let total_ns = self.times.total_ns();
        CallStatistics {
            kind: self.kind,
            dtype: self.dtype,
            algorithm: self.algorithm.clone(),
            calls: self.calls,
            failures: self.failures,
            bytes: self.bytes,
            sent_bytes: self.sent_bytes,
            total_ns,
            min_ns: self.times.min_ns(),
            median_ns: self.times.quantile_ns(0.5),
            p99_ns: self.times.quantile_ns(0.99),
            max_ns: self.times.max_ns(),
            times: counted(&self.times),
            sizes: sizes
                .map(|(at, times)| SizeCount {
                    from_bytes: from_bytes(at),
                    calls: times.count(),
                    times: counted(times),
                })
                .collect(),
            bus_gb_per_s: factor * algorithm_gb_per_s(self.bytes, total_ns as f64 / 1000.0),
        }
    }
}

fn counted(times: &Histogram) -> Vec<TimeCount> {
    times.times().map(|(ns, calls)| TimeCount { ns, calls }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_kinds_than_are_told_apart_are_counted_together() {
        let mut rows = Vec::new();
        for i in 0..2 * MAX_ROWS {
            row_of(&mut rows, CallKind::Send, DType::F32, &i.to_string()).calls += 1;
        }
        assert_eq!(rows.len(), MAX_ROWS + 1);
        assert_eq!(rows.last().map(|row| (&*row.algorithm, row.calls)), Some(("others", MAX_ROWS as u64)));
    }

    #[test]
    fn sizes_are_counted_by_powers_of_two() {
        let ledger = Arc::new(Ledger::new(2));
        ledger.switch(true);
        for bytes in [0, 1, 2, 3, 4, 1023, 1024, u64::MAX] {
            ledger.measure(|| Subject::Send(DType::U8, bytes)).expect("it is on").end(0, true);
        }
        ledger.measure(|| Subject::Send(DType::U8, 7)).expect("it is on").end(0, false);
        let [row] = &ledger.statistics().calls[..] else { panic!("one kind") };
        let sizes: Vec<_> = row.sizes.iter().map(|size| (size.from_bytes, size.calls)).collect();
        assert_eq!(sizes, [(0, 1), (1, 1), (2, 2), (4, 1), (512, 1), (1024, 1), (1 << 63, 1)]);
        assert!(
            row.sizes.iter().all(|size| size.times.iter().map(|time| time.calls).sum::<u64>() == size.calls)
        );
        assert_eq!((row.calls, row.failures, row.bytes), (9, 1, u64::MAX));
        ledger.switch(false);
        assert!(ledger.measure(|| Subject::Receive(DType::U8)).is_none());
        assert_eq!(ledger.statistics().calls.len(), 1, "what was counted stays");
        ledger.switch(true);
        assert_eq!(ledger.statistics(), Statistics::default(), "and is forgotten at a new beginning");
    }
}
