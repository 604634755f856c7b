//! TCP: the loopback interface, at which the ranks of a host meet, and the interfaces to other hosts.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use hcomm::settings::{NameFilter, Settings};

use super::Finding;

const PATIENCE: Duration = Duration::from_secs(2);

/// Loopback, then every other interface.
pub fn check(settings: &Settings) -> Vec<Finding> {
    vec![loopback(), interfaces(&settings.socket_ifname)]
}

fn loopback() -> Finding {
    match try_loopback() {
        Ok(()) => Finding::ok("loopback TCP", "127.0.0.1 takes connections").needed(),
        Err(error) => Finding::no(
            "loopback TCP",
            format!("no connection to 127.0.0.1: {error}"),
            "bring the interface up (`ip link set lo up`) or allow it in the firewall; ranks of a host meet there",
        )
        .needed(),
    }
}

fn try_loopback() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut near = TcpStream::connect_timeout(&listener.local_addr()?, PATIENCE)?;
    let (mut far, _) = listener.accept()?;
    far.set_read_timeout(Some(PATIENCE))?;
    near.write_all(b"?")?;
    far.read_exact(&mut [0])
}

fn interfaces(filter: &NameFilter) -> Finding {
    let names = up_interfaces(Path::new("/sys/class/net"));
    let (used, left): (Vec<String>, Vec<String>) = names.into_iter().partition(|name| filter.admits(name));
    let named = |names: &[String]| names.iter().map(|name| with_speed(name)).collect::<Vec<_>>().join(", ");
    match (used.as_slice(), left.as_slice()) {
        ([], []) => Finding::part("interfaces", "none is up: only ranks of this host can meet", ""),
        ([], left) => Finding::part(
            "interfaces",
            format!("HCOMM_SOCKET_IFNAME leaves out all that are up: {}", named(left)),
            "name one of them in HCOMM_SOCKET_IFNAME, or unset it",
        ),
        (used, []) => Finding::ok("interfaces", named(used)),
        (used, left) => Finding::ok(
            "interfaces",
            format!("{}; left out by HCOMM_SOCKET_IFNAME: {}", named(used), named(left)),
        ),
    }
}

/// The interfaces of `folder` that are up, loopback apart, by name.
fn up_interfaces(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_up = |name: &String| {
        let state = fs::read_to_string(folder.join(name).join("operstate")).unwrap_or_default();
        name != "lo" && matches!(state.trim(), "up" | "unknown")
    };
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(is_up).collect();
    names.sort();
    names
}

/// `eth0 (10000Mbit/s)`; the bare name where the speed is not known.
fn with_speed(name: &str) -> String {
    let text = fs::read_to_string(format!("/sys/class/net/{name}/speed")).unwrap_or_default();
    match text.trim().parse::<i64>() {
        Ok(speed @ 1..) => format!("{name} ({speed}Mbit/s)"),
        _ => name.to_owned(),
    }
}
