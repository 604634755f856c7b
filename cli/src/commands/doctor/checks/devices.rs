//! Devices that this version sees but does not use yet: RDMA adapters and GPUs.

use std::fs;
use std::path::Path;

use hcomm::settings::Settings;

use super::Finding;

const DRIVER: &str = "libcuda.so.1";
const LIBRARY_FOLDERS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/cuda/compat",
];

/// RDMA adapters, GPUs.
pub fn check(settings: &Settings) -> Vec<Finding> {
    vec![adapters(settings), gpus()]
}

fn adapters(settings: &Settings) -> Finding {
    let names = entries(Path::new("/sys/class/infiniband"), "");
    if names.is_empty() {
        return Finding::no("RDMA", "no adapter in /sys/class/infiniband; TCP is used between hosts", "");
    }
    let (used, left): (Vec<String>, Vec<String>) =
        names.into_iter().partition(|name| settings.ib_hca.admits(name));
    let left_out = if left.is_empty() {
        String::new()
    } else {
        format!(" (HCOMM_IB_HCA leaves out {})", left.join(", "))
    };
    let detail = format!(
        "{}{left_out}: this version has no RDMA transport; TCP is used between hosts",
        used.join(", ")
    );
    Finding::no("RDMA", detail, "name its IP-over-InfiniBand or Ethernet interface in HCOMM_SOCKET_IFNAME")
}

fn gpus() -> Finding {
    let devices = entries(Path::new("/dev"), "nvidia");
    let count = devices.iter().filter(|name| name["nvidia".len()..].parse::<u32>().is_ok()).count();
    match (count, has_driver()) {
        (0, _) => Finding::no("GPUs", "no /dev/nvidia*; host memory only", ""),
        (count, false) => Finding::no(
            "GPUs",
            format!("{count} in /dev, but no {DRIVER}"),
            "install the driver's library, or let the container see it; this version uses host memory only",
        ),
        (count, true) => Finding::no(
            "GPUs",
            format!("{count}, with {DRIVER}: this version uses host memory only"),
            "copy to host memory before a call and back after it",
        ),
    }
}

fn has_driver() -> bool {
    let searched = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let folders =
        searched.split(':').filter(|folder| !folder.is_empty()).chain(LIBRARY_FOLDERS.iter().copied());
    folders.into_iter().any(|folder| Path::new(folder).join(DRIVER).exists())
}

/// The names in a folder that begin with `prefix`, sorted.
fn entries(folder: &Path, prefix: &str) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort();
    names
}
