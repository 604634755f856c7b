//! What rank 0 shows: progress while it works, and the table at the end.

use std::fmt::{Arguments, Write as _};
use std::io::{IsTerminal, Write as _, stderr, stdout};
use std::path::PathBuf;

use hcomm::Communicator;
use indicatif::{ProgressBar, ProgressStyle};

use crate::data::Corpus;
use crate::measure::{MODES, Round, quartiles};
use crate::trainer::Trainer;

/// Less than this part of a step cannot be told from the unevenness of compute.
const LEAST_SEEN: f64 = 0.08;

/// Prints a line. Returns whether it could be: nobody may be reading any more.
pub fn say(words: &str) -> bool {
    let mut out = stdout().lock();
    writeln!(out, "{words}").and_then(|()| out.flush()).is_ok()
}

/// Prints a line to standard error, if that takes any.
pub fn warn(words: &str) {
    // There is nowhere left to say that it does not.
    let _ = writeln!(stderr(), "{words}");
}

/// A bar on a terminal, a line every tenth of the way elsewhere.
pub enum Progress {
    /// Drawn over and over.
    Bar(ProgressBar),
    /// Lines in a log.
    Lines { title: &'static str, done: usize, total: usize },
    /// Of a rank that has nothing to say.
    Silent,
}

impl Progress {
    /// Work of `total` steps.
    pub fn new(title: &'static str, total: usize) -> Progress {
        if !stderr().is_terminal() {
            return Progress::Lines { title, done: 0, total };
        }
        let bar = ProgressBar::new(total as u64).with_prefix(title);
        let style = ProgressStyle::with_template("{prefix:9} {wide_bar} {pos}/{len} {msg} {eta}");
        Progress::Bar(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
    }

    /// The same, but only on rank 0.
    pub fn of_rank(rank: usize, title: &'static str, total: usize) -> Progress {
        if rank == 0 { Progress::new(title, total) } else { Progress::Silent }
    }

    /// Some steps further.
    pub fn advance(&mut self, steps: usize, message: Arguments) {
        match self {
            Progress::Bar(bar) => {
                bar.set_message(message.to_string());
                bar.inc(steps as u64);
            }
            Progress::Lines { title, done, total } => {
                let tenth_before = *done * 10 / *total;
                *done += steps;
                if *done * 10 / *total > tenth_before {
                    warn(&format!("{title} {done}/{total} {message}"));
                }
            }
            Progress::Silent => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Progress::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// Who trains on what.
pub fn opening(comm: &Communicator, corpus: &Corpus, trainer: &Trainer) -> String {
    let link = comm.links().iter().find(|link| *link != "self").map_or("itself", |link| link.as_str());
    // Why it is that and nothing faster is said in brackets.
    let link = link.split(" (").next().unwrap_or(link);
    let paced = match comm.settings().link_rate.bytes_per_s {
        0 => String::new(),
        rate => format!(" paced to {:.1} MB/s", rate as f64 / 1e6),
    };
    let (world, characters, kinds) = (comm.world(), corpus.len(), corpus.vocabulary());
    let (buckets, megabytes) = (trainer.buckets().len(), trainer.bucket_bytes() as f64 / 1e6);
    format!(
        "{world} ranks over {link}{paced}; {characters} characters of {kinds} kinds; \
         {megabytes:.1} MB of gradients in {buckets} buckets a step"
    )
}

/// What was left where.
pub fn files(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    format!("wrote {}", names.join(", "))
}

/// How the loss went: the first, the mean of the last ten, and how far it fell.
pub fn losses(losses: &[f32], seconds: f64) -> String {
    let last = &losses[losses.len().saturating_sub(10)..];
    let (first, end) = (losses[0], last.iter().sum::<f32>() / last.len() as f32);
    let fell = 100.0 * (1.0 - end / first);
    format!("loss {first:.3} -> {end:.3} (-{fell:.0} %) in {} steps, {seconds:.1} s", losses.len())
}

/// One line per mode, whose figures add up: a step is compute and what communication makes it longer. `tokens` is what all ranks
/// together read in a step.
pub fn table(rounds: &[Round], tokens: usize) -> String {
    let mut table = format!(
        "{:<18}{:>9}{:>17}{:>12}{:>12}{:>17}{:>11}\n",
        "", "step", "", "= compute", "+ exposed", "", "tokens/s"
    );
    let steps: Vec<Spread> =
        (0..MODES.len()).map(|mode| Spread::of(rounds, |round| step_ms(round, mode))).collect();
    let compute = steps[2].median;
    let mut exposed = [0.0; 3];
    for (at, mode) in MODES.iter().enumerate() {
        // A machine that is slow for a while is slow for the whole round, so that differences are taken within rounds.
        let waits = Spread::of(rounds, |round| step_ms(round, at) - step_ms(round, 2));
        exposed[at] = (tenths(steps[at].median) - tenths(compute)) as f64 / 10.0;
        // Writing to a String does not fail.
        let _ = writeln!(
            table,
            "{:<18}{:>6.1} ms {:>15} {:>8.1} ms{:>9.1} ms {:>15} {:>10.0}",
            mode.name(),
            steps[at].median,
            steps[at].quarters(),
            compute,
            exposed[at],
            if at == 2 { String::new() } else { waits.quarters() },
            tokens as f64 / steps[at].median * 1e3
        );
    }
    table += "(in brackets: quartiles of the rounds; exposed: how much longer a step is for communicating)\n";
    table + &conclusion(exposed[0], exposed[1], compute)
}

/// What the table comes to.
fn conclusion(overlap_ms: f64, apart_ms: f64, compute_ms: f64) -> String {
    if apart_ms < LEAST_SEEN * compute_ms {
        return "Communication takes too little of a step to be told from the unevenness of compute; --link auto shows it on a slower link."
            .to_owned();
    }
    let (hidden, waits) = (apart_ms - overlap_ms, overlap_ms.max(0.0));
    let faster = (compute_ms + apart_ms) / (compute_ms + waits);
    match hidden > 0.0 {
        true => format!(
            "Without overlap a step waits {apart_ms:.1} ms for gradients, with overlap {waits:.1} ms: {:.0} % of the communication is \
             hidden behind backward, and training is {faster:.2} times as fast.",
            (100.0 * hidden / apart_ms).min(100.0)
        ),
        false => format!(
            "Overlap hides nothing here: a step waits {waits:.1} ms for gradients with it, {apart_ms:.1} ms without."
        ),
    }
}

fn step_ms(round: &Round, mode: usize) -> f64 {
    round[mode].step_ns as f64 / 1e6
}

fn tenths(ms: f64) -> i64 {
    (ms * 10.0).round() as i64
}

/// A median with the quartiles around it.
struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    fn of(rounds: &[Round], figure: impl Fn(&Round) -> f64) -> Spread {
        let [low, median, high] = quartiles(rounds.iter().map(figure));
        Spread { low, median, high }
    }

    fn quarters(&self) -> String {
        format!("({:.1} to {:.1})", self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Timing;

    fn rounds(steps_ms: [[f64; 3]; 4]) -> Vec<Round> {
        let timing = |ms: f64| Timing { step_ns: (ms * 1e6) as u64, ..Timing::default() };
        steps_ms.map(|round| round.map(timing)).to_vec()
    }

    #[test]
    fn the_table_adds_up_and_says_how_much_overlap_hides() {
        let uneven =
            [[109.94, 150.0, 100.0], [112.0, 149.0, 101.0], [110.06, 151.26, 99.97], [108.0, 152.0, 100.0]];
        let text = table(&rounds(uneven), 2048);
        for line in text.lines().skip(1).take(3) {
            let figures: Vec<f64> =
                line.split(" ms").filter_map(|part| part.split(' ').next_back()?.parse().ok()).collect();
            let [step, compute, exposed, _] = figures[..] else { panic!("{line}") };
            assert!((step - compute - exposed).abs() < 0.001, "{line}");
        }
        assert!(text.contains("hidden behind backward") && text.contains("80 %"), "{text}");
        assert!(text.contains("1.37 times as fast"), "{text}");
        let none = table(&rounds([[101.0, 101.0, 100.0]; 4]), 2048);
        assert!(none.contains("too little of a step"), "{none}");
        let better = table(&rounds([[99.0, 150.0, 100.0]; 4]), 2048);
        assert!(better.contains("with overlap 0.0 ms: 100 %"), "{better}");
        let worse = table(&rounds([[160.0, 150.0, 100.0]; 4]), 2048);
        assert!(worse.contains("hides nothing"), "{worse}");
    }

    #[test]
    fn losses_are_summed_up() {
        assert_eq!(losses(&[4.0, 1.0], 2.0), "loss 4.000 -> 2.500 (-38 %) in 2 steps, 2.0 s");
    }
}
