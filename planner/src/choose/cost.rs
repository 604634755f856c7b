//! [`Costs`]: what messages, bytes and arithmetic take, per class of link. Times are sums of products: no machine rounds them otherwise
//! than another, so that all ranks compute the same table from the same costs.

use super::Amounts;
use crate::topology::LinkClass;

/// The cost of messages over one class of link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkCost {
    /// From the call that sends to the call that receives, with nothing else under way.
    pub latency_ns: f64,
    /// Processor time per message.
    pub message_ns: f64,
    /// What a message that waits for another costs in every tile after the first.
    pub wait_ns: f64,
    /// Inverse of the bandwidth of one rank (of one host, for links between hosts).
    pub byte_ns: f64,
}

/// What things cost; equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Inside a host.
    pub local: LinkCost,
    /// Between hosts.
    pub remote: LinkCost,
    /// Folding one byte into another.
    pub reduce_byte_ns: f64,
    /// Copying a byte.
    pub copy_byte_ns: f64,
}

impl Costs {
    /// Ranks of a host talk through shared memory, hosts over TCP.
    pub const fn shm() -> Costs {
        Costs::of(&Prices::SHM, &Prices::TCP)
    }

    /// Ranks are threads of one process.
    pub const fn inproc() -> Costs {
        Costs::of(&Prices::INPROC, &Prices::TCP)
    }

    /// All ranks talk over TCP.
    pub const fn tcp() -> Costs {
        Costs::of(&Prices::TCP, &Prices::TCP)
    }

    /// The prices of two kinds of link; arithmetic costs what it does beside the first.
    pub const fn of(local: &Prices, remote: &Prices) -> Costs {
        let Prices { reduce_byte_ns, copy_byte_ns, .. } = *local;
        Costs { local: local.link, remote: remote.link, reduce_byte_ns, copy_byte_ns }
    }

    /// The predicted time of some amounts, in nanoseconds.
    pub fn time_ns(&self, amounts: &Amounts) -> f64 {
        self.waiting_ns(amounts) + self.moving_ns(amounts)
    }

    /// The part of the time that messages take however short they are.
    pub fn waiting_ns(&self, amounts: &Amounts) -> f64 {
        let mut time = 0.0;
        for (class, cost) in [(LinkClass::Local, &self.local), (LinkClass::Remote, &self.remote)] {
            time += amounts.steps.of(class) * cost.latency_ns
                + amounts.messages.of(class) * cost.message_ns
                + amounts.waits.of(class) * cost.wait_ns;
        }
        time
    }

    /// The part that grows with the bytes.
    pub fn moving_ns(&self, amounts: &Amounts) -> f64 {
        amounts.bytes.local * self.local.byte_ns
            + amounts.bytes.remote * self.remote.byte_ns
            + amounts.reduced_bytes * self.reduce_byte_ns
            + amounts.copied_bytes * self.copy_byte_ns
    }
}

impl Default for Costs {
    fn default() -> Self {
        Costs::shm()
    }
}

/// All that is measured of one kind of link, under one condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Messages.
    pub link: LinkCost,
    /// Folding one byte into another.
    pub reduce_byte_ns: f64,
    /// Copying a byte.
    pub copy_byte_ns: f64,
}

impl Prices {
    /// How many there are.
    pub const COUNT: usize = 6;

    /// As a list, in the order of their names in a tuning file.
    pub const fn to_array(self) -> [f64; Prices::COUNT] {
        let LinkCost { latency_ns, message_ns, wait_ns, byte_ns } = self.link;
        [latency_ns, message_ns, wait_ns, byte_ns, self.reduce_byte_ns, self.copy_byte_ns]
    }

    /// From a list.
    pub const fn from_array(prices: [f64; Prices::COUNT]) -> Prices {
        let [latency_ns, message_ns, wait_ns, byte_ns, reduce_byte_ns, copy_byte_ns] = prices;
        Prices { link: LinkCost { latency_ns, message_ns, wait_ns, byte_ns }, reduce_byte_ns, copy_byte_ns }
    }

    /// All of them so many times as high.
    pub fn times(self, factor: f64) -> Prices {
        Prices::from_array(self.to_array().map(|price| price * factor))
    }
}
