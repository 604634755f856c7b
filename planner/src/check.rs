//! `Request::check`: what is refused before anything is planned, each refusal naming the value and what was expected.

use hcomm_ops::{DType, Kernel, Rank, UnsupportedReduction};

use crate::request::{Collective, Counts, Request};

/// A call that makes no sense, whatever the algorithm. The caller should correct the named value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No ranks.
    #[error("a world of 0 ranks; expected at least 1")]
    EmptyWorld,
    /// A root that is no rank.
    #[error("root {root} of {collective}; expected a rank below the world size {world}")]
    RootOutOfRange {
        /// The call.
        collective: Collective,
        /// The root given.
        root: Rank,
        /// Ranks.
        world: usize,
    },
    /// A root where none is special.
    #[error("root {root} of {collective}, which has no root; expected 0")]
    UnexpectedRoot {
        /// The call.
        collective: Collective,
        /// The root given.
        root: Rank,
    },
    /// A list of counts for a collective that has no such variant.
    #[error("{variant} counts for {collective}; expected them only for {expected}")]
    VariantNotSupported {
        /// The call.
        collective: Collective,
        /// "listed" or "per-rank".
        variant: &'static str,
        /// The collectives that take them.
        expected: &'static str,
    },
    /// A rank's block for itself has two lengths.
    #[error(
        "{collective}: rank {rank} sends itself {sent} elements and receives {received} from itself; expected the same number"
    )]
    OwnBlock {
        /// The call.
        collective: Collective,
        /// The rank.
        rank: Rank,
        /// Elements of its own block in its input.
        sent: u64,
        /// The same in its output.
        received: u64,
    },
    /// A list of the wrong length.
    #[error("{given} counts for the {what} of {collective} in a world of {world}; expected {expected}")]
    CountsLength {
        /// The call.
        collective: Collective,
        /// "blocks", "input" or "output".
        what: &'static str,
        /// Length of the list given.
        given: usize,
        /// What it should be.
        expected: String,
        /// Ranks.
        world: usize,
    },
    /// A buffer that no address space holds.
    #[error("{collective} of {counts} elements of {dtype} ({size} bytes each) is too large; expected at most {limit} bytes per buffer",
        size = dtype.size_bytes(), limit = i64::MAX)]
    TooLarge {
        /// The call.
        collective: Collective,
        /// The counts, in words.
        counts: String,
        /// Element type.
        dtype: DType,
    },
    /// A barrier with data.
    #[error("barrier with a count of {0}; expected 0, as it moves no data")]
    BarrierCount(u64),
    /// A reduction that the type does not have.
    #[error(transparent)]
    Reduction(#[from] UnsupportedReduction),
    /// A rank that is not in the world.
    #[error("rank {rank}; expected one below the world size {world}")]
    RankOutOfRange {
        /// The rank given.
        rank: Rank,
        /// Ranks.
        world: usize,
    },
}

impl Request {
    /// Whether the call makes sense in a world of `world`.
    ///
    /// # Errors
    /// [`RequestError`] names the first value that does not fit.
    pub fn check(&self, world: usize) -> Result<(), RequestError> {
        if world == 0 {
            return Err(RequestError::EmptyWorld);
        }
        self.check_root(world)?;
        self.check_lists(world)?;
        self.check_totals(world)?;
        if self.collective.reduces() {
            Kernel::new(self.dtype, self.op, world)?;
        }
        Ok(())
    }

    /// [`Request::check`], and the lists that only one rank knows.
    ///
    /// # Errors
    /// As `check`; and where `rank` is not in the world, or lacks a list it needs.
    pub fn check_at(&self, rank: Rank, world: usize) -> Result<(), RequestError> {
        self.check(world)?;
        if rank >= world {
            return Err(RequestError::RankOutOfRange { rank, world });
        }
        let Counts::Local { input, output } = &self.counts else { return Ok(()) };
        let at_root = if rank == self.root { world } else { 0 };
        match self.collective {
            Collective::Gather => self.expect_len("output", output.len(), &[at_root], world)?,
            Collective::Scatter => self.expect_len("input", input.len(), &[at_root], world)?,
            _ => {}
        }
        // Of a list of one block that is this rank's own, of a longer one the block of its number.
        let own = |blocks: &[u64]| blocks.get(if blocks.len() == 1 { 0 } else { rank }).copied();
        match (own(input), own(output)) {
            (Some(sent), Some(received)) if sent != received => {
                Err(RequestError::OwnBlock { collective: self.collective, rank, sent, received })
            }
            _ => Ok(()),
        }
    }

    /// Bytes of the larger of a call's buffers, over all ranks: what algorithms are chosen by. `None` where only the
    /// world size is common knowledge.
    pub fn full_bytes(&self, world: usize) -> Option<u64> {
        let blocks = match self.collective {
            Collective::AllReduce | Collective::Broadcast | Collective::Reduce | Collective::Barrier => 1,
            _ => world as u64,
        };
        let elements = match &self.counts {
            Counts::Even(count) => count.saturating_mul(blocks),
            Counts::Listed(counts) => counts.iter().fold(0_u64, |sum, c| sum.saturating_add(*c)),
            Counts::Local { .. } => return None,
        };
        Some(elements.saturating_mul(self.dtype.size_bytes() as u64))
    }

    fn check_root(&self, world: usize) -> Result<(), RequestError> {
        let (collective, root) = (self.collective, self.root);
        if collective.is_rooted() && root >= world {
            return Err(RequestError::RootOutOfRange { collective, root, world });
        }
        if !collective.is_rooted() && root != 0 {
            return Err(RequestError::UnexpectedRoot { collective, root });
        }
        Ok(())
    }

    fn check_lists(&self, world: usize) -> Result<(), RequestError> {
        let refused = |variant, expected| {
            Err(RequestError::VariantNotSupported { collective: self.collective, variant, expected })
        };
        match (&self.counts, self.collective) {
            (Counts::Even(count), Collective::Barrier) if *count != 0 => {
                Err(RequestError::BarrierCount(*count))
            }
            (Counts::Even(_), _) => Ok(()),
            (Counts::Listed(counts), Collective::AllGather | Collective::ReduceScatter) => {
                self.expect_len("blocks", counts.len(), &[world], world)
            }
            (Counts::Listed(_), _) => refused("listed", "all_gather and reduce_scatter"),
            (Counts::Local { input, output }, Collective::Gather) => {
                self.expect_len("input", input.len(), &[1], world)?;
                self.expect_len("output", output.len(), &[0, world], world)
            }
            (Counts::Local { input, output }, Collective::Scatter) => {
                self.expect_len("input", input.len(), &[0, world], world)?;
                self.expect_len("output", output.len(), &[1], world)
            }
            (Counts::Local { input, output }, Collective::AllToAll) => {
                self.expect_len("input", input.len(), &[world], world)?;
                self.expect_len("output", output.len(), &[world], world)
            }
            (Counts::Local { .. }, _) => refused("per-rank", "gather, scatter and all_to_all"),
        }
    }

    fn expect_len(
        &self,
        what: &'static str,
        given: usize,
        expected: &[usize],
        world: usize,
    ) -> Result<(), RequestError> {
        if expected.contains(&given) {
            return Ok(());
        }
        let expected = expected.iter().map(usize::to_string).collect::<Vec<_>>().join(" or ");
        Err(RequestError::CountsLength { collective: self.collective, what, given, expected, world })
    }

    fn check_totals(&self, world: usize) -> Result<(), RequestError> {
        let size = self.dtype.size_bytes() as u64;
        let fits = |blocks: &[u64]| {
            let total = blocks.iter().try_fold(0_u64, |sum, block| sum.checked_add(*block));
            total.and_then(|t| t.checked_mul(size)).is_some_and(|bytes| i64::try_from(bytes).is_ok())
        };
        let fit = match &self.counts {
            Counts::Even(count) => count.checked_mul(world as u64).is_some_and(|total| fits(&[total])),
            Counts::Listed(counts) => fits(counts),
            Counts::Local { input, output } => fits(input) && fits(output),
        };
        let counts = || match &self.counts {
            Counts::Even(count) => format!("{world} x {count}"),
            Counts::Listed(counts) => format!("{counts:?}"),
            Counts::Local { input, output } => format!("{input:?} in, {output:?} out"),
        };
        let too_large =
            || RequestError::TooLarge { collective: self.collective, counts: counts(), dtype: self.dtype };
        if fit { Ok(()) } else { Err(too_large()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hcomm_ops::ReduceOp;

    fn request(collective: Collective, counts: Counts) -> Request {
        Request { counts, ..Request::new(collective, DType::F32, ReduceOp::Sum, 0) }
    }

    #[test]
    fn every_collective_of_even_counts_is_accepted() {
        for collective in Collective::ALL {
            let count = if collective == Collective::Barrier { 0 } else { 7 };
            assert_eq!(request(collective, Counts::Even(count)).check(3), Ok(()), "{collective}");
        }
    }

    #[test]
    fn errors_name_the_value_and_what_was_expected() {
        let local =
            |input: &[u64], output: &[u64]| Counts::Local { input: input.into(), output: output.into() };
        let cases = [
            (
                request(Collective::Broadcast, Counts::Even(1)).with_root(5),
                "root 5 of broadcast; expected a rank below the world size 3",
            ),
            (
                request(Collective::AllReduce, Counts::Even(1)).with_root(1),
                "root 1 of all_reduce, which has no root",
            ),
            (
                request(Collective::AllGather, Counts::Listed([1, 2].into())),
                "2 counts for the blocks of all_gather in a world of 3; expected 3",
            ),
            (
                request(Collective::AllReduce, Counts::Listed([1, 2, 3].into())),
                "listed counts for all_reduce",
            ),
            (request(Collective::Broadcast, local(&[1], &[1])), "per-rank counts for broadcast"),
            (
                request(Collective::Gather, local(&[1], &[1, 2])),
                "2 counts for the output of gather in a world of 3; expected 0 or 3",
            ),
            (request(Collective::AllToAll, local(&[1, 2, 3], &[1])), "1 counts for the output of all_to_all"),
            (
                request(Collective::AllGather, Counts::Even(u64::MAX / 4)),
                "3 x 4611686018427387903 elements of f32",
            ),
            (request(Collective::AllGather, Counts::Listed([u64::MAX, 1, 1].into())), "is too large"),
            (request(Collective::Barrier, Counts::Even(4)), "barrier with a count of 4"),
        ];
        for (request, expected) in cases {
            let text = request.check(3).expect_err(expected).to_string();
            assert!(text.contains(expected), "{text:?} lacks {expected:?}");
        }
        assert_eq!(request(Collective::AllReduce, Counts::Even(1)).check(0), Err(RequestError::EmptyWorld));
    }

    #[test]
    fn the_root_of_a_gather_needs_its_list() {
        let counts = Counts::Local { input: [1].into(), output: [].into() };
        let gather = request(Collective::Gather, counts);
        assert_eq!(gather.check_at(1, 3), Ok(()));
        assert!(gather.check_at(0, 3).expect_err("the root lists 3").to_string().contains("expected 3"));
        assert!(gather.check_at(3, 3).expect_err("no such rank").to_string().contains("rank 3"));
    }

    #[test]
    fn full_bytes_counts_the_whole_buffer() {
        assert_eq!(request(Collective::AllReduce, Counts::Even(10)).full_bytes(4), Some(40));
        assert_eq!(request(Collective::AllGather, Counts::Even(10)).full_bytes(4), Some(160));
        assert_eq!(request(Collective::AllGather, Counts::Listed([1, 2].into())).full_bytes(2), Some(12));
    }

    #[test]
    fn a_rank_s_block_for_itself_has_one_length() {
        let local =
            |input: &[u64], output: &[u64]| Counts::Local { input: input.into(), output: output.into() };
        let calls = [
            (Collective::AllToAll, local(&[1, 2, 3], &[4, 2, 9]), None),
            (Collective::AllToAll, local(&[1, 2, 3], &[1, 5, 3]), Some((2, 5))),
            (Collective::Gather, local(&[4], &[1, 4, 0]), None),
            (Collective::Gather, local(&[4], &[4, 3, 4]), Some((4, 3))),
            (Collective::Gather, local(&[4], &[]), None),
            (Collective::Scatter, local(&[7, 0, 7], &[0]), None),
            (Collective::Scatter, local(&[7, 0, 7], &[7]), Some((0, 7))),
        ];
        for (collective, counts, expected) in calls {
            let root = if counts == local(&[4], &[]) || collective == Collective::AllToAll { 0 } else { 1 };
            let found = request(collective, counts).with_root(root).check_at(1, 3);
            let expected = expected.map_or(Ok(()), |(sent, received)| {
                Err(RequestError::OwnBlock { collective, rank: 1, sent, received })
            });
            assert_eq!(found, expected);
        }
    }
}
