//! What the page is given, as text of a page: no name, path or error becomes markup, and none hides
//! what it is.

use askama::filters::Escaper;
use std::fmt::{Result, Write};
use vramcast_chart::is_hidden;

/// Escapes what HTML takes for markup, and spells out characters that cannot be seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visible;

impl Escaper for Visible {
    fn write_escaped_str<W: Write>(&self, mut dest: W, text: &str) -> Result {
        for c in text.chars() {
            match c {
                '&' => dest.write_str("&amp;")?,
                '<' => dest.write_str("&lt;")?,
                '>' => dest.write_str("&gt;")?,
                '"' => dest.write_str("&quot;")?,
                '\'' => dest.write_str("&#39;")?,
                '\n' | '\t' => dest.write_char(c)?,
                c if is_hidden(c) => write!(dest, "{}", c.escape_unicode())?,
                c => dest.write_char(c)?,
            }
        }
        Ok(())
    }
}
