//! Plans for people and other programs: text, DOT, SVG and JSON. Each draws one slice or several joined.

pub(crate) mod words;

pub mod text;
