//! What the contexts of cards that this project did not measure rest on, and how often the rule was
//! right of cards that it had not seen.

use std::fmt::Write as _;
use vramcast::bytes::Bytes;
use vramcast::context::{CardContexts, READINGS, cards, of_others};

/// The section of the page.
pub(super) fn section() -> String {
    let read = || cards().iter().filter(|card| card.readings() > 0);
    let readings: usize = read().map(CardContexts::readings).sum();
    let holds: usize = read().map(held).sum();
    let ranks = || READINGS.iter().filter(|reading| reading.ranks);
    let end = |context: Option<u64>| Bytes(context.unwrap_or(0));
    let contexts = || ranks().map(|reading| reading.context());
    let mut text = format!(
        "## Contexts of other cards\n\n\
         PyTorch's message when memory runs out tells what the process has of the card, and what of it \
         PyTorch allocated and reserved; the rest is its context. In runs of this project that ended \
         so, it is NVML's figure within 11 MiB. {readings} such messages from {} cards stand in \
         `crates/vramcast/src/context/readings.rs`, each with where it was read. Another {}, from jobs \
         over several cards, are left out, since they hold NCCL's buffers, too: {} to {}.\n\n\
         A card is given its resident threads times the lowest and the highest median per thread of \
         all cards, and expects its own median, or the middle one of all. Where the interval comes from \
         the other cards alone, it holds {holds} of the {readings} readings.\n\n\
         | card | threads | readings | lowest | median | highest | interval of the others | held |\n\
         |---|---|---|---|---|---|---|---|\n",
        read().count(),
        ranks().count(),
        end(contexts().min()),
        end(contexts().max()),
    );
    for card in cards() {
        let others = of_others(card.gpu);
        let readings = if card.ours {
            "measured here".to_owned()
        } else {
            card.readings().to_string()
        };
        let _ = writeln!(
            text,
            "| {} | {} | {readings} | {} | {} | {} | {} to {} | {} of {} |",
            card.gpu.product,
            card.gpu.resident_threads(),
            end(card.contexts.first().copied()),
            Bytes(card.median()),
            end(card.contexts.last().copied()),
            others.low,
            others.high,
            held(card),
            card.contexts.len(),
        );
    }
    text + "\n"
}

/// How many of a card's contexts lie in the interval of the others.
fn held(card: &CardContexts) -> usize {
    let others = of_others(card.gpu);
    card.contexts.iter().filter(|&&c| others.holds(c)).count()
}
