//! [`CpuSet`]: which processors, in the kernel's list syntax.

use super::Value;

/// Processor numbers, ascending, each once; empty means "no choice made".
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    cpus: Vec<u32>,
}

/// Above any processor number that Linux gives out.
const LIMIT: u32 = 8192;

impl CpuSet {
    /// The processors of `cpus`.
    pub fn new(cpus: impl IntoIterator<Item = u32>) -> Self {
        let mut cpus: Vec<u32> = cpus.into_iter().filter(|&cpu| cpu < LIMIT).collect();
        cpus.sort_unstable();
        cpus.dedup();
        CpuSet { cpus }
    }

    /// Reads a list such as `0-3,8`; the empty text is the empty set.
    pub fn parse(text: &str) -> Option<Self> {
        let parts = text.split(',').map(str::trim).filter(|_| !text.trim().is_empty());
        let ranges: Option<Vec<_>> = parts.map(range).collect();
        Some(CpuSet::new(ranges?.into_iter().flatten()))
    }

    /// The processor numbers, ascending.
    pub fn as_slice(&self) -> &[u32] {
        &self.cpus
    }

    /// Whether no processor is named.
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }
}

/// `3` or `0-3`.
fn range(text: &str) -> Option<std::ops::RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last && last < LIMIT).then_some(first..=last)
}

impl Value for CpuSet {
    fn read(&mut self, text: &str) -> bool {
        CpuSet::parse(text).map(|value| *self = value).is_some()
    }

    fn show(&self) -> String {
        let runs = self.cpus.chunk_by(|a, b| a + 1 == *b);
        let parts: Vec<String> = runs
            .map(|run| match run {
                [first, .., last] => format!("{first}-{last}"),
                _ => run.iter().map(u32::to_string).collect(),
            })
            .collect();
        parts.join(",")
    }

    fn form(&self) -> String {
        format!("a list of processors such as 0-3,8, each below {LIMIT}, or nothing")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_shows_the_kernel_syntax() {
        for (text, shown) in
            [("0-3,8", "0-3,8"), (" 5 , 4,1", "1,4-5"), ("", ""), ("7-7", "7"), ("1,1,2", "1-2")]
        {
            assert_eq!(CpuSet::parse(text).map(|set| set.show()).as_deref(), Some(shown), "{text}");
        }
    }

    #[test]
    fn refuses_backward_endless_and_empty_parts() {
        for text in ["3-0", "0-4294967295", "0-8192", "1,,2", "a", "-3", "1-"] {
            assert_eq!(CpuSet::parse(text), None, "{text}");
        }
    }
}
