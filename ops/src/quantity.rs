//! Numbers with a unit, read and written exactly: shared by sizes, and the settings' durations and rates.

/// A unit: its spelling and how many base units it is.
pub type Unit = (&'static str, u64);

/// Reads `text` as a decimal number and one of `units` (letter case does not count). A number without a unit takes the unit
/// spelled `""`, if there is one; 0 needs none. `None` where the text is none of that, where the result is no whole number of base
/// units, or too large.
pub fn read(text: &str, units: &[Unit]) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (numeral, unit) = (&text[..end], text[end..].trim_start());
    let (digits, decimals) = decimal(numeral)?;
    if unit.is_empty() && digits == 0 {
        return Some(0);
    }
    let (_, scale) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    let total = digits.checked_mul(u128::from(*scale))?;
    let divisor = 10u128.checked_pow(decimals)?;
    (total % divisor == 0).then(|| u64::try_from(total / divisor).ok())?
}

/// Writes `magnitude` in the first of `units` that divides it; list them from large to small, the last one 1.
pub fn show(magnitude: u64, units: &[Unit]) -> String {
    if magnitude == 0 {
        return "0".to_owned();
    }
    match units.iter().find(|(_, scale)| magnitude.is_multiple_of(*scale)) {
        Some((name, scale)) => format!("{}{name}", magnitude / scale),
        None => magnitude.to_string(),
    }
}

/// A numeral such as `12` or `1.5` as its digits and how many of them are decimals.
fn decimal(numeral: &str) -> Option<(u128, u32)> {
    let (whole, fraction) = numeral.split_once('.').unwrap_or((numeral, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, u32::try_from(fraction.len()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: &[Unit] = &[("km", 1000), ("m", 1), ("", 1)];

    #[test]
    fn reads_whole_and_decimal_numbers_exactly() {
        let cases = [("7", 7), ("7m", 7), ("1.5km", 1500), ("0.001 KM", 1), ("0", 0), ("0.0", 0), ("007", 7)];
        for (text, expected) in cases {
            assert_eq!(read(text, UNITS), Some(expected), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_whole_number_of_base_units() {
        for text in [
            "",
            "m",
            "-1",
            "1.",
            ".5km",
            "1.2.3",
            "0.0001km",
            "0.5m",
            "7 miles",
            "99999999999999999999",
            "1e3",
            "٣m",
        ] {
            assert_eq!(read(text, UNITS), None, "{text}");
        }
        assert_eq!(read(&"9".repeat(400), UNITS), None);
        assert_eq!(read(&format!("1.{}km", "0".repeat(400)), UNITS), None);
        assert_eq!(read("18446744073709551615", UNITS), Some(u64::MAX));
        assert_eq!(read("18446744073709551615km", UNITS), None);
    }
}
