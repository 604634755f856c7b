//! The link that ranks talk over: the command line's wishes as settings of the communicator.

use hcomm::Communicator;
use hcomm::settings::{Rate, Settings, TransportChoice};

use crate::Outcome;
use crate::data::Corpus;
use crate::measure;
use crate::model::Sizes;
use crate::options::{Link, Options};
use crate::trainer::Trainer;

/// Plan-node events that each rank keeps for the timeline.
const NODE_EVENTS: u32 = 1 << 16;

/// The settings of the environment, and over them those of the command line.
pub fn settings(options: &Options, corpus: &Corpus, sizes: Sizes, world: usize) -> Outcome<Settings> {
    let mut settings = Settings::from_env()?;
    settings.trace_events = NODE_EVENTS;
    if let Some(transport) = options.transport {
        settings.transport = transport;
    }
    if let Some(link) = options.link {
        settings.transport = TransportChoice::Tcp;
        settings.link_rate = match link {
            Link::Paced(rate) => rate,
            Link::Auto => as_slow_as_backward(corpus, sizes, options.seed, world)?,
        };
    }
    Ok(settings)
}

/// The rate at which the gradients of a step take as long as backward. All ranks try at the same time, so that they
/// are in each other's way as they will be; that they come to different rates does not matter, rank 0's holds.
fn as_slow_as_backward(corpus: &Corpus, sizes: Sizes, seed: u64, world: usize) -> Outcome<Rate> {
    let alone = Communicator::alone();
    let mut trainer = Trainer::new(&alone, corpus, sizes, seed)?;
    let backward_s = measure::compute_alone(&mut trainer)?.backward_ns as f64 / 1e9;
    let sent_by_a_rank = trainer.bucket_bytes() as f64 * 2.0 * (world - 1) as f64 / world as f64;
    Ok(Rate::bytes_per_s((sent_by_a_rank / backward_s) as u64))
}
