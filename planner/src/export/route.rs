//! Routes of edges, as path data of SVG: straight within a row, a curve in the gap between neighbouring columns, and otherwise
//! through the gap between rows, so that no edge runs through a box.

use std::collections::HashMap;

use super::geometry::{BOX, Geometry, Place};
use super::joined::{Edge, Picture};

/// Where straight edges of a row leave and enter, below what comes from other rows.
const STRAIGHT: usize = 38;
/// Half of the gap between rows.
const HALF_GAP: usize = 9;

/// The path of every edge of a picture.
pub(super) fn routes(picture: &Picture<'_>, geometry: &Geometry) -> Vec<String> {
    let is_straight: Vec<bool> = straight_edges(picture, geometry);
    let ports = ports(picture, geometry, &is_straight);
    let mut tracks = Tracks::default();
    let route = |(at, edge): (usize, &Edge)| {
        let (from, to) = (&geometry.places[edge.from], &geometry.places[edge.to]);
        if is_straight[at] {
            return format!("M{} {}H{}", from.x + from.width, from.y + STRAIGHT, to.x);
        }
        let (leave, enter) = ports[at];
        let ((x1, y1), (x2, y2)) = ((from.x + from.width, from.y + leave), (to.x, to.y + enter));
        match to.column.checked_sub(from.column) {
            Some(1) => curve((x1, y1), (x2, y2)),
            _ => tracks.around(geometry, from, to, (y1, y2)),
        }
    };
    picture.edges.iter().enumerate().map(route).collect()
}

/// A curve that stays between its ends.
fn curve((x1, y1): (usize, usize), (x2, y2): (usize, usize)) -> String {
    let half = x2.abs_diff(x1) / 2;
    format!("M{x1} {y1}C{} {y1} {} {y2} {x2} {y2}", x1 + half, x2.saturating_sub(half))
}

/// Which edges stay in their row with no box in between.
fn straight_edges(picture: &Picture<'_>, geometry: &Geometry) -> Vec<bool> {
    let mut rows: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
    for place in &geometry.places {
        rows.entry((place.slice, place.row)).or_default().push(place.column);
    }
    rows.values_mut().for_each(|columns| columns.sort_unstable());
    let is_straight = |edge: &Edge| {
        let (from, to) = (&geometry.places[edge.from], &geometry.places[edge.to]);
        let key = (from.slice, from.row);
        let next =
            |columns: &Vec<usize>| columns.get(columns.partition_point(|c| *c <= from.column)).copied();
        key == (to.slice, to.row) && rows.get(&key).and_then(next) == Some(to.column)
    };
    picture.edges.iter().map(is_straight).collect()
}

/// Per edge, how far below the tops of its boxes it leaves and enters: spread in the order of the other ends, so that they do
/// not cross at the box.
fn ports(picture: &Picture<'_>, geometry: &Geometry, is_straight: &[bool]) -> Vec<(usize, usize)> {
    let mut ends: HashMap<(usize, bool), Vec<(usize, usize)>> = HashMap::new();
    for (at, edge) in picture.edges.iter().enumerate().filter(|(at, _)| !is_straight[*at]) {
        let height = |node: usize| geometry.places[node].y;
        ends.entry((edge.from, true)).or_default().push((height(edge.to), at));
        ends.entry((edge.to, false)).or_default().push((height(edge.from), at));
    }
    let mut ports = vec![(0, 0); picture.edges.len()];
    for ((_, leaves), mut edges) in ends {
        edges.sort_unstable();
        for (nth, (_, at)) in edges.iter().enumerate() {
            let offset = 4 + (nth + 1) * (STRAIGHT - 6) / (edges.len() + 1);
            if leaves {
                ports[*at].0 = offset;
            } else {
                ports[*at].1 = offset;
            }
        }
    }
    ports
}

/// What runs between rows, so that lines beside each other keep apart.
#[derive(Default)]
struct Tracks {
    /// By the height of the gap, the columns that its lines occupy.
    taken: HashMap<usize, Vec<Vec<(usize, usize)>>>,
}

impl Tracks {
    /// Leaves into the gap after its column, runs between the rows at its target, and enters from the gap before it.
    fn around(&mut self, geometry: &Geometry, from: &Place, to: &Place, (y1, y2): (usize, usize)) -> String {
        let is_from_above = (from.slice, from.row) < (to.slice, to.row);
        let middle = if is_from_above { to.y - HALF_GAP } else { to.y + BOX + HALF_GAP };
        let columns = (from.column.min(to.column), from.column.max(to.column));
        let line = middle + 3 * self.track(middle, columns) - 4;
        let (x1, x2) = (from.x + from.width, to.x);
        let (after, before) = geometry.gaps(from.column, to.column).unwrap_or((x1, x2));
        let (a, b) = (after.abs_diff(x1).max(40) / 2, x2.abs_diff(before).max(40) / 2);
        format!(
            "M{x1} {y1}C{} {y1} {} {line} {after} {line}H{before}C{} {line} {} {y2} {x2} {y2}",
            x1 + a,
            after.saturating_sub(a),
            before + b,
            x2.saturating_sub(b)
        )
    }

    /// The first of some lines of a gap that is free between two columns; the last one holds what finds none.
    fn track(&mut self, gap: usize, (first, last): (usize, usize)) -> usize {
        const LINES: usize = 4;
        let lines = self.taken.entry(gap).or_insert_with(|| vec![Vec::new(); LINES]);
        let is_free = |line: &Vec<(usize, usize)>| line.iter().all(|(a, b)| last <= *a || first >= *b);
        let line = lines.iter().position(is_free).unwrap_or(LINES - 1);
        lines[line].push((first, last));
        line
    }
}

impl Geometry {
    /// The left edge of the column after one, and the right edge of the column before another.
    fn gaps(&self, after: usize, before: usize) -> Option<(usize, usize)> {
        let edges = |column: usize| self.columns.get(column).copied();
        let (x, _) = edges(after + 1)?;
        let (left, width) = edges(before.checked_sub(1)?)?;
        (before > after).then_some((x, left + width))
    }
}
