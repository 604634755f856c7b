//! [`Memory`]: the kinds of memory that measured buffers can be in.

use std::ops::DerefMut;

use hcomm::{Allocated, Communicator, StableBuffer};

use super::sample::Sample;

/// A buffer in one kind of memory; a new kind is one more implementation and a line in `rank`.
pub trait Memory<T>: StableBuffer + DerefMut<Target = [T]> + Default + 'static {
    /// So many elements that are no results.
    fn make(comm: &Communicator, count: usize) -> Result<Self, NoMemory>;
}

/// The machine has no room for a buffer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no memory for a buffer of {bytes} bytes{cause}")]
pub struct NoMemory {
    bytes: u64,
    cause: String,
}

impl<T: Sample> Memory<T> for Vec<T> {
    fn make(_: &Communicator, count: usize) -> Result<Self, NoMemory> {
        let mut buffer = Vec::new();
        let bytes = (count * size_of::<T>()) as u64;
        buffer.try_reserve_exact(count).map_err(|_| NoMemory { bytes, cause: String::new() })?;
        buffer.resize(count, T::POISON);
        Ok(buffer)
    }
}

impl<T: Sample> Memory<T> for Allocated<T> {
    fn make(comm: &Communicator, count: usize) -> Result<Self, NoMemory> {
        let bytes = (count * size_of::<T>()) as u64;
        let mut buffer =
            comm.allocate(count).map_err(|error| NoMemory { bytes, cause: format!(": {error}") })?;
        buffer.fill(T::POISON);
        Ok(buffer)
    }
}
