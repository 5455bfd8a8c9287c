//! A counter's counts are the numbers of tokens that the tokenizer itself makes of the same texts.

mod tokenizers_of_our_own;

use proptest::prelude::*;
use std::str::FromStr;
use tokenizers::Tokenizer;
use tokenizers_of_our_own::{ALL, bert, gpt2, sentencepiece};
use vramcast_tokens::{Counter, Cut};

/// A counter and its tokenizer must agree on every text, the first time and when they remember.
fn check(json: &str, texts: &[&str]) {
    let tokenizer = plain(json);
    let mut counter = Counter::from_json(json.as_bytes()).unwrap();
    for text in texts.iter().chain(texts) {
        let expected = tokenizer.encode(*text, true).unwrap().len() as u64;
        assert_eq!(counter.count(text).unwrap(), expected, "{text:?}");
    }
}

/// A tokenizer that neither truncates nor pads.
fn plain(json: &str) -> Tokenizer {
    let mut tokenizer = Tokenizer::from_str(json).unwrap();
    tokenizer.with_truncation(None).unwrap();
    tokenizer.with_padding(None);
    tokenizer
}

#[test]
fn texts_are_cut_as_their_tokenizer_allows() {
    let cuts = ALL.map(|make| Counter::from_json(make().as_bytes()).unwrap().cut());
    let expected = [
        Some(Cut::Bert),
        Some(Cut::Gpt2),
        Some(Cut::Space),
        Some(Cut::Whitespace),
        Some(Cut::Space),
        None,
    ];
    assert_eq!(cuts, expected);
}

#[test]
fn what_is_added_is_counted() {
    for (make, special) in ALL.iter().zip([2, 2, 2, 1, 1, 0]) {
        let mut counter = Counter::from_json(make().as_bytes()).unwrap();
        assert_eq!(counter.special(), special);
        assert_eq!(counter.count("").unwrap(), special);
    }
}

#[test]
fn truncation_and_padding_are_off() {
    let mut json: serde_json::Value = serde_json::from_str(&bert()).unwrap();
    json["truncation"] = serde_json::json!({
        "direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0
    });
    json["padding"] = serde_json::json!({
        "strategy": {"Fixed": 4}, "direction": "Right", "pad_to_multiple_of": null,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"
    });
    let mut counter = Counter::from_json(json.to_string().as_bytes()).unwrap();
    assert_eq!(counter.count("the").unwrap(), 3);
    assert_eq!(counter.count("the cat the cat").unwrap(), 6);
}

#[test]
fn dropout_is_off() {
    let mut json: serde_json::Value = serde_json::from_str(&gpt2()).unwrap();
    json["model"]["dropout"] = serde_json::json!(1.0);
    let mut counter = Counter::from_json(json.to_string().as_bytes()).unwrap();
    assert_eq!(counter.count("the cat").unwrap(), 4);
}

#[test]
fn tokens_that_occur_in_a_text_are_one_token_each() {
    let texts = [
        "[MASK]",
        "the [MASK] cat",
        "the[MASK]cat",
        "[ MASK ]",
        "[mask]",
        "<mask>",
        "a <mask> b",
        "a<s>b</s>",
        "< s >",
        "<|endoftext|>",
        "covid",
        "covid-19",
        "COVID",
        "no covids",
        "new york",
        "in New York",
        "new  york",
    ];
    for make in ALL {
        check(&make(), &texts);
    }
}

#[test]
fn an_added_token_of_two_words_keeps_texts_whole_where_it_is_searched_in_normalized_text() {
    for (make, cut) in [
        (bert as fn() -> String, None),
        (gpt2, Some(Cut::Gpt2)),
        (sentencepiece, None),
    ] {
        let mut tokenizer = plain(&make());
        let token = tokenizers::AddedToken::from("new york", false);
        tokenizer.add_tokens([token]).unwrap();
        let json = tokenizer.to_string(false).unwrap();
        let counter = Counter::from_json(json.as_bytes()).unwrap();
        assert_eq!(counter.cut(), cut);
        check(&json, &["new york", "in new york, New York", "new", "york"]);
    }
}

#[test]
fn every_character_between_words_counts_as_the_tokenizer_says() {
    for make in ALL {
        let tokenizer = plain(&make());
        let mut counter = Counter::from_json(make().as_bytes()).unwrap();
        for c in ('\0'..='\u{3100}').chain('\u{F900}'..='\u{FFFF}') {
            let text = format!("the{c} cat {c}the\n{c}=");
            let expected = tokenizer.encode_fast(text.as_str(), true).unwrap().len() as u64;
            assert_eq!(counter.count(&text).unwrap(), expected, "{text:?}");
        }
    }
}

/// What tokenizers stumble over.
fn nasty() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => prop::sample::select(vec![
            " ", "  ", "   ", "\n", "\r\n", "\t", "\u{a0}", "\u{3000}", "\u{200b}", "\u{200d}",
            "\u{feff}", "\u{85}", "\u{2028}", "\0", "\u{7f}", "\u{1b}", "\u{ad}", "\u{fffd}",
        ]).prop_map(str::to_owned),
        4 => prop::sample::select(vec![
            "the", "cat", "The", "CAT", "été", "e\u{301}", "über", "İ", "ß", "ﬁ", "Ａ", "中", "文字",
            "한국", "ไทย", "\u{94d}", "\u{d4e}", "\u{37a}", "\u{fdfa}", "\u{345}", "▁", "Ġ", "##a",
        ]).prop_map(str::to_owned),
        4 => prop::sample::select(vec![
            "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'", "''", "``", ".", ",", "...",
            "!?", "-", "--", "=\u{338}", "_", "$", "1", "42", "3.14", "a1", "1a", "²", "½", "।", "。",
        ]).prop_map(str::to_owned),
        2 => prop::sample::select(vec![
            "😀", "👩‍👩‍👧", "🇩🇪", "👍🏽", "\u{fe0f}", "[MASK]", "[CLS]", "<s>", "</s>", "<mask>", "covid",
        ]).prop_map(str::to_owned),
        2 => any::<char>().prop_map(String::from),
        1 => "[a-z]{1,120}",
    ];
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn any_text_counts_as_the_tokenizer_says(texts in prop::collection::vec(nasty(), 1..8)) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        for make in ALL {
            check(&make(), &texts);
        }
    }
}
