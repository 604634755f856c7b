//! What somebody probably meant: the nearest of a list of words.

/// The word of `words` that `text` was probably meant to be: the nearest by edits (insert, delete, replace, swap neighbours), if
/// it is within a third of the longer one's length. Letter case does not count.
pub fn nearest<'a>(text: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = |word: &str| text.len().max(word.len()).div_ceil(3);
    let close = words.into_iter().filter(|word| word.len().abs_diff(text.len()) <= allowed(word));
    let scored = close.map(|word| (distance(text, word), word));
    scored
        .filter(|(edits, word)| *edits <= allowed(word))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, word)| word)
}

/// The edits that lead from one word to the other, a swap of neighbours counting once (optimal string alignment).
fn distance(from: &str, to: &str) -> usize {
    let letters = |word: &str| -> Vec<char> { word.to_ascii_lowercase().chars().collect() };
    let (from, to) = (letters(from), letters(to));
    let mut before = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for i in 1..=from.len() {
        let mut row = vec![i; to.len() + 1];
        for j in 1..=to.len() {
            let replaced = last[j - 1] + usize::from(from[i - 1] != to[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits() {
        let cases = [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("é", "e", 1),
        ];
        for (from, to, edits) in cases {
            assert_eq!((distance(from, to), distance(to, from)), (edits, edits), "{from} {to}");
        }
    }

    #[test]
    fn suggests_only_what_is_near() {
        let words = ["DEPTH", "DEADLINE", "DEBUG"];
        assert_eq!(nearest("dedaline", words), Some("DEADLINE"));
        assert_eq!(nearest("zzz", words), None);
        assert_eq!(nearest(&"DEPTH".repeat(1000), words), None);
    }
}
