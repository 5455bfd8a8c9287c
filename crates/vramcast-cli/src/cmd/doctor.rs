//! `vramcast doctor`: what this machine can do.

use crate::{Exit, nvml, output};
use anyhow::Result;
use serde_json::json;
use vramcast::gpu;
use vramcast_candle::HAS_CUDA;

pub(crate) fn run(as_json: bool) -> Result<Exit> {
    let cards = nvml::cards();
    if as_json {
        output::print_json(&json!({
            "version": env!("CARGO_PKG_VERSION"),
            "candle": vramcast::candle::VERSION,
            "cuda_build": HAS_CUDA,
            "cards": cards.as_ref().ok(),
            "nvml_error": cards.as_ref().err().map(|e| e.to_string()),
        }))?;
        return Ok(Exit::Fine);
    }
    let build = if HAS_CUDA {
        "with CUDA"
    } else {
        "without CUDA (build with --features cuda)"
    };
    let mut text = format!(
        "vramcast {} for candle {}, built {build}\n",
        env!("CARGO_PKG_VERSION"),
        vramcast::candle::VERSION
    );
    match cards {
        Err(error) => text += &format!("{error}: predictions work, probes run on the CPU\n"),
        Ok(cards) => {
            for card in cards {
                let known = match gpu::find(&card.name) {
                    Some(known) => format!("known as {}", known.name),
                    None => "not in the table of cards: use --capacity".to_owned(),
                };
                text += &format!(
                    "card {}: {}, driver {}, {} in all, {} used, {} kept by the driver; {known}\n",
                    card.index, card.name, card.driver, card.total, card.used, card.reserved
                );
                if !card.tenants.is_empty() {
                    text += &format!("  {} other process(es) on it\n", card.tenants.len());
                }
                if card.mig {
                    text += "  cut into instances (MIG): NVML shows the whole card\n";
                }
            }
        }
    }
    output::print_text(&text)?;
    Ok(Exit::Fine)
}
