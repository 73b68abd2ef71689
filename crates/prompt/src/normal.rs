//! The normal form of a request, as providers compare it, by the catalog's defaults of models.

use std::sync::LazyLock;

use cachalot_model::wire::request_rules::ModelDefaults;
use cachalot_model::wire::{for_format, normal};
use cachalot_model::{Catalog, Format};
use serde_json::Value;

use crate::Level;

pub use cachalot_model::wire::normal::NormalPiece;

/// Returns a piece in its normal form; `None` if the format does not know it.
#[must_use]
pub fn piece(format: Format, level: Level, bytes: &[u8]) -> Option<NormalPiece> {
    normal::piece(for_format(format).request_rules(), level, bytes)
}

/// Returns a parameter in its normal form; `None` if it has its default value.
#[must_use]
pub fn member(format: Format, model: &str, name: &str, value: Value) -> Option<Value> {
    let rules = for_format(format).request_rules();
    normal::member(rules, &defaults(model), name, value)
}

/// Returns the effort of a request without a setting, according to the catalog. If the catalog has none:
/// `high` for Anthropic's format, as documented; `None` for others.
#[must_use]
pub fn default_effort(format: Format, model: &str) -> Option<&'static str> {
    for_format(format).request_rules().effort(&defaults(model))
}

fn defaults(model: &str) -> ModelDefaults<'static> {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::built_in);
    let listed = CATALOG.find_by_name(model);
    ModelDefaults::new(listed.map(|listed| &listed.capabilities))
}
