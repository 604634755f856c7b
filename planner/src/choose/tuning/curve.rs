//! [`Curve`]: by which factors a candidate's measured times differ from what the model says, from size to size.

/// Factors at some sizes, in between in proportion to the octaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// (bytes, factor), ascending; at least one.
    points: Vec<(u64, f64)>,
}

impl Curve {
    /// A curve through points whose sizes ascend; `None` where there is none or they do not.
    pub fn new(points: Vec<(u64, f64)>) -> Option<Curve> {
        let ascends = points.windows(2).all(|pair| pair[0].0.max(1) < pair[1].0);
        (ascends && !points.is_empty()).then_some(Curve { points })
    }

    /// The points.
    pub fn points(&self) -> &[(u64, f64)] {
        &self.points
    }

    /// The factor at a size: that of the nearest point outside of them.
    pub fn at(&self, bytes: u64) -> f64 {
        let after = self.points.partition_point(|(size, _)| *size <= bytes);
        let (Some(below), Some(above)) = (after.checked_sub(1), self.points.get(after)) else {
            return self.points[after.min(self.points.len() - 1)].1;
        };
        let below = &self.points[below];
        let part = (octave(bytes) - octave(below.0)) / (octave(above.0) - octave(below.0));
        below.1 + (above.1 - below.1) * part
    }
}

/// The logarithm to base 2 where `bytes` is a power of two, and the straight line in between: the same on every machine.
fn octave(bytes: u64) -> f64 {
    let whole = bytes.max(1).ilog2();
    let octave = f64::from(whole);
    octave + (bytes.max(1) as f64 / (1_u64 << whole) as f64 - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_joined_by_octaves_and_kept_at_the_ends() {
        let curve = Curve::new(vec![(8, 1.0), (32, 3.0), (128, 2.0)]).expect("ascending");
        let at = [0, 8, 16, 24, 32, 64, 128, u64::MAX].map(|bytes| curve.at(bytes));
        assert_eq!(at, [1.0, 1.0, 2.0, 2.5, 3.0, 2.5, 2.0, 2.0]);
    }

    #[test]
    fn sizes_must_ascend() {
        assert_eq!(Curve::new(Vec::new()), None);
        assert_eq!(Curve::new(vec![(8, 1.0), (8, 2.0)]), None);
        assert_eq!(Curve::new(vec![(0, 1.0), (1, 2.0)]), None);
    }
}
