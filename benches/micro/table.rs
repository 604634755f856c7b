//! [`Table`]: what a part found, printed as Markdown in straight columns.

use std::fmt;

/// A heading, the names of the columns, and rows of as many cells.
pub struct Table {
    pub heading: &'static str,
    pub columns: &'static [&'static str],
    pub rows: Vec<Vec<String>>,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.columns.iter().map(|name| (*name).to_owned()).collect();
        let longest = |at: usize| self.rows.iter().chain([&names]).map(|row| row[at].chars().count()).max();
        let widths: Vec<usize> = (0..names.len()).filter_map(longest).collect();
        let line = |row: &[String]| -> String {
            row.iter().zip(&widths).map(|(cell, width)| format!("| {cell:>width$} ")).collect::<String>()
                + "|"
        };
        writeln!(f, "{}\n\n{}", self.heading, line(&names))?;
        writeln!(
            f,
            "{}|",
            widths.iter().map(|width| format!("|{:->1$}", ":", width + 2)).collect::<String>()
        )?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{}", line(row)))
    }
}

/// "8", "64 KiB" or "4 MiB".
pub fn size_text(bytes: usize) -> String {
    match bytes {
        0..1024 => bytes.to_string(),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}
