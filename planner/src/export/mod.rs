//! Plans for people and other programs: text, DOT, SVG and JSON. Each takes one slice or several joined.

mod dot;
mod joined;
pub mod json;
mod svg;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod words;

pub use crate::sizing::Sizing;
pub use dot::dot;
pub use svg::svg;
pub use text::text;
