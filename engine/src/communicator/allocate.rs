//! Buffers that the other ranks of the host read where they lie.

use std::sync::Arc;

use hcomm_ops::Element;
use hcomm_transports::shm::Allocated;

use super::Communicator;
use crate::error::Error;

impl Communicator {
    /// A buffer of `len` zeros for calls of this communicator. Long messages from it to ranks of the same host are read where they lie, where
    /// those from other memory are copied on the way: in reduce_scatter and reduce of 512 KiB and more, where that saves time. Results are the
    /// same, and in all other ways it is a `[T]` and may be used as one.
    ///
    /// The call is this rank's alone: others need not make it. Where no rank shares memory with this one (a world of one, threads of
    /// one process, ranks joined by TCP, or a host that allows no such memory, which `hcomm doctor` tells), the buffer is in
    /// ordinary memory. It begins on a page in any case. Its memory is all there from the start, goes back to the machine when the buffer is
    /// dropped, and stays valid after the communicator is gone; a communicator that it was not made by copies from it.
    ///
    /// # Errors
    /// [`Error::Memory`] where the machine, or this process's share of it, has no room: it says how much was asked for and is left.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # mod hcomm { pub use {hcomm_engine::Communicator, hcomm_ops::ReduceOp as Op}; }
    /// let comm = hcomm::Communicator::alone();
    /// let mut gradients = comm.allocate::<f32>(1000)?;
    /// gradients.fill(1.5);
    /// comm.all_reduce(&mut gradients, hcomm::Op::Sum)?;
    /// assert_eq!(gradients[999], 1.5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn allocate<T: Element>(&self, len: usize) -> Result<Allocated<T>, Error> {
        Allocated::new(self.inner.heap.as_ref(), len).map_err(|error| Error::Memory(Arc::new(error)))
    }
}
