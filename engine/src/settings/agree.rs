//! Agreement on settings: rank 0's values of those that shape messages, as bytes for the rendezvous.
//!
//! The blob is, for each agreed setting in table order: name length (u8), name, value length (u16, little endian), value as a
//! user would write it. Builds of other versions never get here; the handshake refuses them.

use super::entry::Entry;
use super::{AgreementError, Settings, TABLE};

/// The agreed settings of `settings`, encoded.
pub fn encode(settings: &Settings) -> Vec<u8> {
    let mut blob = Vec::new();
    for entry in agreed() {
        let value = entry.show(settings);
        blob.push(entry.name.len() as u8);
        blob.extend_from_slice(entry.name.as_bytes());
        blob.extend_from_slice(&(value.len() as u16).to_le_bytes());
        blob.extend_from_slice(value.as_bytes());
    }
    blob
}

/// `settings` with the agreed ones of `blob`.
pub fn decode(settings: &Settings, blob: &[u8]) -> Result<Settings, AgreementError> {
    let mut adopted = settings.clone();
    let mut reader = Reader { blob, at: 0 };
    for entry in agreed() {
        let name_bytes = usize::from(reader.take::<1>()?[0]);
        let name = reader.text(name_bytes)?;
        if name != entry.name {
            return Err(AgreementError::OtherSetting { name: name.to_owned(), expected: entry.name });
        }
        let value_bytes = usize::from(u16::from_le_bytes(reader.take()?));
        entry.set(&mut adopted, reader.text(value_bytes)?)?;
    }
    if reader.at < blob.len() { Err(reader.wrong_length()) } else { Ok(adopted) }
}

fn agreed() -> impl Iterator<Item = &'static Entry> {
    TABLE.iter().filter(|entry| entry.agreed)
}

struct Reader<'a> {
    blob: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], AgreementError> {
        let bytes =
            self.blob.get(self.at..).and_then(<[u8]>::first_chunk).ok_or_else(|| self.wrong_length())?;
        self.at += N;
        Ok(*bytes)
    }

    fn text(&mut self, bytes: usize) -> Result<&'a str, AgreementError> {
        let text = self.blob.get(self.at..self.at + bytes).ok_or_else(|| self.wrong_length())?;
        let text = std::str::from_utf8(text).map_err(|_| AgreementError::NotText { at: self.at })?;
        self.at += bytes;
        Ok(text)
    }

    fn wrong_length(&self) -> AgreementError {
        AgreementError::Length { bytes: self.blob.len(), at: self.at }
    }
}
