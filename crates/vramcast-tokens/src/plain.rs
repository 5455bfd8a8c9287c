//! Pieces of plain ASCII, of which normalizer and pre-tokenizer make one word in a way that can be
//! written down, many times as fast as they do it.

use crate::cut::Cut;
use serde_json::Value;

/// How a piece of ASCII letters, or of ASCII digits, becomes the word that the model sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plain {
    /// Letters are lowered.
    lowercase: bool,
    /// A space before the word stays, as byte-level tokenizers write it.
    spaced: bool,
}

/// A space, as byte-level tokenizers write it.
const SPACE: char = 'Ġ';

impl Plain {
    /// What a normalizer makes of ASCII; `None` if it is not known, or if one of the added tokens may
    /// lie within such a piece.
    pub(crate) fn of<'t>(
        cut: Option<Cut>,
        normalizer: &Value,
        mut added: impl Iterator<Item = &'t str>,
    ) -> Option<Self> {
        let spaced = match cut? {
            Cut::Bert => false,
            Cut::Gpt2 => true,
            Cut::Whitespace | Cut::Space => return None,
        };
        let lowercase = match normalizer["type"].as_str() {
            None | Some("NFC" | "NFD" | "NFKC" | "NFKD") => false,
            Some("Lowercase") => true,
            Some("BertNormalizer") => normalizer["lowercase"] != false,
            Some(_) => return None,
        };
        let within = |token: &str| {
            token
                .trim()
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric())
        };
        (!added.any(within)).then_some(Self { lowercase, spaced })
    }

    /// Writes the word of a piece, if it is such a piece.
    pub(crate) fn write(self, piece: &str, word: &mut String) -> bool {
        word.clear();
        let bare = match piece.strip_prefix(' ') {
            Some(bare) if self.spaced => {
                word.push(SPACE);
                bare
            }
            _ => piece,
        };
        let all = |is: fn(&u8) -> bool| bare.as_bytes().iter().all(is);
        if bare.is_empty() || !(all(u8::is_ascii_alphabetic) || all(u8::is_ascii_digit)) {
            return false;
        }
        let from = word.len();
        word.push_str(bare);
        if self.lowercase {
            word[from..].make_ascii_lowercase();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_pieces_become_the_word_that_the_model_sees() {
        let bert = json!({"type": "BertNormalizer", "lowercase": true});
        let cased = json!({"type": "BertNormalizer", "lowercase": false});
        for (cut, normalizer, piece, expected) in [
            (Cut::Bert, &bert, "The", Some("the")),
            (Cut::Bert, &cased, "The", Some("The")),
            (Cut::Bert, &bert, "1999", Some("1999")),
            (Cut::Bert, &bert, "été", None),
            (Cut::Bert, &bert, "", None),
            (Cut::Bert, &bert, " a", None),
            (Cut::Gpt2, &Value::Null, " The", Some("ĠThe")),
            (Cut::Gpt2, &Value::Null, "The", Some("The")),
            (Cut::Gpt2, &Value::Null, "  The", None),
            (Cut::Gpt2, &Value::Null, "'s", None),
            (Cut::Gpt2, &Value::Null, " ", None),
        ] {
            let plain = Plain::of(Some(cut), normalizer, ["[MASK]", "<s>"].into_iter()).unwrap();
            let mut word = "left over".to_owned();
            let found = plain.write(piece, &mut word).then_some(word.as_str());
            assert_eq!(found, expected, "{cut:?} {piece:?}");
        }
    }

    #[test]
    fn an_added_token_that_looks_like_a_word_leaves_nothing_plain() {
        for added in ["covid", " covid", "7"] {
            let plain = Plain::of(Some(Cut::Bert), &Value::Null, [added].into_iter());
            assert_eq!(plain, None, "{added:?}");
        }
    }
}
