//! Prices for machines that nobody has measured: those of a virtual machine of 2023 with two processors, rounded.

use super::{Condition, LinkKind, LinkTuning};
use crate::choose::{LinkCost, Prices};

impl Prices {
    /// Between processes of one host, through slots that stay in cache.
    pub const SHM: Prices = Prices {
        link: LinkCost { latency_ns: 220.0, message_ns: 120.0, wait_ns: 150.0, byte_ns: 0.03 },
        reduce_byte_ns: 0.02,
        copy_byte_ns: 0.01,
    };
    /// Between threads of one process.
    pub const INPROC: Prices = Prices {
        link: LinkCost { latency_ns: 200.0, message_ns: 110.0, wait_ns: 150.0, byte_ns: 0.03 },
        ..Prices::SHM
    };
    /// Through the kernel's sockets.
    pub const TCP: Prices = Prices {
        link: LinkCost { latency_ns: 20_000.0, message_ns: 3_000.0, wait_ns: 5_000.0, byte_ns: 0.5 },
        ..Prices::SHM
    };
    /// As [`Prices::SHM`], with two ranks per processor: who waits lets another rank run.
    const SHM_CROWDED: Prices = Prices {
        link: LinkCost { latency_ns: 2_700.0, message_ns: 450.0, wait_ns: 850.0, byte_ns: 0.04 },
        reduce_byte_ns: 0.03,
        copy_byte_ns: 0.03,
    };
    /// As [`Prices::TCP`], with two ranks per processor.
    const TCP_CROWDED: Prices = Prices {
        link: LinkCost { latency_ns: 45_000.0, message_ns: 20_000.0, wait_ns: 12_000.0, byte_ns: 0.15 },
        reduce_byte_ns: 0.25,
        copy_byte_ns: 0.25,
    };
}

/// The usual prices under a condition.
pub fn link(condition: Condition) -> LinkTuning {
    let prices = match (condition.kind, condition.is_crowded) {
        (LinkKind::Shm, false) => Prices::SHM,
        (LinkKind::Inproc, false) => Prices::INPROC,
        (LinkKind::Tcp, false) => Prices::TCP,
        (LinkKind::Shm | LinkKind::Inproc, true) => Prices::SHM_CROWDED,
        (LinkKind::Tcp, true) => Prices::TCP_CROWDED,
    };
    let ranks_per_processor = if condition.is_crowded { 2.0 } else { 1.0 };
    LinkTuning { condition, prices, ranks_per_processor, error: None }
}
