//! [`Drawings`]: the files that `hcomm plan` and `hcomm import` are asked for, and the traces that the page shows.

use std::path::{Path, PathBuf};

use clap::Args;
use hcomm::Plan;
use hcomm::file::read_text;
use hcomm::planner::export::{self, Drawing, ExportError};
use hcomm::planner::timeline::Measured;

use super::print::{self, print, unreadable};
use crate::mistake::CommandError;

/// Bytes of the longest trace.
const MOST_TRACE_BYTES: u64 = 1 << 30;

/// The files asked for.
#[derive(Args)]
pub struct Drawings {
    /// Write the plan for Graphviz
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
    /// Write the plan as a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the plan as a page for the browser: the graph, and when each node runs by the cost model
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// A trace of the plan (hcomm bench --trace), to show in the page when each node really ran; once per file, such as one per
    /// host
    #[arg(long, value_name = "FILE", requires = "html")]
    trace: Vec<PathBuf>,
    /// Write the plan for programs; it can be read back and submitted
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the plan of all ranks as MSCCL's XML, where that can express it
    #[arg(long, value_name = "FILE")]
    msccl: Option<PathBuf>,
}

impl Drawings {
    /// Two of them on standard output would be one unreadable text, two in one file one lost; nor is any written over what is read.
    pub fn check<'a>(&'a self, read: impl IntoIterator<Item = &'a Path>) -> Result<(), CommandError> {
        let mut known: Vec<PathBuf> =
            read.into_iter().chain(self.trace.iter().map(PathBuf::as_path)).map(real).collect();
        for path in self.files().filter(|path| !is_stdout(path)) {
            if known.contains(&real(path)) {
                let name = path.display();
                return Err(CommandError::Usage(format!(
                    "{name} is read or written twice; expected another file"
                )));
            }
            known.push(real(path));
        }
        match self.files().filter(|path| is_stdout(path)).count() {
            0 | 1 => Ok(()),
            _ => {
                let message = "several of --dot, --svg, --html, --json and --msccl are '-'; expected at most one of them";
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

    /// Whether any of them shows times.
    pub fn show_times(&self) -> bool {
        self.dot.is_some() || self.svg.is_some() || self.html.is_some()
    }

    /// What the traces say of the plan whose slices these are.
    pub fn measured(&self, plans: &[Plan]) -> Result<Option<Measured>, CommandError> {
        if self.trace.is_empty() {
            return Ok(None);
        }
        let files = self.trace.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
        let measured = Measured::read(&files, plans);
        measured.map(Some).map_err(|error| CommandError::Usage(format!("--trace: {error}")))
    }

    /// Writes them: drawings and JSON of the slices shown, MSCCL's XML of all.
    pub fn write(&self, drawing: &Drawing<'_>, shown: &[Plan], all: &[Plan]) -> Result<(), CommandError> {
        if let Some(path) = &self.msccl {
            let refused = |error: ExportError| CommandError::Usage(format!("--msccl: {error}"));
            save(path, &export::to_msccl(all).map_err(refused)?)?;
        }
        let files: [(&Option<PathBuf>, &dyn Fn() -> String); 4] = [
            (&self.dot, &|| drawing.dot()),
            (&self.svg, &|| drawing.svg()),
            (&self.html, &|| drawing.html()),
            (&self.json, &|| format!("{}\n", export::json::write(shown))),
        ];
        files
            .iter()
            .filter_map(|(path, text)| Some((path.as_ref()?, text)))
            .try_for_each(|(path, text)| save(path, &text()))
    }

    fn files(&self) -> impl Iterator<Item = &Path> {
        let files = [&self.dot, &self.svg, &self.html, &self.json, &self.msccl];
        files.into_iter().filter_map(|path| path.as_deref())
    }
}

/// A file's name and text.
fn read(path: &Path) -> Result<(String, String), CommandError> {
    let name = path.display().to_string();
    match read_text(path, MOST_TRACE_BYTES) {
        Ok(text) => Ok((name, text)),
        Err(cause) => Err(unreadable(&name, &cause)),
    }
}

/// Where a path leads, if anywhere: to tell whether two are one file.
fn real(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let whole = path.canonicalize();
    let in_folder = || Some(folder.canonicalize().ok()?.join(path.file_name()?));
    whole.ok().or_else(in_folder).unwrap_or_else(|| path.to_owned())
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

fn save(path: &Path, text: &str) -> Result<(), CommandError> {
    if is_stdout(path) {
        return print(text);
    }
    print::save(path, text)
}
