//! Data connections that break while the control plane goes on: every way in which a wire can know fails the call that needs it, soon, and
//! with the wire's own account.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hcomm_ops::buffer::Borrowed;
use hcomm_ops::{DType, ReduceOp};
use hcomm_planner::{Collective, Planner, Request, Topology};
use hcomm_transports::tcp::{TcpOptions, TcpWire};
use hcomm_transports::{Control, Doorbell, Endpoint, WireConfig, control};

use super::core::{Core, Limits};
use super::p2p::{PORT, Posted};
use super::peers::Peers;
use super::watch::Watch;
use super::{Domain, Intake, Patience};
use crate::bindings::{Binding, Buffers, InPlace};
use crate::call::Call;
use crate::error::Failure;
use crate::log::Log;
use crate::operation::Operation;
use crate::profile::Recorder;
use crate::settings::DebugLevel;

const WIRE: WireConfig = WireConfig { ports: PORT + 1, depth: 2, slot_bytes: 4096 };

/// How long a failure may take: ten times what is promised.
const SOON: Duration = Duration::from_secs(10);

/// Rank 0 of two, the far end of its data connection, and rank 1's end of the control plane.
struct Half {
    domain: Domain,
    data: Option<TcpStream>,
    control: Box<dyn Control>,
}

impl Half {
    fn new() -> Half {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let (data, _) = listener.accept().expect("it was connected");
        let watch = Watch::new(0);
        let ear = watch.clone();
        let mut controls =
            control::inproc_mesh(vec![Arc::new(move |event| ear.handle(event)), Arc::new(drop)]);
        let far = controls.pop().expect("two");
        let near_control: Arc<dyn Control> = Arc::from(controls.pop().expect("two"));
        let wire = TcpWire::new(near, WIRE, TcpOptions::default()).expect("a connected socket");
        let doorbell = Doorbell::new().expect("an eventfd");
        let endpoint = Endpoint { wires: vec![None, Some(wire.into())], doorbell, heap: None };
        let peers = Peers::new(0, 2, near_control.clone(), watch.clone(), Log::new(0, DebugLevel::Off));
        let limits = Limits { deadline: Duration::from_secs(600), stall_warning: Duration::MAX };
        let ringer = endpoint.doorbell.ringer();
        let core = Core::new(endpoint, peers, Recorder::new(16).expect("there is memory"), limits, 0);
        watch.connect(near_control, ringer, Box::new(|| {}));
        let domain = Domain::new(core, watch, Patience { spins: 10, yields: 10 });
        Half { domain, data: Some(data), control: far }
    }

    /// The far end of the data connection.
    fn data(&self) -> &TcpStream {
        self.data.as_ref().expect("at hand")
    }

    /// What an all_reduce of rank 0 comes to, and when.
    fn call(&self) -> (Result<(), Failure>, Duration) {
        let request = Request::new(Collective::AllReduce, DType::I64, ReduceOp::Sum, 100);
        let planner = Planner::new(Topology::single_host(2));
        let plan = Arc::new(planner.compile(&request, 0).expect("a supported call"));
        let call = Arc::new(Call::bind(request, plan, WIRE.slot_bytes).expect("a good plan"));
        let mut buffer = vec![1_i64; 100];
        let binding = Binding { collective: Collective::AllReduce, rank: 0, world: 2, root: 0 };
        let spans = InPlace(Borrowed::from_mut(&mut buffer[..])).spans(binding).expect("in place");
        let started = Instant::now();
        (self.domain.run(&call, &spans), started.elapsed())
    }

    /// The call fails soon, because of rank 1, with this in its text.
    fn expect_loss(&self, words: &str) {
        let (outcome, took) = self.call();
        let failure = outcome.expect_err("nothing comes from rank 1");
        assert!(took < SOON, "{took:?}");
        assert!(matches!(failure, Failure::PeerLost { rank: 1, .. }), "{failure:?}");
        let text = failure.to_string();
        assert!(text.contains(words), "'{text}' lacks '{words}'");
    }
}

#[test]
fn a_data_connection_that_ends_fails_what_needs_it() {
    let half = Half::new();
    half.data().shutdown(Shutdown::Both).expect("it is connected");
    half.expect_loss("closed the connection");
}

#[test]
fn a_data_connection_that_is_reset_fails_what_needs_it() {
    let mut half = Half::new();
    let mut data = half.data.take().expect("at hand");
    let resetting = std::thread::spawn(move || {
        data.read_exact(&mut [0]).expect("the call sends something");
        rustix::net::sockopt::set_socket_linger(&data, Some(Duration::ZERO)).expect("a socket");
    });
    half.expect_loss("reset");
    resetting.join().expect("no panic");
}

#[test]
fn a_malformed_frame_fails_what_needs_the_connection() {
    let half = Half::new();
    half.data().write_all(&[0xff; 64]).expect("it is connected");
    half.expect_loss("malformed frame");
}

#[test]
fn the_control_planes_word_comes_before_the_wires() {
    let half = Half::new();
    half.data().shutdown(Shutdown::Both).expect("it is connected");
    std::thread::scope(|s| {
        s.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            half.control.leave(3, Bytes::new(), Instant::now());
        });
        let (outcome, _) = half.call();
        assert!(matches!(outcome, Err(Failure::PeerLeft { rank: 1, last: 3, .. })), "{outcome:?}");
    });
}

#[test]
fn a_message_over_a_broken_connection_fails_and_ends_the_communicator() {
    let half = Half::new();
    half.data().shutdown(Shutdown::Both).expect("it is connected");
    let mut buffer = vec![0_u8; 8];
    let operation = Arc::new(Operation::default());
    let span = hcomm_ops::StableBuffer::span(&mut buffer);
    half.domain.submit(Intake::Receive(Posted {
        peer: 1,
        tag: 3,
        span,
        dtype: DType::U8,
        operation: operation.clone(),
        after: Vec::new(),
    }));
    let outcome = half.domain.wait(&operation);
    assert!(matches!(outcome, Err(Failure::PeerLost { rank: 1, .. })), "{outcome:?}");
    let (outcome, took) = half.call();
    let failure = outcome.expect_err("the communicator has failed with the message");
    assert!(took < SOON, "{took:?}");
    assert!(matches!(failure.root(), Failure::PeerLost { rank: 1, .. }), "{failure:?}");
    assert!(failure.to_string().starts_with("this communicator failed earlier: rank 1 is lost"), "{failure}");
}
