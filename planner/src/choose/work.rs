//! [`Work`]: what an algorithm asks of its busiest rank, from which the cost model predicts its time.

use crate::algorithm::Call;
use crate::topology::LinkClass;

/// How many of something go over each class of link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PerLink {
    /// Inside a host.
    pub local: f64,
    /// Between hosts.
    pub remote: f64,
}

impl PerLink {
    /// The amount of one class.
    pub fn of(&self, class: LinkClass) -> f64 {
        match class {
            LinkClass::Local => self.local,
            LinkClass::Remote => self.remote,
        }
    }

    /// Replaces the amount of one class.
    pub fn set(&mut self, class: LinkClass, amount: f64) {
        match class {
            LinkClass::Local => self.local = amount,
            LinkClass::Remote => self.remote = amount,
        }
    }

    /// Both together.
    pub fn and(self, other: PerLink) -> PerLink {
        PerLink { local: self.local + other.local, remote: self.remote + other.remote }
    }
}

/// Who talks to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Neighbours on a ring: one rank of a host sends to another host.
    Neighbours,
    /// Peers anywhere: all ranks of a host share its way out.
    Everyone,
}

/// The work of the busiest rank. Bytes are fractions of the full buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Messages that wait for one another.
    pub steps: PerLink,
    /// Messages that the rank sends or receives, whichever is more.
    pub messages: PerLink,
    /// Bytes that leave (or reach) the rank; those to other hosts counted for all ranks that share the way.
    pub sent: PerLink,
    /// Bytes folded into others.
    pub reduced: f64,
    /// Bytes copied locally beside that.
    pub copied: f64,
    /// How often an element is rounded to its type on its way into a result.
    pub roundings: u32,
}

impl Work {
    /// `steps` steps, `messages` messages and `sent` full buffers over the links that the pattern uses.
    pub fn new(call: &Call<'_>, pattern: Pattern, steps: usize, messages: usize, sent: f64) -> Work {
        let hosts = call.topology.host_names().len();
        let (steps, messages) = (steps as f64, messages as f64);
        let per_host = call.world as f64 / hosts as f64;
        let (far, sharing) = match pattern {
            _ if hosts < 2 => (0.0, 0.0),
            Pattern::Neighbours => (1.0, 1.0),
            Pattern::Everyone => ((call.world as f64 - per_host) / (call.world as f64 - 1.0), per_host),
        };
        let split = |amount: f64| PerLink { local: amount * (1.0 - far), remote: amount * far };
        Work {
            steps: if hosts < 2 { split(steps) } else { PerLink { local: 0.0, remote: steps } },
            messages: split(messages),
            sent: PerLink { local: sent * (1.0 - far), remote: sent * far * sharing },
            ..Work::default()
        }
    }

    /// And `reduced` full buffers folded, each element rounded `roundings` times.
    pub fn reducing(self, reduced: f64, roundings: usize) -> Work {
        Work { reduced, roundings: roundings as u32, ..self }
    }

    /// And `copied` full buffers copied.
    pub fn copying(self, copied: f64) -> Work {
        Work { copied, ..self }
    }

    /// The work of a step on `part` of the whole buffer, where `sharing` ranks of each host carry it out at once.
    pub fn scaled(self, part: f64, sharing: f64) -> Work {
        let sent = PerLink { local: self.sent.local * part, remote: self.sent.remote * part * sharing };
        Work { sent, reduced: self.reduced * part, copied: self.copied * part, ..self }
    }

    /// This, then that.
    pub fn then(self, next: Work) -> Work {
        Work {
            steps: self.steps.and(next.steps),
            messages: self.messages.and(next.messages),
            sent: self.sent.and(next.sent),
            reduced: self.reduced + next.reduced,
            copied: self.copied + next.copied,
            roundings: self.roundings + next.roundings,
        }
    }
}
