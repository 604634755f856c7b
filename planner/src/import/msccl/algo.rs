//! The `algo` element: name, collective, sizes, and how the plan may be called.

use super::attributes::{Attributes, Fault, shown};
use super::program::Program;
use super::words::{WRITTEN, Written};
use super::{MAX_CHUNKS, MAX_RANKS};
use crate::import::slices::Outline;
use crate::import::within;
use crate::plan::{ByteRange, EXPECTED_NAME, Overlay, check_name};

/// An empty program of what it says.
pub(super) fn read(attributes: &Attributes<'_>) -> Result<Program, Fault> {
    let name = name(attributes.required("name")?)?;
    let written = collective(attributes.required("coll")?)?;
    let world = u64::from(attributes.index("ngpus")?);
    within("ngpus of algo", world, MAX_RANKS)?;
    if world < 2 {
        return Err(Fault::Here(format!("ngpus is {world}; expected at least 2")));
    }
    let outline = Outline {
        name,
        world: world as usize,
        collective: written.collective,
        root: 0,
        parts: parts(attributes, written, world)?,
        bytes: bytes(attributes, written.full_per_counted(world))?,
    };
    let has_channels = attributes.optional("nchannels").is_some();
    let channels = has_channels.then(|| attributes.index("nchannels")).transpose()?;
    Ok(Program { outline, channels, overlays: overlays(attributes)?, gpus: Vec::new() })
}

fn name(name: &str) -> Result<String, Fault> {
    let wrong = |shown| Fault::Here(format!("name is {shown}; expected {EXPECTED_NAME}"));
    check_name(name).map_err(wrong)?;
    Ok(name.to_owned())
}

fn collective(name: &str) -> Result<&'static Written, Fault> {
    Written::named(name).ok_or_else(|| {
        let names = WRITTEN.each_ref().map(|w| w.name).join(", ");
        Fault::Here(format!("coll is {}; expected one of {names}", shown(name)))
    })
}

fn parts(attributes: &Attributes<'_>, written: &Written, world: u64) -> Result<u32, Fault> {
    let chunks = u64::from(attributes.index("nchunksperloop")?);
    within("nchunksperloop of algo", chunks, MAX_CHUNKS)?;
    let blocks = written.chunks_per_loop(1, world);
    if chunks == 0 || chunks % blocks != 0 {
        let expected =
            if blocks == 1 { "at least 1".to_owned() } else { format!("a multiple of ngpus, {world}") };
        return Err(Fault::Here(format!("nchunksperloop is {chunks}; expected {expected}")));
    }
    Ok((chunks / blocks) as u32)
}

/// Older files have only `inplace`, or neither.
fn overlays(attributes: &Attributes<'_>) -> Result<Vec<Overlay>, Fault> {
    let flag = |name| {
        let said = attributes.optional(name).is_some();
        Ok::<_, Fault>(said.then_some(attributes.number_or(name, 0, 0)? != 0))
    };
    let (in_place, apart) = (flag("inplace")?, flag("outofplace")?);
    if (in_place, apart) == (None, None) {
        return Ok(vec![Overlay::Either, Overlay::Apart, Overlay::InPlace]);
    }
    let (in_place, apart) = match (in_place, apart) {
        (Some(in_place), None) => (in_place, !in_place),
        (None, Some(apart)) => (!apart, apart),
        (in_place, apart) => (in_place == Some(true), apart == Some(true)),
    };
    let none = || Fault::Here("inplace and outofplace are both 0; expected at least one of them".to_owned());
    Ok(vec![Overlay::new(in_place, apart).ok_or_else(none)?])
}

/// `maxBytes` 0 is no limit.
fn bytes(attributes: &Attributes<'_>, full_per_counted: u64) -> Result<ByteRange, Fault> {
    let number = |name| Ok::<_, Fault>(attributes.number_or(name, 0, 0)? as u64);
    let (min, max) = (number("minBytes")?, number("maxBytes")?);
    if max != 0 && max < min {
        return Err(Fault::Here(format!("minBytes is {min} and maxBytes {max}; expected no less")));
    }
    // More than can be counted is no limit.
    let max = (max != 0).then(|| max.checked_mul(full_per_counted)).flatten();
    Ok(ByteRange { min: min.saturating_mul(full_per_counted), max })
}
