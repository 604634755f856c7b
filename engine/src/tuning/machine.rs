//! The machine that this process runs on, as a tuning file records it.

use std::fs;

use hcomm_planner::choose::tuning::Machine;

/// What Linux says of this machine; what it does not say is empty.
pub fn this_machine() -> Machine {
    let system = rustix::system::uname();
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let (cpu, count) = described(&processors);
    Machine {
        hostname: system.nodename().to_string_lossy().into_owned(),
        cpu,
        processors: count,
        kernel: system.release().to_string_lossy().into_owned(),
    }
}

/// The model and the number of the processors in the text of `/proc/cpuinfo`.
fn described(text: &str) -> (String, usize) {
    let value = |line: &str| line.split_once(':').map(|(_, value)| value.trim().to_owned());
    let cpu = text.lines().find(|line| line.starts_with("model name")).and_then(value);
    let count = text.lines().filter(|line| line.starts_with("processor")).count();
    (cpu.unwrap_or_default(), count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_and_named() {
        let text =
            "processor\t: 0\nmodel name\t: AMD EPYC 7B13\n\nprocessor\t: 1\nmodel name\t: AMD EPYC 7B13\n";
        assert_eq!(described(text), ("AMD EPYC 7B13".to_owned(), 2));
        assert_eq!(described(""), (String::new(), 0));
    }
}
