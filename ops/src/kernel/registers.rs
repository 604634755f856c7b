//! The macros that turn a list of instructions into the vectors and wires of a level.
//!
//! `avx2` and `avx512` are those lists. A `SAFETY` note here that speaks of the level relies on this: only the loop in
//! `fold` that is compiled for a level uses its types, and only after `Level::detected` has found its instructions.

/// Vectors that are their own wires: register, lanes, what is done before a store, the truth where there is a fast one,
/// and the instructions that there are for the methods of `Vector`.
macro_rules! vectors {
    ($($name:ident: $register:ty = [$element:ty; $lanes:literal] {
        $pack:path $(, truth $truth:path)?; $($method:ident: $instruction:path),* $(,)?
    })*) => {$(
        #[derive(Clone, Copy)]
        pub(super) struct $name($register);

        impl $name {
            #[inline(always)]
            fn from_lanes(lanes: [$element; $lanes]) -> Self {
                // SAFETY: two types of plain bytes, as many of them.
                $name(unsafe { transmute::<[$element; $lanes], $register>(lanes) })
            }

            #[inline(always)]
            fn into_lanes(self) -> [$element; $lanes] {
                // SAFETY: two types of plain bytes, as many of them.
                unsafe { transmute::<$register, [$element; $lanes]>(self.0) }
            }
        }

        impl Vector for $name {
            type Element = $element;

            #[inline(always)]
            fn splat(element: $element) -> Self {
                Self::from_lanes([element; $lanes])
            }

            #[inline(always)]
            fn zip(self, other: Self, f: impl Fn($element, $element) -> $element) -> Self {
                let (mut lanes, others) = (self.into_lanes(), other.into_lanes());
                for (lane, other) in lanes.iter_mut().zip(&others) {
                    *lane = f(*lane, *other);
                }
                Self::from_lanes(lanes)
            }

            $(#[inline(always)]
            fn truth(self) -> Self {
                $truth(self)
            })?

            $(#[inline(always)]
            fn $method(self, other: Self) -> Self {
                // SAFETY: the machine has the level.
                $name(unsafe { $instruction(self.0, other.0) })
            })*
        }

        impl Wire for $name {
            type Vector = Self;
            type Packed = Self;
            const BYTES: usize = size_of::<$register>();

            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: the caller vouches for the bytes.
                $name(unsafe { from.cast::<$register>().read_unaligned() })
            }

            #[inline(always)]
            fn pack(vector: Self) -> Self {
                // SAFETY: the machine has the level.
                $name(unsafe { $pack(vector.0) })
            }

            #[inline(always)]
            unsafe fn store(packed: Self, to: *mut u8) {
                // SAFETY: the caller vouches for the bytes.
                unsafe { to.cast::<$register>().write_unaligned(packed.0) };
            }
        }
    )*};
}

/// The bitwise instructions, which are the same for all integers.
macro_rules! bits {
    ($($name:ident),*; $and:path, $or:path, $xor:path) => {
        bits!(@each [$($name),*] [(and: $and), (or: $or), (xor: $xor)]);
    };
    (@each [$($name:ident),*] $methods:tt) => {
        $(bits!(@one $name $methods);)*
    };
    (@one $name:ident [$(($method:ident: $instruction:path)),*]) => {
        impl Bits for $name {
            $(#[inline(always)]
            fn $method(self, other: Self) -> Self {
                // SAFETY: the machine has the level.
                $name(unsafe { $instruction(self.0, other.0) })
            })*
        }
    };
}

/// Wires of 16-bit floats over the vector of `f32`.
macro_rules! narrow_floats {
    ($($name:ident in $register:ty: $widen:path, $narrow:path;)*) => {$(
        pub(super) struct $name;

        impl Wire for $name {
            type Vector = F32;
            type Packed = $register;
            const BYTES: usize = size_of::<$register>();

            #[inline(always)]
            unsafe fn load(from: *const u8) -> F32 {
                // SAFETY: the caller vouches for the bytes; the machine has the level.
                F32(unsafe { $widen(from.cast::<$register>().read_unaligned()) })
            }

            #[inline(always)]
            fn pack(vector: F32) -> $register {
                // SAFETY: the machine has the level.
                unsafe { $narrow(canonical_ps(vector.0)) }
            }

            #[inline(always)]
            unsafe fn store(packed: $register, to: *mut u8) {
                // SAFETY: the caller vouches for the bytes.
                unsafe { to.cast::<$register>().write_unaligned(packed) };
            }
        }
    )*};
}

/// Minimum, maximum and the one NaN of a register of floats.
macro_rules! ordered_floats {
    ($features:literal; $($min:ident, $max:ident, $canonical:ident on $register:ty:
        $less:path, $more:path, $join:path, $common:path, $nan_where:path;)*) => {$(
        /// The instruction gives its second argument where the two are equal or one is NaN. Joining the bits of both
        /// orders keeps the minus sign of a zero, and a NaN.
        #[inline]
        #[target_feature(enable = $features)]
        fn $min(a: $register, b: $register) -> $register {
            $join($less(a, b), $less(b, a))
        }

        /// As for the minimum; the bits common to both orders drop the minus sign of a zero. NaN is seen to apart.
        #[inline]
        #[target_feature(enable = $features)]
        fn $max(a: $register, b: $register) -> $register {
            $nan_where(a, b, $common($more(a, b), $more(b, a)))
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn $canonical(a: $register) -> $register {
            $nan_where(a, a, a)
        }
    )*};
}

pub(super) use {bits, narrow_floats, ordered_floats, vectors};
