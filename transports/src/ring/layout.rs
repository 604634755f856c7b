//! [`Layout`]: where everything lies in the region of one direction. Pure arithmetic.

use std::ops::Range;

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
    /// Bodies that start in this region; none where all messages fit their headers.
    pub(crate) home: u32,
    /// The porch: the header behind those of the slots.
    pub(crate) porch_at: usize,
    /// `ports` lines.
    pub(crate) cursors_at: usize,
    /// A line for the count, then the entries.
    pub(crate) returns_at: usize,
    /// `home` bodies.
    pub(crate) bodies_at: usize,
    /// All of it, in whole pages: the most that is ever taken of the machine's memory for it.
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
        let home = if config.slot_bytes > INLINE_BYTES { slots + SPARE } else { 0 };
        let porch_at = slots * HEADER;
        let cursors_at = porch_at + HEADER;
        let returns_at = cursors_at + usize::from(config.ports) * LINE;
        let entries = 2 * home * size_of::<u32>();
        let bodies_at = (returns_at + LINE + entries).next_multiple_of(LINE);
        let total = (bodies_at + home * config.slot_bytes).next_multiple_of(4096);
        let home = u32::try_from(home).expect("at most 32,008 bodies");
        Ok(Layout { config, home, porch_at, cursors_at, returns_at, bodies_at, total })
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

    /// What is there from the start: porch, cursors and returns.
    pub(crate) fn front(&self) -> Range<usize> {
        self.porch_at..self.bodies_at
    }

    /// The headers of a port.
    pub(crate) fn headers(&self, port: u16) -> Range<usize> {
        let bytes = self.config.depth as usize * HEADER;
        let start = usize::from(port) * bytes;
        start..start + bytes
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
        assert_eq!(layout.porch_at, layout.headers(32).end);
        assert_eq!(layout.cursors_at, 133 * HEADER);
        assert_eq!(layout.returns_at, 133 * HEADER + 33 * 64);
        assert_eq!(layout.front(), 132 * HEADER..layout.bodies_at);
        assert!(layout.bodies_at >= layout.returns_at + 64 + 4 * 280);
        assert_eq!(layout.bodies_at % 64, 0);
        assert!(layout.total >= layout.bodies_at + 140 * 65_536);
    }

    #[test]
    fn messages_that_fit_their_headers_need_no_bodies() {
        let small = WireConfig { ports: 33, depth: 2, slot_bytes: 1024 };
        let layout = Layout::new(small).unwrap();
        assert_eq!((layout.home, layout.bodies()), (0, 0));
        assert!(layout.total < layout.bodies_at + 4096);
        assert!(Layout::new(WireConfig { slot_bytes: 1152, ..small }).unwrap().home > 0);
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
