//! [`Bucket`]: the token bucket with which a TCP wire plays a slower link. Pure: the time is an argument.

use std::time::{Duration, Instant};

/// How much unused time a bucket saves up. A sender that is not scheduled for a moment, as a network card never is,
/// makes up for it.
const SAVED: Duration = Duration::from_millis(1);
/// The bucket waits for this much link time before it lets a part of a long queue go, to make few writes of it.
const QUANTUM: Duration = Duration::from_micros(20);
const NS_PER_S: u128 = 1_000_000_000;

/// Says how many bytes may leave by now.
#[derive(Debug)]
pub struct Bucket {
    bytes_per_s: u64,
    /// Time, in bytes' worth, counted from here.
    since: Instant,
    /// Bytes let go since `since`.
    used: u64,
}

impl Bucket {
    /// A bucket for a link of `bytes_per_s`, full at `now`. A rate of 0 counts as 1.
    pub fn new(bytes_per_s: u64, now: Instant) -> Self {
        Bucket { bytes_per_s: bytes_per_s.max(1), since: now.checked_sub(SAVED).unwrap_or(now), used: 0 }
    }

    /// Of `wanted` bytes, how many may leave at `now`: 0 until it is worth a write.
    pub fn available(&mut self, wanted: usize, now: Instant) -> usize {
        let earned = self.earned(now);
        self.forget_surplus(earned, now);
        let ready = self.earned(now).saturating_sub(self.used);
        if ready < self.quantum(wanted) {
            0
        } else {
            usize::try_from(ready).unwrap_or(usize::MAX).min(wanted)
        }
    }

    /// Takes what has left.
    pub fn take(&mut self, bytes: usize) {
        self.used = self.used.saturating_add(bytes as u64);
    }

    /// How long until some of `wanted` bytes may leave.
    pub fn wait(&self, wanted: usize, now: Instant) -> Duration {
        let needed = self.used.saturating_add(self.quantum(wanted));
        let at = u128::from(needed) * NS_PER_S / u128::from(self.bytes_per_s) + 1;
        Duration::from_nanos(u64::try_from(at).unwrap_or(u64::MAX))
            .saturating_sub(now.saturating_duration_since(self.since))
    }

    fn quantum(&self, wanted: usize) -> u64 {
        (self.worth(QUANTUM)).max(1).min(wanted as u64)
    }

    fn earned(&self, now: Instant) -> u64 {
        self.worth(now.saturating_duration_since(self.since))
    }

    fn worth(&self, time: Duration) -> u64 {
        u64::try_from(time.as_nanos() * u128::from(self.bytes_per_s) / NS_PER_S).unwrap_or(u64::MAX)
    }

    /// Keeps no more than [`SAVED`] of unused time, and the counters small.
    fn forget_surplus(&mut self, earned: u64, now: Instant) {
        let most = self.worth(SAVED).max(1);
        if earned.saturating_sub(self.used) > most {
            self.since = now.checked_sub(SAVED).unwrap_or(now);
            self.used = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_holds_over_a_second() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10_000_000, start);
        let mut sent = 0;
        for step in 0..=100_000_u64 {
            let now = start + Duration::from_micros(step * 10);
            let ready = bucket.available(1 << 20, now);
            bucket.take(ready);
            sent += ready;
        }
        assert!((10_000_000..=10_020_000).contains(&sent), "{sent} bytes in a second of 10 MB/s");
    }

    #[test]
    fn after_the_wait_there_is_room_and_not_before() {
        let start = Instant::now();
        let mut bucket = Bucket::new(1_000_000, start);
        let ready = bucket.available(5000, start);
        assert_eq!(ready, 1000);
        bucket.take(ready);
        let wait = bucket.wait(5000, start);
        assert_eq!(bucket.available(5000, start + wait / 2), 0);
        assert!(bucket.available(5000, start + wait) > 0);
    }

    #[test]
    fn idle_time_is_saved_for_a_millisecond_only() {
        let start = Instant::now();
        let mut bucket = Bucket::new(1_000_000, start);
        assert_eq!(bucket.available(1 << 20, start + Duration::from_secs(5)), 1000);
    }

    #[test]
    fn a_link_of_one_byte_a_second_still_moves() {
        let start = Instant::now();
        let mut bucket = Bucket::new(0, start);
        let wait = bucket.wait(100, start);
        assert!(wait <= Duration::from_secs(1));
        assert_eq!(bucket.available(100, start + wait), 1);
    }
}
