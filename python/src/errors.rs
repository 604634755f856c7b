//! Failures as exceptions: one class per kind, all in `hcomm.errors`, with the facts as attributes.

use hcomm::transports::rendezvous::JoinError;
use hcomm::{CreateError, Error, Failure, Refused};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The facts of an error, by the names of the attributes.
type Facts<'py> = Bound<'py, PyDict>;

/// What came of an operation.
pub fn from_error(py: Python<'_>, error: &Error) -> PyErr {
    match error {
        Error::Refused(refused) => from_refused(py, refused),
        Error::Failed(failure) => from_failure(py, failure),
        Error::Memory(_) => raise(py, "OutOfMemoryError", &error.to_string(), |_| Ok(())),
    }
}

/// Why there is no communicator.
pub fn from_create(py: Python<'_>, error: &CreateError) -> PyErr {
    from_create_with(py, error, error.to_string())
}

fn from_create_with(py: Python<'_>, error: &CreateError, text: String) -> PyErr {
    match error {
        CreateError::Split { cause, .. } => from_create_with(py, cause, text),
        CreateError::Call(error) => from_error(py, error),
        CreateError::Join(JoinError::Missing { ranks, within, .. }) => {
            raise(py, "RendezvousError", &text, |facts| {
                facts.set_item("ranks", ranks)?;
                facts.set_item("within", within.as_secs_f64())
            })
        }
        CreateError::Join(_)
        | CreateError::Address(_)
        | CreateError::Meeting(_)
        | CreateError::AddressInUse { .. } => raise(py, "RendezvousError", &text, |_| Ok(())),
        CreateError::Memory(_) => raise(py, "OutOfMemoryError", &text, |_| Ok(())),
        CreateError::Setting(_) | CreateError::Agreement(_) => setting(py, &text),
        CreateError::Environment(_) => raise(py, "EnvironmentError", &text, |_| Ok(())),
        _ => raise(py, "CreateError", &text, |_| Ok(())),
    }
}

/// A setting with a wrong name or value.
pub fn setting(py: Python<'_>, text: &str) -> PyErr {
    raise(py, "SettingError", text, |_| Ok(()))
}

/// A call whose arguments are wrong in a way that the engine would not see.
pub fn refused(py: Python<'_>, text: &str) -> PyErr {
    raise(py, "RefusedError", text, |_| Ok(()))
}

/// A rank that cannot be one.
pub fn rank(py: Python<'_>, rank: i64, world: usize) -> PyErr {
    let last = world.saturating_sub(1);
    let text = format!("rank {rank} does not exist; the world has {world} ranks, 0 to {last}");
    raise(py, "RankError", &text, |facts| {
        facts.set_item("rank", rank)?;
        facts.set_item("world", world)
    })
}

/// An object without memory that a call can use.
pub fn array(text: &str) -> PyErr {
    Python::attach(|py| raise(py, "ArrayError", text, |_| Ok(())))
}

/// An output that may not be written.
pub fn read_only() -> PyErr {
    let text = "the output is read-only; expected memory that may be written";
    Python::attach(|py| raise(py, "ReadOnlyError", text, |_| Ok(())))
}

/// An output whose elements are not all of their own.
pub fn overlap() -> PyErr {
    let text =
        "elements of the output share memory; expected an array without repetition, or arrays of their own";
    Python::attach(|py| raise(py, "OverlapError", text, |_| Ok(())))
}

/// No memory for a copy.
pub fn memory(py: Python<'_>, bytes: usize) -> PyErr {
    let text =
        format!("no memory for {bytes} bytes, to which elements that do not lie side by side are copied");
    raise(py, "OutOfMemoryError", &text, |_| Ok(()))
}

/// A plan that cannot be made, or is wrong.
pub fn plan(py: Python<'_>, text: &str) -> PyErr {
    raise(py, "PlanError", text, |_| Ok(()))
}

/// Something from before a fork, used after it.
pub fn forked() -> PyErr {
    let text = "this communicator was made before the process forked, and does not work in the child; start processes before \
                hcomm.init(), or by 'spawn'";
    Python::attach(|py| raise(py, "ForkError", text, |_| Ok(())))
}

fn from_refused(py: Python<'_>, refused: &Refused) -> PyErr {
    let text = refused.to_string();
    match refused {
        Refused::BufferSize { which, elements, expected, dtype } => {
            raise(py, "BufferSizeError", &text, |facts| {
                facts.set_item("which", which)?;
                facts.set_item("elements", elements)?;
                facts.set_item("expected", expected)?;
                facts.set_item("dtype", dtype.name())
            })
        }
        Refused::DTypesDiffer { input, output } => raise(py, "DTypeError", &text, |facts| {
            facts.set_item("input", input.name())?;
            facts.set_item("output", output.name())
        }),
        Refused::Rank { rank, world } => raise(py, "RankError", &text, |facts| {
            facts.set_item("rank", rank)?;
            facts.set_item("world", world)
        }),
        Refused::Overlap => raise(py, "OverlapError", &text, |_| Ok(())),
        Refused::Plan(_) | Refused::Pin(_) | Refused::Pins { .. } => {
            raise(py, "PlanError", &text, |_| Ok(()))
        }
        Refused::Unusable(failure) => {
            let cause = from_failure(py, failure);
            let error = raise(py, "UnusableError", &text, |_| Ok(()));
            error.set_cause(py, Some(cause));
            error
        }
        _ => raise(py, "RefusedError", &text, |_| Ok(())),
    }
}

fn from_failure(py: Python<'_>, failure: &Failure) -> PyErr {
    let text = failure.to_string();
    let fill = |facts: &Facts<'_>| -> PyResult<()> {
        match failure.root() {
            Failure::PeerLost { rank, cause, others, call } => {
                let ranks: Vec<_> =
                    std::iter::once(*rank).chain(others.iter().map(|(rank, _)| *rank)).collect();
                set(facts, "rank", rank)?;
                set(facts, "ranks", ranks)?;
                set(facts, "cause", cause)?;
                set(facts, "call", call)
            }
            Failure::PeerLeft { rank, last, because, call } => {
                set(facts, "rank", rank)?;
                set(facts, "because", because)?;
                set(facts, "last", last)?;
                set(facts, "call", call)
            }
            Failure::CallMismatch { rank, call, other, other_call } => {
                set(facts, "rank", rank)?;
                set(facts, "call", call)?;
                set(facts, "other", other)?;
                set(facts, "other_call", other_call)
            }
            Failure::PeerRefused { rank, call, reason } => {
                set(facts, "rank", rank)?;
                set(facts, "call", call)?;
                set(facts, "reason", reason)
            }
            Failure::Deadline { call, elapsed, waiting } => {
                set(facts, "call", call)?;
                set(facts, "elapsed", elapsed.as_secs_f64())?;
                set(facts, "waiting", waiting)
            }
            Failure::Aborted { rank, cause } => {
                set(facts, "rank", rank)?;
                set(facts, "cause", cause)
            }
            Failure::MessageSize { rank, tag, bytes, room } => {
                set(facts, "rank", rank)?;
                set(facts, "tag", tag)?;
                set(facts, "bytes", bytes)?;
                set(facts, "room", room)
            }
            Failure::MessageType { from, to, tag, sent, received } => {
                set(facts, "rank", from)?;
                set(facts, "receiver", to)?;
                set(facts, "tag", tag)?;
                set(facts, "sent", sent.to_string())?;
                set(facts, "received", received.to_string())
            }
            Failure::BufferBusy { call } => set(facts, "call", call),
            Failure::Predecessor { call, cause } => {
                set(facts, "call", call)?;
                set(facts, "cause", cause)
            }
            Failure::Refused { reason } => set(facts, "reason", reason),
            Failure::Closed | Failure::Earlier(_) => Ok(()),
        }
    };
    raise(py, class_of(failure), &text, fill)
}

/// The class of a failure.
fn class_of(failure: &Failure) -> &'static str {
    match failure.root() {
        Failure::PeerLost { .. } => "PeerLostError",
        Failure::PeerLeft { .. } => "PeerLeftError",
        Failure::CallMismatch { .. } => "CallMismatchError",
        Failure::PeerRefused { .. } => "PeerRefusedError",
        Failure::Deadline { .. } => "DeadlineError",
        Failure::Aborted { .. } => "AbortedError",
        Failure::MessageSize { .. } => "MessageSizeError",
        Failure::MessageType { .. } => "MessageTypeError",
        Failure::BufferBusy { .. } => "BufferBusyError",
        Failure::Predecessor { .. } => "PredecessorError",
        Failure::Refused { .. } => "RefusedError",
        Failure::Closed | Failure::Earlier(_) => "ClosedError",
    }
}

fn set<'py>(facts: &Facts<'py>, name: &str, fact: impl IntoPyObject<'py>) -> PyResult<()> {
    facts.set_item(name, fact.into_py_any(facts.py())?)
}

/// An exception of a class of `hcomm.errors`, made of a sentence and facts.
fn raise(py: Python<'_>, class: &str, text: &str, fill: impl FnOnce(&Facts<'_>) -> PyResult<()>) -> PyErr {
    let make = || {
        let facts = PyDict::new(py);
        fill(&facts)?;
        py.import("hcomm.errors")?.getattr(class)?.call((text,), Some(&facts))
    };
    match make() {
        Ok(exception) => PyErr::from_value(exception),
        Err(_) => PyRuntimeError::new_err(text.to_owned()),
    }
}
