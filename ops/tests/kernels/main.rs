//! The *Kernels* matrix: every data type and reduction at every level, bit for bit against the scalar level, which in
//! turn is held against an independent reference; then special values, the contract of `fold`, and random cases.

mod case;
mod contract;
mod convert;
mod levels;
mod random;
mod reference;
mod sample;
mod special;
