//! [`Note`]: what communicators tell each other over the control plane, and its wire form: a kind, a number, a fingerprint,
//! and text; and [`Farewell`], what they say last. Decoding never panics and never allocates more than it was given.

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
        let text = cut(text);
        let mut bytes = BytesMut::with_capacity(13 + text.len());
        bytes.put_u8(kind);
        bytes.put_u64_le(number);
        bytes.put_u32_le(fingerprint);
        bytes.put_slice(text);
        bytes.freeze()
    }

    /// Reads the wire form; `None` where it is not one (of this version).
    pub fn decode(bytes: &[u8]) -> Option<Note> {
        let (kind, rest) = bytes.split_first()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let (fingerprint, rest) = rest.split_first_chunk::<4>()?;
        let (number, fingerprint) = (u64::from_le_bytes(*number), u32::from_le_bytes(*fingerprint));
        let text = read(rest);
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

/// What a communicator says with its goodbye.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// It went well here.
    Well {
        /// Collective calls made, but for refused ones at the end.
        calls: u64,
        /// The last of them, in words.
        last_call: String,
    },
    /// The communicator had failed; what there is to say of that was said as it did.
    Failed,
    /// The program ends by an error of its own: this.
    Because(String),
}

impl Farewell {
    /// The wire form: a kind, a number, and text.
    pub fn encode(&self) -> Bytes {
        let (kind, number, text) = match self {
            Farewell::Well { calls, last_call } => (1, *calls, last_call.as_str()),
            Farewell::Failed => (2, 0, ""),
            Farewell::Because(error) => (3, 0, error.as_str()),
        };
        let mut bytes = BytesMut::new();
        bytes.put_u8(kind);
        bytes.put_u64_le(number);
        bytes.put_slice(cut(text));
        bytes.freeze()
    }

    /// Reads the wire form; words that are not one (of this version) say nothing.
    pub fn decode(bytes: &[u8]) -> Farewell {
        let parts = bytes.split_first().and_then(|(kind, rest)| Some((kind, rest.split_first_chunk::<8>()?)));
        let Some((kind, (number, rest))) = parts else { return Farewell::Failed };
        match kind {
            1 => Farewell::Well { calls: u64::from_le_bytes(*number), last_call: read(rest) },
            3 => Farewell::Because(read(rest)),
            _ => Farewell::Failed,
        }
    }

    /// The error because of which it left, if there was one.
    pub fn because(self) -> Option<String> {
        match self {
            Farewell::Because(error) => Some(error),
            _ => None,
        }
    }
}

/// As much of a text as is sent.
fn cut(text: &str) -> &[u8] {
    let end = (0..=text.len().min(MAX_TEXT)).rfind(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text.as_bytes()[..end]
}

fn read(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..MAX_TEXT).unwrap_or(bytes)).into_owned()
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
            let _ = Farewell::decode(&bytes);
        }

        #[test]
        fn farewells_survive_the_wire(calls in any::<u64>(), text in "\\PC{0,80}") {
            let because = Farewell::Because(text.clone());
            for farewell in [Farewell::Well { calls, last_call: text }, Farewell::Failed, because] {
                prop_assert_eq!(Farewell::decode(&farewell.encode()), farewell);
            }
        }
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let note = Note::Aborted { number: 1, origin: 0, cause: "é".repeat(5000) };
        let Some(Note::Aborted { cause, .. }) = Note::decode(&note.encode()) else { panic!("decodes") };
        assert_eq!(cause.len(), MAX_TEXT);
    }
}
