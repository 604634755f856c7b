//! A fold never allocates: the only test of its process, under an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use hcomm_ops::{DType, Factor, Kernel, Level, Operand, ReduceOp, StableBuffer};

struct Counting;

thread_local! {
    /// Of this thread alone: the one that runs the tests allocates when it likes.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: the system's allocator, called with what the caller vouches for.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: passed on from the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: passed on from the caller.
        unsafe { System.dealloc(at, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_fold_allocates_nothing() {
    let mut buffers = vec![vec![1_u8; 16 * 131]; 4];
    let spans: Vec<_> = buffers.iter_mut().map(StableBuffer::span).collect();
    let operands: Vec<Operand> = spans[..3].iter().map(|span| Operand { span: *span, first: true }).collect();
    let mut kernels = 0;
    for dtype in DType::ALL {
        for op in ReduceOp::ALL.into_iter().chain([ReduceOp::PreMulSum(Factor(3.0))]) {
            for level in Level::available() {
                let Ok(kernel) = Kernel::with_level(dtype, op, 3, level) else { continue };
                let before = ALLOCATIONS.get();
                kernel.fold(&operands, &spans[2..], true);
                kernel.fold(&operands[..1], &spans[3..], false);
                assert_eq!(ALLOCATIONS.get(), before, "{op} of {dtype} at {level}");
                kernels += 1;
            }
        }
    }
    assert!(kernels > 150, "only {kernels} kernels were tried");
}
