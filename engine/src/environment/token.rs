//! [`Token`]: the secret that all ranks of a job share.

use std::{fmt, io};

use rustix::rand::{GetRandomFlags, getrandom};

/// 32 bytes that a rank must prove to know before its peers talk to it.
///
/// Where they come from: [`super::Secret`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token([u8; 32]);

impl Token {
    /// The token of these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Token(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A token computed from public facts: the same facts give the same token, others almost surely another. No secret.
    pub fn derived(facts: &[&str]) -> Self {
        let mut bytes = [0; 32];
        for (salt, word) in (0u64..).zip(bytes.chunks_exact_mut(8)) {
            word.copy_from_slice(&hash(salt, facts).to_le_bytes());
        }
        Token(bytes)
    }

    /// A token that nobody can guess.
    ///
    /// # Errors
    /// Where the system has no random bytes.
    pub fn draw() -> io::Result<Self> {
        let mut bytes = [0; 32];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
        }
        Ok(Token(bytes))
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits: Option<Vec<u8>> = text.trim().chars().map(|c| Some(c.to_digit(16)? as u8)).collect();
        let digits: [u8; 64] = digits?.try_into().ok()?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Some(Token(bytes))
    }

    /// 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Does not show the bytes.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// A 64-bit hash (FNV-1a) of the facts, each ended by a byte that UTF-8 does not have; the same in every build.
pub(super) fn hash(salt: u64, facts: &[&str]) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let salted = salt.to_le_bytes().into_iter().fold(0xcbf2_9ce4_8422_2325, step);
    facts.iter().flat_map(|fact| fact.bytes().chain([0xff])).fold(salted, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_goes_there_and_back() {
        let token = Token::new(std::array::from_fn(|i| i as u8 * 7));
        assert_eq!(Token::from_hex(&token.to_hex()), Some(token));
        for text in ["", "ab", &"g".repeat(64), &"a".repeat(63), &"a".repeat(65), &"é".repeat(32)] {
            assert_eq!(Token::from_hex(text), None, "{text}");
        }
    }

    #[test]
    fn derived_tokens_tell_facts_apart() {
        assert_eq!(Token::derived(&["a", "b"]), Token::derived(&["a", "b"]));
        assert_ne!(Token::derived(&["a", "b"]), Token::derived(&["ab", ""]));
        assert_ne!(Token::derived(&["a"]).as_bytes()[..8], Token::derived(&["a"]).as_bytes()[8..16]);
    }

    #[test]
    fn debug_keeps_the_secret() {
        assert_eq!(format!("{:?}", Token::new([7; 32])), "Token(..)");
    }
}
