//! The element types that hcomm moves and reduces.

use std::fmt;
use std::str::FromStr;

/// The type of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 16 bits.
    I16,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 64 bits.
    U64,
    /// IEEE 754 binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// OCP 8-bit float, 4 exponent and 3 mantissa bits, no infinities.
    F8E4M3,
    /// OCP 8-bit float, 5 exponent and 2 mantissa bits.
    F8E5M2,
    /// One byte, 0 or 1; any other byte counts as 1.
    Bool,
    /// Two `f32`: real, imaginary.
    Complex64,
    /// Two `f64`: real, imaginary.
    Complex128,
}

impl DType {
    /// Every type, in declaration order.
    pub const ALL: [DType; 17] = [
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::Bool,
        DType::Complex64,
        DType::Complex128,
    ];

    /// Bytes of one element.
    pub const fn size_bytes(self) -> usize {
        match self {
            DType::I8 | DType::U8 | DType::F8E4M3 | DType::F8E5M2 | DType::Bool => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 | DType::Complex64 => 8,
            DType::Complex128 => 16,
        }
    }

    /// Whether it is a float, or made of them: sums and products of such are rounded.
    pub const fn rounds(self) -> bool {
        match self {
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 | DType::F8E4M3 | DType::F8E5M2 => true,
            DType::Complex64 | DType::Complex128 => true,
            DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::Bool => false,
            DType::I32 | DType::U32 | DType::I64 | DType::U64 => false,
        }
    }

    /// The name used on the command line, in errors and in drawings, such as `bf16`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I16 => "i16",
            DType::U16 => "u16",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::I64 => "i64",
            DType::U64 => "u64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::F8E4M3 => "f8e4m3",
            DType::F8E5M2 => "f8e5m2",
            DType::Bool => "bool",
            DType::Complex64 => "complex64",
            DType::Complex128 => "complex128",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no [`DType`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown data type '{0}'; expected one of {names}", names = DType::ALL.map(DType::name).join(", "))]
pub struct UnknownDType(pub String);

impl FromStr for DType {
    type Err = UnknownDType;

    fn from_str(name: &str) -> Result<Self, UnknownDType> {
        DType::ALL.into_iter().find(|d| d.name() == name).ok_or_else(|| UnknownDType(name.to_owned()))
    }
}
