//! [`Layout`]: where everything lies in the region of one direction. Pure arithmetic.

use crate::WireConfig;

/// The unit in which processors pass memory to each other.
pub(crate) const LINE: usize = 64;

/// A message's header: lines in pairs, which processors often fetch together; a tiny message touches only the first. What fits
/// here needs no body. Longer payloads are better off in bodies, which are written by who has just read them.
pub(crate) const HEADER: usize = 18 * LINE;

/// Payload that fits in the header behind flag, length and credit.
pub(crate) const INLINE_BYTES: usize = HEADER - 24;

/// How many bodies an end may hold beyond those it started with.
pub(crate) const SPARE: usize = if cfg!(loom) { 1 } else { 8 };

/// Offsets, in bytes from the start of a region, and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The wire's dimensions.
    pub(crate) config: WireConfig,
    /// Bodies that start in this region.
    pub(crate) home: u32,
    /// `ports` lines.
    pub(crate) cursors_at: usize,
    /// A line for the count, then the entries.
    pub(crate) returns_at: usize,
    /// `home` bodies.
    pub(crate) bodies_at: usize,
    /// All of it, in whole pages.
    pub(crate) total: usize,
}

/// A wire of these dimensions cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a wire cannot have {ports} ports of {depth} slots of {slot_bytes} bytes: there must be at least 1 port and 2 slots, at most 32,000 \
     slots in all, of a multiple of 128 bytes up to 1 GiB",
    ports = .0.ports, depth = .0.depth, slot_bytes = .0.slot_bytes
)]
pub struct BadConfig(pub WireConfig);

impl Layout {
    /// Lays out a region of a wire of these dimensions.
    pub(crate) fn new(config: WireConfig) -> Result<Layout, BadConfig> {
        let slots = usize::from(config.ports).saturating_mul(config.depth as usize);
        let slot_ok = config.slot_bytes.is_multiple_of(128) && (1..=1 << 30).contains(&config.slot_bytes);
        if config.ports == 0 || config.depth < 2 || slots > 32_000 || !slot_ok {
            return Err(BadConfig(config));
        }
        let home = slots + SPARE;
        let cursors_at = slots * HEADER;
        let returns_at = cursors_at + usize::from(config.ports) * LINE;
        let entries = 2 * home * size_of::<u32>();
        let bodies_at = (returns_at + LINE + entries).next_multiple_of(LINE);
        let total = (bodies_at + home * config.slot_bytes).next_multiple_of(4096);
        let home = u32::try_from(home).expect("at most 32,008 bodies");
        Ok(Layout { config, home, cursors_at, returns_at, bodies_at, total })
    }

    /// Bodies of both regions together: also how many entries the returns have.
    #[inline]
    pub(crate) fn bodies(&self) -> u32 {
        2 * self.home
    }

    /// Slots of all ports.
    pub(crate) fn slots(&self) -> usize {
        usize::from(self.config.ports) * self.config.depth as usize
    }

    /// How many bodies an end may hold, counting what it sent and does not know to be released.
    pub(crate) fn limit(&self) -> usize {
        self.home as usize + SPARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other() {
        let layout = Layout::new(WireConfig { ports: 33, depth: 4, slot_bytes: 65_536 }).unwrap();
        assert_eq!(layout.home, 33 * 4 + 8);
        assert_eq!(layout.cursors_at, 132 * HEADER);
        assert_eq!(layout.returns_at, 132 * HEADER + 33 * 64);
        assert!(layout.bodies_at >= layout.returns_at + 64 + 4 * 280);
        assert_eq!(layout.bodies_at % 64, 0);
        assert!(layout.total >= layout.bodies_at + 140 * 65_536);
    }

    #[test]
    fn impossible_dimensions_are_refused() {
        for (ports, depth, slot_bytes) in
            [(0, 2, 128), (1, 1, 128), (1, 2, 0), (1, 2, 100), (u16::MAX, 2, 128), (1, 2, 1 << 31)]
        {
            let config = WireConfig { ports, depth, slot_bytes };
            assert_eq!(Layout::new(config), Err(BadConfig(config)));
        }
    }
}
