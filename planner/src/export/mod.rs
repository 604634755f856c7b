//! Plans for people and other programs: text, DOT, SVG, JSON and MSCCL's XML. Each takes one slice or several joined; the last takes all.

mod dot;
mod joined;
pub mod json;
mod msccl;
mod sizing;
mod svg;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod words;

pub use dot::dot;
pub use msccl::{ExportError, to_msccl};
pub use sizing::Sizing;
pub use svg::svg;
pub use text::text;
