//! Wires between ranks that are threads of one process: rings in ordinary memory, and large messages lent, so that the
//! peer reads them where they lie.

use std::io;
use std::sync::Arc;

use hcomm_ops::Rank;

use crate::mapping::Mapping;
use crate::ring::{BadConfig, Ends, Layout, Lends, Region, RingWire};
use crate::{AnyWire, Doorbell, Endpoint, Ringer, WireConfig, files};

/// A mesh could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MeshError {
    /// The dimensions are impossible.
    #[error(transparent)]
    Config(#[from] BadConfig),
    /// The kernel refused memory or a file descriptor.
    #[error(
        "the wires of {world} ranks in process need {bytes} bytes of address space and {world} eventfds: {}",
        files::explain(source)
    )]
    System {
        /// Ranks.
        world: usize,
        /// Of all wires together.
        bytes: usize,
        /// What the kernel said.
        source: io::Error,
    },
}

/// The endpoints of `world` ranks, by rank, each with a wire to every other.
///
/// # Errors
/// Where the dimensions are impossible, or the process is out of address space or file descriptors.
pub fn mesh(world: usize, config: WireConfig) -> Result<Vec<Endpoint>, MeshError> {
    mesh_from(world, config, 0)
}

/// The same, with the ports' sequence numbers starting at `first`: tests start just below their wrap.
///
/// # Errors
/// As [`mesh`].
#[doc(hidden)]
pub fn mesh_from(world: usize, config: WireConfig, first: u32) -> Result<Vec<Endpoint>, MeshError> {
    files::raise_limit();
    let layout = Layout::new(config)?;
    let bytes = world * world.saturating_sub(1) * layout.total;
    build(world, layout, first).map_err(|source| MeshError::System { world, bytes, source })
}

fn build(world: usize, layout: Layout, first: u32) -> io::Result<Vec<Endpoint>> {
    let mut endpoints = (0..world).map(|_| unconnected(world)).collect::<io::Result<Vec<_>>>()?;
    let ringers: Vec<Ringer> = endpoints.iter().map(|endpoint| endpoint.doorbell.ringer()).collect();
    for low in 0..world {
        for high in low + 1..world {
            let [from_low, from_high] = pair(layout, first, &ringers, low, high)?;
            endpoints[low].wires[high] = Some(AnyWire::Ring(from_low));
            endpoints[high].wires[low] = Some(AnyWire::Ring(from_high));
        }
    }
    Ok(endpoints)
}

fn unconnected(world: usize) -> io::Result<Endpoint> {
    Ok(Endpoint { wires: (0..world).map(|_| None).collect(), doorbell: Doorbell::new()?, heap: None })
}

/// Both ends of one wire.
fn pair(layout: Layout, first: u32, ringers: &[Ringer], low: Rank, high: Rank) -> io::Result<[RingWire; 2]> {
    let mapping: Arc<Mapping> = Mapping::anonymous(2 * layout.total)?;
    let region = |side: usize| Region::new(&mapping, side * layout.total, layout);
    let end = |side: usize, peer: Rank| {
        let ringer = ringers[peer].clone();
        let regions = [region(0), region(1)];
        let ends = Ends { regions, side, ringer, lends: Lends::WithinProcess, first };
        RingWire::new(ends).map_err(io::Error::other)
    };
    Ok([end(0, high)?, end(1, low)?])
}
