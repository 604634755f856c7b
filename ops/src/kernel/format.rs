//! [`Format`]: for each data type, its wire at every level.

#[cfg(target_arch = "x86_64")]
use super::avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512::{self, Masked};
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

#[cfg(target_arch = "x86_64")]
macro_rules! formats {
    ($($name:ident = $scalar:ty, $avx2:ty, $avx512:ty;)*) => {$(
        pub(super) struct $name;

        impl Format for $name {
            type Scalar = $scalar;
            type Avx2 = $avx2;
            type Avx512 = $avx512;
        }
    )*};
}

#[cfg(not(target_arch = "x86_64"))]
macro_rules! formats {
    ($($name:ident = $scalar:ty, $avx2:ty, $avx512:ty;)*) => {$(
        pub(super) struct $name;

        impl Format for $name {
            type Scalar = $scalar;
            type Avx2 = $scalar;
            type Avx512 = $scalar;
        }
    )*};
}

formats! {
    I8 = Plain<One<i8>>, avx2::I8, Masked<avx512::I8>;
    U8 = Plain<One<u8>>, avx2::U8, Masked<avx512::U8>;
    I16 = Plain<One<i16>>, avx2::I16, Masked<avx512::I16>;
    U16 = Plain<One<u16>>, avx2::U16, Masked<avx512::U16>;
    I32 = Plain<One<i32>>, avx2::I32, Masked<avx512::I32>;
    U32 = Plain<One<u32>>, avx2::U32, Masked<avx512::U32>;
    I64 = Plain<One<i64>>, avx2::I64, Masked<avx512::I64>;
    U64 = Plain<One<u64>>, avx2::U64, Masked<avx512::U64>;
    F16 = wire::F16, avx2::F16, Masked<avx512::F16>;
    BF16 = wire::Bf16, avx2::Bf16, Masked<avx512::Bf16>;
    F32 = Plain<One<f32>>, avx2::F32, Masked<avx512::F32>;
    F64 = Plain<One<f64>>, avx2::F64, Masked<avx512::F64>;
    F8E4M3 = wire::E4m3, wire::E4m3, wire::E4m3;
    F8E5M2 = wire::E5m2, wire::E5m2, wire::E5m2;
    Bool = Truth<Plain<One<u8>>>, Truth<avx2::U8>, Truth<Masked<avx512::U8>>;
    Complex64 = Pair<f32>, Pair<f32>, Pair<f32>;
    Complex128 = Pair<f64>, Pair<f64>, Pair<f64>;
}
