//! [`fit`]: finds the prices under which the model comes nearest to measured times, none of them below zero.
//!
//! Least squares of relative errors, each sample's squared error grown linear beyond a bound, so that few odd samples do not outvote the
//! others; and weakly of each price's distance from a usual one, which decides where the samples do not.

use super::Prices;
use super::tuning::FitError;

/// A measured time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// How much of each thing that has a price it took, in the order of [`Prices`].
    pub amounts: [f64; Prices::COUNT],
    /// How long it took, in nanoseconds.
    pub time_ns: f64,
}

/// How much the distance from the usual prices counts, beside one sample's relative error.
const PULL: f64 = 0.001;

/// Relative error from which on it counts no more than in proportion.
const BOUND: f64 = 0.5;

/// Rounds of weighing the samples anew.
const ROUNDS: usize = 20;

type Row = [f64; Prices::COUNT];

/// Prices and how well they fit. Without samples, the usual prices.
pub fn fit(samples: &[Sample], usual: &Prices) -> (Prices, FitError) {
    let usual = usual.to_array().map(|price| price.max(1e-6));
    // In units of the usual prices all unknowns are of one size.
    let usable = samples.iter().filter(|sample| sample.time_ns > 0.0);
    let rows: Vec<(Row, f64)> =
        usable.map(|sample| (times(&sample.amounts, &usual), sample.time_ns)).collect();
    let mut scale: Row = [1.0; Prices::COUNT];
    for _ in 0..ROUNDS {
        scale = solve(&rows, &scale);
    }
    let errors = rows.iter().map(|(row, time)| (dot(row, &scale) - time).abs() / time).collect();
    (Prices::from_array(times(&scale, &usual)), summary(errors))
}

/// The best factors on the usual prices, with the samples weighed by the errors of earlier ones.
fn solve(rows: &[(Row, f64)], earlier: &Row) -> Row {
    let mut normal = [[0.0; Prices::COUNT]; Prices::COUNT];
    let mut right = [0.0; Prices::COUNT];
    for (row, time) in rows {
        let predicted = dot(row, earlier);
        let error = (predicted - time).abs() / (predicted * time).sqrt().max(f64::MIN_POSITIVE);
        let weight = (BOUND / error.max(BOUND)) / (predicted.max(time * 0.01) * time);
        for (i, amount) in row.iter().enumerate() {
            for (j, other) in row.iter().enumerate() {
                normal[i][j] += weight * amount * other;
            }
            right[i] += weight * amount * time;
        }
    }
    for i in 0..Prices::COUNT {
        normal[i][i] += PULL;
        right[i] += PULL;
    }
    descend(&normal, &right)
}

/// Minimises over the factors that are not below zero, one after the other until none changes.
fn descend(normal: &[Row; Prices::COUNT], right: &Row) -> Row {
    let mut factors: Row = [1.0; Prices::COUNT];
    for _ in 0..20_000 {
        let mut change = 0.0_f64;
        for i in 0..Prices::COUNT {
            let others = dot(&normal[i], &factors) - normal[i][i] * factors[i];
            let best = ((right[i] - others) / normal[i][i]).max(0.0);
            change = change.max((best - factors[i]).abs());
            factors[i] = best;
        }
        if change < 1e-12 {
            break;
        }
    }
    factors
}

fn times(a: &Row, b: &Row) -> Row {
    std::array::from_fn(|i| a[i] * b[i])
}

fn dot(a: &Row, b: &Row) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn summary(mut errors: Vec<f64>) -> FitError {
    errors.sort_unstable_by(f64::total_cmp);
    let median = errors.get(errors.len() / 2).copied().unwrap_or(0.0);
    FitError { median, worst: errors.last().copied().unwrap_or(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choose::class::Class;
    use crate::choose::{Candidate, Demand, sizes};
    use crate::request::Collective;
    use crate::topology::{LinkClass, Topology};

    /// The amounts of every candidate for every collective between four ranks of a host.
    fn amounts() -> Vec<Row> {
        let topology = Topology::single_host(4);
        let mut rows = Vec::new();
        for collective in Collective::ALL {
            let call = Class::plain(collective).example(&topology);
            for candidate in Candidate::all().filter(|c| c.supports(&call).is_ok()) {
                let demand = Demand::new(&candidate, &call);
                let sizes = sizes().filter(|bytes| *bytes < 1 << 24).step_by(7);
                rows.extend(sizes.map(|bytes| demand.at(bytes, 64 << 10).to_array(LinkClass::Local)));
            }
        }
        rows
    }

    #[test]
    fn exact_times_give_their_prices_back() {
        let truth = [900.0, 100.0, 300.0, 0.2, 0.1, 0.09];
        let samples: Vec<Sample> =
            amounts().iter().map(|row| Sample { amounts: *row, time_ns: dot(row, &truth) }).collect();
        let (prices, error) = fit(&samples, &Prices::SHM);
        for (found, price) in prices.to_array().iter().zip(truth) {
            assert!((found - price).abs() < 0.06 * price, "{found} for {price}: {prices:?}");
        }
        assert!(error.median < 0.01 && error.worst < 0.05, "{error:?}");
    }

    #[test]
    fn a_few_odd_samples_do_not_count_much() {
        let truth = [900.0, 100.0, 300.0, 0.2, 0.1, 0.09];
        let odd = |(i, row): (usize, &Row)| {
            let time_ns = dot(row, &truth) * if i % 17 == 3 { 30.0 } else { 1.0 };
            Sample { amounts: *row, time_ns }
        };
        let samples: Vec<Sample> = amounts().iter().enumerate().map(odd).collect();
        let (_, error) = fit(&samples, &Prices::SHM);
        assert!(error.median < 0.3, "{error:?}");
    }

    #[test]
    fn nothing_measured_is_the_usual() {
        let (prices, error) = fit(&[], &Prices::TCP);
        assert_eq!(prices, Prices::TCP);
        assert_eq!(error, FitError { median: 0.0, worst: 0.0 });
    }

    #[test]
    fn no_price_is_below_zero() {
        let row = |steps: f64, bytes: f64| [steps, 0.0, 0.0, bytes, 0.0, 0.0];
        let samples = [
            Sample { amounts: row(1.0, 0.0), time_ns: 1000.0 },
            Sample { amounts: row(1.0, 1e6), time_ns: 10.0 },
        ];
        let (prices, _) = fit(&samples, &Prices::SHM);
        assert!(prices.to_array().iter().all(|price| *price >= 0.0 && price.is_finite()), "{prices:?}");
    }
}
