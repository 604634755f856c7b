//! The frames of a TCP wire: what a header says, and the pure decoder that believes none of it.
//!
//! A header has 32 bytes, little endian:
//!
//! | at | field | in a message | in credits | in a nudge |
//! |---|---|---|---|---|
//! | 0 | magic `u16` | `0x6843` | the same | the same |
//! | 2 | kind `u8` | 1 | 2 | 3 |
//! | 3 | flags `u8` | 0 | 0 | 0 |
//! | 4 | port `u16` | below the wire's ports | 0 | 0 |
//! | 6 | stripe `u16` | 0 | 0 | 0 |
//! | 8 | operation `u32` | of the word | 0 | 0 |
//! | 12 | fingerprint `u32` | of the word | 0 | 0 |
//! | 16 | sequence `u32` | number of the message within its port | 0 | 0 |
//! | 20 | bytes `u32` | of the payload that follows | of the entries that follow | 0 |
//! | 24 | released `u32` | how many messages of this port the sender has released | 0 | 0 |
//! | 28 | checksum `u32` | 0 | 0 | 0 |
//!
//! A nudge asks the receiver's system to acknowledge at once what has come: its sender wants to go.
//! Flags, stripe, checksum and the other kinds are kept for several sockets a pair, checksums and heartbeats; a
//! frame that sets one of them is malformed in this version. An entry of credits has 8 bytes: port `u16`, 0 `u16`, released `u32`.
//! The version of all this is agreed in the handshake.

use crate::wire::{WireConfig, Word};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 32;
/// Bytes of one entry of a credits frame.
pub const CREDIT_BYTES: usize = 8;
/// Most entries in one credits frame.
pub const MAX_CREDITS: usize = 64;
/// The longest frame that is decoded as a whole (a message's payload is not part of it).
pub const MAX_DECODED_BYTES: usize = HEADER_BYTES + MAX_CREDITS * CREDIT_BYTES;

/// What each frame begins with.
const MAGIC: u16 = 0x6843;
const MESSAGE: u8 = 1;
const CREDITS: u8 = 2;
const NUDGE: u8 = 3;

/// A frame that breaks the rules; the text says which.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The stream is out of step, or the peer is something else.
    #[error("it begins with {0:#06x}, not with {MAGIC:#06x}")]
    Magic(u16),
    /// A kind that this version does not know.
    #[error("its kind is {0}, which this version does not know")]
    Kind(u8),
    /// A field that this version keeps at zero.
    #[error("its {0} is not zero")]
    Reserved(&'static str),
    /// A port that the wire lacks.
    #[error("its port is {port}, of {ports}")]
    Port {
        /// The port named.
        port: u16,
        /// The wire's ports.
        ports: u16,
    },
    /// A message longer than a slot.
    #[error("it has {bytes} bytes, and a slot {slot_bytes}")]
    TooLong {
        /// The bytes announced.
        bytes: u32,
        /// The most there may be.
        slot_bytes: usize,
    },
    /// A message out of order.
    #[error("it is message {sequence} of port {port}, where {expected} was next")]
    Sequence {
        /// The port.
        port: u16,
        /// The number it has.
        sequence: u32,
        /// The number it should have.
        expected: u32,
    },
    /// More messages than the port holds.
    #[error("it is one more than the {depth} messages that port {port} holds")]
    Overrun {
        /// The port.
        port: u16,
        /// The port's depth.
        depth: u32,
    },
    /// A release of what was never sent, or backwards.
    #[error("it releases port {port} up to message {released}, outside {acked}..={sent}")]
    Credit {
        /// The port.
        port: u16,
        /// The cursor it gives.
        released: u32,
        /// The cursor known before.
        acked: u32,
        /// What was sent.
        sent: u32,
    },
    /// Credits of no or too many entries, or of part of one.
    #[error("its {0} bytes of credits are not 1 to {MAX_CREDITS} entries of {CREDIT_BYTES}")]
    CreditBytes(u32),
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its port.
    pub port: u16,
    /// Whose it is.
    pub word: Word,
    /// Its number within its port, wrapping.
    pub sequence: u32,
    /// Bytes of payload that follow.
    pub bytes: u32,
    /// The sender's cursor of the same port, other direction.
    pub released: u32,
}

/// One release cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// The port.
    pub port: u16,
    /// How many of its messages have been released, wrapping.
    pub released: u32,
}

/// A decoded frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A message, whose payload follows.
    Message(Header),
    /// Credits.
    Credits(Credits<'a>),
    /// A wish for an acknowledgement.
    Nudge,
}

/// The entries of a credits frame, each already checked for its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits<'a>(&'a [u8]);

impl Credits<'_> {
    /// Goes over the entries.
    pub fn iter(&self) -> impl Iterator<Item = Credit> + '_ {
        self.0
            .chunks_exact(CREDIT_BYTES)
            .map(|entry| Credit { port: u16_at(entry, 0), released: u32_at(entry, 4) })
    }
}

impl Frame<'_> {
    /// How many bytes of the stream the frame took, a message's payload apart.
    pub fn decoded_bytes(&self) -> usize {
        match self {
            Frame::Message(_) | Frame::Nudge => HEADER_BYTES,
            Frame::Credits(credits) => HEADER_BYTES + credits.0.len(),
        }
    }
}

/// Writes a message's header.
pub fn encode_message(header: &Header) -> [u8; HEADER_BYTES] {
    let mut out = prefix(MESSAGE, header.bytes);
    out[4..6].copy_from_slice(&header.port.to_le_bytes());
    out[8..12].copy_from_slice(&header.word.operation.to_le_bytes());
    out[12..16].copy_from_slice(&header.word.fingerprint.to_le_bytes());
    out[16..20].copy_from_slice(&header.sequence.to_le_bytes());
    out[24..28].copy_from_slice(&header.released.to_le_bytes());
    out
}

/// Writes a credits frame of at most [`MAX_CREDITS`] entries at the end of `out`.
pub fn encode_credits(credits: &[Credit], out: &mut Vec<u8>) {
    debug_assert!((1..=MAX_CREDITS).contains(&credits.len()), "the caller cuts credits into frames");
    out.extend(prefix(CREDITS, (credits.len() * CREDIT_BYTES) as u32));
    for credit in credits {
        out.extend(credit.port.to_le_bytes());
        out.extend([0, 0]);
        out.extend(credit.released.to_le_bytes());
    }
}

/// Writes a nudge.
pub fn encode_nudge() -> [u8; HEADER_BYTES] {
    prefix(NUDGE, 0)
}

/// Reads the frame at the start of `stream`; `None` where too little of it is there. Checks all that can be checked
/// without the state of the ports.
pub fn decode(stream: &[u8], config: WireConfig) -> Result<Option<Frame<'_>>, Malformed> {
    let Some(header) = stream.get(..HEADER_BYTES) else { return Ok(None) };
    check_reserved(header)?;
    match header[2] {
        MESSAGE => decode_message(header, config).map(|header| Some(Frame::Message(header))),
        CREDITS => decode_credits(header, &stream[HEADER_BYTES..], config),
        NUDGE => Ok(Some(Frame::Nudge)),
        other => Err(Malformed::Kind(other)),
    }
}

fn prefix(kind: u8, bytes: u32) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[0..2].copy_from_slice(&MAGIC.to_le_bytes());
    out[2] = kind;
    out[20..24].copy_from_slice(&bytes.to_le_bytes());
    out
}

fn check_reserved(header: &[u8]) -> Result<(), Malformed> {
    match header {
        _ if u16_at(header, 0) != MAGIC => Err(Malformed::Magic(u16_at(header, 0))),
        _ if header[3] != 0 => Err(Malformed::Reserved("flags field")),
        _ if u16_at(header, 6) != 0 => Err(Malformed::Reserved("stripe")),
        _ if u32_at(header, 28) != 0 => Err(Malformed::Reserved("checksum")),
        _ => Ok(()),
    }
}

fn decode_message(header: &[u8], config: WireConfig) -> Result<Header, Malformed> {
    let (port, bytes) = (u16_at(header, 4), u32_at(header, 20));
    check_port(port, config)?;
    if bytes as usize > config.slot_bytes {
        return Err(Malformed::TooLong { bytes, slot_bytes: config.slot_bytes });
    }
    let word = Word { operation: u32_at(header, 8), fingerprint: u32_at(header, 12) };
    Ok(Header { port, word, sequence: u32_at(header, 16), bytes, released: u32_at(header, 24) })
}

fn decode_credits<'a>(
    header: &[u8],
    rest: &'a [u8],
    config: WireConfig,
) -> Result<Option<Frame<'a>>, Malformed> {
    let bytes = u32_at(header, 20);
    let entries = bytes as usize / CREDIT_BYTES;
    if !(1..=MAX_CREDITS).contains(&entries) || !(bytes as usize).is_multiple_of(CREDIT_BYTES) {
        return Err(Malformed::CreditBytes(bytes));
    }
    let Some(entries) = rest.get(..bytes as usize) else { return Ok(None) };
    for entry in entries.chunks_exact(CREDIT_BYTES) {
        check_port(u16_at(entry, 0), config)?;
        if u16_at(entry, 2) != 0 {
            return Err(Malformed::Reserved("credit padding"));
        }
    }
    Ok(Some(Frame::Credits(Credits(entries))))
}

fn check_port(port: u16, config: WireConfig) -> Result<(), Malformed> {
    if port < config.ports { Ok(()) } else { Err(Malformed::Port { port, ports: config.ports }) }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONFIG: WireConfig = WireConfig { ports: 5, depth: 2, slot_bytes: 256 };

    fn header() -> Header {
        Header {
            port: 3,
            word: Word { operation: 7, fingerprint: 0xfeed },
            sequence: u32::MAX,
            bytes: 256,
            released: 9,
        }
    }

    #[test]
    fn a_message_comes_back_as_it_was() {
        let bytes = encode_message(&header());
        assert_eq!(decode(&bytes, CONFIG), Ok(Some(Frame::Message(header()))));
        assert_eq!(decode(&bytes[..31], CONFIG), Ok(None));
    }

    #[test]
    fn credits_come_back_as_they_were() {
        let credits = [Credit { port: 0, released: 4 }, Credit { port: 4, released: u32::MAX }];
        let mut bytes = Vec::new();
        encode_credits(&credits, &mut bytes);
        let Ok(Some(frame @ Frame::Credits(decoded))) = decode(&bytes, CONFIG) else { panic!("not credits") };
        assert_eq!(decoded.iter().collect::<Vec<_>>(), credits);
        assert_eq!(frame.decoded_bytes(), bytes.len());
        assert_eq!(decode(&bytes[..bytes.len() - 1], CONFIG), Ok(None));
    }

    #[test]
    fn each_broken_rule_is_named() {
        assert_eq!(decode(&encode_nudge(), CONFIG), Ok(Some(Frame::Nudge)));
        let with = |at: usize, value: u8| {
            let mut bytes = encode_message(&header());
            bytes[at] = value;
            decode(&bytes, CONFIG).expect_err("the frame is malformed")
        };
        assert_eq!(with(0, 0), Malformed::Magic(0x6800));
        assert_eq!(with(2, 9), Malformed::Kind(9));
        assert_eq!(with(3, 1), Malformed::Reserved("flags field"));
        assert_eq!(with(7, 1), Malformed::Reserved("stripe"));
        assert_eq!(with(28, 1), Malformed::Reserved("checksum"));
        assert_eq!(with(4, 5), Malformed::Port { port: 5, ports: 5 });
        assert_eq!(with(20, 1), Malformed::TooLong { bytes: 257, slot_bytes: 256 });
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), near in any::<bool>()) {
            let mut bytes = bytes;
            if near && bytes.len() >= 4 {
                bytes[0..2].copy_from_slice(&MAGIC.to_le_bytes());
                bytes[2] = 1 + bytes[2] % 3;
                bytes[3] = 0;
            }
            if let Ok(Some(frame)) = decode(&bytes, CONFIG) {
                prop_assert!(frame.decoded_bytes() <= bytes.len().min(MAX_DECODED_BYTES));
            }
        }
    }
}
