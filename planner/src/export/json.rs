//! Plans as JSON, and back. The format has a version, and what is read is checked, so that a plan from a file can
//! be drawn, proved and run.

use serde::{Deserialize, Serialize};

use crate::import::without_mark;
use crate::plan::{Node, Plan};
use crate::verify::{VerifyError, check_slice};

/// The version that is written, and the only one read.
pub const VERSION: u32 = 3;

/// Most chunks that the nodes of a file move, in all their sources and sinks together.
pub(crate) const MAX_MOVED: u64 = 1 << 22;

/// Why a text is no plan.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// No JSON, or an unknown, missing or ill-typed field.
    #[error("plan file: {0}")]
    Syntax(#[from] serde_json::Error),
    /// Written by another version.
    #[error("plan file of version {0}; expected version {VERSION}")]
    Version(u32),
    /// Another number of slices than asked for.
    #[error("plan file with {0} slices; expected 1")]
    Slices(usize),
    /// Nodes that move more than is read.
    #[error("plan file: its nodes move {0} chunks in all; the limit is {MAX_MOVED}")]
    Moved(u64),
    /// A slice that contradicts itself.
    #[error("plan file: {0}")]
    Plan(#[from] VerifyError),
}

#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    slices: &'a [Plan],
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    #[serde(rename = "version")]
    _version: u32,
    slices: Vec<Plan>,
}

/// Writes slices.
pub fn write(plans: &[Plan]) -> String {
    serde_json::to_string(&Written { version: VERSION, slices: plans })
        .expect("plans hold nothing that JSON cannot")
}

/// Reads slices, each of which makes sense by itself; `verify` proves them together.
///
/// # Errors
/// [`ImportError`] names the field or the contradiction.
pub fn read(text: &str) -> Result<Vec<Plan>, ImportError> {
    let text = without_mark(text);
    let Version { version } = serde_json::from_str(text)?;
    if version != VERSION {
        return Err(ImportError::Version(version));
    }
    let Read { slices, .. } = serde_json::from_str(text)?;
    slices.iter().try_for_each(check_slice)?;
    match slices.iter().map(moved).fold(0, u64::saturating_add) {
        0..=MAX_MOVED => Ok(slices),
        moved => Err(ImportError::Moved(moved)),
    }
}

/// Chunks that the nodes of a slice move: what it takes to bind and to prove it.
pub(crate) fn moved(plan: &Plan) -> u64 {
    let of_node =
        |node: &Node| (node.sources.len() + node.sinks.len() + 1) as u64 * u64::from(node.extent.count);
    plan.nodes.iter().map(of_node).fold(0, u64::saturating_add)
}

impl Plan {
    /// The slice as JSON.
    pub fn to_json(&self) -> String {
        write(std::slice::from_ref(self))
    }

    /// Reads a file of one slice.
    ///
    /// # Errors
    /// As [`read`], and where the file has another number of slices.
    pub fn from_json(text: &str) -> Result<Plan, ImportError> {
        let mut slices = read(text)?;
        match (slices.pop(), slices.len()) {
            (Some(plan), 0) => Ok(plan),
            (Some(_), more) => Err(ImportError::Slices(more + 1)),
            (None, _) => Err(ImportError::Slices(0)),
        }
    }
}
