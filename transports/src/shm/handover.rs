//! Handing a segment to another process: one message over a Unix socket, with two or three file descriptors beside it.
//!
//! The message is 56 bytes, integers little-endian; the descriptors (SCM_RIGHTS) come with its first byte: the segment, then
//! the eventfd on which its owner sleeps, then the owner's heap, open for reading, where it has one.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | `hcommshm` |
//! | 8 | 4 | version of this message and of the ring's layout: 3 |
//! | 12 | 4 | the sender's number among the ranks of the host |
//! | 16 | 4 | how many ranks the host has |
//! | 20 | 4 | slots of a port |
//! | 24 | 4 | ports |
//! | 28 | 4 | zero |
//! | 32 | 8 | bytes of a slot |
//! | 40 | 8 | bytes of the segment |
//! | 48 | 8 | bytes of the heap; 0 where there is none |

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::{Heap, PeerHeap, Segment, SegmentError, segment_bytes};
use crate::ring::BadConfig;
use crate::{Doorbell, Ringer, WireConfig, files};

const MAGIC: [u8; 8] = *b"hcommshm";
const VERSION: u32 = 3;
const BYTES: usize = 56;

/// What both ends of a handover must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The wires' dimensions.
    pub config: WireConfig,
    /// How many ranks this host has.
    pub local_ranks: u32,
}

/// What a rank hands over.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    /// Its number among the ranks of this host.
    pub index: u32,
    /// Its inbox.
    pub segment: &'a Segment,
    /// Where it sleeps.
    pub doorbell: &'a Doorbell,
    /// Its heap, if it has one.
    pub heap: Option<&'a Heap>,
}

/// What a peer handed over.
#[derive(Debug)]
pub struct Handed {
    /// Its inbox.
    pub segment: Segment,
    /// Wakes it.
    pub ringer: Ringer,
    /// Its number among the ranks of this host.
    pub index: u32,
    /// Its heap, where it has one and this rank wanted it.
    pub heap: Option<PeerHeap>,
}

/// A handover failed. The connection is of no further use.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// The peer did not answer in time.
    #[error("the peer neither sent nor took its shared-memory segment within {0:?}")]
    TimedOut(Duration),
    /// The connection failed.
    #[error("handing over shared memory: {}", files::explain(.0))]
    System(#[from] io::Error),
    /// It is not hcomm that speaks.
    #[error("a handover began with {0:?} where {magic:?} was expected", magic = MAGIC)]
    Magic([u8; 8]),
    /// It is another hcomm.
    #[error("the peer speaks version {0} of the shared-memory handover, this process version {VERSION}")]
    Version(u32),
    /// The peer was configured differently.
    #[error("the peer's shared memory is laid out for {theirs:?}, this process's for {ours:?}")]
    Terms {
        /// The peer's.
        theirs: Terms,
        /// This process's.
        ours: Terms,
    },
    /// The peer's number is impossible.
    #[error("the peer says it is local rank {index} of {local_ranks}")]
    Index {
        /// The number.
        index: u32,
        /// The agreed number of ranks.
        local_ranks: u32,
    },
    /// Not the descriptors that were expected.
    #[error("a handover brought {0} where a segment, an eventfd and, if it says so, a heap were expected")]
    Descriptors(String),
    /// The kernel could not hand the descriptors to this process, which may not have more.
    #[error("a handover's descriptors could not be opened: {}", files::out_of_files())]
    Files,
    /// The dimensions are impossible.
    #[error(transparent)]
    Config(#[from] BadConfig),
    /// The segment is not acceptable.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

/// Hands this rank's inbox to the process at the other end.
///
/// # Errors
/// Where the connection fails or the peer does not take it by the deadline.
pub fn send(
    mut stream: &UnixStream,
    terms: Terms,
    own: Own<'_>,
    deadline: Instant,
) -> Result<(), HandoverError> {
    let start = Instant::now();
    let Own { index, segment, doorbell, heap } = own;
    let message = encode(terms, index, segment.bytes() as u64, heap.map_or(0, |heap| heap.bytes() as u64));
    let descriptors: Vec<_> =
        [segment.file(), doorbell.event()].into_iter().chain(heap.map(Heap::file)).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    let fits = beside.push(SendAncillaryMessage::ScmRights(&descriptors));
    debug_assert!(fits, "the space was made for three descriptors");
    stream.set_write_timeout(Some(remaining(deadline)))?;
    let sent = sendmsg(stream, &[IoSlice::new(&message)], &mut beside, SendFlags::NOSIGNAL)
        .map_err(|error| failed(error.into(), start))?;
    stream.write_all(&message[sent..]).map_err(|error| failed(error, start))
}

/// Takes the inbox of the process at the other end, which must keep to the same terms, and its heap if `wants_heap`.
///
/// # Errors
/// Where the connection fails, nothing comes by the deadline, or what comes is not acceptable.
pub fn receive(
    stream: &UnixStream,
    terms: Terms,
    wants_heap: bool,
    deadline: Instant,
) -> Result<Handed, HandoverError> {
    let start = Instant::now();
    let mut message = [0_u8; BYTES];
    let (got, descriptors, are_all) =
        receive_first(stream, &mut message, deadline).map_err(|error| failed(error, start))?;
    // The message has room for more descriptors than anybody sends, so that it is the process that has not.
    if !are_all && descriptors.len() < 3 {
        return Err(HandoverError::Files);
    }
    receive_rest(stream, &mut message[got..], deadline).map_err(|error| failed(error, start))?;
    let (index, segment_length, heap_length) = decode(&message, terms)?;
    let (segment, event, heap) = sort(descriptors, heap_length > 0)?;
    check_eventfd(&event)?;
    let expected = segment_bytes(terms.config, terms.local_ranks as usize)?;
    if segment_length != expected as u64 {
        return Err(SegmentError::Length { actual: segment_length, expected }.into());
    }
    let segment = Segment::adopt(segment, expected)?;
    let ringer = segment.ringer(event);
    let heap = heap.filter(|_| wants_heap).map(|file| PeerHeap::adopt(file, heap_length)).transpose()?;
    Ok(Handed { segment, ringer, index, heap })
}

/// Which descriptor is which.
fn sort(
    descriptors: Vec<OwnedFd>,
    has_heap: bool,
) -> Result<(OwnedFd, OwnedFd, Option<OwnedFd>), HandoverError> {
    let count = descriptors.len();
    let mut rest = descriptors.into_iter();
    match (rest.next(), rest.next(), rest.next()) {
        (Some(segment), Some(event), heap) if count == 2 + usize::from(has_heap) => {
            Ok((segment, event, heap))
        }
        _ => Err(HandoverError::Descriptors(format!("{count} descriptors"))),
    }
}

fn encode(terms: Terms, index: u32, segment_bytes: u64, heap_bytes: u64) -> [u8; BYTES] {
    let Terms { config, local_ranks } = terms;
    let mut message = [0; BYTES];
    message[..8].copy_from_slice(&MAGIC);
    let words = [VERSION, index, local_ranks, config.depth, u32::from(config.ports), 0];
    for (place, word) in message[8..32].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    message[32..40].copy_from_slice(&(config.slot_bytes as u64).to_le_bytes());
    message[40..48].copy_from_slice(&segment_bytes.to_le_bytes());
    message[48..].copy_from_slice(&heap_bytes.to_le_bytes());
    message
}

/// The sender's number, its segment's length and its heap's.
fn decode(message: &[u8; BYTES], ours: Terms) -> Result<(u32, u64, u64), HandoverError> {
    let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| message[at + i]));
    let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| message[at + i]));
    let magic = std::array::from_fn(|i| message[i]);
    if magic != MAGIC {
        return Err(HandoverError::Magic(magic));
    }
    if u32_at(8) != VERSION {
        return Err(HandoverError::Version(u32_at(8)));
    }
    let (index, local_ranks) = (u32_at(12), u32_at(16));
    let ports = u16::try_from(u32_at(24)).unwrap_or(u16::MAX);
    let slot_bytes = usize::try_from(u64_at(32)).unwrap_or(usize::MAX);
    let theirs = Terms { config: WireConfig { ports, depth: u32_at(20), slot_bytes }, local_ranks };
    if theirs != ours {
        return Err(HandoverError::Terms { theirs, ours });
    }
    if index >= local_ranks {
        return Err(HandoverError::Index { index, local_ranks });
    }
    Ok((index, u64_at(40), u64_at(48)))
}

/// The first bytes, the descriptors that come with them, and whether none was left out.
fn receive_first(
    stream: &UnixStream,
    message: &mut [u8],
    deadline: Instant,
) -> io::Result<(usize, Vec<OwnedFd>, bool)> {
    // Room for more descriptors than are expected, so that too many are noticed (and closed).
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    stream.set_read_timeout(Some(remaining(deadline)))?;
    let came = recvmsg(stream, &mut [IoSliceMut::new(message)], &mut beside, RecvFlags::CMSG_CLOEXEC)?;
    if came.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut descriptors = Vec::new();
    for part in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            descriptors.extend(rights);
        }
    }
    Ok((came.bytes, descriptors, !came.flags.contains(ReturnFlags::CTRUNC)))
}

fn receive_rest(mut stream: &UnixStream, mut rest: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !rest.is_empty() {
        stream.set_read_timeout(Some(remaining(deadline)))?;
        match stream.read(rest)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            got => rest = &mut rest[got..],
        }
    }
    Ok(())
}

/// A descriptor that is no eventfd could block whoever rings.
fn check_eventfd(event: &OwnedFd) -> Result<(), HandoverError> {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", event.as_fd().as_raw_fd()))?;
    if name.to_string_lossy().starts_with("anon_inode:[eventfd") {
        return Ok(());
    }
    Err(HandoverError::Descriptors(format!("{}", name.display())))
}

/// Never zero, which would mean "for ever".
fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

fn failed(error: io::Error, start: Instant) -> HandoverError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => HandoverError::TimedOut(start.elapsed()),
        _ => HandoverError::System(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: WireConfig = WireConfig { ports: 2, depth: 2, slot_bytes: 256 };
    const TERMS: Terms = Terms { config: CONFIG, local_ranks: 2 };

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    fn inbox() -> (Segment, Doorbell) {
        let segment = Segment::create(segment_bytes(CONFIG, 2).unwrap()).unwrap();
        let doorbell = segment.doorbell().unwrap();
        (segment, doorbell)
    }

    /// What the receiver says of a message.
    fn answer(message: &[u8], descriptors: &[std::os::fd::BorrowedFd<'_>]) -> Result<Handed, HandoverError> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        assert!(beside.push(SendAncillaryMessage::ScmRights(descriptors)));
        sendmsg(&theirs, &[IoSlice::new(message)], &mut beside, SendFlags::empty()).unwrap();
        drop(theirs);
        receive(&ours, TERMS, true, soon())
    }

    #[test]
    fn a_segment_arrives_with_its_owners_number() {
        let (segment, doorbell) = inbox();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let own = Own { index: 1, segment: &segment, doorbell: &doorbell, heap: None };
        send(&theirs, TERMS, own, soon()).unwrap();
        let handed = receive(&ours, TERMS, true, soon()).unwrap();
        assert_eq!((handed.index, handed.segment.bytes()), (1, segment.bytes()));
        assert!(handed.heap.is_none());
        doorbell.arm();
        handed.ringer.ring();
        doorbell.sleep(&[], Duration::from_secs(10));
        let start = Instant::now();
        doorbell.arm();
        doorbell.sleep(&[], Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(20), "the ring was taken by the first sleep");
    }

    #[test]
    fn a_silent_peer_times_out_and_a_gone_one_fails() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let silent = receive(&ours, TERMS, true, Instant::now() + Duration::from_millis(10));
        assert!(matches!(silent, Err(HandoverError::TimedOut(_))));
        (&theirs).write_all(&MAGIC).unwrap();
        let slow = receive(&ours, TERMS, true, Instant::now() + Duration::from_millis(10));
        assert!(matches!(slow, Err(HandoverError::TimedOut(_))));
        drop(theirs);
        assert!(matches!(receive(&ours, TERMS, true, soon()), Err(HandoverError::System(_))));
    }

    #[test]
    fn whatever_is_wrong_is_named() {
        let (segment, doorbell) = inbox();
        let both = [segment.file(), doorbell.event()];
        let good = encode(TERMS, 1, segment.bytes() as u64, 0);
        assert!(answer(&good, &both).is_ok());
        let with = |at: usize, byte: u8| {
            let mut message = good;
            message[at] = byte;
            answer(&message, &both).unwrap_err().to_string()
        };
        assert!(with(0, b'x').contains("was expected"));
        assert!(with(8, 9).contains("version 9"));
        assert!(with(12, 2).contains("local rank 2 of 2"));
        assert!(with(20, 7).contains("depth: 7"));
        assert!(with(40, 1).contains("were expected"));
    }

    #[test]
    fn a_heap_comes_along_and_is_taken_where_it_is_wanted() {
        let (segment, doorbell) = inbox();
        let heap = Heap::of_length(2 << 20).unwrap();
        for wanted in [true, false] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let own = Own { index: 1, segment: &segment, doorbell: &doorbell, heap: Some(&heap) };
            send(&theirs, TERMS, own, soon()).unwrap();
            let handed = receive(&ours, TERMS, wanted, soon()).unwrap();
            assert_eq!(handed.heap.map(|heap| heap.bytes()), wanted.then_some(2 << 20));
        }
    }

    #[test]
    fn a_heap_that_is_not_what_was_said_is_refused() {
        let (segment, doorbell) = inbox();
        let heap = Heap::of_length(2 << 20).unwrap();
        let (file, event) = (segment.file(), doorbell.event());
        let said = |bytes: u64| encode(TERMS, 1, segment.bytes() as u64, bytes);
        assert!(answer(&said(2 << 20), &[file, event, heap.file()]).unwrap().heap.is_some());
        for wrong in [1, 4096, 4 << 20, u64::MAX] {
            let text = answer(&said(wrong), &[file, event, heap.file()]).unwrap_err().to_string();
            assert!(text.contains("2097152 bytes where"), "{text}");
        }
        for wrong in [&[file, event][..], &[file, event, event], &[file, event, heap.file(), heap.file()]] {
            answer(&said(2 << 20), wrong).unwrap_err();
        }
        answer(&said(0), &[file, event, heap.file()]).unwrap_err();
    }

    #[test]
    fn wrong_descriptors_are_refused() {
        let (segment, doorbell) = inbox();
        let good = encode(TERMS, 0, segment.bytes() as u64, 0);
        let (file, event) = (segment.file(), doorbell.event());
        for wrong in [&[file][..], &[file, event, event], &[file, file], &[event, event]] {
            answer(&good, wrong).unwrap_err();
        }
        assert!(matches!(answer(&good[..20], &[file, event]), Err(HandoverError::System(_))));
    }
}
