//! Names, spans and buffers: what they say and what they refuse.

use half::bf16;
use hcomm_ops::buffer::{Borrowed, DynBuffer};
use hcomm_ops::{DType, Element, Factor, RawSpan, ReduceOp, StableBuffer};
use num_complex::Complex;

#[test]
fn every_type_is_found_by_its_name() {
    for dtype in DType::ALL {
        assert_eq!(dtype.to_string().parse(), Ok(dtype));
    }
    let error = "float".parse::<DType>().expect_err("no type has this name");
    assert!(error.to_string().starts_with("unknown data type 'float'; expected one of i8, u8,"), "{error}");
}

#[test]
fn every_reduction_is_found_by_its_name() {
    for op in ReduceOp::ALL {
        assert_eq!(op.name().parse(), Ok(op));
    }
    assert_eq!("premulsum:-2.5".parse(), Ok(ReduceOp::PreMulSum(Factor(-2.5))));
    for wrong in ["add", "premulsum:", "premulsum:x", "Sum"] {
        let error = wrong.parse::<ReduceOp>().expect_err("no reduction has this name");
        assert!(error.to_string().contains(&format!("'{wrong}'")), "{error}");
    }
}

#[test]
fn factors_are_compared_by_their_bits() {
    assert_ne!(Factor(0.0), Factor(-0.0));
    assert_eq!(Factor(f64::NAN), Factor(f64::NAN));
}

#[test]
fn rust_types_have_the_size_of_their_data_type() {
    fn check<T: Element>() {
        assert_eq!(size_of::<T>(), T::DTYPE.size_bytes(), "{}", T::DTYPE);
    }
    check::<i8>();
    check::<u16>();
    check::<i32>();
    check::<u64>();
    check::<half::f16>();
    check::<bf16>();
    check::<f32>();
    check::<f64>();
    check::<bool>();
    check::<Complex<f32>>();
    check::<Complex<f64>>();
}

#[test]
fn a_slice_lies_within_its_span() {
    let mut bytes: Vec<u8> = (0..10).collect();
    let span = bytes.span();
    assert_eq!(span.slice(3, 4).to_vec(), [3, 4, 5, 6]);
    assert_eq!(span.checked_slice(10, 0).map(RawSpan::len), Some(0));
    for (offset, len) in [(11, 0), (10, 1), (0, 11), (usize::MAX, 2), (2, usize::MAX)] {
        assert_eq!(span.checked_slice(offset, len), None, "{offset} {len}");
    }
}

#[test]
#[should_panic(expected = "a slice lies within its span")]
fn a_slice_beyond_its_span_is_a_broken_invariant() {
    vec![0_u8; 4].span().slice(2, 3);
}

#[test]
fn copies_between_spans_may_overlap() {
    let mut bytes: Vec<u8> = (0..8).collect();
    let span = bytes.span();
    span.slice(2, 6).copy_from(span.slice(0, 6));
    assert_eq!(bytes, [0, 1, 0, 1, 2, 3, 4, 5]);
}

#[test]
#[should_panic(expected = "copy of 4 bytes into a span of 3")]
fn a_copy_that_does_not_fit_is_a_broken_invariant() {
    let (mut from, mut to) = (vec![0_u8; 4], vec![0_u8; 3]);
    to.span().copy_from(from.span());
}

#[test]
#[should_panic(expected = "write of 4 bytes into a span of 0")]
fn a_write_that_does_not_fit_is_a_broken_invariant() {
    RawSpan::empty().write(&[0; 4]);
}

#[test]
fn spans_overlap_where_they_share_a_byte() {
    let mut bytes = vec![0_u8; 10];
    let span = bytes.span();
    assert!(span.slice(0, 5).overlaps(span.slice(4, 2)));
    assert!(span.slice(4, 1).overlaps(span));
    assert!(!span.slice(0, 5).overlaps(span.slice(5, 5)));
    assert!(!span.slice(3, 0).overlaps(span), "an empty span shares nothing");
    assert!(RawSpan::empty().is_empty());
}

#[test]
fn a_buffer_stays_where_it_is_when_its_owner_moves() {
    fn spans_before_and_after<B: StableBuffer>(mut buffer: B) -> (RawSpan, RawSpan, DType) {
        let before = buffer.span();
        let mut moved = Box::new(buffer);
        (before, moved.span(), moved.dtype())
    }
    let (before, after, dtype) = spans_before_and_after(vec![1_f32, 2.0]);
    assert_eq!((before, before.len(), dtype), (after, 8, DType::F32));
    let (before, after, dtype) = spans_before_and_after(vec![bf16::ONE; 3].into_boxed_slice());
    assert_eq!((before, before.len(), dtype), (after, 6, DType::BF16));
    let (before, after, dtype) =
        spans_before_and_after(DynBuffer { bytes: vec![0; 4], dtype: DType::F8E4M3 });
    assert_eq!((before, before.len(), dtype), (after, 4, DType::F8E4M3));
}

#[test]
fn a_lent_slice_is_written_through() {
    let mut numbers = [1_u16, 2, 3];
    let mut lent = Borrowed::from_mut(&mut numbers[1..]);
    assert_eq!(lent.dtype(), DType::U16);
    lent.span().write(&7_u16.to_ne_bytes());
    assert_eq!(numbers, [1, 7, 3]);
}

#[test]
fn lent_bytes_have_the_type_that_they_are_given() {
    let mut bytes = [1_u8, 2, 3, 4];
    assert_eq!(Borrowed::from_ref(&bytes[..]).dtype(), DType::U8);
    let mut read_only = Borrowed::from_bytes_ref(&bytes, DType::F16);
    assert_eq!((read_only.dtype(), read_only.span().to_vec()), (DType::F16, vec![1, 2, 3, 4]));
    let mut lent = Borrowed::from_bytes(&mut bytes, DType::F32);
    assert_eq!((lent.dtype(), lent.span().len()), (DType::F32, 4));
}
