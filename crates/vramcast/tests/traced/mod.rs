//! Records of PyTorch with the events of its allocator, and the models that they ran.

use flate2::read::GzDecoder;
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use vramcast::config::ModelConfig;
use vramcast::sequence::Seen;

/// The records of a file, one object a line.
pub(crate) fn records(file: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reports/records");
    let lines = BufReader::new(GzDecoder::new(File::open(folder.join(file)).unwrap())).lines();
    lines
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect()
}

/// Allocations and frees by number.
pub(crate) fn seen(events: &Value) -> Vec<Seen> {
    let events = events.as_array().unwrap().iter().map(|event| {
        let number = |i: usize| event[i].as_u64().unwrap();
        (event[0].as_str().unwrap(), number(1), number(2))
    });
    let events = events.filter(|event| matches!(event.0, "alloc" | "free_completed"));
    let (mut live, mut next) = (HashMap::new(), 0);
    let told = events.filter_map(|(action, address, size)| match action {
        "alloc" => {
            live.insert(address, next);
            next += 1;
            // The scalar of the first import has the default type, which the older scripts had set
            // to half precision; its block is the same.
            let size = if size == 2 && next == 1 { 4 } else { size };
            Some(Seen::Alloc(size))
        }
        _ => live.remove(&address).map(Seen::Free),
    });
    told.collect()
}

/// The configuration of a model by its name, or in a file of this repository; `None` where its
/// family is not known.
pub(crate) fn config_of(model: &str) -> Option<ModelConfig> {
    if !model.ends_with(".json") {
        return ModelConfig::known(model).ok();
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(model);
    Some(ModelConfig::from_json(&std::fs::read_to_string(file).unwrap()).unwrap())
}
