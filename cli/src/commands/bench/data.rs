//! What is in the buffers: numbers that differ in every element and rank, chosen so that every order of reducing them gives the same
//! result; and that result, worked out in whole numbers.

use hcomm::{Factor, Rank, ReduceOp};

use super::sample::{Sample, Value, Want};

/// Elements in a cache line, of each of which the first is rewritten.
pub fn per_line<T>() -> usize {
    (64 / size_of::<T>()).max(1)
}

/// The inputs of all ranks for one op.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    op: ReduceOp,
    world: usize,
    /// Numbers are below this.
    range: u64,
    /// Subtracted from them.
    shift: i64,
    is_exact: bool,
    is_bool: bool,
    is_complex: bool,
    per_line: usize,
    roundoff: f64,
    wrap: fn(i64) -> i64,
    /// In the first element of each cache line, the run that wrote it last.
    pub run: i64,
}

impl Data {
    /// Data whose reduction by `op` over `world` ranks is exact in `T`, or as near as can be.
    pub fn new<T: Sample>(op: ReduceOp, world: usize) -> Self {
        let adds = matches!(op, ReduceOp::Sum | ReduceOp::Average | ReduceOp::PreMulSum(_));
        let is_float = T::ROUNDOFF > 0.0;
        let limit = T::LIMIT as u64;
        let largest = match op {
            ReduceOp::LogicalAnd | ReduceOp::LogicalOr | ReduceOp::LogicalXor => 1,
            _ if adds && is_float => (limit / world as u64).max(1),
            _ => limit,
        };
        let is_scaled_exactly = match op {
            ReduceOp::Average => world.is_power_of_two(),
            ReduceOp::PreMulSum(_) => false,
            _ => true,
        };
        Data {
            op,
            world,
            range: if T::IS_SIGNED { 2 * largest + 1 } else { largest + 1 },
            shift: if T::IS_SIGNED { largest as i64 } else { 0 },
            is_exact: !is_float || (is_scaled_exactly && (!adds || largest * world as u64 <= limit)),
            is_bool: T::LIMIT == 1,
            is_complex: T::DTYPE.name().starts_with("complex"),
            per_line: per_line::<T>(),
            roundoff: T::ROUNDOFF,
            wrap: T::wrap,
            run: 0,
        }
    }

    /// What `rank` has at `index` of its input now.
    pub fn at(&self, rank: Rank, index: usize) -> Value {
        let run = if index.is_multiple_of(self.per_line) { self.run } else { 0 };
        self.in_run(rank, index, run)
    }

    /// What `run` writes there.
    pub fn in_run(&self, rank: Rank, index: usize, run: i64) -> Value {
        let seed = (index as u64).wrapping_add(run as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = mix(seed.wrapping_add((rank as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03)));
        let value =
            Value { re: self.number(hash), im: if self.is_complex { self.number(hash << 17) } else { 0 } };
        match self.op {
            ReduceOp::Product if self.roundoff > 0.0 && index % self.world != rank => self.unit(hash),
            _ => value,
        }
    }

    /// The reduction of all ranks' elements at `index`.
    pub fn reduced(&self, index: usize) -> Want {
        let values = (0..self.world).map(|rank| self.at(rank, index));
        let folded = values.reduce(|a, b| self.combine(a, b)).unwrap_or_default();
        match self.op {
            ReduceOp::Average if self.roundoff == 0.0 => {
                Want::Exactly(Value { re: (self.wrap)(folded.re) / self.world as i64, im: 0 })
            }
            ReduceOp::Average => self.scaled(index, folded, 1.0 / self.world as f64),
            ReduceOp::PreMulSum(Factor(factor)) if self.roundoff == 0.0 => {
                Want::Exactly(Value { re: folded.re.wrapping_mul(factor as i64), im: 0 })
            }
            ReduceOp::PreMulSum(Factor(factor)) => self.scaled(index, folded, factor),
            ReduceOp::Sum if !self.is_exact => self.scaled(index, folded, 1.0),
            ReduceOp::LogicalAnd | ReduceOp::LogicalOr | ReduceOp::LogicalXor => {
                Want::Exactly(Value { re: i64::from(folded.re != 0), im: 0 })
            }
            _ => Want::Exactly(folded),
        }
    }

    /// A float result of a sum: scaled on the way, and rounded at every step unless no step needs it.
    fn scaled(&self, index: usize, sum: Value, factor: f64) -> Want {
        let parts = [sum.re as f64 * factor, sum.im as f64 * factor];
        let magnitude = |value: Value| (value.re.abs().max(value.im.abs())) as f64 * factor.abs();
        let sum_of_magnitudes: f64 = (0..self.world).map(|rank| magnitude(self.at(rank, index))).sum();
        let roundings = 2.0 * self.world as f64 + 1.0;
        Want::About { parts, weight: if self.is_exact { 0.0 } else { roundings * sum_of_magnitudes } }
    }

    fn combine(&self, a: Value, b: Value) -> Value {
        let whole = |re: i64| Value { re, im: 0 };
        let truth = |is: bool| whole(i64::from(is));
        match self.op {
            ReduceOp::Sum | ReduceOp::BitOr if self.is_bool => whole(a.re | b.re),
            ReduceOp::Sum | ReduceOp::Average | ReduceOp::PreMulSum(_) => {
                Value { re: a.re.wrapping_add(b.re), im: a.im.wrapping_add(b.im) }
            }
            ReduceOp::Product => product(a, b),
            ReduceOp::Min => whole(a.re.min(b.re)),
            ReduceOp::Max => whole(a.re.max(b.re)),
            ReduceOp::BitAnd => whole(a.re & b.re),
            ReduceOp::BitOr => whole(a.re | b.re),
            ReduceOp::BitXor => whole(a.re ^ b.re),
            ReduceOp::LogicalAnd => truth(a.re != 0 && b.re != 0),
            ReduceOp::LogicalOr => truth(a.re != 0 || b.re != 0),
            ReduceOp::LogicalXor => truth((a.re != 0) != (b.re != 0)),
        }
    }

    fn number(&self, hash: u64) -> i64 {
        (((hash >> 32) * self.range) >> 32) as i64 - self.shift
    }

    /// A number that multiplies without growth.
    fn unit(&self, hash: u64) -> Value {
        let sign = if hash >> 63 == 0 { 1 } else { -1 };
        match self.is_complex && (hash >> 62) & 1 == 1 {
            true => Value { re: 0, im: sign },
            false => Value { re: sign, im: 0 },
        }
    }
}

fn product(a: Value, b: Value) -> Value {
    let times = i64::wrapping_mul;
    Value {
        re: times(a.re, b.re).wrapping_sub(times(a.im, b.im)),
        im: times(a.re, b.im).wrapping_add(times(a.im, b.re)),
    }
}

/// Spreads every bit over the upper half.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    word ^ (word >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::sample::with_type;
    use hcomm::{DType, ops::Kernel, ops::Operand, ops::StableBuffer};

    const COUNT: usize = 200;

    /// The library's kernel on all inputs, in two orders, must give what is wanted.
    fn check<T: Sample>(op: ReduceOp, world: usize) {
        let Ok(kernel) = Kernel::new(T::DTYPE, op, world) else { return };
        let data = Data { run: 3, ..Data::new::<T>(op, world) };
        let mut orders: [Vec<usize>; 2] = [(0..world).collect(), (0..world).rev().collect()];
        for order in &mut orders {
            let fill = |rank: &mut usize| (0..COUNT).map(|i| T::of(data.at(*rank, i))).collect::<Vec<T>>();
            let mut inputs: Vec<Vec<T>> = order.iter_mut().map(fill).collect();
            let operand = |input: &mut Vec<T>| Operand { span: input.span(), first: true };
            let operands: Vec<Operand> = inputs.iter_mut().map(operand).collect();
            let mut output = vec![T::POISON; COUNT];
            kernel.fold(&operands, &[output.span()], true);
            let wrong =
                output.iter().enumerate().filter(|(i, found)| !found.meets(&data.reduced(*i))).count();
            assert_eq!(wrong, 0, "{op} of {} over {world} in order {order:?}", T::DTYPE);
        }
    }

    #[test]
    fn every_reduction_is_foreseen() {
        let more = [ReduceOp::PreMulSum(Factor(3.0)), ReduceOp::PreMulSum(Factor(0.1))];
        for dtype in DType::ALL {
            for op in ReduceOp::ALL.into_iter().chain(more) {
                for world in [1, 2, 3, 4, 7] {
                    with_type!(dtype, check(op, world));
                }
            }
        }
    }

    #[test]
    fn a_lost_or_doubled_contribution_shows() {
        let data = Data::new::<f32>(ReduceOp::Sum, 3);
        let sum = |ranks: &[usize], i| {
            let total: i64 = ranks.iter().map(|rank| data.at(*rank, i).re).sum();
            f32::of(Value { re: total, im: 0 })
        };
        let wrong = |ranks: &[usize]| (0..COUNT).filter(|i| !sum(ranks, *i).meets(&data.reduced(*i))).count();
        assert_eq!(wrong(&[2, 0, 1]), 0);
        for faulty in [&[0, 1][..], &[0, 0, 2], &[0, 1, 2, 2]] {
            assert_eq!(wrong(faulty), COUNT, "{faulty:?}");
        }
    }

    #[test]
    fn runs_change_the_first_element_of_each_line() {
        let data = Data::new::<f32>(ReduceOp::Sum, 2);
        let later = Data { run: 5, ..data };
        let changed: Vec<usize> = (0..64).filter(|i| data.at(1, *i) != later.at(1, *i)).collect();
        assert_eq!(changed, [0, 16, 32, 48]);
    }
}
