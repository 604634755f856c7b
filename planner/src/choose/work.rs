//! [`Work`]: what an algorithm asks of its busiest rank, from which the cost model predicts its time.

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

    /// A reduce to a rank, then a broadcast from there, whose input lies where its output is. Where the root does most, it
    /// receives in the one and sends in the other; where nobody moves more than a vector, all pass it on in both.
    pub fn then_back(self, broadcast: Work) -> Work {
        let both = self.then(broadcast.in_place(1.0));
        let passed_on = |sent: PerLink| sent.local + sent.remote <= 1.0;
        if passed_on(self.sent) && passed_on(broadcast.sent) {
            return both;
        }
        let most =
            |a: PerLink, b: PerLink| PerLink { local: a.local.max(b.local), remote: a.remote.max(b.remote) };
        let messages = most(self.messages, broadcast.messages);
        Work { messages, sent: most(self.sent, broadcast.sent), ..both }
    }

    /// Without the copy of an input, so much of the full buffer, that lies in the output already.
    pub fn in_place(self, input: f64) -> Work {
        Work { copied: (self.copied - input).max(0.0), ..self }
    }
}
