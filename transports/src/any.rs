//! [`AnyWire`]: the closed enum over all transports' wires, so that a call on a wire is a branch and not a table.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use hcomm_ops::RawSpan;

use crate::ring::RingWire;
use crate::sim::SimWire;
use crate::tcp::TcpWire;
use crate::{Arrival, Key, Lost, Room, Sent, Ticket, Wire, WireConfig};

/// Declares the enum and passes every call on: a new transport is one line in its use below.
macro_rules! any_wire {
    ($($(#[$doc:meta])* $kind:ident($wire:ty)),+ $(,)?) => {
        /// Any wire: dispatch is by this closed enum.
        // An endpoint holds its wires side by side; a box would cost every call a step.
        #[allow(clippy::large_enum_variant)]
        #[derive(Debug)]
        pub enum AnyWire {
            $($(#[$doc])* $kind($wire),)+
        }

        $(impl From<$wire> for AnyWire {
            fn from(wire: $wire) -> AnyWire {
                AnyWire::$kind(wire)
            }
        })+

        macro_rules! pass_on {
            ($any:expr, $one:ident => $call:expr) => {
                match $any {
                    $(AnyWire::$kind($one) => $call,)+
                }
            };
        }
    };
}

any_wire! {
    /// Through memory that both ends reach: in process, or a shared segment.
    Ring(RingWire),
    /// A TCP connection.
    Tcp(TcpWire),
    /// A network that is simulated.
    Sim(SimWire),
}

impl Wire for AnyWire {
    #[inline]
    fn config(&self) -> WireConfig {
        pass_on!(self, wire => wire.config())
    }

    #[inline]
    fn reserve(&mut self, key: Key, bytes: usize) -> Room {
        pass_on!(self, wire => wire.reserve(key, bytes))
    }

    #[inline]
    fn commit(&mut self, key: Key, bytes: usize) {
        pass_on!(self, wire => wire.commit(key, bytes))
    }

    #[inline]
    fn send_from(&mut self, key: Key, pieces: &[RawSpan], may_lend: bool) -> Sent {
        pass_on!(self, wire => wire.send_from(key, pieces, may_lend))
    }

    #[inline]
    fn lends_heap(&self) -> bool {
        pass_on!(self, wire => wire.lends_heap())
    }

    #[inline]
    fn is_done(&mut self, ticket: Ticket) -> bool {
        pass_on!(self, wire => wire.is_done(ticket))
    }

    #[inline]
    fn post(&mut self, key: Key, span: RawSpan) -> bool {
        pass_on!(self, wire => wire.post(key, span))
    }

    #[inline]
    fn may_have(&self, port: u16) -> bool {
        pass_on!(self, wire => wire.may_have(port))
    }

    #[inline]
    fn poll(&mut self, key: Key, bytes: usize) -> Arrival {
        pass_on!(self, wire => wire.poll(key, bytes))
    }

    #[inline]
    fn end_reading(&mut self, port: u16) -> bool {
        pass_on!(self, wire => wire.end_reading(port))
    }

    #[inline]
    fn release(&mut self, port: u16) {
        pass_on!(self, wire => wire.release(port))
    }

    #[inline]
    fn take(&mut self, key: Key, bytes: usize, read: impl FnOnce(RawSpan)) -> Arrival {
        pass_on!(self, wire => wire.take(key, bytes, read))
    }

    #[inline]
    fn can_pass_back(&mut self, from: u16, port: u16) -> bool {
        pass_on!(self, wire => wire.can_pass_back(from, port))
    }

    #[inline]
    fn pass_back(&mut self, from: u16, key: Key, bytes: usize) -> bool {
        pass_on!(self, wire => wire.pass_back(from, key, bytes))
    }

    #[inline]
    fn progress(&mut self) -> bool {
        pass_on!(self, wire => wire.progress())
    }

    #[inline]
    fn lost(&self) -> Option<&Lost> {
        pass_on!(self, wire => wire.lost())
    }

    fn mark_lost(&mut self, lost: Lost) {
        pass_on!(self, wire => wire.mark_lost(lost))
    }

    fn poll_fd(&self) -> Option<(BorrowedFd<'_>, bool)> {
        pass_on!(self, wire => wire.poll_fd())
    }

    fn next_wakeup(&self) -> Option<Duration> {
        pass_on!(self, wire => wire.next_wakeup())
    }

    fn is_flushed(&mut self) -> bool {
        pass_on!(self, wire => wire.is_flushed())
    }

    fn revoke(&mut self, operation: u32) -> bool {
        pass_on!(self, wire => wire.revoke(operation))
    }
}
