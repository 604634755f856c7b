//! The text and its batches: which characters every rank sees at every step, from the seed alone.
//!
//! A batch is a function of (seed, step, micro-batch), not of who asks for it, so that one rank alone can take
//! the micro-batches of all ranks. The model that reads them is in `model.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};

use crate::Outcome;
use crate::random::Random;

/// More text than this teaches so small a model nothing more.
const MOST_BYTES: usize = 4 << 20;

/// Learned from when no source file can be found at run time: this file.
const OWN_SOURCE: &[u8] = include_bytes!("data.rs");

/// A text as token numbers, one per byte.
pub struct Corpus {
    tokens: Vec<u32>,
    vocabulary: usize,
}

/// `rows` pieces of text and, for each of their characters, the one that follows.
pub struct Batch {
    /// Token numbers, shape (rows, context).
    pub inputs: Tensor,
    /// The token after each input, shape (rows * context).
    pub targets: Tensor,
}

impl Corpus {
    /// The source files of this repository, in the order of their paths.
    pub fn of_repository() -> Outcome<Corpus> {
        let root = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
        let mut text = Vec::new();
        for file in source_files(Path::new(&root)) {
            text.extend(fs::read(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?);
        }
        text.truncate(MOST_BYTES);
        Ok(Corpus::from_text(if text.is_empty() { OWN_SOURCE } else { &text }))
    }

    /// Numbers the bytes that occur in `text`, smallest first.
    pub fn from_text(text: &[u8]) -> Corpus {
        let mut number_of = [None; 256];
        text.iter().for_each(|byte| number_of[usize::from(*byte)] = Some(0));
        let present = number_of.iter_mut().flatten();
        let vocabulary = present.zip(0u32..).map(|(number, next)| *number = next).count();
        let tokens = text.iter().filter_map(|byte| number_of[usize::from(*byte)]).collect();
        Corpus { tokens, vocabulary }
    }

    /// How many different characters there are.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// How many characters the text has.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The micro-batch number `micro` of a step: the same on whichever rank asks.
    pub fn batch(&self, seed: u64, step: usize, micro: usize, rows: usize, context: usize) -> Outcome<Batch> {
        let mut random = Random::new(&[seed, step as u64, micro as u64]);
        let starts: Vec<usize> = (0..rows).map(|_| random.below(self.tokens.len())).collect();
        let piece = |shift| -> Vec<u32> {
            starts
                .iter()
                .flat_map(|start| (0..context).map(move |at| self.token(start + at + shift)))
                .collect()
        };
        Ok(Batch {
            inputs: Tensor::from_vec(piece(0), (rows, context), &Device::Cpu)?,
            targets: Tensor::from_vec(piece(1), rows * context, &Device::Cpu)?,
        })
    }

    /// The text goes round, so that any length of it will do.
    fn token(&self, at: usize) -> u32 {
        self.tokens[at % self.tokens.len()]
    }
}

/// The `.rs`, `.md` and `.toml` files below `folder`, sorted; hidden and generated folders are left out.
fn source_files(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    entries.sort();
    entries.into_iter().flat_map(source_files_at).collect()
}

fn source_files_at(path: PathBuf) -> Vec<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let skipped = name.starts_with('.') || name == "target";
    let is_source = matches!(path.extension().and_then(|e| e.to_str()), Some("rs" | "md" | "toml"));
    match (skipped, path.is_dir(), path.is_file() && is_source) {
        (false, true, _) => source_files(&path),
        (false, false, true) => vec![path],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_numbered_without_gaps() {
        let corpus = Corpus::from_text(b"cabbage");
        assert_eq!(corpus.vocabulary(), 5);
        assert_eq!(corpus.tokens, [2, 0, 1, 1, 0, 4, 3]);
    }

    #[test]
    fn targets_are_inputs_shifted_by_one_and_wrap() {
        let corpus = Corpus::from_text(b"abcd");
        let batch = corpus.batch(7, 3, 1, 5, 9).unwrap();
        let inputs = batch.inputs.flatten_all().unwrap().to_vec1::<u32>().unwrap();
        let targets = batch.targets.to_vec1::<u32>().unwrap();
        assert!(inputs.iter().zip(&targets).all(|(input, target)| (input + 1) % 4 == *target));
    }

    #[test]
    fn batches_differ_by_seed_step_and_micro_batch_only() {
        let corpus = Corpus::from_text(OWN_SOURCE);
        let inputs = |seed, step, micro| {
            corpus.batch(seed, step, micro, 2, 8).unwrap().inputs.to_vec2::<u32>().unwrap()
        };
        assert_eq!(inputs(1, 2, 3), inputs(1, 2, 3));
        assert_ne!(inputs(1, 2, 3), inputs(1, 3, 2));
        assert_ne!(inputs(1, 2, 3), inputs(2, 2, 3));
    }

    #[test]
    fn the_repository_has_text() {
        assert!(Corpus::of_repository().unwrap().len() > 1000);
    }
}
