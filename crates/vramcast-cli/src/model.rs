//! Finding the model and the card that the user means.

use anyhow::{Context, Result, anyhow, bail};
use std::io::ErrorKind;
use std::path::Path;
use vramcast::config::{ModelConfig, quoted};
use vramcast::gpu::{self, GPUS, Gpu};

/// A known name, a path to a config.json, or a folder that holds one.
pub(crate) fn model(name: &str) -> Result<ModelConfig> {
    let path = Path::new(name);
    let file = match path.metadata() {
        Ok(found) if !found.is_dir() => path.to_path_buf(),
        Ok(_) if path.join("config.json").exists() => path.join("config.json"),
        // Any folder may have a model's name, an output folder most of all.
        Ok(_) => {
            let known = ModelConfig::known(name);
            return known
                .with_context(|| format!("{}: a folder without a config.json", quoted(name)));
        }
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("{}: cannot be read", quoted(name)));
        }
        // A name with a slash may be a hub name or a path; only what exists is a path.
        Err(_) if name.ends_with(".json") => bail!("{}: no such file", quoted(name)),
        Err(_) => return Ok(ModelConfig::known(name)?),
    };
    let text = read(&file).with_context(|| format!("{}: cannot be read", file.display()))?;
    ModelConfig::from_json(&text).map_err(|error| anyhow!("{}: {error}", file.display()))
}

/// More than any configuration has.
const LONGEST: u64 = 16 << 20;

/// A file's text, if it is one and no device or stream.
fn read(file: &Path) -> Result<String> {
    let about = file.metadata()?;
    if !about.is_file() || about.len() > LONGEST {
        bail!("not a configuration file");
    }
    Ok(std::fs::read_to_string(file)?)
}

/// A card by name.
pub(crate) fn card(name: &str) -> Result<&'static Gpu> {
    gpu::find(name).ok_or_else(|| {
        let mut near: Vec<(f64, &str)> = GPUS
            .iter()
            .map(|g| (strsim::jaro_winkler(&name.to_lowercase(), g.name), g.name))
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        let near: Vec<&str> = near.iter().take(3).map(|n| n.1).collect();
        anyhow!(
            "`{}` is not a known card; nearest: {}; `vramcast gpus` lists all, and --capacity \
             16GiB works for any other",
            quoted(name),
            near.join(", ")
        )
    })
}
