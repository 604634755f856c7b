//! [`Geometry`]: where the boxes of a picture are, in pixels: a band per rank, in it as few rows as hold its lanes, a column
//! per step on the longest way.

use super::drawing::Drawing;
use super::joined::{Picture, Tie};
use super::labels;
use crate::plan::Plan;

/// Left edge of the first column; before it stand the names of ranks and lanes.
pub(super) const LEFT: usize = 176;
/// Top edge of the first band.
pub(super) const TOP: usize = 62;
/// Height of a box.
pub(super) const BOX: usize = 46;
/// From the top of one row to that of the next; edges run in between.
const PITCH: usize = 66;
/// From a band's edge to its first row, and from the last row to its edge.
const PADDING: usize = 15;
/// Between bands.
const BETWEEN: usize = 10;
/// Height of a line in the list of lanes.
pub(super) const LANE_LINE: usize = 14;
/// Widths of boxes.
const NARROW: usize = 84;
const WIDE: usize = 250;

/// One rank's part of the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Band {
    pub top: usize,
    pub height: usize,
}

/// Where one node's box is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub slice: usize,
    /// Within the slice.
    pub row: usize,
    pub column: usize,
    pub x: usize,
    pub y: usize,
    pub width: usize,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Geometry {
    pub width: usize,
    /// Bottom edge of the last band.
    pub bottom: usize,
    pub bands: Vec<Band>,
    /// Left edge and width of each column.
    pub columns: Vec<(usize, usize)>,
    /// By node.
    pub places: Vec<Place>,
    /// By node, what its box says.
    pub labels: Vec<[String; 3]>,
}

impl Geometry {
    pub fn of(picture: &Picture<'_>, drawing: &Drawing<'_>) -> Geometry {
        let labels = all_labels(picture, drawing);
        let columns = columns(picture, &labels);
        let (mut top, mut bands, mut places) = (TOP, Vec::new(), Vec::new());
        for (slice, plan) in picture.plans.iter().enumerate() {
            let (rows, count) = rows(picture, slice);
            let height =
                (count.max(1) * PITCH - (PITCH - BOX) + 2 * PADDING).max(30 + plan.lanes.len() * LANE_LINE);
            bands.push(Band { top, height });
            for (id, node) in plan.nodes.iter().enumerate() {
                let column = picture.columns[picture.base[slice] + id];
                let row = rows[node.lane as usize];
                let (x, width) = columns[column];
                places.push(Place { slice, row, column, x, y: top + PADDING + row * PITCH, width });
            }
            top += height + BETWEEN;
        }
        let width = columns.last().map_or(0, |(x, width)| x + width) + 24;
        Geometry { width: width.max(780), bottom: top - BETWEEN.min(top), bands, columns, places, labels }
    }
}

fn all_labels(picture: &Picture<'_>, drawing: &Drawing<'_>) -> Vec<[String; 3]> {
    let mut labels = Vec::with_capacity(picture.len());
    for plan in picture.plans {
        let sizes = drawing.sizes(plan);
        let cut = |id: usize, size: &Option<String>| {
            labels::lines(plan, id, size.as_deref()).map(|line| labels::cut(&line, WIDE - 14))
        };
        labels.extend(sizes.iter().enumerate().map(|(id, size)| cut(id, size)));
    }
    labels
}

/// Left edge and width of each column: as wide as its widest box, and far enough from the next for what runs between.
fn columns(picture: &Picture<'_>, labels: &[[String; 3]]) -> Vec<(usize, usize)> {
    let count = picture.columns.iter().max().map_or(0, |last| last + 1);
    let (mut widths, mut crossing) = (vec![NARROW; count], vec![0; count]);
    for (column, lines) in picture.columns.iter().zip(labels) {
        let widest = lines.iter().map(|line| labels::width(line) + 14).max().unwrap_or(0);
        widths[*column] = widths[*column].max(widest.min(WIDE));
    }
    for edge in picture.edges.iter().filter(|edge| edge.tie != Tie::Lane) {
        crossing[picture.columns[edge.from]] += 1;
    }
    let mut next = LEFT;
    let mut place = |(width, crossing): (usize, usize)| {
        let x = next;
        next += width + (34 + 2 * crossing).min(80);
        (x, width)
    };
    widths.into_iter().zip(crossing).map(&mut place).collect()
}

/// The row of each lane of a slice, and how many rows there are. Lanes that are busy in different columns share a row.
fn rows(picture: &Picture<'_>, slice: usize) -> (Vec<usize>, usize) {
    let plan: &Plan = &picture.plans[slice];
    let columns = |lane: usize| {
        let nodes = &plan.lanes[lane].nodes;
        let columns = (nodes.start..nodes.end).map(|id| picture.columns[picture.base[slice] + id as usize]);
        columns.fold(None, |range: Option<(usize, usize)>, column| {
            Some(range.map_or((column, column), |(first, last)| (first.min(column), last.max(column))))
        })
    };
    let mut order: Vec<_> = (0..plan.lanes.len()).filter_map(|lane| Some((columns(lane)?, lane))).collect();
    order.sort_unstable_by_key(|((first, _), lane)| (*first, *lane));
    let (mut rows, mut ends) = (vec![0; plan.lanes.len()], Vec::<usize>::new());
    for ((first, last), lane) in order {
        let free = ends.iter().position(|end| *end < first);
        let row = free.unwrap_or(ends.len());
        if row == ends.len() {
            ends.push(last);
        }
        (rows[lane], ends[row]) = (row, last);
    }
    (rows, ends.len())
}
