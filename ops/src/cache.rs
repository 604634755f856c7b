//! How much the processors' caches hold.

use std::sync::LazyLock;

static LAST_LEVEL: LazyLock<u64> = LazyLock::new(|| {
    let size = |index: usize| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        parse(std::fs::read_to_string(path).ok()?.trim())
    };
    (0..8).filter_map(size).max().unwrap_or(32 << 20)
});

/// Bytes of the largest cache of the first processor; 32 MiB where the system does not say.
pub fn last_level_cache_bytes() -> u64 {
    *LAST_LEVEL
}

/// A size as the system writes it: `32768K`.
fn parse(size: &str) -> Option<u64> {
    let (digits, shift) = match size.as_bytes().last()? {
        b'K' => (&size[..size.len() - 1], 10),
        b'M' => (&size[..size.len() - 1], 20),
        _ => (size, 0),
    };
    digits.parse::<u64>().ok()?.checked_shl(shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_system_writes_them() {
        let sizes = ["32768K", "1M", "512", "", "K", "x"].map(parse);
        assert_eq!(sizes, [Some(32 << 20), Some(1 << 20), Some(512), None, None, None]);
        assert!(last_level_cache_bytes() >= 1 << 10);
    }
}
