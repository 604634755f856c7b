//! Writes the text of a tuning file, as `file` reads it.

use std::fmt::Write;

use super::file::FORMAT;
use super::{FitError, LinkTuning, Machine, Made, Measured, TunedPin, Tuning};
use crate::choose::Prices;
use crate::request::Collective;

impl Tuning {
    /// The text of a file that says the same.
    pub fn to_text(&self) -> String {
        let mut text = format!("format = {FORMAT}\n");
        // Writing into a String cannot fail.
        let _ = write_head(&mut text, self);
        for link in &self.links {
            let _ = write_link(&mut text, link);
        }
        for pin in &self.pins {
            let _ = write_pin(&mut text, pin);
        }
        for measured in &self.measured {
            let _ = write_measured(&mut text, measured);
        }
        text
    }
}

fn write_head(text: &mut String, tuning: &Tuning) -> std::fmt::Result {
    if let Some(Machine { hostname, cpu, processors, kernel }) = &tuning.machine {
        let [hostname, cpu, kernel] = [hostname, cpu, kernel].map(|word| quoted(word));
        write!(
            text,
            "\n[machine]\nhostname = {hostname}\ncpu = {cpu}\nprocessors = {processors}\nkernel = {kernel}\n"
        )?;
    }
    if let Some(Made { hcomm, date, seconds, samples }) = &tuning.made {
        let [hcomm, date] = [hcomm, date].map(|word| quoted(word));
        write!(text, "\n[made]\nhcomm = {hcomm}\ndate = {date}\nseconds = {seconds}\nsamples = {samples}\n")?;
    }
    Ok(())
}

fn write_link(text: &mut String, link: &LinkTuning) -> std::fmt::Result {
    const NAMES: [&str; Prices::COUNT] =
        ["latency_ns", "message_ns", "wait_ns", "byte_ns", "reduce_byte_ns", "copy_byte_ns"];
    writeln!(text, "\n[links.{}]", link.condition)?;
    for (name, price) in NAMES.iter().zip(link.prices.to_array()) {
        writeln!(text, "{name} = {price:?}")?;
    }
    if link.condition.is_crowded {
        writeln!(text, "ranks_per_processor = {:?}", link.ranks_per_processor)?;
    }
    if let Some(FitError { median, worst }) = link.error {
        writeln!(text, "median_error = {median:?}\nworst_error = {worst:?}")?;
    }
    Ok(())
}

fn write_pin(text: &mut String, pin: &TunedPin) -> std::fmt::Result {
    let TunedPin { collective, algorithm, from_bytes, to_bytes, world, communicator } = pin;
    writeln!(text, "\n[[pin]]\ncollective = \"{collective}\"\nalgorithm = {}", quoted(algorithm))?;
    if *from_bytes > 0 {
        writeln!(text, "from = {from_bytes}")?;
    }
    if *to_bytes < u64::MAX {
        writeln!(text, "to = {to_bytes}")?;
    }
    if let Some(world) = world {
        writeln!(text, "world = {world}")?;
    }
    match communicator {
        Some(name) => writeln!(text, "communicator = {}", quoted(name)),
        None => Ok(()),
    }
}

fn write_measured(text: &mut String, measured: &Measured) -> std::fmt::Result {
    let Measured { condition, world, curves } = measured;
    let longest = curves.iter().map(|(_, _, curve)| curve.points()).max_by_key(|points| points.len());
    let bytes: Vec<u64> = longest.unwrap_or_default().iter().map(|(bytes, _)| *bytes).collect();
    writeln!(text, "\n[[measured]]\nlink = \"{condition}\"\nworld = {world}\nbytes = {bytes:?}")?;
    for collective in Collective::ALL {
        let mut own = curves.iter().filter(|(of, ..)| *of == collective).peekable();
        if own.peek().is_some() {
            writeln!(text, "\n[measured.factors.{collective}]")?;
        }
        for (_, candidate, curve) in own {
            let factors: Vec<f64> = curve.points().iter().map(|(_, factor)| *factor).collect();
            writeln!(text, "{} = {factors:?}", quoted(&candidate.to_string()))?;
        }
    }
    Ok(())
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
