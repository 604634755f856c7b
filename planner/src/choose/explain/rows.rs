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

    /// The measured time as a multiple of the model's, or a dash.
    pub fn factor(&self) -> String {
        match self.prediction.factor {
            1.0 => "-".to_owned(),
            factor => format!("x{factor:.2}"),
        }
    }

    /// What it costs beside the first row, largest part first; or why that one is first.
    pub fn why(&self, first: &Row<'_>, chosen_for: &str) -> String {
        if self.is_chosen {
            return format!("chosen: {chosen_for}");
        }
        let total = (self.time_ns() - first.time_ns()) / 1000.0;
        let modelled = (self.prediction.model_ns - first.prediction.model_ns) / 1000.0;
        if total <= 0.0 {
            return format!("{:.1} us less, but not asked for", -total);
        }
        if modelled <= 0.0 {
            return format!("{total:.1} us more as measured; the model has {:.1} us less", -modelled);
        }
        let waiting = self.costs.waiting_ns(&self.amounts) - self.costs.waiting_ns(&first.amounts);
        let moving = self.costs.moving_ns(&self.amounts) - self.costs.moving_ns(&first.amounts);
        let part = if waiting > moving { "steps and messages" } else { "bytes moved and folded" };
        format!("{total:.1} us more: {part}")
    }
}
