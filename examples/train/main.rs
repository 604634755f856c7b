//! Trains a small transformer data-parallel: every rank computes gradients on its own part of the batch, and hcomm
//! sums them while the rest of backward is still running.
//!
//! `cargo run --release --example train` starts two ranks by itself; `--help` lists the flags. Read `trainer.rs`
//! for a step and `buckets.rs` for the calls to the library; this file tells the story of a run.

use std::error::Error;
use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use hcomm::{Communicator, Placement};

mod backward;
mod buckets;
mod check;
mod data;
mod launch;
mod link;
mod measure;
mod model;
mod optimizer;
mod options;
mod plans;
mod random;
mod report;
mod trace;
mod trainer;

use buckets::Mode;
use check::Trained;
use data::Corpus;
use model::Sizes;
use options::{Options, Request};
use report::Progress;
use trainer::Trainer;

/// A result whose error is a text for the user.
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Request::Train(options)) => options,
        Ok(Request::Help) => {
            report::say(options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(mistake) => {
            report::warn(&format!("train: {mistake}"));
            return ExitCode::from(2);
        }
    };
    run(&options).map_or_else(
        |error| {
            report::warn(&format!("train: {error}"));
            ExitCode::FAILURE
        },
        ExitCode::from,
    )
}

/// This process is a rank if a launcher says so; else it starts ranks and looks after them.
fn run(options: &Options) -> Outcome<u8> {
    fs::create_dir_all(&options.out)
        .map_err(|error| format!("cannot make {}: {error}", options.out.display()))?;
    let placement = Placement::from_env()?;
    match placement.source {
        "alone" => launch::start_ranks(options.ranks),
        _ => be_a_rank(options, &placement),
    }
}

/// One of the processes that train.
fn be_a_rank(options: &Options, placement: &Placement) -> Outcome<u8> {
    launch::insist_on_one_thread()?;
    let corpus = Corpus::of_repository()?;
    let sizes = Sizes::small(corpus.vocabulary());
    let comm = link::connect(options, placement, &corpus, sizes)?;

    // Once nobody reads what is printed, all ranks end.
    let Some(trained) = train(&comm, &corpus, sizes, options)? else { return Ok(comm.close().map(|()| 0)?) };
    let mut good = options.mode == Mode::NoComm || check_ranks(&comm, &trained)?;
    if !measure(&comm, &corpus, sizes, options)? {
        return Ok(comm.close().map(|()| 0)?);
    }
    comm.close()?;
    if options.check && comm.rank() == 0 {
        good &= check::against_one_rank(&trained, &corpus, sizes, options.seed, comm.world())?;
    }
    Ok(if good { 0 } else { 1 })
}

/// Has rank 0 print something. Returns whether anybody reads it, on all ranks.
fn told(comm: &Communicator, words: impl FnOnce() -> String) -> Outcome<bool> {
    let mut is_read = [comm.rank() != 0 || report::say(&words())];
    comm.broadcast(&mut is_read, 0)?;
    Ok(is_read[0])
}

/// The training itself; nothing where nobody reads about it.
fn train(comm: &Communicator, corpus: &Corpus, sizes: Sizes, options: &Options) -> Outcome<Option<Trained>> {
    let mut trainer = Trainer::new(comm, corpus, sizes, options.seed)?;
    if !told(comm, || report::opening(comm, corpus, &trainer))? {
        return Ok(None);
    }
    let mut progress = Progress::of_rank(comm.rank(), "training", options.steps);
    let begun = Instant::now();
    for _ in 0..options.steps {
        trainer.step(options.mode)?;
        let loss = trainer.losses().last().map_or("...".to_owned(), |loss| format!("{loss:.3}"));
        progress.advance(1, format_args!("loss {loss}"));
    }
    trainer.finish()?;
    drop(progress);
    if !told(comm, || report::losses(trainer.losses(), begun.elapsed().as_secs_f64()))? {
        return Ok(None);
    }
    Ok(Some(Trained { losses: trainer.losses().to_vec(), parameters: trainer.parameters()? }))
}

/// All ranks must have made the same model of the same sums.
fn check_ranks(comm: &Communicator, trained: &Trained) -> Outcome<bool> {
    let same = check::same_on_all_ranks(comm, &trained.parameters)?;
    if comm.rank() == 0 {
        let word = if same { "the same" } else { "DIFFERENT" };
        let count = trained.parameters.len();
        report::say(&format!("check: all {} ranks have {word} {count} parameters", comm.world()));
    }
    Ok(same)
}

/// The table, then the timeline of a few steps and the plans that they ran on. Returns whether anybody reads them.
fn measure(comm: &Communicator, corpus: &Corpus, sizes: Sizes, options: &Options) -> Outcome<bool> {
    let mut trainer = Trainer::new(comm, corpus, sizes, options.seed)?;
    if options.rounds > 0 {
        let mut progress = Progress::of_rank(comm.rank(), "measuring", measure::steps(options.rounds));
        let rounds = measure::all_modes(&mut trainer, comm, options.rounds, &mut progress)?;
        drop(progress);
        if !told(comm, || report::table(&rounds, sizes.tokens() * comm.world()))? {
            return Ok(false);
        }
    }
    let nodes = measure::record(&mut trainer, comm)?;
    trainer.timeline.write(&nodes, &options.out)?;
    comm.barrier()?;
    if comm.rank() == 0 {
        let trace = trace::merge(&options.out, comm.world())?;
        let mut files = plans::draw(comm, &trainer.buckets(), &options.out, Some(&trace))?;
        files.push(trace);
        report::say(&report::files(&files));
    }
    Ok(true)
}
