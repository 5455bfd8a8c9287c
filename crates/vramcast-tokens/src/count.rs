//! How many tokens a text has.

use crate::cut::Cut;
use crate::plain::Plain;
use ahash::AHashMap;
use aho_corasick::AhoCorasick;
use compact_str::CompactString;
use serde::Serialize;
use serde_json::Value;
use tokenizers::{
    Model, ModelWrapper, NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizer,
    Tokenizer,
};

/// Pieces that are remembered: as many as a hash table of 2^20 places takes, about 40 MB. When there
/// are more they are forgotten, all at once: those that are frequent come back at once.
const MOST_PIECES: usize = (1 << 20) / 8 * 7;

/// Longer pieces, in bytes, are not worth remembering.
const LONGEST_PIECE: usize = 128;

/// The count of a piece that says nothing about its text: it must be tokenized as a whole.
const WHOLE: u32 = u32::MAX;

/// A tokenizer that cannot be used, or cannot take a text, in its own words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TokenizerError(String);

impl From<tokenizers::Error> for TokenizerError {
    fn from(error: tokenizers::Error) -> Self {
        Self(error.to_string())
    }
}

/// A tokenizer, and what it made of the pieces of text that it has seen.
#[derive(Clone)]
pub struct Counter {
    tokenizer: Tokenizer,
    special: u64,
    cut: Option<Cut>,
    plain: Option<Plain>,
    /// The word of a plain piece.
    word: String,
    /// Finds added tokens that may lie across a cut.
    across: AhoCorasick,
    seen: AHashMap<CompactString, u32>,
}

impl Counter {
    /// A counter that does what a `tokenizer.json` says, but for truncation, padding and BPE's
    /// dropout, which are switched off.
    ///
    /// # Errors
    /// A text that is no tokenizer.
    pub fn from_json(json: &[u8]) -> Result<Self, TokenizerError> {
        let mut tokenizer = Tokenizer::from_bytes(json)?;
        tokenizer.with_truncation(None)?;
        tokenizer.with_padding(None);
        if let ModelWrapper::BPE(model) = tokenizer.get_model() {
            let mut model = model.clone();
            model.dropout = None;
            tokenizer.with_model(model);
        }
        Self::new(tokenizer)
    }

    /// As [`Self::from_json`], of a tokenizer that does neither truncate nor pad.
    ///
    /// # Errors
    /// A tokenizer that cannot tokenize.
    pub fn new(tokenizer: Tokenizer) -> Result<Self, TokenizerError> {
        let special = tokenizer.encode_fast("", true)?.len() as u64;
        let (cut, across) = cut(&tokenizer, special)?;
        let across = AhoCorasick::new(across).map_err(|error| TokenizerError(error.to_string()))?;
        let added = tokenizer.get_added_tokens_decoder();
        let added = added.values().map(|token| token.content.as_str());
        let plain = Plain::of(cut, &json(tokenizer.get_normalizer())?, added);
        Ok(Self {
            tokenizer,
            special,
            cut,
            plain,
            word: String::new(),
            across,
            seen: AHashMap::new(),
        })
    }

    /// The tokens that are added to every text, such as `[CLS]` and `[SEP]`.
    pub fn special(&self) -> u64 {
        self.special
    }

    /// Where texts are cut; `None` if they are tokenized as a whole, which is slower.
    pub fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// The tokens of a text, those that are added included.
    ///
    /// # Errors
    /// A text that the tokenizer has no tokens for.
    pub fn count(&mut self, text: &str) -> Result<u64, TokenizerError> {
        let Some(cut) = self.cut else {
            return self.whole(text);
        };
        if self.across.is_match(text) {
            return self.whole(text);
        }
        let mut count = self.special;
        for piece in cut.pieces(text) {
            let tokens = match self.seen.get(piece) {
                Some(&tokens) => tokens,
                None => self.learn(piece, cut)?,
            };
            if tokens == WHOLE {
                return self.whole(text);
            }
            count += u64::from(tokens);
        }
        Ok(count)
    }

    fn whole(&self, text: &str) -> Result<u64, TokenizerError> {
        Ok(self.tokenizer.encode_fast(text, true)?.len() as u64)
    }

    /// The tokens of a piece that is new, or [`WHOLE`].
    fn learn(&mut self, piece: &str, cut: Cut) -> Result<u32, TokenizerError> {
        let plain = self.plain;
        let tokens = if plain.is_some_and(|plain| plain.write(piece, &mut self.word)) {
            let tokens = self.tokenizer.get_model().tokenize(&self.word)?.len();
            u32::try_from(tokens).unwrap_or(WHOLE)
        } else {
            self.tokens(piece, cut)?
        };
        if piece.len() <= LONGEST_PIECE {
            if self.seen.len() == MOST_PIECES {
                self.seen.clear();
            }
            self.seen.insert(piece.into(), tokens);
        }
        Ok(tokens)
    }

    /// The tokens of a piece, or [`WHOLE`]: what `encode` does, less the encoding.
    fn tokens(&self, piece: &str, cut: Cut) -> Result<u32, TokenizerError> {
        let vocabulary = self.tokenizer.get_added_vocabulary();
        let normalized = vocabulary.extract_and_normalize(self.tokenizer.get_normalizer(), piece);
        let parts = normalized.get_splits(OffsetReferential::Original, OffsetType::None);
        // An added token splits its text before anything else is done to it.
        let ordinary = match parts.as_slice() {
            [] => cut.holds(piece, ""),
            [(text, _, None)] => cut.holds(piece, text),
            _ => false,
        };
        if !ordinary {
            return Ok(WHOLE);
        }
        let mut words = normalized;
        if let Some(pre_tokenizer) = self.tokenizer.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut words)?;
        }
        let mut tokens = 0;
        for (word, _, _) in words.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            tokens += self.tokenizer.get_model().tokenize(word)?.len();
        }
        Ok(u32::try_from(tokens).unwrap_or(WHOLE))
    }
}

/// A component of a tokenizer, or that there is none.
fn json(component: Option<&impl Serialize>) -> Result<Value, TokenizerError> {
    serde_json::to_value(component).map_err(|error| TokenizerError(error.to_string()))
}

/// Where the texts of a tokenizer may be cut, if at all, and which added tokens may then lie across
/// a cut.
fn cut(tokenizer: &Tokenizer, special: u64) -> Result<(Option<Cut>, Vec<String>), TokenizerError> {
    let normalizer = json(tokenizer.get_normalizer())?;
    let pre_tokenizer = json(tokenizer.get_pre_tokenizer())?;
    // What is added must not depend on the text.
    let mut cut = Cut::of(&normalizer, &pre_tokenizer);
    for text in ["a", "a b"] {
        let bare = tokenizer.encode_fast(text, false)?.len() as u64;
        if tokenizer.encode_fast(text, true)?.len() as u64 != bare + special {
            cut = None;
        }
    }
    while let Some(tried) = cut {
        if let Some(across) = across(tokenizer, tried)? {
            return Ok((cut, across));
        }
        cut = tried.coarser();
    }
    Ok((None, Vec::new()))
}

/// The added tokens that may lie across a cut; `None` if there is one that cannot be searched for,
/// since the tokenizer looks for it in normalized text.
fn across(tokenizer: &Tokenizer, cut: Cut) -> Result<Option<Vec<String>>, TokenizerError> {
    let lies_across = |text: &str| cut.pieces(text).nth(1).is_some();
    let mut across = Vec::new();
    for token in tokenizer.get_added_tokens_decoder().into_values() {
        match tokenizer.get_normalizer() {
            Some(normalizer) if token.normalized => {
                let mut normalized = NormalizedString::from(token.content.as_str());
                normalizer.normalize(&mut normalized)?;
                let text = normalized.get();
                // A sign and its combining mark may have become one character.
                if lies_across(text) || (cut == Cut::Gpt2 && !text.is_ascii()) {
                    return Ok(None);
                }
            }
            _ if lies_across(&token.content) => across.push(token.content),
            _ => {}
        }
    }
    Ok(Some(across))
}
