//! What ranks on one host need to share memory: sealed memory files, room for a heap, Unix sockets to hand them over, and knowing that it is one host.

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use hcomm::settings::Settings;
use hcomm::transports::rendezvous::Host;
use hcomm::transports::shm::{Heap, Segment};

use super::Finding;

const TCP_INSTEAD: &str = "until then, ranks of this host use TCP to each other";

/// Memory files, Unix sockets, neighbours.
pub fn check(_: &Settings) -> Vec<Finding> {
    vec![memory_files(), heap(), unix_sockets(), neighbours()]
}

fn memory_files() -> Finding {
    match Segment::try_one() {
        Ok(()) => Finding::ok("shared memory", "memfd_create with seals"),
        Err(error) => Finding::no(
            "shared memory",
            error.to_string(),
            format!("allow memfd_create, fallocate and seals in the container; {TCP_INSTEAD}"),
        ),
    }
}

/// Whether `Communicator::allocate` gives memory that other ranks read where it lies.
fn heap() -> Finding {
    match Heap::create(1) {
        Ok(heap) => {
            let gib = heap.bytes() >> 30;
            Finding::ok("shared buffers", format!("a heap of up to {gib} GiB, allocated as buffers need it"))
        }
        Err(error) => Finding::part(
            "shared buffers",
            error.to_string(),
            "raise the limits on addresses and file sizes (ulimit -v, ulimit -f) and allow memfd_create; until then, \
             Communicator::allocate gives ordinary memory, from which messages are copied",
        ),
    }
}

fn unix_sockets() -> Finding {
    match try_unix_socket() {
        Ok(()) => Finding::ok("Unix sockets", "abstract names: memory can be handed from rank to rank"),
        Err(error) => Finding::no(
            "Unix sockets",
            format!("no connection through an abstract name: {error}"),
            format!("allow AF_UNIX sockets in the container; {TCP_INSTEAD}"),
        ),
    }
}

fn try_unix_socket() -> io::Result<()> {
    let name = format!("hcomm-doctor-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name)?;
    let listener = UnixListener::bind_addr(&address)?;
    let mut near = UnixStream::connect_addr(&address)?;
    let (mut far, _) = listener.accept()?;
    near.write_all(b"?")?;
    far.read_exact(&mut [0])
}

/// Whom this process can share memory with.
fn neighbours() -> Finding {
    let Host { boot, network, processes, .. } = Host::of_this_process();
    let user = rustix::process::geteuid().as_raw();
    let unknown = [("boot id", &boot), ("network namespace", &network)];
    match unknown.iter().find(|(_, value)| value.is_empty()) {
        Some((what, _)) => Finding::no(
            "neighbours",
            format!(
                "the system does not tell this process its {what}, by which ranks of one host know each other"
            ),
            format!("mount /proc in the container; {TCP_INSTEAD}"),
        ),
        None => Finding::ok(
            "neighbours",
            format!(
                "user {user} in {network}, {processes}: shares memory with ranks of any user and of any namespace of processes, \
                 mounts and IPC; uses TCP to those of another network namespace"
            ),
        ),
    }
}
