//! Where a text may be cut so that the tokens of the pieces are the tokens of the text.
//!
//! A cut is exact if no normalizer looks across it and the pre-tokenizer cuts there in any case,
//! since a model sees nothing but what the pre-tokenizer hands it. Which cuts are is read off their
//! configuration; of what is not known here nothing is assumed, and texts stay whole.

use serde_json::Value;

/// How a tokenizer finds words, which decides where its texts may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// BERT's: whitespace goes away, and every punctuation mark is a word.
    Bert,
    /// Whitespace goes away: what is on its sides never meets. SentencePiece models as transformers
    /// 4 has them.
    Whitespace,
    /// The regular expression of GPT-2 and RoBERTa: a word begins with the whitespace before it, and
    /// is all letters, all digits or all of other characters, but for contractions.
    Gpt2,
    /// A word begins with the space before it. A Metaspace alone, and a byte-level pre-tokenizer
    /// that puts a space before what has none.
    Space,
}

impl Cut {
    /// What the components of a tokenizer allow, as their JSON has them; `None` if texts must stay
    /// whole.
    pub fn of(normalizer: &Value, pre_tokenizer: &Value) -> Option<Self> {
        let plain = |known: &[&str]| known.contains(&kind(normalizer));
        let cut = match (kind(pre_tokenizer), pre_tokenizer) {
            ("BertPreTokenizer", _) if plain(&["", "BertNormalizer"]) => Self::Bert,
            ("ByteLevel", it)
                if it["use_regex"] != false
                    && plain(&["", "Lowercase", "NFC", "NFD", "NFKC", "NFKD"]) =>
            {
                if it["add_prefix_space"] == false {
                    Self::Gpt2
                } else {
                    Self::Space
                }
            }
            ("Metaspace", it) if it["split"] != false => Self::Space,
            // What follows sees one word at a time.
            ("Sequence", it) if drops_whitespace(&it["pretokenizers"][0]) => Self::Whitespace,
            _ if drops_whitespace(pre_tokenizer) => Self::Whitespace,
            _ => return None,
        };
        cut.survives(normalizer).then_some(cut)
    }

    /// Whether a normalizer works on each side of a cut as if the other were not there, and leaves
    /// a cut where one was.
    fn survives(self, normalizer: &Value) -> bool {
        match kind(normalizer) {
            "Sequence" => normalizer["normalizers"]
                .as_array()
                .is_some_and(|all| all.iter().all(|one| self.survives(one))),
            // Nothing, or one character at a time, or along combining marks, which a space ends; a
            // SentencePiece map works on grapheme clusters, which a space ends too.
            "" | "BertNormalizer" | "Lowercase" | "NFC" | "NFD" | "NFKC" | "NFKD" | "Nmt"
            | "StripAccents" | "Precompiled" => true,
            // A piece begins with whitespace, and only the last one ends with it.
            "Strip" => normalizer["strip_left"] == false || self == Self::Whitespace,
            "Replace" => {
                let spaced = |text: &str| text.contains(char::is_whitespace);
                let content = normalizer["content"].as_str().unwrap_or(" ");
                let pattern = &normalizer["pattern"];
                match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
                    (Some(text), _) => !text.is_empty() && !spaced(text) && !spaced(content),
                    // As transformers writes it: whole runs of spaces, which are never cut.
                    (_, Some(" {2,}")) => content == " " || (content == "▁" && self == Self::Space),
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// The pieces of a text, in order; together they are the text, but for whitespace that goes
    /// away.
    pub fn pieces(self, text: &str) -> impl Iterator<Item = &str> {
        let bytes = text.as_bytes();
        let mut from = 0;
        std::iter::from_fn(move || {
            let begin = from;
            if begin == bytes.len() {
                return None;
            }
            from += 1;
            while from < bytes.len() && !self.is_between(text, from) {
                from += 1;
            }
            let piece = &text[begin..from];
            Some(match self {
                Self::Bert => piece.trim_ascii(),
                Self::Whitespace | Self::Gpt2 | Self::Space => piece,
            })
        })
    }

    /// Whether there is a cut before the byte at `at`, which is not the first.
    #[inline]
    fn is_between(self, text: &str, at: usize) -> bool {
        let bytes = text.as_bytes();
        let (before, after) = (bytes[at - 1], bytes[at]);
        match self {
            Self::Bert => {
                let alone = |byte: u8| byte.is_ascii_punctuation() || is_space(byte);
                alone(after) || alone(before)
            }
            Self::Whitespace => is_space(after) && ends_word(text, at),
            Self::Gpt2 => {
                if is_space(after) {
                    ends_word(text, at)
                } else {
                    before.is_ascii_graphic()
                        && after.is_ascii_graphic()
                        // What follows an apostrophe may be its contraction.
                        && before != b'\''
                        && class(before) != class(after)
                }
            }
            Self::Space => after == b' ' && ends_word(text, at),
        }
    }

    /// A cut that is made in fewer places, for where this one is made in too many.
    pub(crate) fn coarser(self) -> Option<Self> {
        match self {
            Self::Bert => Some(Self::Whitespace),
            Self::Gpt2 => Some(Self::Space),
            Self::Whitespace | Self::Space => None,
        }
    }

    /// Whether a piece, once normalized, still begins and ends as a piece must.
    pub(crate) fn holds(self, piece: &str, normalized: &str) -> bool {
        let is_space = |c: char| c.is_whitespace() || c == '▁';
        match self {
            Self::Bert | Self::Whitespace => true,
            Self::Gpt2 | Self::Space => {
                normalized.starts_with(is_space) == piece.starts_with(is_space)
                    && normalized.ends_with(is_space) == piece.ends_with(is_space)
            }
        }
    }
}

fn drops_whitespace(pre_tokenizer: &Value) -> bool {
    ["BertPreTokenizer", "Whitespace", "WhitespaceSplit"].contains(&kind(pre_tokenizer))
}

fn kind(component: &Value) -> &str {
    component["type"].as_str().unwrap_or("")
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\r')
}

/// Letters, digits and other visible ASCII.
fn class(byte: u8) -> u8 {
    match byte {
        _ if byte.is_ascii_alphabetic() => 0,
        _ if byte.is_ascii_digit() => 1,
        _ => 2,
    }
}

/// Whether the character before `at` is of a word, whatever a normalizer makes of it: visible ASCII
/// or a letter or digit of the basic plane. U+0D4E, a letter, forms a grapheme cluster with what
/// follows.
fn ends_word(text: &str, at: usize) -> bool {
    match text.as_bytes()[at - 1] {
        byte if byte.is_ascii() => byte.is_ascii_graphic(),
        _ => text[..at]
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() && c < '\u{10000}' && c != '\u{D4E}'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use unicode_segmentation::UnicodeSegmentation;

    #[test]
    fn what_a_tokenizer_does_to_whitespace_decides_where_texts_are_cut() {
        let bert = json!({"type": "BertPreTokenizer"});
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true});
        let meta = json!({"type": "Metaspace", "replacement": "▁", "split": true});
        let split = json!({"type": "WhitespaceSplit"});
        let lower = json!({"type": "BertNormalizer", "lowercase": true});
        let spaces = json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"});
        let strip = |left| json!({"type": "Strip", "strip_left": left, "strip_right": true});
        let quote = json!({"type": "Replace", "pattern": {"String": "``"}, "content": "\""});
        let llama = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        let sequence =
            |of: &[&Value]| json!({"type": "Sequence", "normalizers": of, "pretokenizers": of});
        for (normalizer, pre_tokenizer, expected) in [
            (lower.clone(), bert, Some(Cut::Bert)),
            (Value::Null, bytes.clone(), Some(Cut::Gpt2)),
            (json!({"type": "NFC"}), bytes.clone(), Some(Cut::Gpt2)),
            (
                Value::Null,
                json!({"type": "ByteLevel", "use_regex": false}),
                None,
            ),
            (
                sequence(&[&strip(false), &spaces]),
                meta.clone(),
                Some(Cut::Space),
            ),
            (strip(true), meta.clone(), None),
            (quote, sequence(&[&split, &meta]), Some(Cut::Whitespace)),
            (Value::Null, sequence(&[&meta, &split]), None),
            (llama, meta, None),
            (json!({"type": "Prepend", "prepend": "▁"}), split, None),
            (spaces, bytes, None),
            (Value::Null, Value::Null, None),
            (lower, json!({"type": "Split"}), None),
        ] {
            let cut = Cut::of(&normalizer, &pre_tokenizer);
            assert_eq!(cut, expected, "{normalizer} {pre_tokenizer}");
        }
    }

    #[test]
    fn a_piece_begins_where_a_word_must() {
        let check = |cut: Cut, text, expected: &[&str]| {
            assert_eq!(cut.pieces(text).collect::<Vec<_>>(), expected, "{cut:?}");
        };
        let text = " a  b\n c, \u{a0} d\u{a0} e";
        check(
            Cut::Gpt2,
            text,
            &[" a", "  b", "\n c", ",", " \u{a0} d\u{a0} e"],
        );
        check(Cut::Space, text, &[" a", "  b\n c,", " \u{a0} d\u{a0} e"]);
        check(Cut::Whitespace, "", &[]);
        check(Cut::Whitespace, "été über", &["été", " über"]);
        check(Cut::Bert, "a (b) ", &["a", "", "(", "b", ")", ""]);
        check(
            Cut::Gpt2,
            "it's 3rd-x!?",
            &["it", "'s", " 3", "rd", "-", "x", "!?"],
        );
    }

    #[test]
    fn no_grapheme_cluster_reaches_across_a_cut() {
        for c in '\0'..=char::MAX {
            let text = format!("{c} a");
            if ends_word(&text, c.len_utf8()) {
                assert_eq!(text.graphemes(true).count(), 3, "{:x}", c as u32);
            }
        }
    }
}
