//! How busy some tiles keep what nodes and messages share: no order of events can make them end sooner.

use std::ops::Range;

use super::Followed;
use super::state::pools;

/// How long the busiest pool of processors or way of a host works for some tiles, in nanoseconds.
pub(super) fn busiest_ns(followed: &Followed<'_>, tiles: Range<u64>) -> f64 {
    let Followed { joined, jobs, prices, model } = *followed;
    let (pools, pool_of) = pools(joined, model.workers.max(1));
    let mut busy = vec![0.0; pools.len()];
    let (mut out, mut into) = (vec![0.0; prices.hosts()], vec![0.0; prices.hosts()]);
    for (at, job) in jobs.iter().enumerate() {
        let (links, rank) = (&joined.links[at], joined.rank(at));
        let pool = pool_of[links.lane];
        busy[pool] += job.duration_of_ns(tiles.clone()) / pools[pool].idle as f64;
        for message in &links.sent {
            let to = joined.rank(joined.messages[*message].receiver);
            if prices.is_remote(rank, to) {
                let way_ns = prices.way_ns(job.bytes_of(tiles.clone()));
                out[prices.host(rank)] += way_ns;
                into[prices.host(to)] += way_ns;
            }
        }
    }
    busy.into_iter().chain(out).chain(into).fold(0.0, f64::max)
}
