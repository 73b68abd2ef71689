//! Reads the tables that are part of the program.

use cachalot_core::Problem;
use cachalot_core::tree;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde_json::{Map, Value};

/// A table of rows, of which the first that applies is used.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rows<R> {
    pub(crate) rows: Vec<R>,
}

impl<R> Default for Rows<R> {
    fn default() -> Self {
        Self { rows: Vec::new() }
    }
}

/// Reads a table in YAML.
pub(crate) fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, Vec<Problem>> {
    let value = tree::parse(file, text)?.to_value();
    let invalid = |error| vec![Problem::new("bad-value", format!("{file}: {error}"))];
    serde_json::from_value(value).map_err(invalid)
}

/// Reads a table of the program, which a test has found valid.
pub(crate) fn built_in<T: DeserializeOwned + Default>(file: &str, text: &str) -> T {
    let table = read(file, text);
    debug_assert!(table.is_ok(), "{:?}", table.err());
    table.unwrap_or_default()
}

/// Reads the entries of a mapping in the order of the file.
pub(crate) fn entries<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Vec<(String, T)>, D::Error> {
    let entries = Map::<String, Value>::deserialize(deserializer)?.into_iter();
    entries
        .map(|(name, value)| {
            Ok((
                name,
                serde_json::from_value(value).map_err(D::Error::custom)?,
            ))
        })
        .collect()
}
