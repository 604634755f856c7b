//! [`Costs`]: what messages, bytes and arithmetic take, per class of link; and the time that follows from a [`Work`].

use super::Work;
use crate::topology::LinkClass;

/// The cost of messages over one class of link.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkCost {
    /// From the call that sends to the call that receives, with nothing else under way.
    pub latency_ns: f64,
    /// Processor time per message.
    pub message_ns: f64,
    /// Inverse of the bandwidth of one rank (of one host, for links between hosts).
    pub byte_ns: f64,
}

/// What things cost; equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
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

/// Between processes of one host, through slots that stay in cache.
const SHM: LinkCost = LinkCost { latency_ns: 350.0, message_ns: 90.0, byte_ns: 0.10 };
/// Between threads of one process.
const INPROC: LinkCost = LinkCost { latency_ns: 250.0, message_ns: 60.0, byte_ns: 0.06 };
/// Through the kernel's sockets.
const TCP: LinkCost = LinkCost { latency_ns: 20_000.0, message_ns: 3_000.0, byte_ns: 0.5 };

impl Costs {
    /// Ranks of a host talk through shared memory, hosts over TCP.
    pub const fn shm() -> Costs {
        Costs { local: SHM, remote: TCP, reduce_byte_ns: 0.05, copy_byte_ns: 0.05 }
    }

    /// Ranks are threads of one process.
    pub const fn inproc() -> Costs {
        Costs { local: INPROC, ..Costs::shm() }
    }

    /// All ranks talk over TCP.
    pub const fn tcp() -> Costs {
        Costs { local: TCP, ..Costs::shm() }
    }

    /// The predicted time is `fixed + bytes x per_byte`, in nanoseconds.
    pub fn line(&self, work: &Work) -> Line {
        let mut line = Line {
            fixed_ns: 0.0,
            byte_ns: work.reduced * self.reduce_byte_ns + work.copied * self.copy_byte_ns,
        };
        for (class, cost) in [(LinkClass::Local, &self.local), (LinkClass::Remote, &self.remote)] {
            line.fixed_ns +=
                work.steps.of(class) * cost.latency_ns + work.messages.of(class) * cost.message_ns;
            line.byte_ns += work.sent.of(class) * cost.byte_ns;
        }
        line
    }
}

impl Default for Costs {
    fn default() -> Self {
        Costs::shm()
    }
}

/// A time that grows with the bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// At no bytes.
    pub fixed_ns: f64,
    /// Per byte of the full buffer.
    pub byte_ns: f64,
}

impl Line {
    /// The time at so many bytes.
    pub fn at(&self, bytes: u64) -> f64 {
        self.fixed_ns + self.byte_ns * bytes as f64
    }
}
