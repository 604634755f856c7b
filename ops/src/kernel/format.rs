//! [`Format`]: for each data type, its wire at every level.

use super::vector::{Bits, One, Vector};
use super::wire::{self, Pair, Plain, Truth, Wire};

/// The accumulators of a wire.
pub(super) type VectorOf<W> = <W as Wire>::Vector;

/// The wires of one data type.
pub(super) trait Format {
    type Scalar: Wire;
    type Avx2: Wire;
    type Avx512: Wire;
}

/// A format whose accumulators have an order.
pub(super) trait RealFormat:
    Format<Scalar: Wire<Vector: Vector>, Avx2: Wire<Vector: Vector>, Avx512: Wire<Vector: Vector>>
{
}

/// A format whose accumulators are integers.
pub(super) trait WholeFormat:
    RealFormat<Scalar: Wire<Vector: Bits>, Avx2: Wire<Vector: Bits>, Avx512: Wire<Vector: Bits>>
{
}

impl<F> RealFormat for F where
    F: Format<Scalar: Wire<Vector: Vector>, Avx2: Wire<Vector: Vector>, Avx512: Wire<Vector: Vector>>
{
}

impl<F> WholeFormat for F where
    F: Format<Scalar: Wire<Vector: Bits>, Avx2: Wire<Vector: Bits>, Avx512: Wire<Vector: Bits>>
{
}

macro_rules! formats {
    ($($name:ident = $scalar:ty;)*) => {$(
        pub(super) struct $name;

        impl Format for $name {
            type Scalar = $scalar;
            type Avx2 = $scalar;
            type Avx512 = $scalar;
        }
    )*};
}

formats! {
    I8 = Plain<One<i8>>;
    U8 = Plain<One<u8>>;
    I16 = Plain<One<i16>>;
    U16 = Plain<One<u16>>;
    I32 = Plain<One<i32>>;
    U32 = Plain<One<u32>>;
    I64 = Plain<One<i64>>;
    U64 = Plain<One<u64>>;
    F16 = wire::F16;
    BF16 = wire::Bf16;
    F32 = Plain<One<f32>>;
    F64 = Plain<One<f64>>;
    F8E4M3 = wire::E4m3;
    F8E5M2 = wire::E5m2;
    Bool = Truth<Plain<One<u8>>>;
    Complex64 = Pair<f32>;
    Complex128 = Pair<f64>;
}
