//! Files that were good until somebody changed them: whatever is changed, reading neither panics nor takes more memory than a bound; what is
//! still taken is proved, and survives being written. The only tests of their process, under an allocator that counts.
#![cfg(feature = "msccl")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hcomm_planner::export::{json, to_msccl};
use hcomm_planner::{Plan, verify};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// What reading a file may take, whatever it says.
const BOUND_BYTES: usize = 128 << 20;

struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator, called with what the caller vouches for.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let in_use = IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(in_use, Ordering::Relaxed);
        // SAFETY: passed on from the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: passed on from the caller.
        unsafe { System.dealloc(at, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Tests take turns, so that each measures its own reading.
static TURN: Mutex<()> = Mutex::new(());

/// Reads a text; returns how many bytes were in use at most, over those before.
fn measured(text: &str) -> (Option<Vec<Plan>>, usize) {
    let before = IN_USE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let plans = Plan::from_msccl(text).ok();
    (plans, PEAK.load(Ordering::Relaxed) - before)
}

fn good_files() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/msccl");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("the files").map(|e| e.expect("a file").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read_to_string(path).expect("a readable file")).collect()
}

/// One change; places are counted modulo what there is.
#[derive(Clone, Debug)]
enum Change {
    /// A number of the text becomes another.
    Number(usize, i64),
    /// A quoted word becomes another.
    Word(usize, &'static str),
    DropLine(usize),
    RepeatLine(usize),
    SwapLines(usize, usize),
    CutOff(usize),
    Byte(usize, u8),
}

fn change() -> impl Strategy<Value = Change> {
    let numbers = prop_oneof![
        -2_i64..8,
        Just(255),
        Just(1 << 16),
        Just(1_000_000_000),
        Just(u32::MAX.into()),
        Just(i64::MAX)
    ];
    let words = prop::sample::select(vec![
        "s",
        "r",
        "rcs",
        "rrc",
        "rrs",
        "rrcs",
        "cpy",
        "re",
        "nop",
        "i",
        "o",
        "",
        "allreduce",
        "allgather",
        "reducescatter",
        "broadcast",
        "reduce",
        "gather",
        "scatter",
        "alltoall",
        "&amp;",
        "&#0;",
    ]);
    let at = 0..10_000_usize;
    prop_oneof![
        6 => (at.clone(), numbers).prop_map(|(at, number)| Change::Number(at, number)),
        4 => (at.clone(), words).prop_map(|(at, word)| Change::Word(at, word)),
        2 => at.clone().prop_map(Change::DropLine),
        2 => at.clone().prop_map(Change::RepeatLine),
        2 => (at.clone(), at.clone()).prop_map(|(a, b)| Change::SwapLines(a, b)),
        1 => at.clone().prop_map(Change::CutOff),
        1 => (at, any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
    ]
}

fn changed(text: &str, change: &Change) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let count = lines.len().max(1);
    match change {
        Change::Number(at, number) => {
            return quoted(text, *at, |word| word.parse::<i64>().is_ok(), &number.to_string());
        }
        Change::Word(at, word) => return quoted(text, *at, |word| word.parse::<i64>().is_err(), word),
        Change::CutOff(at) => {
            let at = text.char_indices().map(|(at, _)| at).nth(at % count).unwrap_or(0);
            return text[..at].to_owned();
        }
        Change::Byte(at, byte) => {
            let mut bytes = text.as_bytes().to_vec();
            let length = bytes.len().max(1);
            if let Some(old) = bytes.get_mut(at * 31 % length) {
                *old = *byte;
            }
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        Change::DropLine(at) if !lines.is_empty() => drop(lines.remove(at % count)),
        Change::RepeatLine(at) if !lines.is_empty() => lines.insert(at % count, lines[at % count]),
        Change::SwapLines(a, b) if !lines.is_empty() => lines.swap(a % count, b % count),
        _ => {}
    }
    lines.join("\n")
}

/// Replaces one of the quoted words that are of a kind.
fn quoted(text: &str, at: usize, kind: impl Fn(&str) -> bool, new: &str) -> String {
    let mut pieces: Vec<&str> = text.split('"').collect();
    let found: Vec<usize> = (1..pieces.len()).step_by(2).filter(|i| kind(pieces[*i])).collect();
    if !found.is_empty() {
        pieces[found[at % found.len()]] = new;
    }
    pieces.join("\"")
}

/// What was taken is right, whoever reads it next.
fn check_taken(plans: &[Plan]) {
    verify(plans, 2).expect("it was proved");
    assert_eq!(json::read(&json::write(plans)).expect("what was written"), plans);
    if let Ok(text) = to_msccl(plans) {
        let again = Plan::from_msccl(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!((again.len(), again[0].overlay), (plans.len(), plans[0].overlay));
    }
}

#[test]
fn changed_files_never_panic_and_stay_within_bounds() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (files, taken) = (good_files(), AtomicUsize::new(0));
    let config = ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() };
    let changes = (0..files.len(), prop::collection::vec(change(), 1..4));
    let outcome = TestRunner::new(config).run(&changes, |(file, changes)| {
        let text = changes.iter().fold(files[file].clone(), |text, one| changed(&text, one));
        let (plans, bytes) = measured(&text);
        prop_assert!(bytes < BOUND_BYTES, "{bytes} bytes");
        if let Some(plans) = plans {
            check_taken(&plans);
            taken.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let taken = taken.into_inner();
    println!("{taken} of 3000 changed files are still right");
    assert!((100..2500).contains(&taken), "{taken}");
}

/// Files of small text that ask for as much as can be asked for.
#[test]
fn the_largest_files_stay_within_bounds() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let head = |gpus: usize, chunks: usize, inner: &dyn Fn(usize) -> String| {
        let gpu = |id| {
            let (c, inner) = (chunks, inner(id));
            format!("<gpu id='{id}' i_chunks='{c}' o_chunks='{c}' s_chunks='{c}'>{inner}</gpu>")
        };
        let gpus: (usize, String) = (gpus, (0..gpus).map(gpu).collect());
        format!(
            "<algo name='a' ngpus='{}' coll='allreduce' nchunksperloop='{chunks}' inplace='0'>{}</algo>",
            gpus.0, gpus.1
        )
    };
    let tb = |step: &dyn Fn(usize) -> String, steps: usize| {
        let steps: String = (0..steps).map(step).collect();
        format!("<tb id='0' send='-1' recv='-1' chan='0'>{steps}</tb>")
    };
    let copy = |s: usize, count: usize| {
        format!("<step s='{s}' type='cpy' srcbuf='i' srcoff='0' dstbuf='s' dstoff='0' cnt='{count}'/>")
    };
    let texts = [
        head(2, 43_690, &|_| String::new()),
        head(2, 43_690, &|_| tb(&|s| copy(s, 256), 1024)),
        head(2, 43_690, &|_| {
            tb(&|s| copy(s, 256).replace("'s' dstoff='0'", &format!("'i' dstoff='{}'", s * 256)), 170)
        }),
        head(256, 340, &|_| tb(&|s| copy(s, 8), 255)),
        head(2, 64, &|_| tb(&|s| copy(s, 32), 8192)),
    ];
    for text in texts {
        let start = std::time::Instant::now();
        let (plans, bytes) = measured(&text);
        println!("{} bytes of text took {bytes} bytes, {:?}", text.len(), start.elapsed());
        assert!(plans.is_none(), "nothing is sent in it");
        assert!(bytes < BOUND_BYTES, "{bytes} bytes for {}", &text[..200]);
    }
}
