//! What `hcomm tune --check` says: where the choice was slower than the best, and what that costs in all.

use std::fmt::Write;

use serde_json::{Value, json};

use super::results::Cell;
use super::setup::Setup;

/// A choice this much slower than the best is worth a line, and a mean above it fails the check.
pub const GOAL: f64 = 0.10;

/// What was measured of a setup, summed up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regret {
    /// Over all cells.
    pub mean: f64,
    /// In the worst.
    pub worst: f64,
    /// Microseconds of all cells, as chosen.
    pub chosen_us: f64,
    /// Microseconds of all cells, by the best of each.
    pub best_us: f64,
}

impl Regret {
    /// Of some cells.
    pub fn of(cells: &[Cell]) -> Regret {
        let regrets: Vec<f64> = cells.iter().filter_map(Cell::regret).collect();
        let sum = |time: &dyn Fn(&Cell) -> Option<f64>| cells.iter().filter_map(time).sum::<f64>() / 1000.0;
        Regret {
            mean: regrets.iter().sum::<f64>() / regrets.len().max(1) as f64,
            worst: regrets.iter().copied().fold(0.0, f64::max),
            chosen_us: sum(&|cell| cell.time_ns(&cell.chosen)),
            best_us: sum(&|cell| cell.best().map(|best| best.1)),
        }
    }

    /// How much longer all cells took as chosen, as a fraction.
    fn total(&self) -> f64 {
        if self.best_us > 0.0 { self.chosen_us / self.best_us - 1.0 } else { 0.0 }
    }
}

/// Whether the mean regret of every setup is small enough.
pub fn is_good(measured: &[(Setup, Vec<Cell>)]) -> bool {
    measured.iter().all(|(_, cells)| Regret::of(cells).mean <= GOAL)
}

/// For people.
pub fn text(measured: &[(Setup, Vec<Cell>)], source: &str) -> String {
    let mut text = format!("choices by {source}\n");
    for (setup, cells) in measured {
        let regret = Regret::of(cells);
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "\n{}: mean regret {}, worst {}; {} calls took {:.0} us as chosen, {:.0} us by the best: {} more",
            setup.name(),
            percent(regret.mean),
            percent(regret.worst),
            cells.len(),
            regret.chosen_us,
            regret.best_us,
            percent(regret.total()),
        );
        let slow = cells.iter().filter(|cell| cell.regret().is_some_and(|regret| regret > GOAL));
        for line in slow.filter_map(line) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// `all_reduce of 65536 bytes: ring took 40.0 us, one_shot 32.0 us: 25 % slower`.
fn line(cell: &Cell) -> Option<String> {
    let (best, best_ns) = cell.best()?;
    let Cell { collective, bytes, chosen, .. } = cell;
    let (chosen_us, best_us) = (cell.time_ns(chosen)? / 1000.0, best_ns / 1000.0);
    let slower = percent(cell.regret()?);
    Some(format!(
        "{collective} of {bytes} bytes: {chosen} took {chosen_us:.1} us, {best} {best_us:.1} us: {slower} slower"
    ))
}

fn percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
}

/// For programs.
pub fn json(measured: &[(Setup, Vec<Cell>)], source: &str) -> Value {
    let cell = |cell: &Cell| {
        let times = cell.times_ns.iter().map(|(by, time)| (by.to_string(), json!(time / 1000.0)));
        json!({
            "collective": cell.collective.name(),
            "bytes": cell.bytes,
            "chosen": cell.chosen.to_string(),
            "best": cell.best().map(|(best, _)| best.to_string()),
            "regret": cell.regret(),
            "times_us": times.collect::<serde_json::Map<_, _>>(),
        })
    };
    let setup = |(setup, cells): &(Setup, Vec<Cell>)| {
        let Regret { mean, worst, chosen_us, best_us } = Regret::of(cells);
        json!({
            "link": setup.kind.name(),
            "world": setup.world,
            "processors": setup.processors,
            "mean_regret": mean,
            "worst_regret": worst,
            "chosen_us": chosen_us,
            "best_us": best_us,
            "cells": cells.iter().map(cell).collect::<Vec<_>>(),
        })
    };
    json!({
        "hcomm": env!("CARGO_PKG_VERSION"),
        "source": source,
        "goal": GOAL,
        "setups": measured.iter().map(setup).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::tune::results::tests::named;
    use hcomm::Collective;
    use hcomm::planner::choose::LinkKind;

    fn measured(chosen_ns: f64) -> Vec<(Setup, Vec<Cell>)> {
        let cell = |bytes, time| Cell {
            collective: Collective::AllReduce,
            bytes,
            chosen: named("ring"),
            times_ns: vec![(named("one_shot"), 2000.0), (named("ring"), time)],
        };
        let setup = Setup { kind: LinkKind::Shm, world: 4, processors: 2 };
        vec![(setup, vec![cell(8, chosen_ns), cell(64, 1000.0)])]
    }

    #[test]
    fn slow_choices_are_listed_and_summed_up() {
        let text = text(&measured(3000.0), "a.toml");
        assert!(
            text.starts_with("choices by a.toml\n\nshm, 4 ranks: mean regret 25.0 %, worst 50.0 %; 2 calls"),
            "{text}"
        );
        assert!(text.contains("took 4 us as chosen, 3 us by the best: 33.3 % more\n"), "{text}");
        let line = "  all_reduce of 8 bytes: ring took 3.0 us, one_shot 2.0 us: 50.0 % slower\n";
        assert!(text.ends_with(line), "{text}");
        assert!(!is_good(&measured(3000.0)));
    }

    #[test]
    fn what_is_near_the_best_is_good_enough() {
        assert!(is_good(&measured(2100.0)));
        assert!(!text(&measured(2100.0), "a.toml").contains("slower"));
        assert_eq!(Regret::of(&[]).mean, 0.0);
    }

    #[test]
    fn json_has_every_time() {
        let value = json(&measured(3000.0), "a.toml");
        let setup = &value["setups"][0];
        assert_eq!(
            (&setup["link"], &setup["world"], &setup["mean_regret"]),
            (&json!("shm"), &json!(4), &json!(0.25))
        );
        assert_eq!(setup["cells"][0]["times_us"]["ring"], 3.0);
        assert_eq!(setup["cells"][0]["best"], "one_shot");
    }
}
