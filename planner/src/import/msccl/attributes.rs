//! [`Attributes`]: one element's, looked up by name; what is said of one that is missing or out of its range.

use std::borrow::Cow;

use quick_xml::XmlVersion;
use quick_xml::events::BytesStart;

use crate::import::ImportError;
pub(super) use crate::plan::shown;

/// What is wrong with an element.
pub(super) enum Fault {
    /// At the element that is being read.
    Here(String),
    /// There is too much of something.
    Limit(ImportError),
}

impl From<ImportError> for Fault {
    fn from(limit: ImportError) -> Fault {
        Fault::Limit(limit)
    }
}

/// More than any element has; looking one up takes time in proportion.
const MAX_ATTRIBUTES: usize = 64;

/// Of one element; unknown ones are left alone.
pub(super) struct Attributes<'a> {
    list: Vec<(&'a str, Cow<'a, str>)>,
}

impl<'a> Attributes<'a> {
    pub fn of(tag: &'a BytesStart<'_>) -> Result<Attributes<'a>, String> {
        let mut list = Vec::new();
        for attribute in tag.attributes() {
            if list.len() == MAX_ATTRIBUTES {
                return Err(format!("more than {MAX_ATTRIBUTES} attributes"));
            }
            let attribute = attribute.map_err(|error| error.to_string())?;
            let value =
                attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|error| error.to_string())?;
            list.push((attribute.key.0, value));
        }
        Ok(Attributes { list })
    }

    /// Its text, if it is there.
    pub fn optional(&self, name: &str) -> Option<&str> {
        self.list.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
    }

    /// Its text.
    pub fn required(&self, name: &str) -> Result<&str, Fault> {
        self.optional(name).ok_or_else(|| Fault::Here(format!("it has no attribute {name}")))
    }

    /// A number from `least` up.
    pub fn number(&self, name: &str, least: i64) -> Result<i64, Fault> {
        let text = self.required(name)?;
        let number = text.trim().parse().ok().filter(|number| *number >= least);
        number.ok_or_else(|| {
            Fault::Here(format!("{name} is {}; expected a number from {least} up", shown(text)))
        })
    }

    /// A number from `least` up, or `otherwise` where it is not said.
    pub fn number_or(&self, name: &str, least: i64, otherwise: i64) -> Result<i64, Fault> {
        if self.optional(name).is_none() { Ok(otherwise) } else { self.number(name, least) }
    }

    /// A number of 32 bits.
    pub fn index(&self, name: &str) -> Result<u32, Fault> {
        let number = self.number(name, 0)?;
        let expected = || Fault::Here(format!("{name} is {number}; expected at most {}", u32::MAX));
        u32::try_from(number).map_err(|_| expected())
    }

    /// Elements are numbered from 0 in the order in which they stand.
    pub fn numbered(&self, name: &str, expected: usize) -> Result<(), Fault> {
        let number = self.number(name, 0)?;
        if number == expected as i64 {
            return Ok(());
        }
        Err(Fault::Here(format!(
            "{name} is {number}; expected {expected}, as numbers have no gaps and do not repeat"
        )))
    }
}
