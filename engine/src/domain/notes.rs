//! [`Note`]: what communicators tell each other over the control plane, and its wire form: a kind, a number, a fingerprint,
//! and text. Decoding never panics and never allocates more than it was given.

use bytes::{BufMut, Bytes, BytesMut};

/// A control message between two ranks of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// "My call `number` is this; what is yours?"
    Ask {
        /// Which call.
        number: u64,
        /// Its fingerprint.
        fingerprint: u32,
        /// In words.
        call: String,
    },
    /// "I have not made call `number`; I have made `made`, and this was the last."
    NotYet {
        /// Which call was asked for.
        number: u64,
        /// In words: how many calls were made and the last of them.
        doing: String,
    },
    /// "I made the same call."
    Same {
        /// Which call.
        number: u64,
        /// Whether it has ended there, in words.
        doing: String,
    },
    /// "My call `number` is another."
    Differs {
        /// Which call.
        number: u64,
        /// Mine, in words.
        call: String,
    },
    /// "My call `number` was refused and takes no part."
    Refused {
        /// Which call.
        number: u64,
        /// Why.
        reason: String,
    },
    /// "I have given up call `number` and all after it."
    Aborted {
        /// The first that I gave up.
        number: u64,
        /// The rank that gave up first; I because of it.
        origin: u32,
        /// Why it did.
        cause: String,
    },
}

/// Longest text that is sent; longer ones are cut.
const MAX_TEXT: usize = 4096;

impl Note {
    /// The wire form.
    pub fn encode(&self) -> Bytes {
        let (kind, number, fingerprint, text) = match self {
            Note::Ask { number, fingerprint, call } => (1, *number, *fingerprint, call),
            Note::NotYet { number, doing } => (2, *number, 0, doing),
            Note::Same { number, doing } => (3, *number, 0, doing),
            Note::Differs { number, call } => (4, *number, 0, call),
            Note::Refused { number, reason } => (5, *number, 0, reason),
            Note::Aborted { number, origin, cause } => (6, *number, *origin, cause),
        };
        let end = (0..=text.len().min(MAX_TEXT)).rfind(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let mut bytes = BytesMut::with_capacity(13 + end);
        bytes.put_u8(kind);
        bytes.put_u64_le(number);
        bytes.put_u32_le(fingerprint);
        bytes.put_slice(&text.as_bytes()[..end]);
        bytes.freeze()
    }

    /// Reads the wire form; `None` where it is not one (of this version).
    pub fn decode(bytes: &[u8]) -> Option<Note> {
        let (kind, rest) = bytes.split_first()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let (fingerprint, rest) = rest.split_first_chunk::<4>()?;
        let (number, fingerprint) = (u64::from_le_bytes(*number), u32::from_le_bytes(*fingerprint));
        let text = String::from_utf8_lossy(rest.get(..MAX_TEXT).unwrap_or(rest)).into_owned();
        Some(match kind {
            1 => Note::Ask { number, fingerprint, call: text },
            2 => Note::NotYet { number, doing: text },
            3 => Note::Same { number, doing: text },
            4 => Note::Differs { number, call: text },
            5 => Note::Refused { number, reason: text },
            6 => Note::Aborted { number, origin: fingerprint, cause: text },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_note() -> impl Strategy<Value = Note> {
        (1..=6_u8, any::<u64>(), any::<u32>(), "\\PC{0,80}").prop_map(|(kind, number, fingerprint, text)| {
            match kind {
                1 => Note::Ask { number, fingerprint, call: text },
                2 => Note::NotYet { number, doing: text },
                3 => Note::Same { number, doing: text },
                4 => Note::Differs { number, call: text },
                5 => Note::Refused { number, reason: text },
                _ => Note::Aborted { number, origin: fingerprint, cause: text },
            }
        })
    }

    proptest! {
        #[test]
        fn notes_survive_the_wire(note in any_note()) {
            prop_assert_eq!(Note::decode(&note.encode()), Some(note));
        }

        #[test]
        fn any_bytes_decode_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..6000)) {
            let _ = Note::decode(&bytes);
        }
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let note = Note::Aborted { number: 1, origin: 0, cause: "é".repeat(5000) };
        let Some(Note::Aborted { cause, .. }) = Note::decode(&note.encode()) else { panic!("decodes") };
        assert_eq!(cause.len(), MAX_TEXT);
    }
}
