//! Documents out of plain text, JSON lines or CSV, one after the other.

use csv_core::{ReadRecordResult, Terminator};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::error::Category;
use std::fmt;
use std::io::{self, BufRead, Read};
use strum::{EnumString, VariantNames};

/// Longer lines and records, in bytes, are taken for broken: a tokenizer that gets a text in one piece
/// takes some 70 times its bytes.
pub const LONGEST: usize = 64 << 20;

/// How documents lie in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Format {
    /// Every line is one; those without a visible character are none.
    Text,
    /// A field of every line's JSON object.
    #[strum(serialize = "jsonl")]
    JsonLines,
    /// A column, named in the first line; fields in double quotes may have several lines.
    Csv,
}

/// Why there is no next document.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The input ends badly.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The first line of a CSV does not name the column.
    #[error("{0}")]
    Header(String),
    /// This document is broken, but more may follow.
    #[error("{reason}")]
    Broken {
        /// The line that it begins in, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
}

/// A stream of documents.
pub struct Documents<R> {
    lines: Lines<R>,
    format: Format,
    field: String,
    table: Option<Table>,
}

impl<R: BufRead> Documents<R> {
    /// The documents of a reader; `field` is that of JSON lines, or the column of a CSV.
    pub fn new(reader: R, format: Format, field: &str) -> Self {
        Self {
            lines: Lines {
                reader,
                line: Vec::new(),
                number: 0,
                inside: false,
            },
            format,
            field: field.to_owned(),
            table: None,
        }
    }

    /// The line that was read last, from 1.
    pub fn line(&self) -> u64 {
        self.lines.number
    }

    /// Puts the next document into `document`; false if there is none.
    ///
    /// # Errors
    /// See [`ReadError`]. After a broken document the next may be asked for.
    pub fn read(&mut self, document: &mut String) -> Result<bool, ReadError> {
        document.clear();
        match self.format {
            Format::Text => {
                if !self.lines.next_filled()? {
                    return Ok(false);
                }
                document.push_str(self.lines.text()?);
            }
            Format::JsonLines => {
                if !self.lines.next_filled()? {
                    return Ok(false);
                }
                let text = self.lines.text()?;
                read_field(text, &self.field, document)
                    .map_err(|reason| self.lines.broken(reason))?;
            }
            Format::Csv => {
                if self.table.is_none() {
                    let Some(table) = Table::new(&mut self.lines, &self.field)? else {
                        return Ok(false);
                    };
                    self.table = Some(table);
                }
                if let Some(table) = &mut self.table {
                    return table.read(&mut self.lines, document);
                }
            }
        }
        Ok(true)
    }
}

/// Lines with their numbers, however they end.
struct Lines<R> {
    reader: R,
    /// With its end.
    line: Vec<u8>,
    /// Of the line, from 1.
    number: u64,
    /// Whether the reader stands inside a line that is too long.
    inside: bool,
}

impl<R: BufRead> Lines<R> {
    /// Goes to the next line; false if there is none.
    fn next(&mut self) -> Result<bool, ReadError> {
        if std::mem::take(&mut self.inside) {
            self.reader.skip_until(b'\n')?;
        }
        self.line.clear();
        self.number += 1;
        let most = LONGEST as u64 + 1;
        (&mut self.reader)
            .take(most)
            .read_until(b'\n', &mut self.line)?;
        if self.line.len() > LONGEST {
            // Its end may never come, and whoever stops here need not wait for it.
            self.inside = !self.line.ends_with(b"\n");
            self.line.clear();
            return Err(self.broken(format!("longer than {} MiB", LONGEST >> 20)));
        }
        if self.number == 1 && self.line.starts_with(b"\xEF\xBB\xBF") {
            self.line.drain(..3);
            // Nothing but a mark is an empty line.
            return Ok(true);
        }
        Ok(!self.line.is_empty())
    }

    /// Goes to the next line that has anything to see.
    fn next_filled(&mut self) -> Result<bool, ReadError> {
        while self.next()? {
            if !self.line.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The line without its end.
    fn text(&self) -> Result<&str, ReadError> {
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        utf8(line).map_err(|reason| self.broken(reason))
    }

    fn broken(&self, reason: String) -> ReadError {
        ReadError::Broken {
            line: self.number,
            reason,
        }
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes)
        .map_err(|e| format!("not UTF-8 from byte {} on", e.valid_up_to() + 1))
}

/// Names that came with the data, fit for one line of an error: the first of them, without control
/// characters, and cut.
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    const MOST: usize = 20;
    const LONGEST_NAME: usize = 40;
    let mut names = names.peekable();
    let first = names.by_ref().take(MOST);
    let cut = |name: &str| -> String {
        let escaped = name.chars().flat_map(char::escape_debug);
        escaped.take(LONGEST_NAME).collect()
    };
    let mut list = first.map(cut).collect::<Vec<_>>().join(", ");
    if names.peek().is_some() {
        list += ", ...";
    }
    list
}

/// A CSV whose first line was read.
struct Table {
    parser: csv_core::Reader,
    /// The fields of a record, one after the other, and where each ends.
    fields: Vec<u8>,
    ends: Vec<usize>,
    columns: usize,
    column: usize,
}

impl Table {
    /// Reads the first line; `None` if there is none.
    fn new<R: BufRead>(lines: &mut Lines<R>, name: &str) -> Result<Option<Self>, ReadError> {
        let mut table = Self {
            parser: csv_core::ReaderBuilder::new()
                .terminator(Terminator::Any(b'\n'))
                .build(),
            fields: Vec::new(),
            ends: Vec::new(),
            columns: 0,
            column: 0,
        };
        if table.record(lines)?.is_none() {
            return Ok(None);
        }
        let names: Vec<_> = (0..table.ends.len())
            .map(|i| String::from_utf8_lossy(table.field(i)).into_owned())
            .collect();
        let Some(column) = names.iter().position(|n| n == name) else {
            let names = listed(names.iter().map(String::as_str));
            let reason = format!("no column `{name}`; there are: {names}");
            return Err(ReadError::Header(reason));
        };
        table.columns = names.len();
        table.column = column;
        Ok(Some(table))
    }

    fn read<R: BufRead>(
        &mut self,
        lines: &mut Lines<R>,
        document: &mut String,
    ) -> Result<bool, ReadError> {
        let Some(line) = self.record(lines)? else {
            return Ok(false);
        };
        let broken = |reason| ReadError::Broken { line, reason };
        if self.ends.len() != self.columns {
            return Err(broken(format!(
                "{} fields instead of {}",
                self.ends.len(),
                self.columns
            )));
        }
        document.push_str(utf8(self.field(self.column)).map_err(broken)?);
        Ok(true)
    }

    fn field(&self, i: usize) -> &[u8] {
        let from = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.fields[from..self.ends[i]]
    }

    /// Reads the next record; returns the line that it begins in, or `None` at the end.
    fn record<R: BufRead>(&mut self, lines: &mut Lines<R>) -> Result<Option<u64>, ReadError> {
        if !lines.next_filled()? {
            return Ok(None);
        }
        let line = lines.number;
        self.parser.reset();
        let (mut bytes, mut count) = (0, 0);
        loop {
            if !lines.line.ends_with(b"\n") {
                lines.line.push(b'\n');
            }
            // Room for all that the line can add.
            let commas = lines.line.iter().filter(|&&b| b == b',').count();
            self.fields.resize(bytes + lines.line.len(), 0);
            self.ends.resize(count + commas + 1, 0);
            let (result, _, more_bytes, more) = self.parser.read_record(
                &lines.line,
                &mut self.fields[bytes..],
                &mut self.ends[count..],
            );
            bytes += more_bytes;
            count += more;
            if let ReadRecordResult::Record = result {
                break;
            }
            // Inside quotes.
            let broken = |reason: &str| ReadError::Broken {
                line,
                reason: reason.to_owned(),
            };
            if !lines.next()? {
                return Err(broken("a quote that is never closed"));
            }
            if bytes + lines.line.len() > LONGEST {
                return Err(broken("a quote that is not closed for too long"));
            }
        }
        self.ends.truncate(count);
        // The end of a line may have two characters.
        if let Some(end) = self.ends.last_mut()
            && *end > 0
            && self.fields[*end - 1] == b'\r'
            && lines.line.ends_with(b"\r\n")
        {
            *end -= 1;
        }
        Ok(Some(line))
    }
}

/// Puts the text of an object's field into `document`.
fn read_field(json: &str, name: &str, document: &mut String) -> Result<(), String> {
    let mut parser = serde_json::Deserializer::from_str(json);
    let field = Field { name, document };
    let found = field.deserialize(&mut parser).and_then(|found| {
        parser.end()?;
        Ok(found)
    });
    match found {
        Ok(true) => Ok(()),
        Ok(false) => {
            let object: serde_json::Map<String, Value> =
                serde_json::from_str(json).unwrap_or_default();
            let names = listed(object.keys().map(String::as_str));
            Err(format!("no field `{name}`; there are: {names}"))
        }
        Err(error) => {
            // There is but one line, and its number is told elsewhere.
            let text = error.to_string();
            let text = text.split(" at line ").next().unwrap_or(&text);
            Err(match error.classify() {
                Category::Data => text.to_owned(),
                _ => format!("not JSON, or cut off: {text} in column {}", error.column()),
            })
        }
    }
}

/// Reads one field of an object, and passes over the others without keeping them; says whether it
/// was there.
struct Field<'a> {
    name: &'a str,
    document: &'a mut String,
}

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Field<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut found = false;
        while let Some(is_it) = map.next_key_seed(Is(self.name))? {
            if is_it {
                map.next_value_seed(Text {
                    name: self.name,
                    document: &mut *self.document,
                })?;
                found = true;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Whether a key is this one.
struct Is<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

/// Puts a string into `document`. Of fields of one name the last counts, as in Python.
struct Text<'a> {
    name: &'a str,
    document: &'a mut String,
}

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Text<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a string in `{}`", self.name)
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.document.clear();
        self.document.push_str(text);
        Ok(())
    }
}
