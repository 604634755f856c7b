//! Flag and length words: how a header says whose message it is, how long it is and where it lies.

use crate::Word;

/// Odd, so that multiplication by it is a bijection of u32; its bits look random.
const STRIDE: u32 = 0x9E37_79B1;

/// Turned in a flag that would equal the one it replaces.
const TWIN: u64 = 1 << 63;

const BYTES_BITS: u32 = 48;

/// The flag of a port's message number `sequence`, in a slot whose last flag was `last`. Never `last`.
#[inline]
pub(crate) fn flag(word: Word, sequence: u32, last: u64) -> u64 {
    let high = word.fingerprint.wrapping_add(sequence.wrapping_mul(STRIDE));
    let flag = u64::from(high) << 32 | u64::from(word.operation);
    if flag == last { flag ^ TWIN } else { flag }
}

/// What a flag says, in a slot whose last flag was `last`.
pub(crate) fn word(flag: u64, sequence: u32, last: u64) -> Word {
    let plain = if flag ^ TWIN == last { last } else { flag };
    let high = (plain >> 32) as u32;
    Word { operation: plain as u32, fingerprint: high.wrapping_sub(sequence.wrapping_mul(STRIDE)) }
}

/// A length word that no message has.
pub(crate) const NO_LENGTH: u64 = u64::MAX;

/// A length word.
#[inline]
pub(crate) fn length(bytes: usize, place: u16) -> u64 {
    u64::from(place) << BYTES_BITS | bytes as u64
}

/// Its bytes and its place.
#[inline]
pub(crate) fn parts(length: u64) -> (u64, u16) {
    (length & ((1 << BYTES_BITS) - 1), (length >> BYTES_BITS) as u16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_flag_says_its_word(operation: u32, fingerprint: u32, sequence: u32, last: u64) {
            let sent = Word { operation, fingerprint };
            prop_assume!(flag(sent, sequence, 0) != last ^ TWIN);
            let flag = flag(sent, sequence, last);
            prop_assert_ne!(flag, last);
            prop_assert_eq!(word(flag, sequence, last), sent);
        }

        #[test]
        fn a_flag_never_equals_the_last(operation: u32, fingerprint: u32, sequence: u32) {
            let sent = Word { operation, fingerprint };
            let last = flag(sent, sequence, 0);
            prop_assert_ne!(flag(sent, sequence, last), last);
            prop_assert_eq!(word(flag(sent, sequence, last), sequence, last), sent);
        }

        #[test]
        fn a_flag_counts(operation: u32, fingerprint: u32, sequence: u32, skipped in 1_u32..) {
            let sent = Word { operation, fingerprint };
            prop_assert_ne!(flag(sent, sequence, 0), flag(sent, sequence.wrapping_add(skipped), 0));
        }

        #[test]
        fn length_and_place_are_independent(bytes in 0_usize..1 << 40, place: u16) {
            prop_assert_eq!(parts(length(bytes, place)), (bytes as u64, place));
        }
    }

    #[test]
    fn a_word_of_zeros_is_not_the_initial_memory() {
        let zero = Word { operation: 0, fingerprint: 0 };
        assert_ne!(flag(zero, 0, 0), 0);
        assert_eq!(word(flag(zero, 0, 0), 0, 0), zero);
    }
}
