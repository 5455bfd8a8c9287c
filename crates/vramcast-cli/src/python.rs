//! What a Python has of what the probe of PyTorch needs, found without importing it: that takes
//! seconds.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};

/// The versions that are there.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Packages {
    /// PyTorch, with its build: `2.11.0+cu130`.
    pub(crate) torch: Option<String>,
    pub(crate) transformers: Option<String>,
}

/// A wheel's metadata may lack the build, which torch's own file has.
const SCRIPT: &str = r#"
import importlib.metadata, importlib.util, json, pathlib, runpy

def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None

def torch():
    spec = importlib.util.find_spec("torch")
    for folder in spec.submodule_search_locations if spec else []:
        file = pathlib.Path(folder, "version.py")
        if file.exists():
            return str(runpy.run_path(str(file))["__version__"])
    return version("torch")

print(json.dumps({"torch": torch(), "transformers": version("transformers")}))
"#;

/// The Python that was named, or the one on the path.
pub(crate) fn named(python: Option<&Path>) -> &Path {
    python.unwrap_or(Path::new("python3"))
}

/// Looks for them.
///
/// # Errors
/// A Python that cannot be started, or is none.
pub(crate) fn packages(python: &Path) -> Result<Packages> {
    let name = python.display();
    // In a folder of its own: Python finds what lies beside a script first.
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("versions.py");
    std::fs::write(&script, SCRIPT)?;
    let output = Command::new(python)
        .arg(&script)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{name} cannot be started"))?;
    match serde_json::from_slice(&output.stdout) {
        Ok(packages) if output.status.success() => Ok(packages),
        _ => bail!("{name} is no Python that could say what it has"),
    }
}
