//! Trains a small transformer data-parallel: every rank computes gradients on its own part of the batch, and hcomm
//! sums them while the rest of backward is still running.
//!
//! `cargo run --release --example train` starts two ranks by itself; `--help` lists the flags. Read `trainer.rs`
//! for a step and `buckets.rs` for the calls to the library; this file tells the story of a run.

use std::error::Error;
use std::fs;
use std::process::ExitCode;
use std::time::Instant;

mod backward;
mod buckets;
mod check;
mod data;
mod launch;
mod measure;
mod model;
mod optimizer;
mod options;
mod random;
mod report;
mod standin;
mod trace;
mod trainer;

use buckets::Mode;
use check::Trained;
use data::Corpus;
use model::Sizes;
use options::{Link, Options, Request};
use report::Progress;
use standin::Communicator;
use trainer::Trainer;

/// A result whose error is a text for the user.
type Outcome<T> = Result<T, Box<dyn Error>>;

/// Where a calibrating job leaves the rate that it found.
const RATE_FILE: &str = "link-rate.part";

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Request::Train(options)) => options,
        Ok(Request::Help) => {
            println!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(mistake) => {
            eprintln!("train: {mistake}");
            return ExitCode::from(2);
        }
    };
    run(&options).map_or_else(
        |error| {
            eprintln!("train: {error}");
            ExitCode::FAILURE
        },
        ExitCode::from,
    )
}

/// This process is a rank if a launcher says so, and else starts ranks.
fn run(options: &Options) -> Outcome<u8> {
    fs::create_dir_all(&options.out)
        .map_err(|error| format!("cannot make {}: {error}", options.out.display()))?;
    match std::env::var_os("HCOMM_RANK") {
        Some(_) => be_a_rank(options),
        None => start_ranks(options),
    }
}

/// The process that the user started: it only looks after the ranks.
fn start_ranks(options: &Options) -> Outcome<u8> {
    let mut settings = vec![("HCOMM_TRANSPORT", options.transport.name().to_owned())];
    println!("{} ranks over {}", options.ranks, options.transport.name());
    let rate = match options.link {
        Some(Link::Auto) => {
            let code = launch::run_ranks(options.ranks, &["--calibrate"], &settings)?;
            if code != 0 {
                return Ok(code);
            }
            Some(fs::read_to_string(options.out.join(RATE_FILE))?.parse()?)
        }
        Some(Link::BytesPerSecond(rate)) => Some(rate),
        None => None,
    };
    if let Some(rate) = rate {
        println!("link paced to {:.1} MB/s", rate as f64 / 1e6);
        settings.push(("HCOMM_LINK_RATE", rate.to_string()));
    }
    launch::run_ranks(options.ranks, &[], &settings)
}

/// One of the processes that train.
fn be_a_rank(options: &Options) -> Outcome<u8> {
    launch::insist_on_one_thread()?;
    let comm = Communicator::from_env()?;
    let corpus = Corpus::of_repository()?;
    let sizes = Sizes::small(corpus.vocabulary());
    if options.calibrate {
        return calibrate(&comm, &corpus, sizes, options);
    }

    let (rank, world) = (comm.rank(), comm.world());
    let trained = train(&comm, &corpus, sizes, options)?;
    let mut good = options.mode == Mode::NoComm || check_ranks(&comm, &trained)?;
    measure(&comm, &corpus, sizes, options)?;
    comm.close()?;
    if options.check && rank == 0 {
        good &= check::against_one_rank(&trained, &corpus, sizes, options.seed, world)?;
    }
    Ok(if good { 0 } else { 1 })
}

/// The training itself.
fn train(comm: &Communicator, corpus: &Corpus, sizes: Sizes, options: &Options) -> Outcome<Trained> {
    let mut trainer = Trainer::new(comm, corpus, sizes, options.seed)?;
    if comm.rank() == 0 {
        let (characters, bytes) = (corpus.len(), trainer.bucket_bytes());
        println!("{characters} characters of {} kinds; {bytes} bytes of gradients a step", sizes.vocabulary);
    }
    let mut progress = Progress::of_rank(comm.rank(), "training", options.steps);
    let begun = Instant::now();
    for _ in 0..options.steps {
        trainer.step(options.mode)?;
        progress.advance(1, format_args!("loss {:.3}", trainer.losses().last().unwrap_or(&f32::NAN)));
    }
    trainer.finish()?;
    drop(progress);
    if comm.rank() == 0 {
        println!("{}", report::losses(trainer.losses(), begun.elapsed().as_secs_f64()));
    }
    Ok(Trained { losses: trainer.losses().to_vec(), parameters: trainer.parameters()? })
}

/// All ranks must have made the same model of the same sums.
fn check_ranks(comm: &Communicator, trained: &Trained) -> Outcome<bool> {
    let same = check::same_on_all_ranks(comm, &trained.parameters)?;
    if comm.rank() == 0 {
        let word = if same { "the same" } else { "DIFFERENT" };
        println!("check: all {} ranks have {word} {} parameters", comm.world(), trained.parameters.len());
    }
    Ok(same)
}

/// The table, and the timeline of a few steps.
fn measure(comm: &Communicator, corpus: &Corpus, sizes: Sizes, options: &Options) -> Outcome<()> {
    let mut trainer = Trainer::new(comm, corpus, sizes, options.seed)?;
    if options.rounds > 0 {
        let mut progress = Progress::of_rank(comm.rank(), "measuring", measure::steps(options.rounds));
        let timings = measure::all_modes(&mut trainer, comm, options.rounds, &mut progress)?;
        drop(progress);
        if comm.rank() == 0 {
            println!("{}", report::table(&timings, sizes.tokens() * comm.world()));
        }
    }
    measure::record(&mut trainer, comm)?;
    trainer.timeline.write(&options.out)?;
    comm.barrier()?;
    if comm.rank() == 0 {
        println!("timeline: {}", trace::merge(&options.out, comm.world())?.display());
    }
    Ok(())
}

/// Finds the rate at which communicating a step's gradients takes as long as backward.
fn calibrate(comm: &Communicator, corpus: &Corpus, sizes: Sizes, options: &Options) -> Outcome<u8> {
    let mut trainer = Trainer::new(comm, corpus, sizes, options.seed)?;
    let backward_s = measure::compute_alone(&mut trainer, comm)?.backward_ns as f64 / 1e9;
    let share_sent = 2.0 * (comm.world() - 1) as f64 / comm.world() as f64;
    let rate = (trainer.bucket_bytes() as f64 * share_sent / backward_s).max(1.0);
    if comm.rank() == 0 {
        fs::write(options.out.join(RATE_FILE), format!("{rate:.0}"))?;
    }
    Ok(0)
}
