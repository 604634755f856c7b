//! Bandwidths as nccl-tests defines them (its PERFORMANCE.md): the algorithm's, which is bytes over time, and the bus's, which
//! is what the busiest link carries and so compares with the hardware whatever the number of ranks.

use crate::Collective;

/// Bytes on the bus per byte of the full buffer.
pub fn bus_factor(collective: Collective, world: usize) -> f64 {
    let others = (world as f64 - 1.0) / world as f64;
    match collective {
        Collective::AllReduce => 2.0 * others,
        Collective::AllGather
        | Collective::ReduceScatter
        | Collective::Gather
        | Collective::Scatter
        | Collective::AllToAll => others,
        Collective::Broadcast | Collective::Reduce => 1.0,
        Collective::Barrier => 0.0,
    }
}

/// GB/s, of thousands.
pub fn algorithm_gb_per_s(bytes: u64, time_us: f64) -> f64 {
    if time_us > 0.0 { bytes as f64 / time_us / 1000.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_of_four_ranks() {
        let factors = Collective::ALL.map(|collective| bus_factor(collective, 4));
        assert_eq!(factors, [1.5, 0.75, 0.75, 1.0, 1.0, 0.75, 0.75, 0.75, 0.0]);
        assert_eq!(bus_factor(Collective::AllReduce, 1), 0.0);
    }

    #[test]
    fn a_megabyte_in_a_millisecond_is_a_gigabyte_per_second() {
        assert_eq!(algorithm_gb_per_s(1_000_000, 1000.0), 1.0);
        assert_eq!(algorithm_gb_per_s(8, 0.0), 0.0);
    }
}
