//! The pins of a handle: read and checked when the handle is made.

use hcomm_planner::choose::AlgorithmName;
use hcomm_planner::{PinError, Planner};

use crate::error::Refused;
use crate::settings::AlgorithmPins;
use crate::settings::value::Value;

/// Pins as in `HCOMM_ALGORITHM`, or the name of an algorithm, for all that it can do here.
pub(super) fn read(text: &str, planner: &Planner, deterministic: bool) -> Result<AlgorithmPins, Refused> {
    let check = |pins: &AlgorithmPins| -> Result<(), Box<PinError>> {
        let pins = pins.to_pins("this handle");
        pins.iter().try_for_each(|pin| planner.check_pin(pin, deterministic)).map_err(Box::new)
    };
    if text.contains('=') || text.trim().is_empty() {
        let expected = || AlgorithmPins::default().form();
        let pins = AlgorithmPins::parse(text)
            .ok_or_else(|| Refused::Pins { text: text.to_owned(), expected: expected() })?;
        check(&pins)?;
        return Ok(pins);
    }
    let name = AlgorithmName::parse(text.trim()).map_err(hcomm_planner::PlanError::from)?;
    let pinned = |collectives: &[_]| AlgorithmPins::for_all(collectives.iter().copied(), text.trim());
    let (mut able, mut unable) = (Vec::new(), None);
    for collective in name.collectives() {
        match check(&pinned(&[*collective])) {
            Ok(()) => able.push(*collective),
            Err(error) => unable = unable.or(Some(error)),
        }
    }
    match unable {
        Some(error) if able.is_empty() => Err(error.into()),
        _ => Ok(pinned(&able)),
    }
}
