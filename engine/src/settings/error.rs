//! What can be wrong with settings.

/// A setting that cannot be taken. Nothing has been set; the text says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// No setting has this name.
    #[error("unknown setting '{name}'; {}", hint(nearest))]
    UnknownName {
        /// The name.
        name: String,
        /// What it was probably meant to be.
        nearest: Option<&'static str>,
    },
    /// The value is not of the setting's type or out of its range.
    #[error("{name} is '{value}'{}; expected {expected}", nearest.as_deref().map(|word| format!(" (did you mean '{word}'?)")).unwrap_or_default())]
    BadValue {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// What was expected.
        expected: String,
        /// What it was probably meant to be.
        nearest: Option<String>,
    },
    /// The name or the value of an `HCOMM_*` variable is no Unicode text.
    #[error("the environment variable '{name}' is not UTF-8; expected plain text")]
    NotText {
        /// The name, as far as it can be shown.
        name: String,
    },
}

/// Rank 0's settings cannot be taken over. The ranks do not run the same build of hcomm, or the message was damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgreementError {
    /// The message ends before it should, or goes on after it.
    #[error("the settings of rank 0 take {bytes} bytes and are cut short or too long at byte {at}")]
    Length {
        /// Its size.
        bytes: usize,
        /// Where it went wrong.
        at: usize,
    },
    /// A name or a value is no UTF-8 text.
    #[error("the settings of rank 0 have a name or value at byte {at} that is not UTF-8")]
    NotText {
        /// Where it begins.
        at: usize,
    },
    /// A name that is no agreed setting of this build, or not the one whose turn it is.
    #[error(
        "rank 0 sent the setting '{name}' where this rank expected '{expected}'; do all ranks run the same build?"
    )]
    OtherSetting {
        /// The name.
        name: String,
        /// The name whose turn it was; "the end" after the last.
        expected: &'static str,
    },
    /// A tuning that this rank does not take.
    #[error("rank 0's tuning cannot be taken over: {0}")]
    Tuning(#[from] hcomm_planner::choose::TuningError),
    /// Pins that this rank does not take.
    #[error("rank 0 sent the pins '{0}', which this rank cannot read; do all ranks run the same build?")]
    Pins(String),
    /// A value that this rank does not take.
    #[error("rank 0's setting cannot be taken over: {0}")]
    Refused(#[from] SettingError),
}

fn hint(nearest: &Option<&'static str>) -> String {
    match nearest {
        Some(name) => format!("did you mean {name}?"),
        None => format!("expected one of {}", super::known_names().collect::<Vec<_>>().join(", ")),
    }
}
