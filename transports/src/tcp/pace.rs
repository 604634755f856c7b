//! [`Bucket`]: the token bucket with which a TCP wire plays a slower link. Pure: the time is an argument.
//!
//! A link works off its queue whether or not the sender runs: while bytes are queued, time earns, however late the sender looks. An idle
//! link saves nothing up.

use std::time::{Duration, Instant};

/// The bucket waits for this much link time before it lets a part of a long queue go, to make few writes of it.
const QUANTUM: Duration = Duration::from_millis(1);
const NS_PER_S: u128 = 1_000_000_000;

/// Says how many bytes may leave by now.
#[derive(Debug)]
pub struct Bucket {
    bytes_per_s: u64,
    /// When the link began to work off its queue; `None` while it is idle.
    since: Option<Instant>,
    /// Bytes let go since `since`.
    used: u64,
}

impl Bucket {
    /// The bucket of an idle link of `bytes_per_s`. A rate of 0 counts as 1.
    pub fn new(bytes_per_s: u64) -> Self {
        Bucket { bytes_per_s: bytes_per_s.max(1), since: None, used: 0 }
    }

    /// Of `wanted` bytes in the queue, how many may leave at `now`: 0 until it is worth a write.
    pub fn available(&mut self, wanted: usize, now: Instant) -> usize {
        if wanted == 0 {
            return 0;
        }
        let since = *self.since.get_or_insert(now);
        let ready = self.worth(now.saturating_duration_since(since)).saturating_sub(self.used);
        if ready < self.quantum(wanted) {
            0
        } else {
            usize::try_from(ready).unwrap_or(usize::MAX).min(wanted)
        }
    }

    /// Takes what has left, of which `queued` bytes remain.
    pub fn take(&mut self, bytes: usize, queued: usize) {
        self.used = self.used.saturating_add(bytes as u64);
        if queued == 0 {
            self.since = None;
            self.used = 0;
        }
    }

    /// How long until some of `wanted` bytes may leave.
    pub fn wait(&self, wanted: usize, now: Instant) -> Duration {
        let needed = self.used.saturating_add(self.quantum(wanted));
        let at = u128::from(needed) * NS_PER_S / u128::from(self.bytes_per_s) + 1;
        let passed = self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        Duration::from_nanos(u64::try_from(at).unwrap_or(u64::MAX)).saturating_sub(passed)
    }

    fn quantum(&self, wanted: usize) -> u64 {
        (self.worth(QUANTUM)).max(1).min(wanted as u64)
    }

    fn worth(&self, time: Duration) -> u64 {
        u64::try_from(time.as_nanos() * u128::from(self.bytes_per_s) / NS_PER_S).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: usize = 1 << 24;

    /// Looks at the bucket of a long queue at `now`, and sends what it lets go.
    fn send(bucket: &mut Bucket, now: Instant) -> usize {
        let ready = bucket.available(LONG, now);
        bucket.take(ready, LONG);
        ready
    }

    #[test]
    fn the_rate_holds_over_a_second_however_rarely_one_looks() {
        let start = Instant::now();
        for step_us in [10, 3_000, 70_000] {
            let mut bucket = Bucket::new(10_000_000);
            let looks = (0..=1_000_000 / step_us).map(|step| start + Duration::from_micros(step * step_us));
            let sent: usize = looks.map(|now| send(&mut bucket, now)).sum();
            assert!((9_200_000..=10_000_000).contains(&sent), "{sent} bytes in a second of 10 MB/s");
        }
    }

    #[test]
    fn after_the_wait_there_is_room_and_not_before() {
        let start = Instant::now();
        let mut bucket = Bucket::new(1_000_000);
        assert_eq!(send(&mut bucket, start), 0);
        let wait = bucket.wait(5000, start);
        assert_eq!(bucket.available(5000, start + wait / 2), 0);
        assert!(bucket.available(5000, start + wait) > 0);
    }

    #[test]
    fn an_idle_link_saves_nothing_up() {
        let start = Instant::now();
        let mut bucket = Bucket::new(1_000_000);
        assert_eq!(bucket.available(100, start), 0);
        assert_eq!(bucket.available(100, start + Duration::from_millis(5)), 100);
        bucket.take(100, 0);
        assert_eq!(bucket.available(LONG, start + Duration::from_secs(5)), 0);
    }

    #[test]
    fn a_link_of_one_byte_a_second_still_moves() {
        let start = Instant::now();
        let mut bucket = Bucket::new(0);
        assert_eq!(bucket.available(100, start), 0);
        let wait = bucket.wait(100, start);
        assert!(wait <= Duration::from_secs(1) + Duration::from_nanos(1));
        assert_eq!(bucket.available(100, start + wait), 1);
    }
}
