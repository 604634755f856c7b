//! Copies between elements side by side and elements at strides: run by run, typed where a run is no longer than a register, and in tiles where
//! the two sides are laid out crosswise.

/// One way in which runs repeat.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// How often.
    pub extent: usize,
    /// Bytes from one to the next where they are laid out.
    pub laid_out: isize,
    /// Bytes from one to the next where they are packed.
    pub packed: usize,
}

/// Runs of a tile, each way: as many as cache lines of the crosswise side stay in the nearest cache.
const TILE: usize = 32;

/// Copies runs of `run` bytes from where they are laid out to where they are packed if `PACK`, the other way if not. Along the last axis
/// they are packed side by side.
///
/// # Safety
/// The runs that the axes name are readable on the one side and writable on the other, and the sides share no bytes.
pub unsafe fn copy_runs<const PACK: bool>(axes: &[Axis], run: usize, laid_out: *mut u8, packed: *mut u8) {
    // SAFETY: passed on from the caller; the typed copies are of as many bytes as a run has.
    unsafe {
        match run {
            1 => walk(axes, laid_out, packed, &|row| typed::<u8, PACK>(row)),
            2 => walk(axes, laid_out, packed, &|row| typed::<u16, PACK>(row)),
            4 => walk(axes, laid_out, packed, &|row| typed::<u32, PACK>(row)),
            8 => walk(axes, laid_out, packed, &|row| typed::<u64, PACK>(row)),
            16 => walk(axes, laid_out, packed, &|row| typed::<u128, PACK>(row)),
            _ => walk(axes, laid_out, packed, &|row| long::<PACK>(row, run)),
        }
    }
}

/// Runs one after the other along the last axis.
struct Row {
    laid_out: *mut u8,
    stride: isize,
    packed: *mut u8,
    runs: usize,
}

/// Copies a row of runs that are each a `T`.
///
/// # Safety
/// As [`copy_runs`], of the row's runs.
#[inline]
unsafe fn typed<T: Copy, const PACK: bool>(Row { laid_out, stride, packed, runs }: Row) {
    let packed = packed.cast::<T>();
    let mut at = laid_out;
    for run in 0..runs {
        // SAFETY: passed on from the caller, at any alignment. The address behind the last run is not used.
        unsafe {
            let (laid_out, packed) = (at.cast::<T>(), packed.add(run));
            let (from, to) = if PACK { (laid_out, packed) } else { (packed, laid_out) };
            to.write_unaligned(from.read_unaligned());
        }
        at = at.wrapping_offset(stride);
    }
}

/// Copies a row of runs of any length.
///
/// # Safety
/// As [`copy_runs`], of the row's runs.
unsafe fn long<const PACK: bool>(Row { laid_out, stride, packed, runs }: Row, bytes: usize) {
    for run in 0..runs {
        // SAFETY: passed on from the caller.
        unsafe {
            let (laid_out, packed) = (laid_out.offset(run as isize * stride), packed.add(run * bytes));
            let (from, to) = if PACK { (laid_out, packed) } else { (packed, laid_out) };
            std::ptr::copy_nonoverlapping(from, to, bytes);
        }
    }
}

/// Calls `copy` for every row: of the last axis, and where the laid-out side is denser along another, of tiles of the two.
fn walk(axes: &[Axis], laid_out: *mut u8, packed: *mut u8, copy: &impl Fn(Row)) {
    let once = Axis { extent: 1, laid_out: 0, packed: 0 };
    let (inner, outer) = axes.split_last().unwrap_or((&once, &[]));
    let densest = (0..outer.len()).min_by_key(|at| outer[*at].laid_out.unsigned_abs());
    let crosswise = densest.filter(|at| outer[*at].laid_out.unsigned_abs() < inner.laid_out.unsigned_abs());
    let others: Vec<Axis> =
        (0..outer.len()).filter(|at| Some(*at) != crosswise).map(|at| outer[at]).collect();
    each(&others, laid_out, packed, &mut |laid_out, packed| match crosswise {
        None => copy(Row { laid_out, stride: inner.laid_out, packed, runs: inner.extent }),
        Some(across) => tiles(&outer[across], inner, laid_out, packed, copy),
    });
}

/// Calls `part` for every combination of the axes' indices.
fn each(axes: &[Axis], laid_out: *mut u8, packed: *mut u8, part: &mut impl FnMut(*mut u8, *mut u8)) {
    let Some((first, rest)) = axes.split_first() else { return part(laid_out, packed) };
    for at in 0..first.extent {
        let (laid_out, packed) = first.at(at, laid_out, packed);
        each(rest, laid_out, packed, part);
    }
}

fn tiles(across: &Axis, inner: &Axis, laid_out: *mut u8, packed: *mut u8, copy: &impl Fn(Row)) {
    for first in (0..across.extent).step_by(TILE) {
        for column in (0..inner.extent).step_by(TILE) {
            let (laid_out, packed) = inner.at(column, laid_out, packed);
            let runs = TILE.min(inner.extent - column);
            for row in first..across.extent.min(first + TILE) {
                let (laid_out, packed) = across.at(row, laid_out, packed);
                copy(Row { laid_out, stride: inner.laid_out, packed, runs });
            }
        }
    }
}

impl Axis {
    #[inline]
    fn at(&self, index: usize, laid_out: *mut u8, packed: *mut u8) -> (*mut u8, *mut u8) {
        (laid_out.wrapping_offset(index as isize * self.laid_out), packed.wrapping_add(index * self.packed))
    }
}
