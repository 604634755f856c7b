//! [`Budget`] and [`Returns`]: how much a rank may send to a peer before the receives for it are posted, and what the peer gives back of it.
//!
//! A message that goes at once costs its bytes and [`MESSAGE_COST`], since the receiver may have to keep it. Both sides count in 32 bits, round and
//! round: the sender what it has spent, the receiver what it has taken out of its keeping. The receiver writes its count into
//! every header that it sends, and sends one that says nothing else when a quarter of the budget is unsaid. A sender whose budget is spent
//! announces its messages, so that nobody ever waits for credit alone.

/// What a rank keeps of a peer's messages before their receives are posted, with [`MESSAGE_COST`] for each.
pub(super) const BUDGET: u32 = 4 << 20;

/// What keeping a message costs beside its bytes.
pub(super) const MESSAGE_COST: u32 = 64;

/// The sender's side.
#[derive(Default)]
pub(super) struct Budget {
    spent: u32,
    returned: u32,
}

impl Budget {
    pub fn allows(&self, bytes: usize) -> bool {
        cost(bytes).is_some_and(|cost| cost <= BUDGET - self.spent.wrapping_sub(self.returned))
    }

    /// To be called where it allows that.
    pub fn spend(&mut self, bytes: usize) {
        self.spent = self.spent.wrapping_add(cost(bytes).unwrap_or(BUDGET));
    }

    /// The receiver's count has come. One that makes no sense, or is older than what is known, is ignored.
    pub fn handle_returned(&mut self, returned: u32) {
        if self.spent.wrapping_sub(returned) <= self.spent.wrapping_sub(self.returned) {
            self.returned = returned;
        }
    }
}

/// The receiver's side.
#[derive(Default)]
pub(super) struct Returns {
    taken: u32,
    said: u32,
}

impl Returns {
    /// A message has been given to its receive.
    pub fn take(&mut self, bytes: usize) {
        self.taken = self.taken.wrapping_add(cost(bytes).unwrap_or(0));
    }

    /// Whether a message that says nothing else is due.
    pub fn is_due(&self) -> bool {
        self.taken.wrapping_sub(self.said) >= BUDGET / 4
    }

    /// What the next header says.
    pub fn taken(&self) -> u32 {
        self.taken
    }

    /// A header has been sent.
    pub fn note_said(&mut self) {
        self.said = self.taken;
    }
}

fn cost(bytes: usize) -> Option<u32> {
    u32::try_from(bytes).ok()?.checked_add(MESSAGE_COST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_makes_no_sense_gives_nothing() {
        let mut budget = Budget::default();
        budget.spend(1000);
        for nonsense in [1065, u32::MAX, BUDGET] {
            budget.handle_returned(nonsense);
            assert_eq!(budget.returned, 0, "{nonsense}");
        }
        budget.handle_returned(1064);
        budget.handle_returned(0);
        assert_eq!(budget.returned, 1064, "what is older gives nothing back");
        assert!(!budget.allows(usize::MAX) && !budget.allows(BUDGET as usize));
    }

    proptest! {
        /// Counts wrap many times; what is kept never exceeds the budget, and it is never lost.
        #[test]
        fn no_more_is_kept_than_the_budget(steps in prop::collection::vec((0_usize..3_000_000, 0_usize..4), 1..3000)) {
            let (mut budget, mut returns) = (Budget::default(), Returns::default());
            let mut kept = std::collections::VecDeque::new();
            for (bytes, takes) in steps {
                if budget.allows(bytes) {
                    budget.spend(bytes);
                    kept.push_back(bytes);
                }
                let all: u64 = kept.iter().map(|bytes| *bytes as u64 + u64::from(MESSAGE_COST)).sum();
                prop_assert!(all <= u64::from(BUDGET));
                kept.drain(..takes.min(kept.len())).for_each(|bytes| returns.take(bytes));
                if returns.is_due() {
                    budget.handle_returned(returns.taken());
                    returns.note_said();
                }
            }
            kept.drain(..).for_each(|bytes| returns.take(bytes));
            budget.handle_returned(returns.taken());
            prop_assert!(budget.allows((BUDGET - MESSAGE_COST) as usize));
        }
    }
}
