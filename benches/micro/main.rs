//! Times single parts of hcomm, each by itself, and prints a table a part: `cargo bench --package hcomm-benches [-- PART...]`.
//!
//! Every part also checks that what it timed did its work, and panics where it did not. The comparison of whole calls with other
//! libraries is `benches/peers`.

mod clock;
mod hop;
mod kernels;
mod overlap;
mod place;
mod plans;
mod table;
mod wakeup;

use std::process::ExitCode;

use table::Table;

/// A part of hcomm that is timed by itself.
struct Part {
    name: &'static str,
    run: fn() -> Table,
}

const PARTS: &[Part] = &[
    Part { name: "kernels", run: kernels::run },
    Part { name: "plans", run: plans::run },
    Part { name: "hop", run: hop::run },
    Part { name: "wakeup", run: wakeup::run },
    Part { name: "overlap", run: overlap::run },
];

fn main() -> ExitCode {
    // Cargo adds an option of its own.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if let Some(unknown) = wanted.iter().find(|word| PARTS.iter().all(|part| part.name != **word)) {
        let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        eprintln!("{unknown:?} is no part; expected some of {}", names.join(", "));
        return ExitCode::from(2);
    }
    for part in PARTS.iter().filter(|part| wanted.is_empty() || wanted.iter().any(|word| word == part.name)) {
        println!("{}", (part.run)());
    }
    ExitCode::SUCCESS
}
