//! Plans for people and other programs: text, DOT, SVG, a page for the browser, JSON, and MSCCL's XML. Each takes one slice or several joined;
//! the last takes all.

mod dot;
mod drawing;
mod geometry;
mod html;
mod joined;
pub mod json;
mod labels;
#[cfg(feature = "msccl")]
mod msccl;
mod route;
mod svg;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod words;

pub use crate::sizing::Sizing;
pub use dot::dot;
pub use drawing::Drawing;
#[cfg(feature = "msccl")]
pub use msccl::{ExportError, to_msccl};
pub use svg::svg;
pub use text::text;
