//! Which processor each rank is kept on.

use std::fs;
use std::io;

use rustix::thread::{CpuSet, sched_getaffinity};

/// The processors that this process may use, in the order in which ranks get them: one hardware thread of every core, then
/// the cores' second threads.
pub fn processors() -> io::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None)?;
    let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    Ok(spread(cpus.map(|cpu| (cpu, core_of(cpu))).collect()))
}

/// A set of one processor.
pub fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

/// A name for the core that a processor belongs to; its own number where the system does not say.
fn core_of(cpu: usize) -> String {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    fs::read_to_string(path).unwrap_or_else(|_| cpu.to_string())
}

/// Orders processors by which thread of its core each is, then by number.
fn spread(cpus: Vec<(usize, String)>) -> Vec<usize> {
    let thread = |at: usize| cpus[..at].iter().filter(|(_, core)| *core == cpus[at].1).count();
    let mut order: Vec<(usize, usize)> = (0..cpus.len()).map(|at| (thread(at), cpus[at].0)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, cpu)| cpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_come_before_their_second_threads() {
        let cpus = [(0, "0,4"), (1, "1,5"), (4, "0,4"), (5, "1,5"), (7, "7")];
        let cpus = cpus.map(|(cpu, core)| (cpu, core.to_owned())).to_vec();
        assert_eq!(spread(cpus), [0, 1, 7, 4, 5]);
    }

    #[test]
    fn there_is_a_processor_to_run_this() {
        assert!(!processors().expect("the affinity mask can be read").is_empty());
    }
}
