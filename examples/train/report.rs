//! What rank 0 shows: progress while it works, and the table at the end.

use std::fmt::{Arguments, Write as _};
use std::io::{IsTerminal, stderr};
use std::path::PathBuf;

use hcomm::Communicator;
use indicatif::{ProgressBar, ProgressStyle};

use crate::data::Corpus;
use crate::measure::{MODES, Timing};
use crate::trainer::Trainer;

/// Less than this part of a step cannot be told from the unevenness of compute.
const LEAST_SEEN: f64 = 0.08;

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
                    eprintln!("{title} {done}/{total} {message}");
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

/// One line per mode. `tokens` is what all ranks together read in a step.
pub fn table(timings: &[Timing; 3], tokens: usize) -> String {
    let exposed = |timing: &Timing| timing.exposed_ns as f64 / 1e6;
    let mut table =
        format!("{:<18}{:>11}{:>12}{:>16}{:>12}\n", "", "step", "tokens/s", "communication", "exposed");
    for (mode, timing) in MODES.iter().zip(timings) {
        let step = timing.step_ns as f64 / 1e6;
        let speed = tokens as f64 / step * 1e3;
        let communication = timing.communication_ns as f64 / 1e6;
        let name = mode.name();
        // writing to a String does not fail
        let _ = writeln!(
            table,
            "{name:<18}{step:>8.1} ms{speed:>12.0}{communication:>13.1} ms{:>9.1} ms",
            exposed(timing)
        );
    }
    let [overlap, apart] = [exposed(&timings[0]), exposed(&timings[1])];
    let share = 100.0 * overlap.max(0.0) / apart;
    match apart > LEAST_SEEN * timings[2].step_ns as f64 / 1e6 {
        true => table + &format!("overlap exposes {share:.0} % of what is exposed without it"),
        false => table + "communication is too short to be seen beside compute",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_how_much_overlap_hides() {
        let timing = |exposed_ns| Timing { step_ns: 100_000_000, exposed_ns, ..Timing::default() };
        let text = table(&[timing(10_000_000), timing(50_000_000), timing(0)], 2048);
        assert!(
            text.contains("10.0 ms\n") && text.contains("50.0 ms\n") && text.contains("0.0 ms\n"),
            "{text}"
        );
        assert!(text.contains("exposes 20 %"), "{text}");
        let text = table(&[timing(-1_000_000), timing(1_000_000), timing(0)], 2048);
        assert!(text.contains("too short"), "{text}");
    }

    #[test]
    fn losses_are_summed_up() {
        assert_eq!(losses(&[4.0, 1.0], 2.0), "loss 4.000 -> 2.500 (-38 %) in 2 steps, 2.0 s");
    }
}
