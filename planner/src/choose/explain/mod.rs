//! `explain`: why a call gets the algorithm it gets: every candidate's predicted time, what the losers lack, which one is best at
//! which size, and who overrode what. `rows` works it out, here it becomes text.

mod rows;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use super::{Candidate, Choice, PinError, Threshold, Why};
use crate::algorithm::Call;
use crate::compile::{PlanError, select};
use crate::request::Request;
use crate::topology::Topology;
use rows::{Chosen, Row, rows};

/// A table of all candidates for a call, the chosen one first; the sizes at which the choice changes; and what overrode the costs.
///
/// # Errors
/// As `compile`: where the call makes no sense or nothing serves it.
pub fn explain(request: &Request, topology: &Topology, choice: &Choice) -> Result<String, PlanError> {
    request.check(topology.world())?;
    let call = Call::new(request, topology.world(), topology);
    let chosen = select(request, &call, choice)?;
    let size = request.full_bytes(topology.world());
    let bytes = size.unwrap_or(0);
    let step = choice.thresholds(&call).and_then(|table| table.at(bytes));
    let rows = rows(&call, choice, chosen, bytes);
    let asked = Asked { request, call: &call, choice, bytes, chosen, step, rows: &rows };
    // Writing into a String cannot fail.
    let mut text = String::new();
    let _ = asked.head(&mut text, size, topology);
    let _ = asked.table(&mut text);
    let _ = refusals(&mut text, &call);
    let _ = asked.by_size(&mut text);
    let _ = asked.overrides(&mut text);
    Ok(text)
}

/// A call, and what is known of it.
struct Asked<'a> {
    request: &'a Request,
    call: &'a Call<'a>,
    choice: &'a Choice,
    bytes: u64,
    chosen: Candidate,
    /// What the table says of it, whatever the call asks for.
    step: Option<&'a Threshold>,
    rows: &'a [Row<'a>],
}

impl Asked<'_> {
    fn head(&self, text: &mut String, size: Option<u64>, topology: &Topology) -> std::fmt::Result {
        let Asked { call, chosen, choice, .. } = self;
        let size = size.map_or_else(String::new, |bytes| format!(", {bytes} bytes"));
        writeln!(text, "{call}{size}: {chosen}, {}", self.reason().reason)?;
        let hosts = topology.host_names().len();
        let crowd = topology.ranks_per_processor();
        let plural = if hosts == 1 { "" } else { "s" };
        write!(text, "costs: {}; {} ranks on {hosts} host{plural}", choice.source(), call.world)?;
        if crowd > 1.0 {
            write!(text, ", {crowd:.1} ranks per processor")?;
        }
        match choice.model().measured() {
            Some(measured) => {
                writeln!(text, "; measured with {} ranks over {}", measured.world, measured.condition)?;
            }
            None => writeln!(text, "; not measured in such a world")?,
        }
        writeln!(
            text,
            "predicted: by the choice's model, which adds up what the busiest rank does; a drawing follows the plan message by \
             message, and may say another time\n"
        )
    }

    /// Why the chosen one is.
    fn reason(&self) -> Chosen {
        let why = self.step.map(|step| step.why);
        let (reason, is_asked) = match (&self.request.algorithm, why) {
            (Some(_), _) => ("as the call asks".to_owned(), true),
            (None, Some(why @ Why::Pinned(_))) => (self.why(why), true),
            (None, Some(why)) => {
                let is_least = !self.rows.iter().any(|row| row.is_faster_than(&self.rows[0]));
                (format!("{}{}", if is_least { "" } else { "nearly the " }, self.why(why)), false)
            }
            (None, None) => (String::new(), false),
        };
        Chosen { reason, is_asked }
    }

    fn why(&self, why: Why) -> String {
        match why {
            Why::Predicted => "least predicted time".to_owned(),
            Why::Measured => "least measured time".to_owned(),
            Why::Pinned(index) => format!("pinned by {}", self.choice.pins()[index].source),
        }
    }

    fn table(&self, text: &mut String) -> std::fmt::Result {
        let (rows, chosen) = (self.rows, self.reason());
        let width = width(rows.iter().map(|row| row.contender.candidate));
        writeln!(
            text,
            "{:<width$} {:>12} {:>8} {:>6} {:>6} {:>9} {:>16} {:>17} {:>9}  why",
            "algorithm",
            "predicted",
            "measured",
            "steps",
            "tiles",
            "messages",
            "local bytes/rank",
            "remote bytes/host",
            "roundings"
        )?;
        for row in rows {
            let (work, amounts) = (&row.contender.demand.work, &row.amounts);
            let sent = |part: f64| (part * self.bytes as f64).round() as u64;
            let roundings = if self.call.op.is_exact(self.call.dtype) { 0 } else { work.roundings };
            writeln!(
                text,
                "{:<width$} {:>9.1} us {:>8} {:>6} {:>6} {:>9} {:>16} {:>17} {:>9}  {}",
                row.contender.candidate,
                row.time_ns() / 1000.0,
                row.factor(),
                (work.steps.local + work.steps.remote).round(),
                row.contender.tiles(self.bytes),
                (amounts.messages.local + amounts.messages.remote).round(),
                sent(work.sent.local),
                sent(work.sent.remote),
                roundings,
                row.why(&rows[0], &chosen)
            )?;
        }
        Ok(())
    }

    fn by_size(&self, text: &mut String) -> std::fmt::Result {
        let Some(table) = self.choice.thresholds(self.call) else { return Ok(()) };
        let width = width(table.steps().iter().map(|step| step.candidate));
        writeln!(text, "\nby size:\n{:>14}  {:<width$}  why", "from bytes", "algorithm")?;
        for step in table.steps() {
            let here = if self.step == Some(step) { "  <- this size" } else { "" };
            writeln!(
                text,
                "{:>14}  {:<width$}  {}{here}",
                step.from_bytes,
                step.candidate,
                self.why(step.why)
            )?;
        }
        Ok(())
    }

    /// From the strongest to the weakest.
    fn overrides(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "\noverrides:")?;
        let before = text.len();
        if let Some(name) = &self.request.algorithm {
            writeln!(text, "  the call asks for {name}")?;
        }
        for (index, pin) in self.choice.pins().iter().enumerate() {
            if pin.collective == self.call.collective {
                writeln!(text, "  {pin} of {}: {}", pin.source, self.effect(index))?;
            }
        }
        for PinError { pin, cause } in self.choice.set_aside() {
            if pin.collective == self.call.collective {
                writeln!(text, "  {pin} of {}: set aside, {cause}", pin.source)?;
            }
        }
        for (pin, whom) in self.choice.elsewhere() {
            if pin.collective == self.call.collective {
                writeln!(text, "  {pin} of {}: for {whom}", pin.source)?;
            }
        }
        if let (Some(Why::Measured), Some(other)) = (self.step.map(|step| step.why), by_costs(self.rows)) {
            let (measured, source) = (self.step.map(|step| step.candidate), self.choice.source());
            let measured = measured.map_or_else(String::new, |candidate| candidate.to_string());
            writeln!(
                text,
                "  times measured in {source}: {measured} before {other}, which costs less by the model"
            )?;
        }
        if text.len() == before {
            writeln!(text, "  none")?;
        }
        Ok(())
    }

    /// What becomes of a pin.
    fn effect(&self, index: usize) -> String {
        let pin = &self.choice.pins()[index];
        match self.step.map(|step| step.why) {
            Some(Why::Pinned(decides)) if decides == index && self.request.algorithm.is_some() => {
                "gives way to the call".to_owned()
            }
            Some(Why::Pinned(decides)) if decides == index => "decides this size".to_owned(),
            _ if !pin.covers(self.bytes) => "for other sizes".to_owned(),
            Some(Why::Pinned(_)) => "gives way to another pin".to_owned(),
            _ => "cannot serve such calls".to_owned(),
        }
    }
}

/// The width of a column of candidates.
fn width(candidates: impl Iterator<Item = Candidate>) -> usize {
    candidates.map(|candidate| candidate.to_string().len()).max().unwrap_or(0).max("algorithm".len())
}

/// The candidate that the costs alone would choose.
fn by_costs(rows: &[Row<'_>]) -> Option<Candidate> {
    let least = rows.iter().min_by(|a, b| a.prediction.model_ns.total_cmp(&b.prediction.model_ns));
    least.map(|row| row.contender.candidate)
}

/// Why those that cannot serve the call cannot: a line per reason, with all that have it.
fn refusals(text: &mut String, call: &Call<'_>) -> std::fmt::Result {
    let mut refused: Vec<(String, Vec<Candidate>)> = Vec::new();
    for candidate in Candidate::all().filter(|c| c.algorithm.collectives.contains(&call.collective)) {
        let Err(reason) = candidate.supports(call) else { continue };
        let name = candidate.algorithm.name;
        let same = |(other, those): &&mut (String, Vec<Candidate>)| {
            *other == reason && those[0].algorithm.name == name
        };
        match refused.iter_mut().find(same) {
            Some((_, those)) => those.push(candidate),
            None => refused.push((reason, vec![candidate])),
        }
    }
    refused.iter().try_for_each(|(reason, those)| writeln!(text, "{} cannot: {reason}", names(those)))
}

/// The candidates of one algorithm, or just its name where these are all.
fn names(those: &[Candidate]) -> String {
    let algorithm = those[0].algorithm;
    if those.len() == Candidate::of(algorithm).count() {
        return algorithm.name.to_owned();
    }
    those.iter().map(Candidate::to_string).collect::<Vec<_>>().join(", ")
}
