//! [`Header`]: what every message on the port of tagged messages begins with.

use hcomm_transports::{Key, Word};

use super::PORT;

/// Marks the port's messages.
const FINGERPRINT: u32 = 0x7032_7074;

pub(super) const HEADER_BYTES: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub kind: Kind,
    pub tag: u32,
    pub total: u64,
    pub id: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Eager = 1,
    Announce = 2,
    Grant = 3,
    Data = 4,
    Refuse = 5,
}

impl Header {
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.kind as u8;
        bytes[4..8].copy_from_slice(&self.tag.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.total.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.id.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Header> {
        let kinds = [Kind::Eager, Kind::Announce, Kind::Grant, Kind::Data, Kind::Refuse];
        let kind = kinds.into_iter().find(|k| *k as u8 == bytes[0])?;
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let total = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
        Some(Header { kind, tag: word(4)?, total, id: word(16)? })
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
        for kind in [Kind::Eager, Kind::Announce, Kind::Grant, Kind::Data, Kind::Refuse] {
            let header = Header { kind, tag: u32::MAX - 1, total: u64::MAX, id: 7 };
            assert_eq!(Header::decode(&header.encode()), Some(header));
        }
        assert_eq!(Header::decode(&[9; HEADER_BYTES]), None);
    }
}
