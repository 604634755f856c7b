//! [`Ways`]: the ways out of and into the hosts, which messages between hosts take one after the other.

use super::price::Prices;
use hcomm_ops::Rank;

/// When the ways are free again, per host.
pub(super) struct Ways {
    out: Vec<f64>,
    into: Vec<f64>,
}

impl Ways {
    pub fn new(hosts: usize) -> Ways {
        Ways { out: vec![0.0; hosts], into: vec![0.0; hosts] }
    }

    /// When a message arrives whose node ends at `now`. Calls come in the order of `now`.
    pub fn arrival_ns(&mut self, prices: &Prices<'_>, from: Rank, to: Rank, bytes: u64, now: f64) -> f64 {
        let latency_ns = prices.latency_ns(from, to);
        if !prices.is_remote(from, to) {
            return now + latency_ns;
        }
        let way_ns = prices.way_ns(bytes);
        let (out, into) = (&mut self.out[prices.host(from)], &mut self.into[prices.host(to)]);
        let leaves = now.max(*out);
        let enters = (leaves + latency_ns).max(*into);
        *out = leaves + way_ns;
        *into = enters + way_ns;
        *into
    }
}
