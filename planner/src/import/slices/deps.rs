//! What each node waits for: the file's own waits, and peers that may still read what it overwrites.
//!
//! A step of a file has finished with what it sends when it has sent it; a node that lends its bytes to a peer has not. So each node that
//! overwrites a chunk gets a dependency on every earlier node that may still lend it, where the lanes and the file's own waits put that
//! node first; where nothing does, there is a race, which `verify` finds.

use std::collections::HashMap;

use super::{Draft, Ordered, Origin, Target, Where};
use crate::plan::Overlay;
use crate::verify::Before;

/// For each draft, those that must be done before it; what lanes and other waits say already is left out.
pub(super) fn deps<S>(ordered: &Ordered<S>, overlay: Overlay, buffered: bool) -> Vec<Vec<usize>> {
    let mut waiting = Waiting {
        ordered,
        overlay,
        buffered,
        before: Before::new(ordered.drafts.len()),
        lent: HashMap::new(),
        last_on: HashMap::new(),
    };
    (0..ordered.drafts.len()).map(|number| waiting.draft(number)).collect()
}

struct Waiting<'a, S> {
    ordered: &'a Ordered<S>,
    overlay: Overlay,
    buffered: bool,
    before: Before,
    /// By chunk: drafts that lend it, since it was overwritten last.
    lent: HashMap<Where, Vec<usize>>,
    /// By lane: its draft so far.
    last_on: HashMap<usize, usize>,
}

impl<S> Waiting<'_, S> {
    /// Drafts are taken in their order.
    fn draft(&mut self, number: usize) -> Vec<usize> {
        let draft = &self.ordered.drafts[number];
        if let Some(last) = self.last_on.insert(draft.lane, number) {
            self.before.follow(number, last, self.is_done(last));
        }
        let mut deps = Vec::new();
        for dep in draft.deps.iter().rev() {
            self.wait(number, *dep, &mut deps);
        }
        for place in self.overwritten(draft) {
            for lender in self.lent.remove(&place).unwrap_or_default() {
                if self.before.issued(lender, number) {
                    self.wait(number, lender, &mut deps);
                }
            }
        }
        if !self.is_done(number) {
            self.read(draft).into_iter().for_each(|place| self.lent.entry(place).or_default().push(number));
        }
        deps
    }

    fn wait(&mut self, number: usize, dep: usize, deps: &mut Vec<usize>) {
        if !self.before.done(dep, number) {
            self.before.follow(number, dep, true);
            deps.push(dep);
        }
    }

    /// Whether a draft is done as soon as it is issued.
    fn is_done(&self, draft: usize) -> bool {
        self.buffered || !self.ordered.drafts[draft].lends()
    }

    fn read(&self, draft: &Draft<S>) -> Vec<Where> {
        let spans = draft.sources.iter().filter_map(|source| match source {
            Origin::Span { at, .. } => Some(*at),
            Origin::Message { .. } => None,
        });
        self.places(spans, draft.count)
    }

    /// A copy onto itself overwrites nothing.
    fn overwritten(&self, draft: &Draft<S>) -> Vec<Where> {
        let copied = match draft.sources[..] {
            [Origin::Span { at, .. }] => Some(self.place(at)),
            _ => None,
        };
        let spans = draft.sinks.iter().filter_map(|sink| match sink {
            Target::Span(at) => Some(*at),
            Target::Message(_) => None,
        });
        self.places(spans.filter(|at| copied != Some(self.place(*at))), draft.count)
    }

    fn places(&self, spans: impl Iterator<Item = Where>, count: u32) -> Vec<Where> {
        spans.flat_map(|at| (0..count).map(move |offset| self.place(at.plus(offset)))).collect()
    }

    /// Where the bytes of a chunk are, in place if the plan may be called so.
    fn place(&self, at: Where) -> Where {
        match at {
            Where::Input(chunk) if self.overlay.allows(true) => {
                self.ordered.storage.twin(chunk).map_or(at, Where::Output)
            }
            _ => at,
        }
    }
}
