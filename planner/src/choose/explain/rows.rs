//! [`Row`]: one candidate that can serve a call, beside the chosen one.

use crate::algorithm::Call;
use crate::choose::{Amounts, Candidate, Choice, Contender, Costs, Prediction};

/// See the module. The candidate's tiles are those with which it is fastest.
pub struct Row<'a> {
    pub contender: Contender<'a>,
    pub amounts: Amounts,
    pub prediction: Prediction,
    costs: &'a Costs,
    is_chosen: bool,
}

/// Why the first row is the first.
pub struct Chosen {
    pub reason: String,
    /// By the call or a pin.
    pub is_asked: bool,
}

/// What is shown as nothing, in microseconds.
const LEAST_US: f64 = 0.05;

/// A row for each candidate that can serve a call of so many bytes: the chosen one, then from fast to slow.
pub fn rows<'a>(call: &Call<'_>, choice: &'a Choice, chosen: Candidate, bytes: u64) -> Vec<Row<'a>> {
    let others = Candidate::all().filter(|c| c.supports(call).is_ok() && !c.has_plan_of(&chosen));
    let tiles = choice.model().tiles();
    let with_tiles = |candidate: Candidate| tiles.iter().map(move |tile| candidate.with_tile(*tile));
    let row = |candidate: Candidate| {
        let contender = choice.model().contender(candidate, call);
        let (amounts, prediction) = (contender.amounts(bytes), contender.predict(bytes));
        Row { contender, amounts, prediction, costs: choice.costs(), is_chosen: candidate == chosen }
    };
    let faster = |a: Row<'a>, b: Row<'a>| if b.time_ns() < a.time_ns() { b } else { a };
    let best = |candidate: Candidate| with_tiles(candidate).map(row).reduce(faster);
    let mut rows: Vec<Row<'a>> = others.filter_map(best).collect();
    rows.sort_by(|a, b| a.time_ns().total_cmp(&b.time_ns()));
    rows.insert(0, row(chosen));
    rows
}

impl Row<'_> {
    /// The predicted time.
    pub fn time_ns(&self) -> f64 {
        self.prediction.time_ns()
    }

    /// Whether it takes less than another, as shown.
    pub fn is_faster_than(&self, other: &Row<'_>) -> bool {
        (other.time_ns() - self.time_ns()) / 1000.0 >= LEAST_US
    }

    /// The measured time as a multiple of the model's, or a dash.
    pub fn factor(&self) -> String {
        match self.prediction.factor {
            1.0 => "-".to_owned(),
            factor => format!("x{factor:.2}"),
        }
    }

    /// What it costs beside the first row, largest part first; or why that one is first.
    pub fn why(&self, first: &Row<'_>, chosen: &Chosen) -> String {
        if self.is_chosen {
            return format!("chosen: {}", chosen.reason);
        }
        let total = (self.time_ns() - first.time_ns()) / 1000.0;
        let modelled = (self.prediction.model_ns - first.prediction.model_ns) / 1000.0;
        if total.abs() < LEAST_US {
            return "takes the same".to_owned();
        }
        if self.is_faster_than(first) {
            let but = if chosen.is_asked { "but not asked for" } else { "too little to change for" };
            return format!("{:.1} us less, {but}", -total);
        }
        if modelled.abs() < LEAST_US {
            return format!("{total:.1} us more as measured; by the model the same");
        }
        if modelled < 0.0 {
            return format!("{total:.1} us more as measured; the model has {:.1} us less", -modelled);
        }
        let waiting = self.costs.waiting_ns(&self.amounts) - self.costs.waiting_ns(&first.amounts);
        let moving = self.costs.moving_ns(&self.amounts) - self.costs.moving_ns(&first.amounts);
        let part = if waiting > moving { "steps and messages" } else { "bytes moved and folded" };
        format!("{total:.1} us more: {part}")
    }
}
