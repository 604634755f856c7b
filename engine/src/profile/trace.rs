//! Slices as events of the Chrome trace format: viewers drop slices that overlap on one thread without lying one within the other, so that
//! each slice here goes to a thread which has none at that time.

use serde_json::{Value, json};

/// Slices as the events of a trace, with the names of their threads.
pub fn events(mut slices: Vec<Slice>, rank: usize) -> Vec<Value> {
    slices.sort_by_key(|slice| (slice.from_ns, slice.to_ns));
    let rows = Rows::of(&slices);
    let tids = rows.tids();
    let mut trace: Vec<Value> =
        slices.into_iter().zip(&rows.of_slices).map(|(slice, row)| slice.event(rank, tids[*row])).collect();
    trace.extend(rows.rows.iter().zip(&tids).map(|(row, tid)| {
            json!({"ph": "M", "name": "thread_name", "pid": rank, "tid": tid, "args": {"name": row.shown()}})
        }));
    trace
}

/// One slice of a trace, before it has a thread.
pub struct Slice {
    /// The lane of a node; nothing of an operation.
    pub lane: Option<usize>,
    /// The thread that it would like to be on.
    pub row: String,
    pub name: String,
    pub from_ns: u64,
    pub to_ns: u64,
    pub args: Value,
}

impl Slice {
    fn event(self, rank: usize, tid: usize) -> Value {
        let micros = |ns: u64| ns as f64 / 1000.0;
        let category = if self.lane.is_some() { "node" } else { "operation" };
        json!({
            "ph": "X", "cat": category, "name": self.name, "ts": micros(self.from_ns), "dur": micros(self.to_ns - self.from_ns),
            "pid": rank, "tid": tid, "args": self.args,
        })
    }
}

/// The first thread number of a row; lower ones are the program's own.
const FIRST_ROW: usize = 100;

/// The threads of a trace. What has slices at the same time has several.
#[derive(Default)]
struct Rows {
    rows: Vec<Row>,
    /// By slice: its place among the rows.
    of_slices: Vec<usize>,
}

/// One thread of a trace.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    lane: Option<usize>,
    name: String,
    /// Which of those of this name it is.
    copy: usize,
    /// When its last slice ends.
    until_ns: u64,
}

impl Rows {
    /// Puts slices, given in the order of their starts, each on the first row of its name where none lasts any more.
    fn of(slices: &[Slice]) -> Rows {
        let mut rows = Rows::default();
        for slice in slices {
            let place = rows.free(slice);
            rows.rows[place].until_ns = slice.to_ns;
            rows.of_slices.push(place);
        }
        rows
    }

    fn free(&mut self, slice: &Slice) -> usize {
        let mut copy = 0;
        for (place, row) in self.rows.iter().enumerate().filter(|(_, row)| row.name == slice.row) {
            if row.until_ns <= slice.from_ns {
                return place;
            }
            copy += 1;
        }
        self.rows.push(Row { lane: slice.lane, name: slice.row.clone(), copy, until_ns: 0 });
        self.rows.len() - 1
    }

    /// Thread numbers by place: operations first, then the lanes, those of one name side by side.
    fn tids(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by_key(|place| &self.rows[*place]);
        let mut tids = vec![0; order.len()];
        order.into_iter().enumerate().for_each(|(at, place)| tids[place] = FIRST_ROW + at);
        tids
    }
}

impl Row {
    fn shown(&self) -> String {
        if self.copy == 0 { self.name.clone() } else { format!("{} ({})", self.name, self.copy + 1) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slice((row, from_ns, lasts_ns): (u8, u64, u64)) -> Slice {
        let (row, lane) = (format!("row {row}"), Some(usize::from(row)));
        Slice { lane, row, name: "slice".to_owned(), from_ns, to_ns: from_ns + lasts_ns, args: Value::Null }
    }

    proptest! {
        #[test]
        fn slices_of_one_thread_never_overlap(times in prop::collection::vec((0..3_u8, 0..200_u64, 0..50_u64), 0..60)) {
            let trace = events(times.iter().copied().map(slice).collect(), 7);
            let mut slices: Vec<_> = trace.iter().filter(|event| event["ph"] == "X").collect();
            prop_assert_eq!(slices.len(), times.len());
            let times = |event: &Value| {
                let nanos = |name: &str| (event[name].as_f64().expect("a time") * 1000.0).round() as u64;
                (event["tid"].as_u64(), nanos("ts"), nanos("ts") + nanos("dur"))
            };
            slices.sort_by_key(|event| times(event));
            for pair in slices.windows(2) {
                let ((tid, _, to), (next_tid, from, _)) = (times(pair[0]), times(pair[1]));
                prop_assert!(tid != next_tid || to <= from, "{} and {}", pair[0], pair[1]);
            }
            let named: Vec<_> = trace.iter().filter(|event| event["ph"] == "M").map(|event| &event["tid"]).collect();
            prop_assert!(slices.iter().all(|event| named.contains(&&event["tid"])));
        }
    }

    #[test]
    fn rows_of_one_name_stand_together() {
        let trace = events([(0, 0, 5), (1, 0, 9), (0, 2, 9), (0, 5, 2)].map(slice).into(), 3);
        let rows: Vec<_> = trace
            .iter()
            .filter(|event| event["ph"] == "M")
            .map(|e| (&e["tid"], &e["args"]["name"]))
            .collect();
        let expected =
            [(100, "row 0"), (102, "row 1"), (101, "row 0 (2)")].map(|(tid, name)| (json!(tid), json!(name)));
        assert_eq!(rows, expected.iter().map(|(tid, name)| (tid, name)).collect::<Vec<_>>());
        let of: Vec<_> =
            trace.iter().filter(|event| event["ts"].is_number()).map(|event| event["tid"].as_u64()).collect();
        assert_eq!(of, [Some(100), Some(102), Some(101), Some(100)]);
    }
}
