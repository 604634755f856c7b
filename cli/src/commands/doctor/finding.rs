//! [`Finding`]: what one check found.

/// One thing of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub subject: &'static str,
    /// Whether hcomm can use it.
    pub state: State,
    /// Whether no communicator can be made without it.
    pub is_needed: bool,
    /// What was found, or why it cannot be used.
    pub detail: String,
    /// What to do about it; empty where there is nothing to do.
    pub advice: String,
}

/// Whether hcomm can use a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It can.
    Ok,
    /// It can, but less well than it could.
    Part,
    /// It cannot.
    No,
}

impl State {
    /// The mark in the report.
    pub fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Part => "part",
            State::No => "no",
        }
    }
}

impl Finding {
    /// A thing that hcomm can use.
    pub fn ok(subject: &'static str, detail: impl Into<String>) -> Self {
        Finding { subject, state: State::Ok, is_needed: false, detail: detail.into(), advice: String::new() }
    }

    /// A thing that works less well than it could.
    pub fn part(subject: &'static str, detail: impl Into<String>, advice: impl Into<String>) -> Self {
        Finding { state: State::Part, advice: advice.into(), ..Finding::ok(subject, detail) }
    }

    /// A thing that hcomm cannot use.
    pub fn no(subject: &'static str, detail: impl Into<String>, advice: impl Into<String>) -> Self {
        Finding { state: State::No, advice: advice.into(), ..Finding::ok(subject, detail) }
    }

    /// The same, and no communicator can be made without it.
    pub fn needed(self) -> Self {
        Finding { is_needed: true, ..self }
    }
}

/// Whether a communicator can be made where these were found.
pub fn is_usable(findings: &[Finding]) -> bool {
    !findings.iter().any(|finding| finding.is_needed && finding.state == State::No)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_decides() {
        let missing = Finding::no("a", "", "");
        assert!(is_usable(&[missing.clone(), Finding::ok("b", "").needed()]));
        assert!(!is_usable(&[Finding::ok("b", ""), missing.needed()]));
    }
}
