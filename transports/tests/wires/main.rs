//! The contract of `Wire`, checked sentence by sentence on every transport.
//!
//! A transport takes part with one file: a constructor of a connected pair, and one call of `conformance!`.

mod conformance;
mod inproc;
mod pair;
mod processes;
mod shm;
mod sim;
mod tcp;
