//! The handshake of every connection between ranks: versions first, then the job token both ways; before that nothing is believed,
//! nothing is allocated and nothing is told but a version and a nonce.
//!
//! A hello has 44 bytes: magic (8), version `u32` little endian, nonce (32). The connector speaks first in both steps. An acceptor that does not
//! believe the connector's proof answers with zeros in place of its own, so that a refusal is not mistaken for a connection that breaks.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::token::{PROOF_BYTES, Role, Token};

/// The version of everything that ranks say to each other: handshake, rendezvous, control frames, wire frames and shared memory.
pub const PROTOCOL_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"hcomm\r\n\x1a";
const HELLO_BYTES: usize = 44;
/// What stands in the place of a proof where the other's was none.
const REFUSAL: [u8; PROOF_BYTES] = [0; PROOF_BYTES];
/// How long a connector may take for its hello, which it sends at once.
const FIRST_WORDS: Duration = Duration::from_secs(1);

/// How a handshake fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    /// It breaks off before the other side has shown that it is hcomm.
    #[error("the connection broke during the handshake: {0}")]
    Broken(#[from] io::Error),
    #[error("what answers there is not hcomm")]
    NotHcomm,
    #[error("it speaks protocol version {theirs}, this process version {PROTOCOL_VERSION}")]
    Version { theirs: u32 },
    /// The connector says nothing.
    #[error("it did not say a word within {0:?}")]
    Silent(Duration),
    /// The other side does not believe our proof.
    #[error("it does not accept the job token of this process")]
    Refused,
    #[error("it does not know the job token of this process")]
    Unproved,
}

/// The connector's side. `version` is [`PROTOCOL_VERSION`] but in tests.
pub(crate) async fn connect<S>(stream: &mut S, token: &Token, version: u32) -> Result<(), HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let ours = hello(version)?;
    stream.write_all(&ours).await?;
    let theirs = read_hello(stream).await?;
    check_version(&theirs, version)?;
    let hellos = [&ours[..], &theirs[..]];
    stream.write_all(&token.proof(Role::Connector, hellos)).await?;
    let mut proof = [0; PROOF_BYTES];
    stream.read_exact(&mut proof).await?;
    if proof == REFUSAL {
        return Err(HandshakeError::Refused);
    }
    if token.accepts(Role::Acceptor, hellos, &proof) { Ok(()) } else { Err(HandshakeError::Unproved) }
}

/// The acceptor's side.
pub(crate) async fn accept<S>(stream: &mut S, token: &Token) -> Result<(), HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let spoken = timeout(FIRST_WORDS, read_hello(stream)).await;
    let theirs = spoken.map_err(|_| HandshakeError::Silent(FIRST_WORDS))??;
    let ours = hello(PROTOCOL_VERSION)?;
    stream.write_all(&ours).await?;
    check_version(&theirs, PROTOCOL_VERSION)?;
    let hellos = [&theirs[..], &ours[..]];
    let mut proof = [0; PROOF_BYTES];
    stream.read_exact(&mut proof).await?;
    if !token.accepts(Role::Connector, hellos, &proof) {
        // It may be gone already.
        let _ = stream.write_all(&REFUSAL).await;
        return Err(HandshakeError::Unproved);
    }
    Ok(stream.write_all(&token.proof(Role::Acceptor, hellos)).await?)
}

fn hello(version: u32) -> io::Result<[u8; HELLO_BYTES]> {
    let mut hello = [0; HELLO_BYTES];
    hello[..8].copy_from_slice(&MAGIC);
    hello[8..12].copy_from_slice(&version.to_le_bytes());
    fill_random(&mut hello[12..])?;
    Ok(hello)
}

/// Fills `bytes` with what nobody can guess.
pub(super) fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(())
}

async fn read_hello<S: AsyncRead + Unpin>(stream: &mut S) -> Result<[u8; HELLO_BYTES], HandshakeError> {
    let mut hello = [0; HELLO_BYTES];
    stream.read_exact(&mut hello[..8]).await?;
    if hello[..8] != MAGIC {
        return Err(HandshakeError::NotHcomm);
    }
    stream.read_exact(&mut hello[8..]).await?;
    Ok(hello)
}

fn check_version(hello: &[u8; HELLO_BYTES], ours: u32) -> Result<(), HandshakeError> {
    let theirs = u32::from_le_bytes([hello[8], hello[9], hello[10], hello[11]]);
    if theirs == ours { Ok(()) } else { Err(HandshakeError::Version { theirs }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Outcome = Result<(), HandshakeError>;

    fn meet(connector: &Token, version: u32, acceptor: &Token) -> (Outcome, Outcome) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (mut near, mut far) = tokio::io::duplex(256);
            let far = async {
                let outcome = accept(&mut far, acceptor).await;
                drop(far);
                outcome
            };
            tokio::join!(connect(&mut near, connector, version), far)
        })
    }

    #[test]
    fn two_that_know_the_token_meet() {
        let token = Token::new(b"secret");
        let (near, far) = meet(&token, PROTOCOL_VERSION, &token);
        near.unwrap();
        far.unwrap();
    }

    #[test]
    fn a_wrong_token_is_refused_on_both_sides() {
        let (near, far) = meet(&Token::new(b"guess"), PROTOCOL_VERSION, &Token::new(b"secret"));
        assert!(matches!(near, Err(HandshakeError::Refused)), "{near:?}");
        assert!(matches!(far, Err(HandshakeError::Unproved)), "{far:?}");
    }

    #[test]
    fn a_connection_that_breaks_is_no_refusal() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (mut near, mut far) = tokio::io::duplex(256);
            let far = async {
                far.write_all(&hello(PROTOCOL_VERSION).unwrap()).await.unwrap();
                far.read_exact(&mut [0; HELLO_BYTES + PROOF_BYTES]).await.unwrap();
                drop(far);
            };
            let token = Token::new(b"secret");
            let (near, ()) = tokio::join!(connect(&mut near, &token, PROTOCOL_VERSION), far);
            assert!(matches!(near, Err(HandshakeError::Broken(_))), "{near:?}");
        });
    }

    #[test]
    fn who_says_nothing_is_not_waited_for() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (_near, mut far) = tokio::io::duplex(256);
            let outcome = accept(&mut far, &Token::new(b"secret")).await;
            assert!(matches!(outcome, Err(HandshakeError::Silent(_))), "{outcome:?}");
        });
    }

    #[test]
    fn another_version_is_named_on_both_sides() {
        let token = Token::new(b"secret");
        let (near, far) = meet(&token, 7, &token);
        assert!(matches!(near, Err(HandshakeError::Version { theirs: PROTOCOL_VERSION })), "{near:?}");
        assert!(matches!(far, Err(HandshakeError::Version { theirs: 7 })), "{far:?}");
        let text = far.unwrap_err().to_string();
        assert_eq!(text, "it speaks protocol version 7, this process version 1");
    }

    #[test]
    fn garbage_is_not_answered() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (mut near, mut far) = tokio::io::duplex(256);
            near.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
            let outcome = accept(&mut far, &Token::new(b"secret")).await;
            assert!(matches!(outcome, Err(HandshakeError::NotHcomm)));
            drop(far);
            assert_eq!(near.read(&mut [0; 8]).await.unwrap(), 0);
        });
    }
}
