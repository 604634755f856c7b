//! The link that ranks talk over: the command line's wishes as settings of the communicator.

use hcomm::settings::{Rate, Settings, TransportChoice};
use hcomm::{Communicator, Placement};

use crate::Outcome;
use crate::data::Corpus;
use crate::measure;
use crate::model::Sizes;
use crate::options::{Link, Options};
use crate::trainer::Trainer;

/// Plan-node events that each rank keeps for the timeline.
const NODE_EVENTS: u32 = 1 << 16;

/// The communicator of all ranks, with the settings of the environment, and over them those of the command line.
pub fn connect(
    options: &Options,
    placement: &Placement,
    corpus: &Corpus,
    sizes: Sizes,
) -> Outcome<Communicator> {
    let mut settings = Settings { trace_events: NODE_EVENTS, ..Settings::from_env()? };
    let link = options.link.unwrap_or_else(|| usual(options, &settings));
    if let Some(transport) = options.transport {
        settings.transport = transport;
    }
    if let Link::Paced(rate) = link {
        (settings.transport, settings.link_rate) = (TransportChoice::Tcp, rate);
    }
    let comm = Communicator::connect(placement, settings.clone())?;
    if link != Link::Auto {
        return Ok(comm);
    }
    let rate = as_slow_as_backward(&comm, corpus, sizes, options.seed)?;
    (settings.transport, settings.link_rate) = (TransportChoice::Tcp, rate);
    let paced = comm.split_with(Some(0), 0, settings)?.ok_or("every rank is in the one group")?;
    comm.close()?;
    Ok(paced)
}

/// What the command line says nothing of: a link between machines, unless a transport or a rate is set.
fn usual(options: &Options, settings: &Settings) -> Link {
    let plain = Settings::default();
    let is_set = settings.transport != plain.transport || settings.link_rate != plain.link_rate;
    if options.transport.is_some() || is_set { Link::Free } else { Link::Auto }
}

/// The rate at which the gradients of a step take as long as backward, by rank 0's clock. All ranks try at the same time, so
/// that they are in each other's way as they will be.
fn as_slow_as_backward(comm: &Communicator, corpus: &Corpus, sizes: Sizes, seed: u64) -> Outcome<Rate> {
    let alone = Communicator::alone();
    let mut trainer = Trainer::new(&alone, corpus, sizes, seed)?;
    comm.barrier()?;
    let backward_s = measure::compute_alone(&mut trainer)?.backward_ns as f64 / 1e9;
    let world = comm.world() as f64;
    let sent_by_a_rank = trainer.bucket_bytes() as f64 * 2.0 * (world - 1.0) / world;
    let mut rate = [(sent_by_a_rank / backward_s) as u64];
    comm.broadcast(&mut rate, 0)?;
    Ok(Rate::bytes_per_s(rate[0]))
}
