//! Which tiles make a difference.

use hcomm::planner::algorithm::Call;
use hcomm::planner::choose::Candidate;
use hcomm::{Collective, Planner};

use super::buffers::request;

/// A candidate with each shorter tile that cuts the call into more of them.
pub fn shorter(
    planner: &Planner,
    candidate: Candidate,
    collective: Collective,
    bytes: u64,
) -> Vec<Candidate> {
    let world = planner.topology().world();
    let request = request(collective, bytes, world);
    let call = Call::new(&request, world, planner.topology());
    let model = planner.choice().model();
    let tiles = |candidate: Candidate| model.contender(candidate, &call).tiles(bytes);
    let whole = candidate.with_tile(Candidate::WHOLE_SLOT);
    let others = model.tiles().iter().map(|tile| candidate.with_tile(*tile));
    others.filter(|other| *other != candidate && *other != whole && tiles(*other) > tiles(whole)).collect()
}
