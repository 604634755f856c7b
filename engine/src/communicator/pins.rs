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
    let each = name.collectives().iter().map(|collective| {
        let pins = AlgorithmPins::parse(&format!("{collective}={}", text.trim())).unwrap_or_default();
        check(&pins).map(|()| pins)
    });
    let each: Vec<_> = each.collect();
    let able: Vec<String> = each.iter().flatten().map(Value::show).collect();
    match (able.is_empty(), each.into_iter().find_map(Result::err)) {
        (true, Some(error)) => Err(error.into()),
        _ => Ok(AlgorithmPins::parse(&able.join(",")).unwrap_or_default()),
    }
}
