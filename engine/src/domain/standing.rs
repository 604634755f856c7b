//! [`Standing`]: all that is known of one peer, and what follows from it for a call that waits for the peer.
//!
//! News of a peer comes from several sides (its own notes, its goodbye, the system, a wire) and in any order. What is known is the join
//! of it, so that no order of news loses any. Two questions are kept apart, since no answer to the one answers the other:
//!
//! - **From which call on does it take no part?** Of two notes that say so, the earlier call counts: *all calls* < *calls before 7* <
//!   *calls before 3*.
//! - **How has it ended?** *not at all* < *left* < *lost*: a goodbye may come before the words that explain it, and a rank that has said
//!   goodbye may die of something else before it has ended, but the dead do not come back.
//!
//! A call fails by the first that holds:
//! 1. the peer gave up this call or one before it: at once, with the reason it gave;
//! 2. it has ended, what it sent has been taken in, and it had given up any call at all: with that reason, which is why it ended;
//! 3. it has ended and what it sent has been taken in: it left, or it is lost.

use hcomm_ops::Rank;

/// One piece of news.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It gave up this call and all after it.
    GaveUp(GaveUp),
    /// It said goodbye.
    Left(Goodbye),
    /// It died, or can be reached no more; how that is known.
    Lost(String),
}

/// From which call on a rank takes no part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GaveUp {
    /// The first call.
    pub from: u64,
    /// The rank that gave up first; this one because of it.
    pub origin: Rank,
    /// Why that one did.
    pub cause: String,
}

/// How a rank said goodbye.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Goodbye {
    /// Collective calls that it made.
    pub last: u64,
    /// The error because of which it left, if it did.
    pub because: Option<String>,
}

/// How a rank has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Left(Goodbye),
    Lost(String),
}

/// See the module's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    gave_up: Option<GaveUp>,
    end: Option<End>,
    /// It was lost before it had given up anything: a death that others give up for.
    died_first: bool,
}

/// Why a call gets nothing more from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict<'a> {
    /// It, or another before it, gave up.
    GaveUp(&'a GaveUp),
    /// It said goodbye.
    Left(&'a Goodbye),
    /// It is dead.
    Lost(&'a str),
}

impl Standing {
    /// Joins a piece of news to what is known. Of two that say the same the first stands.
    pub fn learn(&mut self, news: Gone) {
        match news {
            Gone::GaveUp(news) => {
                if self.gave_up.as_ref().is_none_or(|known| news.from < known.from) {
                    self.gave_up = Some(news);
                }
            }
            Gone::Left(goodbye) => drop(self.end.get_or_insert(End::Left(goodbye))),
            Gone::Lost(cause) if !self.is_lost() => {
                self.died_first = self.gave_up.is_none();
                self.end = Some(End::Lost(cause));
            }
            Gone::Lost(_) => {}
        }
    }

    /// Whether anything is known against it.
    pub fn is_gone(&self) -> bool {
        self.gave_up.is_some() || self.end.is_some()
    }

    /// Whether it has ended, in whatever way.
    pub fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// How its death is known, where that came before any word of giving up.
    pub fn death(&self) -> Option<&str> {
        match &self.end {
            Some(End::Lost(cause)) if self.died_first => Some(cause),
            _ => None,
        }
    }

    /// Why call `number` gets nothing more from it. `drained`: what it has sent has been taken in.
    pub fn verdict(&self, number: u64, drained: bool) -> Option<Verdict<'_>> {
        let has_ended = drained && self.end.is_some();
        if let Some(gave_up) = self.gave_up.as_ref().filter(|gave_up| has_ended || number >= gave_up.from) {
            return Some(Verdict::GaveUp(gave_up));
        }
        match self.end.as_ref().filter(|_| drained)? {
            End::Left(goodbye) => Some(Verdict::Left(goodbye)),
            End::Lost(cause) => Some(Verdict::Lost(cause)),
        }
    }

    fn is_lost(&self) -> bool {
        matches!(self.end, Some(End::Lost(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All kinds of news, and two of each that has an order of its own.
    fn all_news() -> Vec<Gone> {
        let gave_up = |from, origin| Gone::GaveUp(GaveUp { from, origin, cause: format!("rank {origin}'s") });
        let left =
            |last, because: Option<&str>| Gone::Left(Goodbye { last, because: because.map(str::to_owned) });
        vec![
            gave_up(3, 1),
            gave_up(7, 2),
            left(5, None),
            left(5, Some("an error")),
            Gone::Lost("killed".into()),
        ]
    }

    fn after(news: impl IntoIterator<Item = Gone>) -> Standing {
        let mut standing = Standing::default();
        news.into_iter().for_each(|news| standing.learn(news));
        standing
    }

    /// What a call sees, but for the words of the one news or the other.
    fn kind(verdict: Option<Verdict<'_>>) -> (u8, u64) {
        match verdict {
            None => (0, 0),
            Some(Verdict::Left(_)) => (1, 0),
            Some(Verdict::Lost(_)) => (2, 0),
            Some(Verdict::GaveUp(gave_up)) => (3, gave_up.from),
        }
    }

    fn calls() -> impl Iterator<Item = (u64, bool)> {
        (0..10).flat_map(|number| [(number, false), (number, true)])
    }

    #[test]
    fn the_order_of_two_pieces_of_news_makes_no_difference() {
        for (first, second) in pairs() {
            let there = after([first.clone(), second.clone()]);
            let back = after([second.clone(), first.clone()]);
            for (number, drained) in calls() {
                let seen = [&there, &back].map(|standing| kind(standing.verdict(number, drained)));
                assert_eq!(seen[0], seen[1], "{first:?} and {second:?}, call {number}, drained {drained}");
            }
        }
    }

    #[test]
    fn no_news_makes_a_call_wait_that_would_have_failed_before() {
        for (first, second) in pairs() {
            let (one, both) = (after([first.clone()]), after([first.clone(), second.clone()]));
            for (number, drained) in calls() {
                let fails = one.verdict(number, drained).is_some();
                assert!(!fails || both.verdict(number, drained).is_some(), "{first:?}, then {second:?}");
            }
            assert!(both.is_gone());
            assert!(!one.has_ended() || both.has_ended());
        }
    }

    #[test]
    fn news_that_comes_twice_changes_nothing() {
        for news in all_news() {
            assert_eq!(after([news.clone()]), after([news.clone(), news]));
        }
    }

    #[test]
    fn which_of_two_pieces_counts() {
        let [early, late, left, _, lost] = <[Gone; 5]>::try_from(all_news()).expect("five");
        // Pair, call, whether all has come, what the call sees.
        let cases = [
            ([&early, &late], 5, false, (3, 3)),
            ([&late, &left], 5, false, (0, 0)),
            ([&late, &left], 5, true, (3, 7)),
            ([&late, &lost], 5, true, (3, 7)),
            ([&late, &lost], 5, false, (0, 0)),
            ([&early, &lost], 5, false, (3, 3)),
            ([&left, &lost], 5, true, (2, 0)),
            ([&left, &lost], 5, false, (0, 0)),
        ];
        for (pair, number, drained, expected) in cases {
            let standing = after(pair.map(Clone::clone));
            assert_eq!(kind(standing.verdict(number, drained)), expected, "{pair:?}");
        }
    }

    #[test]
    fn a_death_after_giving_up_is_no_cause() {
        let [early, _, left, _, lost] = <[Gone; 5]>::try_from(all_news()).expect("five");
        assert_eq!(after([lost.clone()]).death(), Some("killed"));
        assert_eq!(after([left, lost.clone()]).death(), Some("killed"));
        assert_eq!(after([early.clone(), lost.clone()]).death(), None);
        assert_eq!(after([lost, early]).death(), Some("killed"));
    }

    fn pairs() -> impl Iterator<Item = (Gone, Gone)> {
        all_news()
            .into_iter()
            .flat_map(|first| all_news().into_iter().map(move |second| (first.clone(), second)))
    }
}
