//! The frames of a control connection, and the pure decoder that believes none of them.
//!
//! A frame is a length `u32` (of what follows it), a kind `u8`, and the kind's fields, little endian: 1, a message, is its body;
//! 2, a goodbye, is the number `u64` of collective calls made and what else there is to say; 3, a heartbeat, is nothing more. Other
//! kinds may come with later versions and are malformed in this one.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{MAX_BODY_BYTES, MAX_WORDS_BYTES};

const LENGTH_BYTES: usize = 4;
const MESSAGE: u8 = 1;
const GOODBYE: u8 = 2;
const HEARTBEAT: u8 = 3;

/// What one rank says to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A message of the engine.
    Message(Bytes),
    /// The rank closes its communicator in order, having made this many collective calls.
    Goodbye(u64, Bytes),
    /// The rank lives.
    Heartbeat,
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
    /// A goodbye that is no number, or too long.
    #[error("it says goodbye in {0} bytes, not in 8 to {most}", most = 8 + MAX_WORDS_BYTES)]
    Goodbye(usize),
    /// A heartbeat that says something.
    #[error("it has a heartbeat of {0} bytes, not of 0")]
    Heartbeat(usize),
}

/// Writes a frame at the end of `out`.
pub fn encode(frame: &Frame, out: &mut BytesMut) {
    match frame {
        Frame::Message(body) => {
            out.put_u32_le(length(body.len()));
            out.put_u8(MESSAGE);
            out.put_slice(body);
        }
        Frame::Goodbye(last, words) => {
            let words = &words[..words.len().min(MAX_WORDS_BYTES)];
            out.put_u32_le(length(size_of::<u64>() + words.len()));
            out.put_u8(GOODBYE);
            out.put_u64_le(*last);
            out.put_slice(words);
        }
        Frame::Heartbeat => {
            out.put_u32_le(length(0));
            out.put_u8(HEARTBEAT);
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
        GOODBYE if (8..=8 + MAX_WORDS_BYTES).contains(&body.len()) => {
            Ok(Some(Frame::Goodbye(body.get_u64_le(), body)))
        }
        GOODBYE => Err(Malformed::Goodbye(body.len())),
        HEARTBEAT if body.is_empty() => Ok(Some(Frame::Heartbeat)),
        HEARTBEAT => Err(Malformed::Heartbeat(body.len())),
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
            Frame::Heartbeat,
            Frame::Goodbye(u64::MAX, Bytes::new()),
            Frame::Goodbye(3, vec![7; MAX_WORDS_BYTES].into()),
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
        assert_eq!(decoded(&[1, 0, 0, 0, 4]), Err(Malformed::Kind(4)));
        assert_eq!(decoded(&[2, 0, 0, 0, 3, 0]), Err(Malformed::Heartbeat(1)));
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
