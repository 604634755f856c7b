//! Whatever a peer may send: frames of a TCP wire, frames of a control connection, messages of the rendezvous; the first byte says which.
//! Nothing panics or takes bytes that are not there, and what is decoded survives being written and read again.

#![no_main]

use bytes::{Bytes, BytesMut};
use hcomm_transports::WireConfig;
use hcomm_transports::control::frame as control;
use hcomm_transports::rendezvous::message;
use hcomm_transports::tcp::frame::{self, Frame};
use libfuzzer_sys::fuzz_target;

const CONFIG: WireConfig = WireConfig { ports: 33, depth: 4, slot_bytes: 1 << 16 };

fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        Some((byte, stream)) if byte % 3 == 0 => read_wire(stream),
        Some((byte, stream)) if byte % 3 == 1 => read_control(stream),
        Some((_, stream)) => read_rendezvous(stream),
        None => {}
    }
});

fn read_wire(mut stream: &[u8]) {
    while let Ok(Some(frame)) = frame::decode(stream, CONFIG) {
        let bytes = frame.decoded_bytes();
        assert!((frame::HEADER_BYTES..=frame::MAX_DECODED_BYTES).contains(&bytes) && bytes <= stream.len());
        check_frame(frame);
        stream = &stream[bytes..];
    }
}

fn check_frame(frame: Frame<'_>) {
    let mut again = Vec::new();
    match frame {
        Frame::Message(header) => {
            assert!(header.port < CONFIG.ports && header.bytes as usize <= CONFIG.slot_bytes);
            again.extend(frame::encode_message(&header));
        }
        Frame::Credits(credits) => {
            let credits: Vec<_> = credits.iter().collect();
            assert!(credits.iter().all(|credit| credit.port < CONFIG.ports));
            frame::encode_credits(&credits, &mut again);
        }
        Frame::Nudge => again.extend(frame::encode_nudge()),
    }
    assert_eq!(frame::decode(&again, CONFIG), Ok(Some(frame)));
}

fn read_control(stream: &[u8]) {
    let mut stream = BytesMut::from(stream);
    while let Ok(Some(frame)) = control::decode(&mut stream) {
        let mut again = BytesMut::new();
        control::encode(&frame, &mut again);
        assert_eq!(control::decode(&mut again), Ok(Some(frame)));
        assert!(again.is_empty());
    }
}

fn read_rendezvous(bytes: &[u8]) {
    if let Ok(message) = message::decode(Bytes::copy_from_slice(bytes)) {
        let again = message::encode(&message).slice(size_of::<u32>()..);
        assert_eq!(message::decode(again), Ok(message));
    }
}
