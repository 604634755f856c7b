//! Every level gives the bits of the scalar one.

use hcomm_ops::{DType, Kernel, Level, ReduceOp};

use crate::case::{Call, difference, run};
use crate::sample::{Random, reductions, wild};

const WORLD: usize = 3;
const MOST_OPERANDS: usize = 5;

/// Marks in three patterns: none, all, and some with the sum complete.
const MARKS: [(u32, bool); 3] = [(0, false), (!0, true), (0b01010, true)];

fn calls() -> impl Iterator<Item = Call> {
    let offsets = [0, 1, 7];
    let shapes = (1..=MOST_OPERANDS).flat_map(move |n| offsets.map(|offset| (n, offset)));
    shapes.flat_map(|(operands, offset)| {
        MARKS.into_iter().flat_map(move |(first, finish)| {
            // Out of place every span has another alignment; in place the sinks are the operand and one more.
            let out_of_place = Call {
                operand_offsets: (0..operands).map(|i| offset * (i + 1)).collect(),
                sink_offsets: vec![offset],
                in_place: None,
                streamed_offset: offset.is_multiple_of(2).then_some(offset),
                first,
                finish,
            };
            let in_place = Call { in_place: Some(offset % operands), ..out_of_place.clone() };
            [out_of_place, in_place]
        })
    })
}

fn kernels(dtype: DType, op: ReduceOp) -> Option<(Kernel, Vec<(Level, Kernel)>)> {
    let kernel = |level| Kernel::with_level(dtype, op, WORLD, level).ok();
    let scalar = kernel(Level::Scalar)?;
    Some((scalar, Level::available().skip(1).filter_map(|level| Some((level, kernel(level)?))).collect()))
}

fn compare(dtype: DType, lengths: impl Iterator<Item = usize> + Clone, calls: &[Call]) {
    let mut random = Random(dtype as u64);
    for op in reductions(dtype) {
        let Some((scalar, others)) = kernels(dtype, op) else { continue };
        for len in lengths.clone() {
            let data: Vec<Vec<u8>> = (0..MOST_OPERANDS).map(|_| wild(dtype, len, &mut random)).collect();
            for call in calls {
                let contributions = &data[..call.operand_offsets.len()];
                let expected = run(&scalar, call, contributions);
                for (level, kernel) in &others {
                    let found = run(kernel, call, contributions);
                    let differs = expected.iter().zip(&found).find(|(expected, found)| expected != found);
                    let message = differs.map(|(expected, found)| difference(dtype, expected, found));
                    assert_eq!(message, None, "{op} of {dtype} at {level}, {call:?}");
                }
            }
        }
    }
}

macro_rules! matrix {
    ($($name:ident: $dtype:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            compare(DType::$dtype, 0..=130, &calls().collect::<Vec<_>>());
            // Thirteen shares no factor with the numbers of operands, offsets and marks: the few are of all kinds.
            let few: Vec<Call> = calls().step_by(13).collect();
            compare(DType::$dtype, std::iter::once(100_003), &few);
        }
    )*};
}

matrix! {
    i8: I8, u8: U8, i16: I16, u16: U16, i32: I32, u32: U32, i64: I64, u64: U64,
    f16: F16, bf16: BF16, f32: F32, f64: F64, f8e4m3: F8E4M3, f8e5m2: F8E5M2,
    bool: Bool, complex64: Complex64, complex128: Complex128,
}

#[test]
fn the_matrix_covers_this_machine() {
    let levels: Vec<Level> = Level::available().collect();
    assert_eq!(levels.first(), Some(&Level::Scalar));
    assert_eq!(levels.last(), Some(&Level::detected()));
    println!("levels compared: {levels:?}");
}
