//! [`Geometry`]: where the boxes of a picture are, in pixels: a band per rank, the bands of a host in a frame, in a band as few rows as hold its
//! lanes, a column per step on the longest way.

use std::collections::HashMap;

use super::drawing::Drawing;
use super::joined::{Boxed, Picture, Tie};
use super::labels;

/// The least left edge of the first column; before it stand the names of ranks and lanes. And the most: what is longer is cut.
const LEFT: usize = 176;
const MOST_LEFT: usize = 320;
/// Where the names of lanes begin.
pub(super) const NAMES: usize = 34;
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
/// Room for a host's name above its bands, and around them.
const HOST_HEAD: usize = 20;
const HOST_FOOT: usize = 6;
/// Room for the notes below the picture.
const LEAST_WIDTH: usize = 860;
/// Widths of boxes.
const NARROW: usize = 84;
const WIDE: usize = 300;

/// One rank's part of the picture.
#[derive(Clone, Debug, Default)]
pub(super) struct Band {
    pub top: usize,
    pub height: usize,
    /// The names of its lanes, cut to their room; `None` where they are folded, and of all of them one line.
    pub lanes: Vec<(Option<usize>, String)>,
}

/// The frame around the bands of a host.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub name: String,
    pub top: usize,
    pub height: usize,
}

/// Where one box is.
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
    /// By slice.
    pub bands: Vec<Band>,
    /// Around the bands of each host, where there are several.
    pub frames: Vec<Frame>,
    /// Left edge and width of each column.
    pub columns: Vec<(usize, usize)>,
    /// By box.
    pub places: Vec<Place>,
    /// By box, what it says.
    pub labels: Vec<[String; 3]>,
}

impl Geometry {
    pub fn of(picture: &Picture<'_>, drawing: &Drawing<'_>) -> Geometry {
        let labels = all_labels(picture, drawing);
        let mut bands: Vec<Band> = (0..picture.plans.len())
            .map(|slice| Band { lanes: lanes(picture, drawing, slice), ..Band::default() })
            .collect();
        let names = bands.iter().flat_map(|band| &band.lanes).map(|(_, name)| labels::width(name));
        let left = names.max().map_or(LEFT, |widest| (NAMES + widest + 16).max(LEFT));
        let columns = columns(picture, &labels, left);
        let rows: Vec<Vec<usize>> =
            (0..picture.plans.len()).map(|slice| rows(picture, slice, &mut bands[slice])).collect();
        let (frames, bottom) = stack(&mut bands, drawing);
        let place = |(at, Boxed { slice, column, .. }): (usize, &Boxed)| {
            let ((x, width), row) = (columns[*column], rows[*slice][at - first_box(picture, *slice)]);
            let y = bands[*slice].top + PADDING + row * PITCH;
            Place { slice: *slice, row, column: *column, x, y, width }
        };
        let places = picture.boxes.iter().enumerate().map(place).collect();
        let width = columns.last().map_or(0, |(x, width)| x + width) + 24;
        let width = width.max(LEAST_WIDTH).max(heading_width(drawing));
        Geometry { width, bottom, bands, frames, columns, places, labels }
    }
}

/// How wide the heading is, whose two lines are written larger.
fn heading_width(drawing: &Drawing<'_>) -> usize {
    let lines = [(drawing.title(), 16), (drawing.subtitle(), 12)];
    lines.iter().map(|(line, size)| 32 + labels::width(line) * size / 11).max().unwrap_or(0)
}

/// Puts the bands below each other, host by host; gives the frames of the hosts, and the bottom edge.
fn stack(bands: &mut [Band], drawing: &Drawing<'_>) -> (Vec<Frame>, usize) {
    let (mut top, mut frames) = (TOP, Vec::new());
    let place = |band: &mut Band, top: &mut usize| {
        band.top = *top;
        *top += band.height + BETWEEN;
    };
    let hosts = drawing.hosts();
    if hosts.is_empty() {
        bands.iter_mut().for_each(|band| place(band, &mut top));
        return (frames, top - BETWEEN.min(top));
    }
    for (name, slices) in hosts {
        let first = top;
        top += HOST_HEAD;
        slices.into_iter().for_each(|slice| place(&mut bands[slice], &mut top));
        top += HOST_FOOT;
        frames.push(Frame { name: name.to_owned(), top: first, height: top - BETWEEN - first });
    }
    (frames, top - BETWEEN.min(top))
}

/// The number of a slice's first box.
fn first_box(picture: &Picture<'_>, slice: usize) -> usize {
    picture.boxes.partition_point(|boxed| boxed.slice < slice)
}

/// The names of a slice's lanes, with their numbers; of many, how many of each kind.
fn lanes(picture: &Picture<'_>, drawing: &Drawing<'_>, slice: usize) -> Vec<(Option<usize>, String)> {
    let plan = &picture.plans[slice];
    let name = |lane: usize| labels::cut(&drawing.lane(plan, lane), MOST_LEFT - NAMES - 16);
    match picture.folded[slice] {
        false => (0..plan.lanes.len()).map(|lane| (Some(lane), name(lane))).collect(),
        true => vec![(None, format!("{} lanes, folded", plan.lanes.len()))],
    }
}

fn all_labels(picture: &Picture<'_>, drawing: &Drawing<'_>) -> Vec<[String; 3]> {
    let sizes: Vec<_> = picture.plans.iter().map(|plan| drawing.sizes(plan)).collect();
    let lines = |Boxed { slice, nodes, .. }: &Boxed| match nodes[..] {
        [id] => labels::lines(&picture.plans[*slice], id, sizes[*slice][id].as_deref()),
        _ => labels::lines_of_many(&picture.plans[*slice], nodes),
    };
    picture.boxes.iter().map(|boxed| lines(boxed).map(|line| labels::cut(&line, WIDE - 14))).collect()
}

/// Left edge and width of each column: as wide as its widest box, and far enough from the next for what runs between.
fn columns(picture: &Picture<'_>, labels: &[[String; 3]], left: usize) -> Vec<(usize, usize)> {
    let count = picture.boxes.iter().map(|boxed| boxed.column + 1).max().unwrap_or(0);
    let (mut widths, mut crossing) = (vec![NARROW; count], vec![0; count]);
    for (Boxed { column, .. }, lines) in picture.boxes.iter().zip(labels) {
        let widest = lines.iter().map(|line| labels::width(line) + 14).max().unwrap_or(0);
        widths[*column] = widths[*column].max(widest.min(WIDE));
    }
    for edge in picture.edges.iter().filter(|edge| edge.tie != Tie::Lane) {
        crossing[picture.boxes[edge.from].column] += 1;
    }
    let mut next = left;
    let mut place = |(width, crossing): (usize, usize)| {
        let x = next;
        next += width + (34 + 2 * crossing).min(80);
        (x, width)
    };
    widths.into_iter().zip(crossing).map(&mut place).collect()
}

/// The row of each box of a slice, and the height of its band.
fn rows(picture: &Picture<'_>, slice: usize, band: &mut Band) -> Vec<usize> {
    let first = first_box(picture, slice);
    let own: Vec<&Boxed> = picture.boxes[first..].iter().take_while(|boxed| boxed.slice == slice).collect();
    let (rows, count) = if picture.folded[slice] { stacked(&own) } else { by_lane(picture, slice, &own) };
    band.height = (count.max(1) * PITCH - (PITCH - BOX) + 2 * PADDING).max(30 + band.lanes.len() * LANE_LINE);
    rows
}

/// Boxes of a column below each other.
fn stacked(boxes: &[&Boxed]) -> (Vec<usize>, usize) {
    let mut taken = HashMap::new();
    let mut next = |boxed: &&Boxed| {
        let row = taken.entry(boxed.column).or_insert(0);
        *row += 1;
        *row - 1
    };
    let rows: Vec<usize> = boxes.iter().map(&mut next).collect();
    let count = rows.iter().max().map_or(0, |last| last + 1);
    (rows, count)
}

/// A row for each lane; lanes that are busy in different columns share one.
fn by_lane(picture: &Picture<'_>, slice: usize, boxes: &[&Boxed]) -> (Vec<usize>, usize) {
    let plan = &picture.plans[slice];
    let lane = |boxed: &Boxed| plan.nodes[boxed.nodes[0]].lane as usize;
    let mut busy: Vec<Option<(usize, usize)>> = vec![None; plan.lanes.len()];
    for boxed in boxes {
        let (column, range) = (boxed.column, &mut busy[lane(boxed)]);
        *range = Some(range.map_or((column, column), |(first, last)| (first.min(column), last.max(column))));
    }
    let mut order: Vec<_> =
        busy.into_iter().enumerate().filter_map(|(lane, range)| Some((range?, lane))).collect();
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
    (boxes.iter().map(|boxed| rows[lane(boxed)]).collect(), ends.len())
}
