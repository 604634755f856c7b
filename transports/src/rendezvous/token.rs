//! [`Token`]: the secret of a job, and how both ends of a connection prove that they know it without showing it.
//!
//! Each side sends a hello with a fresh nonce; then the connector, and after it the acceptor, sends HMAC-SHA256 of its role and both hellos
//! under the token. What the other sends is compared in constant time.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes of a proof.
pub(super) const PROOF_BYTES: usize = 32;

/// What the ranks of a job share and nobody else knows; made by the launcher. It never crosses a connection.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Arc<[u8]>);

impl Token {
    /// The token of these bytes; an empty one proves nothing but is allowed.
    pub fn new(bytes: &[u8]) -> Self {
        Token(bytes.into())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// What the side with this role sends.
    pub(super) fn proof(&self, role: Role, hellos: [&[u8]; 2]) -> [u8; PROOF_BYTES] {
        self.mac(role, hellos).finalize().into_bytes().into()
    }

    /// Whether the other side, with this role, knows the token.
    pub(super) fn accepts(&self, role: Role, hellos: [&[u8]; 2], proof: &[u8; PROOF_BYTES]) -> bool {
        self.mac(role, hellos).verify_slice(proof).is_ok()
    }

    fn mac(&self, role: Role, hellos: [&[u8]; 2]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(role.label());
        hellos.iter().for_each(|hello| mac.update(hello));
        mac
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Which end of a connection speaks: a proof of one is none of the other, so it cannot be sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Connector,
    Acceptor,
}

impl Role {
    fn label(self) -> &'static [u8] {
        match self {
            Role::Connector => b"hcomm connector proves the job token\n",
            Role::Acceptor => b"hcomm acceptor proves the job token\n",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_good_for_its_role_token_and_hellos_only() {
        let token = Token::new(b"secret");
        let proof = token.proof(Role::Connector, [b"a", b"b"]);
        assert!(token.accepts(Role::Connector, [b"a", b"b"], &proof));
        assert!(!token.accepts(Role::Acceptor, [b"a", b"b"], &proof));
        assert!(!token.accepts(Role::Connector, [b"a", b"c"], &proof));
        assert!(!Token::new(b"other").accepts(Role::Connector, [b"a", b"b"], &proof));
    }

    #[test]
    fn the_token_is_not_printed() {
        assert!(!format!("{:?}", Token::new(b"secret")).contains("secret"));
    }
}
