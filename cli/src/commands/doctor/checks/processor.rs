//! The processor: vector instructions, cores, the share of them that this process may use.

use std::fs;
use std::thread;

use hcomm::settings::Settings;
use rustix::thread::sched_getaffinity;

use super::Finding;

/// Vector instructions, then cores.
pub fn check(_: &Settings) -> Vec<Finding> {
    vec![vectors(), cores()]
}

#[cfg(target_arch = "x86_64")]
fn vectors() -> Finding {
    let is_avx512 = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    let is_avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c");
    match (is_avx512, is_avx2) {
        (true, _) => Finding::ok("vector unit", "AVX-512"),
        (false, true) => Finding::ok("vector unit", "AVX2"),
        (false, false) => Finding::part(
            "vector unit",
            "neither AVX-512 nor AVX2: reductions run element by element",
            "in a virtual machine, let the guest see the host's processor",
        ),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn vectors() -> Finding {
    let arch = std::env::consts::ARCH;
    Finding::part("vector unit", format!("no kernels for {arch}: reductions run element by element"), "")
}

fn cores() -> Finding {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let allowed = sched_getaffinity(None).map(|set| set.count() as usize).unwrap_or(0);
    // Also counts the control group's quota.
    let usable = thread::available_parallelism().map_or(1, usize::from);
    let detail = format!("{allowed} of those online ({})", online.trim());
    if usable < allowed {
        return Finding::part(
            "cores",
            format!("{detail}, but a quota of the control group allows the time of {usable}"),
            format!(
                "start at most {usable} ranks here, or raise cpu.max: waiting ranks spin less than they should"
            ),
        );
    }
    Finding::ok("cores", format!("{detail}; up to {usable} ranks have one each"))
}
