//! [`Drawings`]: the files that `hcomm plan` is asked for.

use std::path::{Path, PathBuf};

use clap::Args;
use hcomm::Plan;
use hcomm::planner::export::{self, Sizing};

use crate::commands::print::{print, unwritten};
use crate::mistake::CommandError;

/// The files asked for.
#[derive(Args)]
pub struct Drawings {
    /// Write the plan for Graphviz
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
    /// Write the plan as a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the plan for programs; it can be read back and submitted
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Drawings {
    /// Two of them on standard output would be one unreadable text.
    pub fn check(&self) -> Result<(), CommandError> {
        match self.files().filter(|path| is_stdout(path)).count() {
            0 | 1 => Ok(()),
            _ => {
                let message = "several of --dot, --svg and --json are '-'; expected at most one of them";
                Err(CommandError::Usage(message.to_owned()))
            }
        }
    }

    /// Whether there is any.
    pub fn are_wanted(&self) -> bool {
        self.files().next().is_some()
    }

    /// Whether standard output is one of them.
    pub fn use_stdout(&self) -> bool {
        self.files().any(is_stdout)
    }

    /// Writes them.
    pub fn write(&self, plans: &[Plan], sizing: &Sizing) -> Result<(), CommandError> {
        if let Some(path) = &self.dot {
            save(path, &export::dot(plans, Some(sizing)))?;
        }
        if let Some(path) = &self.svg {
            save(path, &export::svg(plans, Some(sizing)))?;
        }
        if let Some(path) = &self.json {
            save(path, &format!("{}\n", export::json::write(plans)))?;
        }
        Ok(())
    }

    fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.dot, &self.svg, &self.json].into_iter().filter_map(|path| path.as_deref())
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

fn save(path: &Path, text: &str) -> Result<(), CommandError> {
    if is_stdout(path) {
        return print(text);
    }
    std::fs::write(path, text).map_err(|cause| unwritten(&path.display().to_string(), &cause))
}
