//! [`Header`]: what every message on the port of tagged messages begins with.

use hcomm_ops::DType;
use hcomm_transports::{Key, Word};

use super::PORT;

/// Marks the port's messages.
const FINGERPRINT: u32 = 0x7032_7074;

pub(super) const HEADER_BYTES: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub kind: Kind,
    /// Of the elements; in a refusal, of the elements that the receive takes.
    pub dtype: DType,
    pub tag: u32,
    /// Bytes of the whole message; in a refusal, the room for them.
    pub total: u64,
    /// Tells announced messages apart.
    pub id: u32,
    /// What the writer of this header has taken of its peer's early messages; see `budget`.
    pub returned: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Eager = 1,
    Announce = 2,
    Grant = 3,
    Data = 4,
    Refuse = 5,
    Credit = 6,
}

impl Kind {
    const ALL: [Kind; 6] = [Kind::Eager, Kind::Announce, Kind::Grant, Kind::Data, Kind::Refuse, Kind::Credit];
}

impl Header {
    /// A header that speaks of no message.
    pub fn credit() -> Self {
        Header { kind: Kind::Credit, dtype: DType::U8, tag: 0, total: 0, id: 0, returned: 0 }
    }

    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        (bytes[0], bytes[1]) = (self.kind as u8, self.dtype as u8);
        bytes[4..8].copy_from_slice(&self.tag.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.total.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.id.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.returned.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Header> {
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == bytes[0])?;
        let dtype = DType::ALL.into_iter().find(|dtype| *dtype as u8 == bytes[1])?;
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let total = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
        Some(Header { kind, dtype, tag: word(4)?, total, id: word(16)?, returned: word(20)? })
    }
}

/// Where the port's message of this number is found.
pub(super) fn key(message: u32) -> Key {
    Key { port: PORT, word: Word { operation: message, fingerprint: FINGERPRINT } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_wire() {
        for kind in Kind::ALL {
            for dtype in DType::ALL {
                let header = Header { kind, dtype, tag: u32::MAX - 1, total: u64::MAX, id: 7, returned: 9 };
                assert_eq!(Header::decode(&header.encode()), Some(header));
            }
        }
        for at in [0, 1] {
            let mut bytes = Header::credit().encode();
            bytes[at] = 99;
            assert_eq!(Header::decode(&bytes), None);
        }
    }
}
