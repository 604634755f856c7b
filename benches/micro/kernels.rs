//! The reduce kernels: sums of two operands into a third place, in bytes that move (two are read, one is written), against the fastest
//! of two loops that do hardly anything but move bytes.

use std::hint::black_box;

use hcomm::ops::{Kernel, Operand};
use hcomm::{Element, Op, StableBuffer};

use crate::clock::median_ns;
use crate::table::{Table, size_text};

const SIZES: [usize; 5] = [64, 4 << 10, 256 << 10, 4 << 20, 64 << 20];
/// Numbers whose sums all types hold exactly.
const A: usize = 50;
const B: usize = 37;

pub fn run() -> Table {
    let mut rows = Vec::new();
    for bytes in SIZES {
        let floor = floor(bytes);
        rows.push(row("f32", bytes, floor, fold(bytes, |n| n as f32)));
        rows.push(row("bf16", bytes, floor, fold(bytes, |n| half::bf16::from_f32(n as f32))));
        rows.push(row("f16", bytes, floor, fold(bytes, |n| half::f16::from_f32(n as f32))));
        rows.push(row("i32", bytes, floor, fold(bytes, |n| n as i32)));
    }
    let columns = &["type", "bytes", "ns", "GB/s", "floor GB/s", "over the floor"];
    Table {
        heading: "Sums of two operands into a third place; the floor is the faster of a loop of XORs and the system's copy",
        columns,
        rows,
    }
}

fn row(name: &str, bytes: usize, floor_ns: f64, ns: f64) -> Vec<String> {
    let rate = |ns: f64| format!("{:.1}", 3.0 * bytes as f64 / ns);
    let time = format!("{ns:.1}");
    vec![name.to_owned(), size_text(bytes), time, rate(ns), rate(floor_ns), format!("{:.2}", ns / floor_ns)]
}

/// Nanoseconds of a sum of `bytes`; `of` makes the type's numbers.
fn fold<T: Element + PartialEq>(bytes: usize, of: fn(usize) -> T) -> f64 {
    let count = bytes / size_of::<T>();
    let mut a: Vec<T> = (0..count).map(|i| of(i % A)).collect();
    let mut b: Vec<T> = (0..count).map(|i| of(i % B)).collect();
    let mut sum: Vec<T> = (0..count).map(|_| of(A + B)).collect();
    let kernel = Kernel::new(T::DTYPE, Op::Sum, 2).expect("numbers have sums");
    let operands = [&mut a, &mut b].map(|of| Operand { span: of.span(), first: true });
    let sinks = [sum.span()];
    let ns = median_ns(|| kernel.fold(black_box(&operands), black_box(&sinks), true));
    let is_right = |(i, value): (usize, &T)| *value == of(i % A + i % B);
    assert!(sum.iter().enumerate().all(is_right), "a sum of {bytes} bytes of {} is wrong", T::DTYPE);
    ns
}

/// Nanoseconds for as many bytes: one operation on each pair of words, or the system's copy, which reads half as much as it would have
/// to and so counts one and a half times.
fn floor(bytes: usize) -> f64 {
    let count = bytes / 8;
    let a: Vec<u64> = (0..count as u64).collect();
    let b: Vec<u64> = (0..count as u64).map(|i| i << 20).collect();
    let mut out = vec![0_u64; count];
    let pairs = median_ns(|| join(black_box(&a), black_box(&b), black_box(&mut out)));
    assert!(
        out.iter().enumerate().all(|(i, word)| *word == (i as u64 ^ (i as u64) << 20)),
        "the floor's loop"
    );
    let copy = median_ns(|| black_box(&mut out).copy_from_slice(black_box(&a)));
    assert_eq!(out, a);
    pairs.min(1.5 * copy)
}

#[inline(never)]
fn join(a: &[u64], b: &[u64], out: &mut [u64]) {
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        *out = a ^ b;
    }
}
