//! Which names a plan, a host or a device may have: one rule, as names from files reach terminals, drawings and errors.

/// Longest name.
const LONGEST_NAME: usize = 120;

/// What is expected of a name, in words.
pub(crate) const EXPECTED_NAME: &str = "1 to 120 characters that can be shown";

/// Checks a name; the error shows as much of it as can be shown.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_right = !name.is_empty() && name.chars().count() <= LONGEST_NAME && can_be_shown(name);
    if is_right { Ok(()) } else { Err(shown(name)) }
}

/// Whether no character is a control, a formatting mark or no character at all.
fn can_be_shown(name: &str) -> bool {
    let plain: String = name.chars().filter(|c| !"\\\"'".contains(*c)).collect();
    plain.escape_debug().eq(plain.chars())
}

/// A word of a file as errors show it: not all of one that never ends.
pub(crate) fn shown(word: &str) -> String {
    const LONGEST: usize = 40;
    match word.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}..", &word[..end]),
        None => format!("{word:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_be_shown_and_are_not_endless() {
        let right = ["ring", "hierarchical(direct,ring)", "it's \"one\" \\ two & <b>", "größer 环"];
        right.iter().for_each(|name| assert_eq!(check_name(name), Ok(())));
        assert_eq!(check_name(&"x".repeat(120)), Ok(()));
        let wrong = ["", "a\nb", "\u{1b}[2J", "nul\0", "\u{ffff}", "turned \u{202e}round", &"x".repeat(121)];
        wrong.iter().for_each(|name| assert!(check_name(name).is_err(), "{name:?}"));
        assert_eq!(check_name("\u{1b}[2J"), Err("\"\\u{1b}[2J\"".to_owned()));
    }
}
