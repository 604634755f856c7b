//! [`Lines`]: merges what the ranks print into one stream, line by line, each line preceded by its rank. Pure; bytes in, bytes out.

use std::mem;

use hcomm_ops::Rank;

/// Longest piece of a line that is held back.
const LONGEST_HELD: usize = 64 << 10;

/// One merged stream. Whole lines go out at once. The beginning of a line is held until its end comes, or [`Lines::handle_idle`]
/// says that it will not soon (a prompt, a progress bar), or it grows too long; then it goes out and stays **open**: its rank
/// continues it, and any other rank's line begins on a fresh one.
#[derive(Debug)]
pub struct Lines {
    held: Vec<Vec<u8>>,
    open: Option<Rank>,
}

impl Lines {
    /// The stream of so many ranks.
    pub fn new(ranks: usize) -> Self {
        Lines { held: vec![Vec::new(); ranks], open: None }
    }

    /// Takes bytes that a rank printed; what can go out is appended to `out`.
    pub fn handle_bytes(&mut self, rank: Rank, bytes: &[u8], out: &mut Vec<u8>) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.held[rank].extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.held[rank].len() >= LONGEST_HELD {
                self.release(rank, out);
            }
        }
    }

    /// Whether beginnings of lines are held back.
    pub fn is_holding(&self) -> bool {
        self.held.iter().any(|held| !held.is_empty())
    }

    /// Nothing has come for a while: sends out what is held back.
    pub fn handle_idle(&mut self, out: &mut Vec<u8>) {
        for rank in 0..self.held.len() {
            self.release(rank, out);
        }
    }

    /// Adds a line that is no rank's; nothing where it is empty.
    pub fn handle_note(&mut self, line: &str, out: &mut Vec<u8>) {
        if !line.is_empty() {
            self.end_open_line(out);
            out.extend_from_slice(format!("{line}\n").as_bytes());
        }
    }

    /// Nothing will come any more: sends out what is held back and ends an open line.
    pub fn handle_end(&mut self, out: &mut Vec<u8>) {
        self.handle_idle(out);
        self.end_open_line(out);
    }

    fn release(&mut self, rank: Rank, out: &mut Vec<u8>) {
        let held = mem::take(&mut self.held[rank]);
        if held.is_empty() {
            return;
        }
        if self.open != Some(rank) {
            self.end_open_line(out);
            out.extend_from_slice(format!("[{rank}] ").as_bytes());
        }
        out.extend_from_slice(&held);
        self.open = (!held.ends_with(b"\n")).then_some(rank);
    }

    fn end_open_line(&mut self, out: &mut Vec<u8>) {
        if self.open.take().is_some() {
            out.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn merged(steps: &[(Rank, &str)]) -> String {
        let (mut lines, mut out) = (Lines::new(3), Vec::new());
        for (rank, text) in steps {
            match *text {
                "(idle)" => lines.handle_idle(&mut out),
                text => lines.handle_bytes(*rank, text.as_bytes(), &mut out),
            }
        }
        lines.handle_end(&mut out);
        String::from_utf8(out).expect("only text went in")
    }

    #[test]
    fn lines_of_different_ranks_do_not_mix() {
        let text = merged(&[(0, "a"), (1, "b\nc"), (0, "d\n"), (1, "\n\n")]);
        assert_eq!(text, "[1] b\n[0] ad\n[1] c\n[1] \n");
    }

    #[test]
    fn an_open_line_is_continued_by_its_rank_and_ended_by_others() {
        assert_eq!(merged(&[(0, "10%"), (0, "(idle)"), (0, "\r20%\n")]), "[0] 10%\r20%\n");
        assert_eq!(
            merged(&[(0, "name? "), (0, "(idle)"), (2, "x\n"), (0, "y")]),
            "[0] name? \n[2] x\n[0] y\n"
        );
    }

    #[test]
    fn a_note_stands_on_a_line_of_its_own() {
        let (mut lines, mut out) = (Lines::new(1), Vec::new());
        lines.handle_bytes(0, b"10%", &mut out);
        lines.handle_idle(&mut out);
        lines.handle_note("rank 0 failed", &mut out);
        lines.handle_note("", &mut out);
        assert_eq!(out, b"[0] 10%\nrank 0 failed\n");
    }

    #[test]
    fn an_endless_line_is_not_held_for_ever() {
        let (mut lines, mut out) = (Lines::new(1), Vec::new());
        lines.handle_bytes(0, &vec![b'x'; LONGEST_HELD], &mut out);
        assert_eq!(out.len(), LONGEST_HELD + "[0] ".len());
        assert!(!lines.is_holding());
    }

    proptest! {
        #[test]
        fn each_rank_s_bytes_come_out_whole_and_in_order(
            steps in prop::collection::vec((0usize..3, "[ab\n\u{0}\u{ff}]{0,6}"), 0..20),
        ) {
            let (mut lines, mut out) = (Lines::new(3), Vec::new());
            let mut printed = vec![Vec::new(); 3];
            for (rank, text) in &steps {
                lines.handle_bytes(*rank, text.as_bytes(), &mut out);
                printed[*rank].extend_from_slice(text.as_bytes());
            }
            lines.handle_end(&mut out);
            let mut seen = vec![Vec::new(); 3];
            for line in out.split_inclusive(|byte| *byte == b'\n') {
                let rank = usize::from(line[1] - b'0');
                let prefix = format!("[{rank}] ");
                prop_assert!(line.starts_with(prefix.as_bytes()));
                seen[rank].extend_from_slice(&line[4..]);
            }
            for (mut printed, seen) in printed.into_iter().zip(seen) {
                if !printed.is_empty() && !printed.ends_with(b"\n") {
                    printed.push(b'\n');
                }
                prop_assert_eq!(printed, seen);
            }
        }
    }
}
