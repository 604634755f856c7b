//! [`Message`]: what ranks say to each other over proved connections while they come together, and its pure decoder.
//!
//! A message is a length `u32` (of what follows it), a kind `u8`, and the kind's fields, little endian; text and lists carry their
//! own length `u32`.

use std::net::{IpAddr, Ipv6Addr};

use bytes::{Buf, BufMut, Bytes, BytesMut, TryGetError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Transports;
use super::host::Host;
use super::roster::{Doors, Member};
use crate::wire::WireConfig;

/// The longest message: the roster of a large world.
const MAX_MESSAGE_BYTES: u32 = 16 << 20;

/// A step of the rendezvous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Member to rank 0: here I am.
    Arrive {
        /// Its rank.
        rank: u32,
        /// The world size that it was told.
        world: u32,
        /// Where it is.
        member: Member,
    },
    /// Rank 0 to those that are here: these are not.
    Waiting(Vec<u32>),
    /// Rank 0 to all: everybody is here.
    Welcome {
        /// Rank 0's settings.
        settings: Bytes,
        /// By rank.
        members: Vec<Member>,
    },
    /// Rank 0 to all: it will not be, because of these missing ranks or else for this reason.
    Refused {
        /// Ranks that did not arrive.
        missing: Vec<u32>,
        /// A sentence.
        reason: String,
    },
    /// Member to rank 0: connected with everybody.
    Ready,
    /// Rank 0 to all: everybody is connected with everybody.
    Go,
    /// Member to rank 0: its deadline has passed.
    GaveUp,
    /// Member to rank 0: it could not connect.
    Failed(String),
    /// Higher rank to lower: what this connection is for.
    Pair(PairHello),
}

/// The first words on a connection between two ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairHello {
    /// Who connects.
    pub rank: u32,
    /// What for.
    pub purpose: Purpose,
    /// The wire that it will build.
    pub config: WireConfig,
    /// Why the two do not share memory, where they do not.
    pub why_not_shm: Option<String>,
}

/// What a connection between two ranks is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Control frames.
    Control,
    /// Wire frames.
    Data,
    /// The handing over of shared memory, then control frames.
    Shared,
}

/// A message that breaks the rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Nothing, or too much.
    #[error("its length is {0}, not 1 to {MAX_MESSAGE_BYTES}")]
    Length(u32),
    /// Less than its fields need.
    #[error("it ends within a field")]
    Short,
    /// More than its fields need.
    #[error("{0} bytes follow its last field")]
    Long(usize),
    /// A field with a value that it cannot have.
    #[error("its {field} is {value}")]
    Field {
        /// Which.
        field: &'static str,
        /// The value.
        value: u64,
    },
    /// Text that is not UTF-8.
    #[error("its text is not UTF-8")]
    Text,
}

/// Why no message could be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("{}", broken(.0))]
    Broken(#[from] std::io::Error),
    #[error("it sent a malformed message: {0}")]
    Malformed(#[from] Malformed),
}

fn broken(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset => {
            "it closed the connection".to_owned()
        }
        _ => format!("the connection broke: {error}"),
    }
}

/// Reads one message and not a byte more. Memory grows with what has come, not with what is announced. Not cancel safe.
pub(super) async fn read<R: AsyncRead + Unpin>(input: &mut R) -> Result<Message, ReadError> {
    let length = input.read_u32_le().await?;
    if !(1..=MAX_MESSAGE_BYTES).contains(&length) {
        return Err(Malformed::Length(length).into());
    }
    let mut bytes = Vec::new();
    input.take(u64::from(length)).read_to_end(&mut bytes).await?;
    if bytes.len() < length as usize {
        return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
    }
    Ok(decode(bytes.into())?)
}

/// Writes one message.
pub(super) async fn write<W: AsyncWrite + Unpin>(output: &mut W, message: &Message) -> std::io::Result<()> {
    output.write_all(&encode(message)).await
}

/// The bytes of a message, its length before it.
pub fn encode(message: &Message) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u32_le(0);
    put_message(&mut out, message);
    let length = u32::try_from(out.len() - size_of::<u32>()).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&length.to_le_bytes());
    out.freeze()
}

/// The message in `bytes`, which come after its length.
pub fn decode(bytes: Bytes) -> Result<Message, Malformed> {
    let mut input = Input(bytes);
    let message = input.message()?;
    match input.0.len() {
        0 => Ok(message),
        more => Err(Malformed::Long(more)),
    }
}

fn put_message(out: &mut BytesMut, message: &Message) {
    match message {
        Message::Arrive { rank, world, member } => {
            out.put_u8(1);
            out.put_u32_le(*rank);
            out.put_u32_le(*world);
            put_member(out, member);
        }
        Message::Waiting(ranks) => {
            out.put_u8(2);
            put_list(out, ranks, |out, &rank| out.put_u32_le(rank));
        }
        Message::Welcome { settings, members } => {
            out.put_u8(3);
            put_bytes(out, settings);
            put_list(out, members, put_member);
        }
        Message::Refused { missing, reason } => {
            out.put_u8(4);
            put_list(out, missing, |out, &rank| out.put_u32_le(rank));
            put_bytes(out, reason.as_bytes());
        }
        Message::Ready => out.put_u8(5),
        Message::Go => out.put_u8(6),
        Message::GaveUp => out.put_u8(7),
        Message::Failed(reason) => {
            out.put_u8(8);
            put_bytes(out, reason.as_bytes());
        }
        Message::Pair(hello) => {
            out.put_u8(9);
            put_pair(out, hello);
        }
    }
}

fn put_pair(out: &mut BytesMut, hello: &PairHello) {
    out.put_u32_le(hello.rank);
    out.put_u8(match hello.purpose {
        Purpose::Control => 0,
        Purpose::Data => 1,
        Purpose::Shared => 2,
    });
    out.put_u16_le(hello.config.ports);
    out.put_u32_le(hello.config.depth);
    out.put_u64_le(hello.config.slot_bytes as u64);
    put_option(out, hello.why_not_shm.as_deref());
}

fn put_member(out: &mut BytesMut, member: &Member) {
    let Host { name, boot, network, processes } = &member.host;
    [name, boot, network, processes].into_iter().for_each(|text| put_bytes(out, text.as_bytes()));
    out.put_u32_le(member.pid);
    put_list(out, &member.processors, |out, cpu| out.put_u32_le(*cpu));
    let Doors { transports, addresses, port, unix } = &member.doors;
    out.put_u8(match transports {
        Transports::Auto => 0,
        Transports::Shm => 1,
        Transports::Tcp => 2,
    });
    put_list(out, addresses, |out, address| out.put_slice(&to_v6(*address).octets()));
    out.put_u16_le(*port);
    put_bytes(out, unix.as_deref().unwrap_or_default().as_bytes());
    put_bytes(out, unix.as_ref().err().map_or("", String::as_str).as_bytes());
}

fn put_list<T>(out: &mut BytesMut, items: &[T], put: impl Fn(&mut BytesMut, &T)) {
    out.put_u32_le(items.len() as u32);
    items.iter().for_each(|item| put(out, item));
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32_le(bytes.len() as u32);
    out.put_slice(bytes);
}

fn put_option(out: &mut BytesMut, text: Option<&str>) {
    out.put_u8(u8::from(text.is_some()));
    put_bytes(out, text.unwrap_or_default().as_bytes());
}

fn to_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// What is left of a message.
struct Input(Bytes);

impl Input {
    fn message(&mut self) -> Result<Message, Malformed> {
        Ok(match self.0.try_get_u8()? {
            1 => Message::Arrive { rank: self.u32()?, world: self.u32()?, member: self.member()? },
            2 => Message::Waiting(self.list(Input::u32)?),
            3 => Message::Welcome { settings: self.bytes()?, members: self.list(Input::member)? },
            4 => Message::Refused { missing: self.list(Input::u32)?, reason: self.text()? },
            5 => Message::Ready,
            6 => Message::Go,
            7 => Message::GaveUp,
            8 => Message::Failed(self.text()?),
            9 => Message::Pair(self.pair()?),
            other => return Err(Malformed::Field { field: "kind", value: other.into() }),
        })
    }

    fn pair(&mut self) -> Result<PairHello, Malformed> {
        let rank = self.u32()?;
        let purpose = match self.0.try_get_u8()? {
            0 => Purpose::Control,
            1 => Purpose::Data,
            2 => Purpose::Shared,
            other => return Err(Malformed::Field { field: "purpose", value: other.into() }),
        };
        let (ports, depth, slot_bytes) = (self.0.try_get_u16_le()?, self.u32()?, self.0.try_get_u64_le()?);
        let too_large = |_| Malformed::Field { field: "slot size", value: slot_bytes };
        let config = WireConfig { ports, depth, slot_bytes: usize::try_from(slot_bytes).map_err(too_large)? };
        Ok(PairHello { rank, purpose, config, why_not_shm: self.option()? })
    }

    fn member(&mut self) -> Result<Member, Malformed> {
        let host =
            Host { name: self.text()?, boot: self.text()?, network: self.text()?, processes: self.text()? };
        let (pid, processors) = (self.u32()?, self.list(Input::u32)?);
        let transports = match self.0.try_get_u8()? {
            0 => Transports::Auto,
            1 => Transports::Shm,
            2 => Transports::Tcp,
            other => return Err(Malformed::Field { field: "transport", value: other.into() }),
        };
        let (addresses, port) = (self.list(Input::address)?, self.0.try_get_u16_le()?);
        let unix = match (self.text()?, self.text()?) {
            (name, why_not) if why_not.is_empty() => Ok(name),
            (_, why_not) => Err(why_not),
        };
        Ok(Member { host, pid, processors, doors: Doors { transports, addresses, port, unix } })
    }

    fn address(&mut self) -> Result<IpAddr, Malformed> {
        let mut octets = [0; 16];
        self.0.try_copy_to_slice(&mut octets)?;
        Ok(IpAddr::V6(Ipv6Addr::from(octets)).to_canonical())
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(self.0.try_get_u32_le()?)
    }

    fn list<T>(&mut self, item: impl Fn(&mut Input) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
        (0..self.u32()?).map(|_| item(self)).collect()
    }

    fn bytes(&mut self) -> Result<Bytes, Malformed> {
        let length = self.u32()? as usize;
        if length > self.0.len() { Err(Malformed::Short) } else { Ok(self.0.split_to(length)) }
    }

    fn text(&mut self) -> Result<String, Malformed> {
        String::from_utf8(self.bytes()?.into()).map_err(|_| Malformed::Text)
    }

    fn option(&mut self) -> Result<Option<String>, Malformed> {
        let is_some = self.0.try_get_u8()?;
        let text = self.text()?;
        match is_some {
            0 if text.is_empty() => Ok(None),
            1 => Ok(Some(text)),
            other => Err(Malformed::Field { field: "option", value: other.into() }),
        }
    }
}

impl From<TryGetError> for Malformed {
    fn from(_: TryGetError) -> Self {
        Malformed::Short
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member() -> Member {
        let host = Host { name: "a".into(), boot: "b".into(), network: "n".into(), processes: String::new() };
        let addresses = vec!["10.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
        let doors = Doors { transports: Transports::Auto, addresses, port: 80, unix: Ok("x".into()) };
        Member { host, pid: 7, processors: vec![0, 5], doors }
    }

    fn messages() -> Vec<Message> {
        let config = WireConfig { ports: 33, depth: 4, slot_bytes: 1 << 20 };
        let why_not_shm = Some("they are far apart".to_owned());
        vec![
            Message::Arrive { rank: 1, world: 3, member: member() },
            Message::Waiting(vec![2, 5]),
            Message::Welcome { settings: Bytes::from_static(b"s"), members: vec![member(), member()] },
            Message::Refused { missing: vec![1], reason: "no".into() },
            Message::Ready,
            Message::Go,
            Message::GaveUp,
            Message::Failed("so".into()),
            Message::Pair(PairHello { rank: 2, purpose: Purpose::Data, config, why_not_shm }),
        ]
    }

    #[test]
    fn messages_come_back_as_they_were_and_no_part_of_one_is_one() {
        for message in messages() {
            let bytes = encode(&message).slice(4..);
            assert_eq!(decode(bytes.clone()), Ok(message));
            for end in 0..bytes.len() {
                assert!(decode(bytes.slice(..end)).is_err(), "{end} bytes of {bytes:?}");
            }
            assert_eq!(decode([&bytes[..], &[0]].concat().into()), Err(Malformed::Long(1)));
        }
    }

    #[test]
    fn an_announced_length_allocates_nothing() {
        let list = [&[2_u8][..], &u32::MAX.to_le_bytes()].concat();
        assert_eq!(decode(list.into()), Err(Malformed::Short));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let read = |bytes: Vec<u8>| runtime.block_on(async { read(&mut &bytes[..]).await });
        let error = read(u32::MAX.to_le_bytes().to_vec()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "it sent a malformed message: its length is 4294967295, not 1 to 16777216"
        );
        assert!(matches!(
            read([&(16_u32 << 20).to_le_bytes()[..], &[1]].concat()),
            Err(ReadError::Broken(_))
        ));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(kind in 0..12_u8, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(Bytes::from(bytes.clone()));
            let _ = decode([&[kind][..], &bytes].concat().into());
        }
    }
}
