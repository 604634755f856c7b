//! Whether two arrays share bytes, exactly, also where both are laid out at strides within each other, as the columns of a matrix are.
//!
//! A byte of one is `start + i*stride + j*stride' + ... + b`. Two arrays share one if the sum of all such terms, the other's taken off, comes to
//! zero, each index within its extent. That is looked for term by term, the longest stride first: what is left must be within
//! reach of the terms that are left, which in arrays that people make leaves one or two values of each index. Where it leaves many, the
//! search ends after [`MOST_STEPS`], and the arrays count as sharing.

/// Values of indices that are tried.
const MOST_STEPS: usize = 10_000;

/// Multiples of a stride that a sum may have: from `least` to `most`.
#[derive(Clone, Copy, Debug)]
struct Term {
    stride: i128,
    least: i128,
    most: i128,
}

/// What the terms from one on can reach.
#[derive(Clone, Copy, Debug)]
struct Reach {
    least: i128,
    most: i128,
    /// All sums of whole strides are multiples of it; 0 where there are none.
    divisor: i128,
}

/// One array: its dimensions (extent and bytes from one element to the next), where the first element begins, and its bytes.
pub struct Strided<'a> {
    pub dimensions: &'a [(usize, isize)],
    pub start: usize,
    pub item_bytes: usize,
}

/// Whether two arrays, neither without elements, share a byte; that they do where it takes too long to tell.
pub fn do_overlap(these: &Strided<'_>, those: &Strided<'_>) -> bool {
    let mut terms: Vec<Term> = Vec::new();
    these.dimensions.iter().for_each(|(extent, stride)| add(&mut terms, *extent, *stride as i128));
    those.dimensions.iter().for_each(|(extent, stride)| add(&mut terms, *extent, -(*stride as i128)));
    terms.sort_by_key(|term| std::cmp::Reverse(term.stride));
    // The bytes within an element, which need not be multiples of anything.
    let (below, above) = (1 - those.item_bytes as i128, these.item_bytes as i128 - 1);
    let reaches = reaches(&terms, below, above);
    let target = those.start as i128 - these.start as i128;
    let mut steps = 0;
    can_reach(&terms, &reaches, (below, above), target, &mut steps).unwrap_or(true)
}

/// Adds a dimension to the terms; those of one stride, of either sign, are one.
fn add(terms: &mut Vec<Term>, extent: usize, stride: i128) {
    let last = extent as i128 - 1;
    let (least, most) = if stride < 0 { (-last, 0) } else { (0, last) };
    match terms.iter_mut().find(|term| term.stride == stride.abs()) {
        Some(term) => (term.least, term.most) = (term.least + least, term.most + most),
        None if stride != 0 => terms.push(Term { stride: stride.abs(), least, most }),
        None => {}
    }
}

/// By term, what it and those after it can reach; and what the bytes alone can.
fn reaches(terms: &[Term], below: i128, above: i128) -> Vec<Reach> {
    let mut reach = Reach { least: below, most: above, divisor: 0 };
    let mut reaches = vec![reach];
    for term in terms.iter().rev() {
        reach.least += term.least * term.stride;
        reach.most += term.most * term.stride;
        reach.divisor = greatest_divisor(term.stride, reach.divisor);
        reaches.push(reach);
    }
    reaches.reverse();
    reaches
}

/// Whether the terms can come to `target`, give or take the bytes within an element; nothing where that takes too many steps.
fn can_reach(
    terms: &[Term],
    reaches: &[Reach],
    bytes: (i128, i128),
    target: i128,
    steps: &mut usize,
) -> Option<bool> {
    let reach = reaches[0];
    if target < reach.least || target > reach.most || !is_near_multiple(target, reach.divisor, bytes) {
        return Some(false);
    }
    let Some((term, rest)) = terms.split_first() else { return Some(true) };
    let left = reaches[1];
    let least = term.least.max((target - left.most).div_euclid(term.stride));
    let most = term.most.min((target - left.least).div_euclid(term.stride));
    for multiple in least..=most {
        *steps += 1;
        if *steps > MOST_STEPS {
            return None;
        }
        if can_reach(rest, &reaches[1..], bytes, target - multiple * term.stride, steps)? {
            return Some(true);
        }
    }
    Some(false)
}

/// Whether a multiple of `divisor`, or 0 where that is 0, lies so near that the bytes within an element make up the difference.
fn is_near_multiple(target: i128, divisor: i128, (below, above): (i128, i128)) -> bool {
    match divisor {
        0 => true,
        _ => {
            let over = target.rem_euclid(divisor);
            over <= above || over - divisor >= below
        }
    }
}

fn greatest_divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}
