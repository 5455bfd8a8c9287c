//! Small tokenizers in the forms of well-known ones.

use serde_json::{Value, json};

/// One of every form: BERT's, RoBERTa's, RoBERTa's with a space put first, XLM-RoBERTa's, the same as
/// transformers 5 writes it, and one of which nothing is known.
pub(crate) const ALL: [fn() -> String; 6] = [
    bert,
    gpt2,
    || byte_level(true),
    sentencepiece,
    sentencepiece_alone,
    llama,
];

fn tokenizer(parts: &Value) -> String {
    let mut all = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
    });
    for (name, part) in parts.as_object().unwrap() {
        all[name] = part.clone();
    }
    all.to_string()
}

/// Special tokens from 0 on, and one that a user added.
fn added(special: &[&str], next: usize) -> Value {
    let token = |(id, content): (usize, &&str)| {
        json!({
            "id": id, "content": content, "special": true, "normalized": false,
            "single_word": false, "lstrip": *content == "<mask>", "rstrip": false,
        })
    };
    let mut tokens: Vec<Value> = special.iter().enumerate().map(token).collect();
    tokens.push(json!({
        "id": next, "content": "covid", "special": false, "normalized": true,
        "single_word": false, "lstrip": false, "rstrip": false,
    }));
    tokens.into()
}

fn around(before: Option<(&str, u32)>, after: (&str, u32)) -> Value {
    let special = |(name, _): (&str, u32)| json!({"SpecialToken": {"id": name, "type_id": 0}});
    let mut single = vec![
        json!({"Sequence": {"id": "A", "type_id": 0}}),
        special(after),
    ];
    if let Some(before) = before {
        single.insert(0, special(before));
    }
    let mut tokens = json!({});
    for (name, id) in before.into_iter().chain([after]) {
        tokens[name] = json!({"id": name, "ids": [id], "tokens": [name]});
    }
    json!({"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": tokens})
}

pub(crate) fn bert() -> String {
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
    let letters = ('a'..='z').map(|c| c.to_string());
    let others = ["the", "cat", "##at", "##he", "中", "½", "ß", "##ß", "한"].map(str::to_owned);
    let signs = ('!'..='~')
        .filter(|c| !c.is_ascii_lowercase())
        .map(|c| c.to_string());
    let words = special.map(str::to_owned).into_iter();
    let words = words
        .chain(letters.clone())
        .chain(letters.map(|c| format!("##{c}")));
    let words: Vec<String> = words.chain(others).chain(signs).collect();
    let vocab: Value = words
        .iter()
        .enumerate()
        .map(|(i, w)| (w.clone(), json!(i)))
        .collect();
    tokenizer(&json!({
        "added_tokens": added(&special, words.len()),
        "normalizer": {
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": around(Some(("[CLS]", 2)), ("[SEP]", 3)),
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab,
        },
    }))
}

pub(crate) fn gpt2() -> String {
    byte_level(false)
}

fn byte_level(add_prefix_space: bool) -> String {
    let special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"];
    let mut bytes: Vec<char> = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet()
        .into_iter()
        .collect();
    bytes.sort_unstable();
    let merges = [
        ("t", "h"),
        ("th", "e"),
        ("Ġ", "the"),
        ("c", "a"),
        ("ca", "t"),
        ("Ġ", "cat"),
        ("'", "s"),
        ("Ġ", "Ġ"),
        (".", "."),
        ("1", "2"),
        ("Ã", "©"),
        ("Ċ", "Ċ"),
        ("Ġ", "1"),
        ("r", "e"),
    ];
    let words = special.map(str::to_owned).into_iter();
    let words = words.chain(bytes.iter().map(char::to_string));
    let words: Vec<String> = words
        .chain(merges.map(|(a, b)| format!("{a}{b}")))
        .collect();
    let vocab: Value = words
        .iter()
        .enumerate()
        .map(|(i, w)| (w.clone(), json!(i)))
        .collect();
    let merges: Vec<String> = merges.map(|(a, b)| format!("{a} {b}")).into();
    tokenizer(&json!({
        "added_tokens": added(&special, words.len()),
        "pre_tokenizer": {
            "type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true,
            "use_regex": true,
        },
        "post_processor": around(Some(("<s>", 0)), ("</s>", 2)),
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": false, "vocab": vocab, "merges": merges,
        },
    }))
}

/// transformers 4: whitespace goes away, then every word gets its sign.
pub(crate) fn sentencepiece() -> String {
    unigram(
        json!({"type": "NFKC"}),
        json!({"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"},
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
        ]}),
    )
}

/// transformers 5.
fn sentencepiece_alone() -> String {
    unigram(
        json!({"type": "Sequence", "normalizers": [
            {"type": "Nmt"},
            {"type": "NFKC"},
            {"type": "Strip", "strip_left": false, "strip_right": true},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
        ]}),
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}),
    )
}

fn unigram(normalizer: Value, pre_tokenizer: Value) -> String {
    let special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"];
    let words = [
        ("▁", -2.0),
        ("▁the", -3.0),
        ("▁cat", -4.0),
        ("the", -5.0),
        ("at", -4.5),
        ("th", -5.0),
        ("▁▁", -6.0),
        ("s", -5.5),
        ("'s", -5.0),
        (".", -4.0),
        ("...", -5.0),
        ("中", -7.0),
    ];
    let letters = ('a'..='z').map(|c| json!([c.to_string(), -8.0]));
    let vocab: Vec<Value> = special
        .iter()
        .map(|word| json!([word, 0.0]))
        .chain(words.iter().map(|(word, score)| json!([word, score])))
        .chain(letters.filter(|entry| entry[0] != "s"))
        .collect();
    tokenizer(&json!({
        "added_tokens": added(&special, vocab.len()),
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": around(None, ("</s>", 2)),
        "model": {"type": "Unigram", "unk_id": 3, "vocab": vocab},
    }))
}

/// A whole text is one word: merges may reach across anything.
fn llama() -> String {
    let mut words: Vec<String> = vec!["<unk>".to_owned()];
    words.extend(('a'..='z').map(|c| c.to_string()));
    words.extend(["▁", "▁t", "e▁"].map(str::to_owned));
    let vocab: Value = words
        .iter()
        .enumerate()
        .map(|(i, w)| (w.clone(), json!(i)))
        .collect();
    tokenizer(&json!({
        "added_tokens": added(&["<unk>"], words.len()),
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ]},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "vocab": vocab,
            "merges": ["▁ t", "e ▁"],
        },
    }))
}
