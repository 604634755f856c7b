//! What is measured of one size: [`Row`], with [`Figures`] for each way of giving the buffers.

use super::exercise::Form;
use super::spec::Size;

/// One way of calling at one size, all ranks together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Calls that each follow a barrier: the median of the slowest rank.
    pub median_us: f64,
    /// Calls one after the other: the mean of the slowest rank.
    pub stream_us: f64,
    /// Wrong elements on all ranks; `None` where nobody looked.
    pub wrong: Option<u64>,
}

/// One size.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which.
    pub size: Size,
    /// The ways that there are.
    pub figures: Vec<(Form, Figures)>,
}

impl Row {
    /// The figures of one way.
    pub fn of(&self, form: Form) -> Option<&Figures> {
        self.figures.iter().find(|(given, _)| *given == form).map(|(_, figures)| figures)
    }
}
