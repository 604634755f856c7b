//! The operations of an execution plan: one list, which says what each reads, writes and waits for.

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    /// Nothing that a plan has to say: threads of one block meet, or a proxy is waited for.
    Nothing,
    Signal,
    Wait,
    Barrier,
    Acquire,
    Release,
    /// Carries out the operations within it, tile by tile, as a plan does in any case.
    Pipeline,
    Move(Form),
}

/// How sources become sinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The i-th source goes to the i-th sink.
    Each,
    /// The one source goes to all sinks.
    Fan,
    /// All sources are folded into all sinks.
    Fold,
}

/// Where an operand lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// In a buffer of the gpu itself: `type`.
    Local,
    /// In another gpu's: `buffer_id`.
    Remote,
    /// In the buffers of all gpus of a switch channel: `switch_channel_id`.
    Switch,
}

/// A list of operands: some that are always there, then any number of one kind, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands {
    pub heads: &'static [Side],
    pub rest: Option<Side>,
}

/// One entry of the list.
#[derive(Debug)]
pub(super) struct Kind {
    pub name: &'static str,
    pub does: Does,
    pub sources: Operands,
    pub sinks: Operands,
    /// The first source that is read as packets, which wait for their data, as do all after it.
    pub packets_from: Option<usize>,
    /// The first sink that is written as packets, as are all after it.
    pub packets_to: Option<usize>,
    /// Signals the channels of its sinks.
    pub signals: bool,
}

use Does::{Acquire, Barrier, Move, Nothing, Pipeline, Release, Signal, Wait};
use Form::{Each, Fan, Fold};
use Side::{Local, Remote, Switch};

const NONE: Operands = Operands { heads: &[], rest: None };
const LOCAL: Operands = Operands { heads: &[Local], rest: None };
const LOCALS: Operands = Operands { heads: &[Local], rest: Some(Local) };
const REMOTES: Operands = Operands { heads: &[Remote], rest: Some(Remote) };
const LOCAL_REMOTES: Operands = Operands { heads: &[Local], rest: Some(Remote) };
const TWO_LOCALS: Operands = Operands { heads: &[Local, Local], rest: None };
const TWO_LOCALS_REMOTES: Operands = Operands { heads: &[Local, Local], rest: Some(Remote) };
const SWITCH: Operands = Operands { heads: &[Switch], rest: None };

const fn only(name: &'static str, does: Does) -> Kind {
    Kind { name, does, sources: NONE, sinks: NONE, packets_from: None, packets_to: None, signals: false }
}

const fn moves(name: &'static str, form: Form, sources: Operands, sinks: Operands) -> Kind {
    Kind { sources, sinks, ..only(name, Move(form)) }
}

impl Kind {
    const fn signalling(self) -> Kind {
        Kind { signals: true, ..self }
    }

    const fn writing_packets(self, first: usize) -> Kind {
        Kind { packets_to: Some(first), ..self }
    }

    const fn reading_packets(self, first: usize) -> Kind {
        Kind { packets_from: Some(first), ..self }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<&'static Kind> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// Whether it goes through a switch that reads or writes the memory of several GPUs at once.
    pub fn uses_switch(&self) -> bool {
        self.sources.heads.contains(&Switch) || self.sinks.heads.contains(&Switch)
    }
}

impl Operands {
    /// Where the `i`-th is, if there is one.
    pub fn side(&self, i: usize) -> Option<Side> {
        self.heads.get(i).copied().or(self.rest)
    }
}

/// Every operation.
pub(super) static KINDS: [Kind; 30] = [
    only("nop", Nothing),
    only("flush", Nothing),
    only("barrier", Barrier),
    only("signal", Signal),
    only("wait", Wait),
    only("rlxsignal", Signal),
    only("rlxwait", Wait),
    only("sem_acquire", Acquire),
    only("sem_release", Release),
    only("pipeline", Pipeline),
    moves("put", Each, LOCALS, REMOTES),
    moves("pws", Each, LOCALS, REMOTES).signalling(),
    moves("pwsf", Each, LOCALS, REMOTES).signalling(),
    moves("get", Each, REMOTES, LOCALS),
    moves("copy", Each, LOCAL, LOCAL),
    moves("re", Fold, LOCALS, LOCAL),
    moves("res", Fold, LOCALS, LOCAL_REMOTES),
    moves("rre", Fold, LOCAL_REMOTES, LOCAL),
    moves("rres", Fold, LOCAL_REMOTES, LOCAL_REMOTES),
    moves("ppkt", Each, LOCALS, REMOTES).writing_packets(0),
    moves("rppkt", Fan, LOCAL, REMOTES).reading_packets(0).writing_packets(0),
    moves("cpkt", Each, LOCAL, LOCAL).writing_packets(0),
    moves("upkt", Each, LOCAL, LOCAL).reading_packets(0),
    moves("repkt", Fold, LOCALS, LOCAL).reading_packets(1),
    moves("respkt", Fold, LOCALS, LOCAL_REMOTES).reading_packets(1).writing_packets(1),
    moves("recpkt", Fold, LOCALS, TWO_LOCALS).reading_packets(1).writing_packets(1),
    moves("recspkt", Fold, LOCALS, TWO_LOCALS_REMOTES).reading_packets(1).writing_packets(1),
    moves("glres", Fold, SWITCH, SWITCH),
    moves("gstore", Fan, LOCAL, SWITCH),
    moves("gstorepkt", Fan, LOCAL, SWITCH).writing_packets(0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_packets_are_read_from_a_source_that_is_there() {
        for (i, kind) in KINDS.iter().enumerate() {
            assert!(KINDS[..i].iter().all(|other| other.name != kind.name), "{} twice", kind.name);
            assert!(kind.packets_from.is_none_or(|first| kind.sources.side(first) == Some(Local)));
            assert_eq!(matches!(kind.does, Move(_)), kind.sources.side(0).is_some(), "{}", kind.name);
        }
        assert!(Kind::named("glres").is_some_and(Kind::uses_switch));
        assert!(!Kind::named("rres").is_some_and(Kind::uses_switch));
    }
}
