//! TCP wires keep the contract, over the loopback interface, as fast as it goes and paced like a slow link.

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use hcomm_transports::tcp::{TcpOptions, TcpWire};
use hcomm_transports::{AnyWire, Doorbell, WireConfig};

use crate::pair::Pair;

fn connected(config: WireConfig, first: u32, options: TcpOptions) -> Pair {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    let [a, b] =
        [near, far].map(|stream| AnyWire::from(TcpWire::with_first(stream, config, options, first).unwrap()));
    let bells = [(), ()].map(|()| Doorbell::new().unwrap());
    Pair { a, b, bells: Some(bells), tick: Box::new(std::thread::yield_now), heaps: None }
}

mod unpaced {
    use super::*;
    use crate::conformance::conformance;

    fn pair(config: WireConfig, first: u32) -> Pair {
        connected(config, first, TcpOptions::default())
    }

    conformance!(pair);
}

mod paced {
    use super::*;
    use crate::conformance::conformance;

    fn pair(config: WireConfig, first: u32) -> Pair {
        connected(
            config,
            first,
            TcpOptions {
                inflight_bytes: 16 * 1024,
                link_bytes_per_s: Some(100_000_000),
                ..TcpOptions::default()
            },
        )
    }

    conformance!(pair);
}
