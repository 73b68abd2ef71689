//! The models that a file and the environment know, with prices and limits.

use std::path::PathBuf;
use std::sync::Arc;

use cachalot_core::Seals;
use cachalot_model::{Catalog, Configured, Models, Surroundings as ModelSurroundings};
use cachalot_storage::HttpOptions;

use crate::outcome::{Result, Sources, Trouble};
use crate::wiring::Surroundings;

/// The models of a file.
pub(crate) fn models(
    surroundings: &Surroundings,
    configured: Configured,
    seals: &Seals,
) -> Result<Models> {
    let models = Models::new(
        ModelSurroundings {
            environment: surroundings.environment.clone(),
            clock: Arc::clone(&surroundings.clock),
            http: HttpOptions {
                environment: surroundings.environment.clone(),
                ..HttpOptions::default()
            },
            catalog: catalog(surroundings)?,
        },
        configured,
    );
    Ok(match seals.key() {
        Some(key) => models.digesting_under(key.clone()),
        None => models,
    })
}

/// Prices and limits: those that come with the program, and over them the user's own in
/// `CACHALOT_MODELS` or `cachalot/models.yaml` in the user's configuration directory.
pub(crate) fn catalog(surroundings: &Surroundings) -> Result<Catalog> {
    let built_in = Catalog::built_in();
    let Some(path) = own_prices(surroundings) else {
        return Ok(built_in);
    };
    built_in.with_file(&path).map_err(|problems| {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        Trouble::Usage {
            problems,
            sources: Sources::from([(name, text)]),
        }
    })
}

/// The file that was named, or the usual one if it is there.
fn own_prices(surroundings: &Surroundings) -> Option<PathBuf> {
    let set = |name: &str| {
        surroundings
            .environment
            .get(name)
            .filter(|value| !value.is_empty())
    };
    if let Some(named) = set("CACHALOT_MODELS") {
        return Some(surroundings.directory.join(named));
    }
    let configuration = set("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".config")))?;
    Some(configuration.join("cachalot/models.yaml")).filter(|path| path.exists())
}
