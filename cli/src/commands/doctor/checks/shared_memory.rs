//! What ranks on one host need to share memory: sealed memory files, and Unix sockets to hand them over.

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use hcomm::settings::Settings;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create};

use super::Finding;

const TRIED_BYTES: u64 = 1 << 20;
const TCP_INSTEAD: &str = "until then, ranks of this host use TCP to each other";

/// Memory files, Unix sockets.
pub fn check(_: &Settings) -> Vec<Finding> {
    vec![memory_files(), unix_sockets()]
}

fn memory_files() -> Finding {
    match try_memory_file() {
        Ok(()) => Finding::ok("shared memory", "memfd_create with seals, allocated in full"),
        Err(error) => Finding::no(
            "shared memory",
            format!("no sealed memory file of 1MiB: {error}"),
            format!(
                "allow memfd_create, fallocate and seals, and memory for them, in the container; {TCP_INSTEAD}"
            ),
        ),
    }
}

fn try_memory_file() -> rustix::io::Result<()> {
    let file = memfd_create("hcomm-doctor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    fallocate(&file, FallocateFlags::empty(), 0, TRIED_BYTES)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
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
