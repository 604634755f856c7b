//! [`Held`]: tagged messages that come after operations which have not ended. They keep their place: those of the same tag that are posted
//! later wait behind them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use hcomm_ops::Rank;

use super::{Core, predecessors};
use crate::domain::p2p::Posted;
use crate::error::Failure;

/// Which end of a message is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// To the rank that it names.
    Send,
    /// From the rank that it names.
    Receive,
    /// From whichever sends first.
    ReceiveAny,
}

/// Messages by what keeps its order.
#[derive(Default)]
pub(super) struct Held(BTreeMap<Queue, VecDeque<Message>>);

/// Sends of a tag to a rank, or receives of a tag, among which there may be some from any rank.
type Queue = (Option<Rank>, u32);

struct Message {
    end: End,
    posted: Posted,
    /// When it was first looked at.
    since: Option<Instant>,
}

impl Core {
    /// Takes a message in: it is held where it, or one before it, comes after what has not ended.
    pub fn post(&mut self, end: End, posted: Posted) {
        let queue = queue_of(end, &posted);
        if posted.after.is_empty() && !self.held.0.contains_key(&queue) {
            return self.hand_on(end, posted, Ok(()));
        }
        self.follow(&posted.after);
        self.held.0.entry(queue).or_default().push_back(Message { end, posted, since: None });
        self.release_held();
    }

    /// Lets go of what need not wait any more. Returns whether there was any.
    pub(super) fn release_held(&mut self) -> bool {
        if self.held.0.is_empty() {
            return false;
        }
        let mut ready = Vec::new();
        for queue in self.held.0.values_mut() {
            while let Some(first) = queue.front()
                && let Some(state) = first.state()
                && let Some(message) = queue.pop_front()
            {
                ready.push((message, state));
            }
        }
        self.held.0.retain(|_, queue| !queue.is_empty());
        let any = !ready.is_empty();
        for (Message { end, posted, .. }, state) in ready {
            self.hand_on(end, posted, state);
        }
        any
    }

    /// Whether no message is held or on its way.
    pub(super) fn are_messages_idle(&self) -> bool {
        self.held.0.is_empty() && self.p2p.is_idle()
    }

    /// Ends all messages.
    pub(super) fn fail_messages(&mut self, failure: &Failure) {
        for message in std::mem::take(&mut self.held.0).into_values().flatten() {
            message.posted.operation.complete(Err(failure.clone()));
        }
        self.p2p.fail_all(failure);
    }

    /// Fails what is held for longer than its deadline.
    pub(super) fn check_held(&mut self, now: Instant) {
        let default = self.limits.deadline;
        for queue in self.held.0.values_mut() {
            queue.retain_mut(|message| {
                let elapsed = now.duration_since(*message.since.get_or_insert(now));
                let is_in_time = elapsed < message.posted.operation.deadline().unwrap_or(default);
                if !is_in_time {
                    let waiting = "it was waiting for the operations that it comes after".to_owned();
                    let failure = Failure::Deadline { call: message.describe(), elapsed, waiting };
                    message.posted.operation.complete(Err(failure));
                }
                is_in_time
            });
        }
        self.held.0.retain(|_, queue| !queue.is_empty());
    }

    /// Sends or receives it, if nothing that it came after has failed, and its buffer is ready.
    fn hand_on(&mut self, end: End, posted: Posted, state: Result<(), Failure>) {
        match (state.and_then(|()| posted.operation.take_off()), end) {
            (Err(failure), _) => posted.operation.complete(Err(failure)),
            (Ok(()), End::Send) => self.p2p.send(posted),
            (Ok(()), End::Receive) => self.p2p.receive(posted),
            (Ok(()), End::ReceiveAny) => self.p2p.receive_any(posted),
        }
    }
}

impl Message {
    /// Nothing while it must wait; then whether it may go on.
    fn state(&self) -> Option<Result<(), Failure>> {
        match predecessors(&self.posted.after) {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(cause) => Some(Err(Failure::Predecessor { call: self.describe(), cause })),
        }
    }

    fn describe(&self) -> String {
        let Posted { peer, tag, .. } = self.posted;
        match self.end {
            End::Send => format!("a send to rank {peer} with tag {tag}"),
            End::Receive => format!("a receive from rank {peer} with tag {tag}"),
            End::ReceiveAny => format!("a receive from any rank with tag {tag}"),
        }
    }
}

fn queue_of(end: End, posted: &Posted) -> Queue {
    ((end == End::Send).then_some(posted.peer), posted.tag)
}
