//! How fast tokens are counted, on one core: bytes of a text like English that was not seen before.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::models::wordpiece::{WordPiece, WordPieceTrainer};
use tokenizers::models::{ModelWrapper, TrainerWrapper};
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Tokenizer};
use vramcast_tokens::{Counter, Documents, Format};

/// A generator of numbers, the same in every run.
struct Dice(u64);

impl Dice {
    /// From 0 to 1.
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A rank. The first thousands follow Zipf's law; of the others there are ever more, some 170,000 in
/// 30 MB, as in encyclopedias.
fn rank(dice: &mut Dice) -> u64 {
    const COMMON: f64 = 8000.0;
    let at = dice.roll();
    if dice.roll() < 0.9 {
        COMMON.powf(at) as u64
    } else {
        (COMMON * (1.0 - at).powf(-1.0 / 0.7)) as u64
    }
}

/// The word of a rank; the more frequent, the shorter.
fn word(rank: u64) -> String {
    const BEGIN: [&str; 16] = [
        "t", "s", "w", "c", "b", "p", "h", "f", "m", "d", "r", "l", "n", "g", "st", "th",
    ];
    const END: [&str; 12] = [
        "e", "a", "o", "i", "er", "in", "en", "an", "on", "at", "es", "ing",
    ];
    let (mut word, mut rest) = (String::new(), rank);
    loop {
        word += BEGIN[(rest % 16) as usize];
        word += END[(rest / 16 % 12) as usize];
        rest /= 192;
        if rest == 0 {
            return word;
        }
    }
}

/// Lines of up to 200 words, with sentences and numbers.
fn text(bytes: usize, seed: u64) -> String {
    let (mut dice, mut text) = (Dice(seed), String::new());
    while text.len() < bytes {
        let words = 1 + (dice.roll() * 200.0) as usize;
        let mut begins = true;
        for i in 0..words {
            if i > 0 {
                text.push(' ');
            }
            let mut next = word(rank(&mut dice));
            if dice.roll() < 0.02 {
                next = ((dice.roll() * 3000.0) as u64).to_string();
            }
            if begins || dice.roll() < 0.05 {
                next[..1].make_ascii_uppercase();
            }
            text += &next;
            let sign = dice.roll();
            begins = sign < 0.06;
            text += match sign {
                ..0.06 => ".",
                ..0.12 => ",",
                ..0.13 => "'s",
                _ => "",
            };
        }
        text.push('\n');
    }
    text
}

fn trained(mut tokenizer: Tokenizer, mut trainer: TrainerWrapper) -> Counter {
    let sample = text(2_000_000, 1);
    tokenizer
        .train(&mut trainer, sample.lines())
        .expect("a text to train on");
    Counter::new(tokenizer).expect("a tokenizer")
}

fn bert() -> Counter {
    let model = WordPiece::builder().unk_token("[UNK]".to_owned()).build();
    let mut tokenizer = Tokenizer::new(ModelWrapper::from(model.expect("an empty vocabulary")));
    tokenizer
        .with_normalizer(Some(BertNormalizer::default()))
        .expect("no tokens to normalize")
        .with_pre_tokenizer(Some(BertPreTokenizer));
    let trainer = WordPieceTrainer::builder()
        .vocab_size(30_000)
        .show_progress(false)
        .special_tokens(vec![AddedToken::from("[UNK]", true)])
        .build();
    trained(tokenizer, trainer.into())
}

fn roberta() -> Counter {
    let mut tokenizer = Tokenizer::new(BPE::default());
    tokenizer.with_pre_tokenizer(Some(ByteLevel::default().add_prefix_space(false)));
    let trainer = BpeTrainer::builder()
        .vocab_size(30_000)
        .show_progress(false)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    trained(tokenizer, trainer.into())
}

fn benches(criterion: &mut Criterion) {
    let lines = text(30_000_000, 2);
    let object = |line: &str| format!("{}\n", serde_json::json!({"id": 1, "text": line}));
    let json: String = lines.lines().map(object).collect();
    let mut group = criterion.benchmark_group("30 MB of text");
    group
        .sample_size(10)
        .throughput(Throughput::Bytes(lines.len() as u64));
    for (name, make) in [
        ("WordPiece", bert as fn() -> Counter),
        ("byte-level BPE", roberta),
    ] {
        let fresh = make();
        for (format, input) in [(Format::Text, &lines), (Format::JsonLines, &json)] {
            group.bench_function(format!("{name}, {format:?}"), |b| {
                b.iter_batched(
                    || fresh.clone(),
                    |mut counter| {
                        let mut documents = Documents::new(input.as_bytes(), format, "text");
                        let (mut document, mut tokens) = (String::new(), 0);
                        while documents.read(&mut document).expect("nothing is broken") {
                            tokens += counter.count(&document).expect("every text has tokens");
                        }
                        black_box(tokens)
                    },
                    criterion::BatchSize::PerIteration,
                );
            });
        }
    }
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
