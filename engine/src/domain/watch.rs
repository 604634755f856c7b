//! [`Watch`]: the communicator's ear on the control plane. It runs on the control thread, answers peers that ask about calls, and
//! leaves news for whoever drives.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crossbeam_channel::{Receiver, Sender};
use hcomm_ops::Rank;
use hcomm_transports::{Control, Event, Ringer};

use super::endings::Endings;
use super::notes::{Farewell, Note};
use crate::call::Call;
use crate::error::Failure;

/// News for the driver.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// A rank's state changed.
    Event(Event),
    /// A peer's note.
    Note(Rank, Note),
    /// A peer's call of this number is another than ours; it knows ours already.
    Mismatch { number: u64, other: Rank, other_call: String },
}

/// Calls remembered, so that a peer that is behind can be told.
const REMEMBERED: usize = 1024;

/// Descriptions kept; past this those of calls made since are kept anew.
const MAX_DESCRIPTIONS: usize = 16 * REMEMBERED;

/// Stands for the fingerprint of a call that was refused.
pub(super) const NO_CALL: u32 = 0;

const NOT_REMEMBERED: &str = "a call that is not remembered";

/// A word of a number that has another place.
fn never(place: usize) -> AtomicU64 {
    AtomicU64::new((place as u64 + 1) << 32)
}

/// See the module's text.
pub(crate) struct Watch {
    /// Set when there is news; the data plane looks at it while it waits.
    attention: AtomicBool,
    news: (Sender<News>, Receiver<News>),
    /// Number of calls made, and for the latest of them the low half of the number and the fingerprint.
    made: AtomicU64,
    words: Vec<AtomicU64>,
    /// Descriptions by fingerprint; written when a call first enters the plan cache.
    calls: Mutex<HashMap<u32, String>>,
    /// Refused calls by number.
    refused: Mutex<HashMap<u64, String>>,
    /// What peers said as they left.
    farewells: Mutex<HashMap<Rank, Farewell>>,
    /// Who has ended.
    pub endings: Endings,
    /// Set once the ranks have met.
    links: OnceLock<Links>,
}

struct Links {
    control: Arc<dyn Control>,
    ringer: Ringer,
    /// Sees to it that somebody drives.
    rouse: Box<dyn Fn() + Send + Sync>,
}

impl Watch {
    pub fn new(first: u64) -> Arc<Self> {
        Arc::new(Watch {
            attention: AtomicBool::new(false),
            news: crossbeam_channel::unbounded(),
            made: AtomicU64::new(first),
            words: (0..REMEMBERED).map(never).collect(),
            calls: Mutex::default(),
            refused: Mutex::default(),
            farewells: Mutex::default(),
            endings: Endings::default(),
            links: OnceLock::new(),
        })
    }

    /// Connects it to the control plane and to the driver.
    pub fn connect(&self, control: Arc<dyn Control>, ringer: Ringer, rouse: Box<dyn Fn() + Send + Sync>) {
        let _ = self.links.set(Links { control, ringer, rouse });
    }

    /// Takes an event of the control plane.
    pub fn handle(&self, event: Event) {
        match &event {
            Event::Left { rank, words, .. } => {
                lock(&self.farewells).insert(*rank, Farewell::decode(words));
                self.endings.note(*rank, "it closed its communicator");
            }
            Event::Lost { rank, cause } => self.endings.note(*rank, cause),
            Event::Message { .. } => {}
        }
        let Event::Message { from, body } = event else { return self.tell(News::Event(event)) };
        match Note::decode(&body) {
            Some(Note::Ask { number, fingerprint, call }) => self.answer(from, number, fingerprint, call),
            Some(note) => self.tell(News::Note(from, note)),
            None => tracing::warn!(from, "a control message of {} bytes makes no sense", body.len()),
        }
    }

    /// Whether there is news; the next call says no unless more has come.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.attention.load(Ordering::Relaxed) && self.attention.swap(false, Ordering::Acquire)
    }

    /// Whether there is news, without taking note of it.
    #[inline]
    pub fn wants_attention(&self) -> bool {
        self.attention.load(Ordering::Relaxed)
    }

    /// Our call of a number, in words.
    pub fn our_call(&self, number: u64) -> String {
        if let Some(reason) = lock(&self.refused).get(&number) {
            return format!("what was refused here ({reason})");
        }
        self.recall(number).map_or_else(|| NOT_REMEMBERED.to_owned(), |(_, call)| call)
    }

    /// The fingerprint of our call of a number, and the call in words; `None` where it was long ago, or is still to come.
    pub fn recall(&self, number: u64) -> Option<(u32, String)> {
        let word = self.words[number as usize % REMEMBERED].load(Ordering::Relaxed);
        (word >> 32 == number & 0xffff_ffff).then(|| (word as u32, self.call_of(word as u32)))
    }

    /// The news, oldest first.
    pub fn news(&self) -> impl Iterator<Item = News> + '_ {
        self.news.1.try_iter()
    }

    /// Takes the next number, for a call with this fingerprint.
    #[inline]
    pub fn record(&self, fingerprint: u32) -> u64 {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        self.words[number as usize % REMEMBERED]
            .store(number << 32 | u64::from(fingerprint), Ordering::Relaxed);
        number
    }

    /// Collective calls made.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Remembers a call's description.
    pub fn describe(&self, call: &Call) {
        let mut calls = lock(&self.calls);
        if calls.len() >= MAX_DESCRIPTIONS {
            calls.clear();
        }
        calls.insert(call.fingerprint, call.identify());
    }

    /// Remembers that a call was refused.
    pub fn refuse(&self, number: u64, reason: &str) {
        let mut refused = lock(&self.refused);
        refused.retain(|of, _| *of + REMEMBERED as u64 > number);
        refused.insert(number, reason.to_owned());
    }

    /// Whether this rank's call of a number was refused.
    pub fn has_refused(&self, number: u64) -> bool {
        lock(&self.refused).contains_key(&number)
    }

    /// What this communicator has to say as it closes without a failure.
    pub fn farewell(&self) -> Farewell {
        let calls = self.made_for_all();
        let last_call = calls.checked_sub(1).map_or_else(|| "nothing".to_owned(), |last| self.our_call(last));
        Farewell::Well { calls, last_call }
    }

    /// What a peer said as it left.
    pub fn farewell_of(&self, rank: Rank) -> Option<Farewell> {
        lock(&self.farewells).get(&rank).cloned()
    }

    /// A peer that has closed without a failure and had made another number of calls than this rank, which closes likewise: their last
    /// calls differ.
    pub fn miscount(&self, rank: Rank) -> Option<Failure> {
        let made = self.made_for_all();
        let differs =
            |farewell: &Farewell| matches!(farewell, Farewell::Well { calls, .. } if *calls != made);
        let farewells = lock(&self.farewells).clone();
        let (other, farewell) =
            farewells.into_iter().filter(|(_, f)| differs(f)).min_by_key(|(rank, _)| *rank)?;
        let Farewell::Well { calls: theirs, last_call } = farewell else { return None };
        let nothing = |calls: u64| format!("nothing more, and closed its communicator after {calls} calls");
        let (call, other_call) = match made.cmp(&theirs) {
            std::cmp::Ordering::Less if theirs == made + 1 => (nothing(made), last_call),
            std::cmp::Ordering::Less => (nothing(made), format!("{last_call} as its call {theirs}")),
            _ => (self.our_call(theirs), nothing(theirs)),
        };
        Some(Failure::CallMismatch { rank, call, other, other_call })
    }

    /// Collective calls made, but for those at the end that were refused: nobody else need have made them.
    fn made_for_all(&self) -> u64 {
        let made = self.made();
        let refused = lock(&self.refused);
        (0..made).rev().find(|number| !refused.contains_key(number)).map_or(0, |last| last + 1)
    }

    fn tell(&self, news: News) {
        // The receiver lives as long as the sender: both are here.
        let _ = self.news.0.send(news);
        self.attention.store(true, Ordering::Release);
        if let Some(links) = self.links.get() {
            (links.rouse)();
            links.ringer.ring();
        }
    }

    /// Tells a peer about our call of that number; keeps its call where the two differ.
    fn answer(&self, from: Rank, number: u64, fingerprint: u32, other_call: String) {
        let note = self.compare(number, fingerprint);
        if let Some(links) = self.links.get() {
            links.control.send(from, note.encode());
        }
        if matches!(note, Note::Differs { .. }) {
            self.tell(News::Mismatch { number, other: from, other_call });
        }
    }

    fn compare(&self, number: u64, fingerprint: u32) -> Note {
        let made = self.made();
        if let Some(reason) = lock(&self.refused).get(&number) {
            return Note::Refused { number, reason: reason.clone() };
        }
        if number >= made {
            return Note::NotYet { number, doing: self.last_call(made) };
        }
        let word = self.words[number as usize % REMEMBERED].load(Ordering::Relaxed);
        if word as u32 == NO_CALL && word >> 32 == number & 0xffff_ffff {
            return Note::NotYet { number, doing: self.last_call(number) };
        }
        if word >> 32 != number & 0xffff_ffff || word as u32 == fingerprint {
            return Note::Same { number, doing: format!("it has made {made} calls") };
        }
        Note::Differs { number, call: self.call_of(word as u32) }
    }

    fn last_call(&self, made: u64) -> String {
        let Some(last) = made.checked_sub(1) else { return "it has made no call yet".to_owned() };
        let word = self.words[last as usize % REMEMBERED].load(Ordering::Relaxed);
        format!("it has made {made} calls, the last was {}", self.call_of(word as u32))
    }

    fn call_of(&self, fingerprint: u32) -> String {
        lock(&self.calls).get(&fingerprint).cloned().unwrap_or_else(|| NOT_REMEMBERED.to_owned())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
