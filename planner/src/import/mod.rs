//! Plans from other systems' files. A reader turns the text into the slices of all ranks; [`prove`] and [`seal`] end every import: no plan
//! leaves here that `verify` has not passed at the least depth that a channel may have. `export` writes such files; hcomm's own format
//! is `export::json`, which a plan from a file of it also comes through here for.

#[cfg(feature = "msccl")]
pub(crate) mod msccl;
#[cfg(feature = "msccl")]
mod mscclpp;
mod own;
#[cfg(feature = "msccl")]
mod slices;

use crate::export::json;
use crate::hash::Fnv;
use crate::plan::Plan;
use crate::verify::{At, VerifyError, verify};

/// The least depth that a channel may have: what holds there holds in deeper ones.
const DEPTH: usize = 2;

/// Why a file is no plan that can be run. The text names the line or the element, the value, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// Not a text of this format.
    #[error("line {line}: {reason}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// An element that contradicts itself or others.
    #[error("{at}: {reason}")]
    Content {
        /// Which element, such as `gpu 3, tb 1, step 7`.
        at: String,
        /// What is wrong.
        reason: String,
    },
    /// More of something than is read.
    #[error("{what}: {given}; the limit is {limit}")]
    Limit {
        /// Of what.
        what: String,
        /// How many there are, or are said to be.
        given: u64,
        /// How many there may be.
        limit: u64,
    },
    /// A text of no known format.
    #[error("no plan of a known format: the file begins with '{beginning}'; expected {known}")]
    Unknown {
        /// Its first characters.
        beginning: String,
        /// The formats there are, each with its sign.
        known: String,
    },
    /// No plan of hcomm's own format.
    #[error("{0}")]
    Own(String),
    /// A plan that makes sense step by step, and is wrong.
    #[error("the plan fails its proof: {fault}{nodes}")]
    Unproved {
        /// What the verifier found.
        fault: Box<VerifyError>,
        /// Which elements of the file the nodes are.
        nodes: String,
    },
}

impl ImportError {
    /// An element that contradicts itself or others.
    pub(crate) fn at(element: impl ToString, reason: impl Into<String>) -> ImportError {
        ImportError::Content { at: element.to_string(), reason: reason.into() }
    }
}

/// A format that is read.
#[derive(Debug)]
pub struct Format {
    /// What people call it.
    pub name: &'static str,
    /// By what a text of it is told from others, in words.
    pub sign: &'static str,
    /// Whether a text looks like it.
    pub recognises: fn(&str) -> bool,
    /// Reads and proves the slices of all ranks.
    pub read: fn(&str) -> Result<Vec<Plan>, ImportError>,
}

/// Every format; the first that recognises a text reads it.
pub static FORMATS: &[Format] = &[
    #[cfg(feature = "msccl")]
    msccl::FORMAT,
    #[cfg(feature = "msccl")]
    mscclpp::FORMAT,
    own::FORMAT,
];

/// Reads a plan of whatever format, told by the text: the slices of all ranks, in rank order, proved.
///
/// # Errors
/// [`ImportError`], as the format's own reader; and where no format recognises the text.
pub fn read(text: &str) -> Result<(&'static Format, Vec<Plan>), ImportError> {
    let text = without_mark(text);
    let Some(format) = FORMATS.iter().find(|format| (format.recognises)(text)) else {
        let first: String = text.trim_start().chars().take(20).collect();
        let beginning = first.split_whitespace().collect::<Vec<_>>().join(" ");
        return Err(ImportError::Unknown { beginning, known: known() });
    };
    Ok((format, (format.read)(text)?))
}

/// The formats there are, each with its sign.
fn known() -> String {
    let words: Vec<String> =
        FORMATS.iter().map(|format| format!("{} ({})", format.name, format.sign)).collect();
    let (last, others) = words.split_last().expect("there are formats");
    format!("{} or {last}", others.join(", "))
}

#[cfg(feature = "msccl")]
impl Plan {
    /// Reads a plan in MSCCL's XML: the slices of all ranks, in rank order, proved together.
    ///
    /// ```
    /// # mod hcomm { pub use {hcomm_ops::{DType, ReduceOp}, hcomm_planner::*, hcomm_planner as planner}; }
    /// use hcomm::{DType, ReduceOp};
    /// use hcomm::planner::export::to_msccl;
    /// use hcomm::planner::{Choice, Collective, Costs, Overlay, Plan, Request, Topology, compile_all};
    ///
    /// let topology = Topology::single_host(3);
    /// let request = Request::new(Collective::AllGather, DType::F32, ReduceOp::Sum, 100).with_algorithm("ring");
    /// let plans = compile_all(&request, &topology, &Choice::new(&topology, Costs::shm()))?;
    /// let read = Plan::from_msccl(&to_msccl(&plans)?)?;
    /// assert_eq!((read.len(), read[0].overlay), (3, Overlay::Either));
    ///
    /// let error = Plan::from_msccl("<algo name='half a plan'>").unwrap_err();
    /// assert_eq!(error.to_string(), "line 1: algo: it has no attribute coll");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ImportError`] names the element; nothing of a file can panic or take memory without bound.
    pub fn from_msccl(text: &str) -> Result<Vec<Plan>, ImportError> {
        msccl::import(without_mark(text))
    }

    /// Reads an execution plan of MSCCL++ in JSON: the slices of all ranks, in rank order, proved. Where it goes through a switch of
    /// GPUs, they have `Stream` lanes.
    ///
    /// # Errors
    /// As [`Plan::from_msccl`].
    pub fn from_mscclpp(text: &str) -> Result<Vec<Plan>, ImportError> {
        mscclpp::import(without_mark(text))
    }
}

/// Proves slices that hcomm has not made, or that have been changed since. Where any has, all get a new id, a hash of them all: ranks that
/// come by other slices cannot run them as the same call.
///
/// # Errors
/// [`ImportError::Unproved`] says what is wrong, and with which nodes.
pub fn prove_anew(mut plans: Vec<Plan>) -> Result<Vec<Plan>, ImportError> {
    let verified = verify(&plans, DEPTH).map_err(|fault| unproved(fault, |_| None))?;
    verified.note_in(&mut plans);
    if !plans.iter().all(Plan::is_unchanged) {
        seal(&mut plans);
    }
    Ok(plans)
}

/// The text less the byte order mark that some editors begin it with.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Checks that no more of something is there than is read.
pub(crate) fn within(what: impl ToString, given: u64, limit: u64) -> Result<(), ImportError> {
    match given <= limit {
        true => Ok(()),
        false => Err(ImportError::Limit { what: what.to_string(), given, limit }),
    }
}

/// Proves slices that `build` makes, for direct or (true) only for copying paths: the latter where only those are safe. `name` says
/// which element of the file a node is.
#[cfg(feature = "msccl")]
pub(crate) fn prove(
    build: impl Fn(bool) -> Vec<Plan>,
    name: impl Fn(&At) -> Option<String>,
) -> Result<Vec<Plan>, ImportError> {
    let mut direct = build(false);
    let fault = match verify(&direct, DEPTH) {
        Ok(verified) => {
            verified.note_in(&mut direct);
            return Ok(direct);
        }
        Err(fault) => fault,
    };
    if !matches!(fault, VerifyError::NeedsCopying(_) | VerifyError::OverwrittenInUse { .. }) {
        return Err(unproved(fault, name));
    }
    let mut buffered = build(true);
    match verify(&buffered, DEPTH) {
        Ok(verified) => {
            verified.note_in(&mut buffered);
            Ok(buffered)
        }
        Err(fault) => Err(unproved(fault, name)),
    }
}

/// A plan that is wrong; `name` says which element of the file a node is, where it is one.
fn unproved(fault: VerifyError, name: impl Fn(&At) -> Option<String>) -> ImportError {
    let words = |at: &At| Some(format!("rank {} node {} is {}", at.rank, at.node, name(at)?));
    let named: Vec<String> = fault.nodes().into_iter().filter_map(words).collect();
    let nodes = if named.is_empty() { String::new() } else { format!(" ({})", named.join("; ")) };
    ImportError::Unproved { fault: Box::new(fault), nodes }
}

/// Gives the slices of one plan their id: a hash of all that they contain, the same for all.
pub(crate) fn seal(plans: &mut [Plan]) {
    plans.iter_mut().for_each(|plan| (plan.id, plan.sum) = (0, 0));
    let mut hash = Fnv::new();
    hash.bytes(json::write(plans).as_bytes());
    let id = hash.finish();
    for plan in plans {
        plan.id = id;
        plan.note_sum();
    }
}
