//! [`SimWire`]: one rank's end of a wire on the simulated network.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use hcomm_ops::{Rank, RawSpan};

use super::lock;
use super::net::Net;
use crate::{Arrival, Key, Lost, Room, Sent, Ticket, Wire, WireConfig};

/// One rank's end of a simulated wire.
#[derive(Debug)]
pub struct SimWire {
    net: Arc<Mutex<Net>>,
    config: WireConfig,
    own: Rank,
    peer: Rank,
    lost: OnceLock<Lost>,
}

impl SimWire {
    pub(super) fn new(net: Arc<Mutex<Net>>, config: WireConfig, own: Rank, peer: Rank) -> SimWire {
        SimWire { net, config, own, peer, lost: OnceLock::new() }
    }

    fn net(&self) -> MutexGuard<'_, Net> {
        lock(&self.net)
    }
}

impl Wire for SimWire {
    fn config(&self) -> WireConfig {
        self.config
    }

    fn reserve(&mut self, key: Key, bytes: usize) -> Room {
        self.net().reserve(self.own, self.peer, key.port, bytes)
    }

    fn commit(&mut self, key: Key, bytes: usize) {
        self.net().commit(self.own, self.peer, key, bytes);
    }

    fn send_from(&mut self, key: Key, pieces: &[RawSpan], may_lend: bool) -> Sent {
        self.net().send_from(self.own, self.peer, key, pieces, may_lend)
    }

    fn is_done(&mut self, ticket: Ticket) -> bool {
        self.net().is_done(self.own, self.peer, ticket)
    }

    fn post(&mut self, key: Key, span: RawSpan) -> bool {
        self.net().post(self.peer, self.own, key, span)
    }

    fn poll(&mut self, key: Key, bytes: usize) -> Arrival {
        self.net().poll(self.peer, self.own, key, bytes)
    }

    fn release(&mut self, port: u16) {
        self.net().release(self.peer, self.own, port);
    }

    fn progress(&mut self) -> bool {
        false
    }

    fn lost(&self) -> Option<&Lost> {
        if self.lost.get().is_none() && self.net().is_lost(self.peer, self.own) {
            self.lost.get_or_init(|| Lost { cause: format!("the simulated rank {} died", self.peer) });
        }
        self.lost.get()
    }

    fn mark_lost(&mut self, lost: Lost) {
        self.lost.get_or_init(|| lost);
    }

    fn is_flushed(&mut self) -> bool {
        self.net().is_flushed(self.own, self.peer)
    }

    fn revoke(&mut self, operation: u32) -> bool {
        self.net().revoke(self.own, self.peer, |of| of == operation)
    }
}

impl Drop for SimWire {
    /// What is lent and not being read is called back; what the peer lent is no longer read.
    fn drop(&mut self) {
        self.net().revoke(self.own, self.peer, |_| true);
    }
}
