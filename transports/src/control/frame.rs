//! The frames of a control connection, and the pure decoder that believes none of them.
//!
//! A frame is a length `u32` (of what follows it), a kind `u8`, and the kind's fields, little endian: 1, a message, is its body;
//! 2, a goodbye, is the number `u64` of collective calls made. Other kinds (heartbeats, hearsay of lost ranks) may come with
//! later versions and are malformed in this one.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::MAX_BODY_BYTES;

const LENGTH_BYTES: usize = 4;
const MESSAGE: u8 = 1;
const GOODBYE: u8 = 2;

/// What one rank says to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A message of the engine.
    Message(Bytes),
    /// The rank closes its communicator in order, having made this many collective calls.
    Goodbye(u64),
}

/// A control frame that breaks the rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Nothing, or more than a message may have.
    #[error("its length is {0}, not 1 to {most}", most = MAX_BODY_BYTES + 1)]
    Length(u32),
    /// A kind that this version does not know.
    #[error("its kind is {0}, which this version does not know")]
    Kind(u8),
    /// A goodbye that is not a number.
    #[error("it says goodbye in {0} bytes, not in 8")]
    Goodbye(usize),
}

/// Writes a frame at the end of `out`.
pub fn encode(frame: &Frame, out: &mut BytesMut) {
    match frame {
        Frame::Message(body) => {
            out.put_u32_le(length(body.len()));
            out.put_u8(MESSAGE);
            out.put_slice(body);
        }
        Frame::Goodbye(last) => {
            out.put_u32_le(length(size_of::<u64>()));
            out.put_u8(GOODBYE);
            out.put_u64_le(*last);
        }
    }
}

/// Takes the frame at the start of `stream`; `None` where too little of it is there.
pub fn decode(stream: &mut BytesMut) -> Result<Option<Frame>, Malformed> {
    let Ok(length) = (&stream[..]).try_get_u32_le() else { return Ok(None) };
    if !(1..=MAX_BODY_BYTES + 1).contains(&(length as usize)) {
        return Err(Malformed::Length(length));
    }
    if stream.len() < LENGTH_BYTES + length as usize {
        return Ok(None);
    }
    stream.advance(LENGTH_BYTES);
    let mut body = stream.split_to(length as usize).freeze();
    match body.get_u8() {
        MESSAGE => Ok(Some(Frame::Message(body))),
        GOODBYE if body.len() == size_of::<u64>() => Ok(Some(Frame::Goodbye(body.get_u64_le()))),
        GOODBYE => Err(Malformed::Goodbye(body.len())),
        other => Err(Malformed::Kind(other)),
    }
}

fn length(body_bytes: usize) -> u32 {
    u32::try_from(body_bytes + 1).expect("the sender has checked that a body has at most MAX_BODY_BYTES")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn frames_come_back_as_they_were() {
        let frames = [
            Frame::Message(Bytes::from_static(b"all_reduce of 3")),
            Frame::Message(Bytes::new()),
            Frame::Message(vec![7; MAX_BODY_BYTES].into()),
            Frame::Goodbye(u64::MAX),
        ];
        let mut stream = BytesMut::new();
        frames.iter().for_each(|frame| encode(frame, &mut stream));
        for frame in frames {
            assert_eq!(decode(&mut stream), Ok(Some(frame)));
        }
        assert_eq!(decode(&mut stream), Ok(None));
    }

    #[test]
    fn each_broken_rule_is_named() {
        let decoded = |bytes: &[u8]| decode(&mut BytesMut::from(bytes));
        assert_eq!(decoded(&[0, 0, 0, 0]), Err(Malformed::Length(0)));
        assert_eq!(decoded(&[0xff; 4]), Err(Malformed::Length(u32::MAX)));
        assert_eq!(decoded(&[1, 0, 0, 0, 3]), Err(Malformed::Kind(3)));
        assert_eq!(decoded(&[2, 0, 0, 0, 2, 0]), Err(Malformed::Goodbye(1)));
        assert_eq!(decoded(&[9, 0, 0, 0, 1]), Ok(None));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), length in 0..64_u32) {
            let mut stream = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = decode(&mut stream) {}
            let mut stream = BytesMut::from(&length.to_le_bytes()[..]);
            stream.extend_from_slice(&bytes);
            while let Ok(Some(_)) = decode(&mut stream) {}
        }
    }
}
