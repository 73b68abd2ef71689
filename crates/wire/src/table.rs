//! Reads the tables that are part of the program.

use cachalot_core::Problem;
use cachalot_core::tree;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde_json::{Map, Value};

use crate::Format;

/// A table of rows, of which the first that applies is used.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows<T> {
    /// The rows, in the order of the file.
    pub rows: Vec<Row<T>>,
}

/// Values, and the requests to which they apply.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row<T> {
    /// The format; `None` for any.
    pub format: Option<Format>,
    /// Names of providers; empty for any.
    #[serde(default)]
    pub providers: Vec<String>,
    /// Parts of names of models.
    #[serde(default)]
    models: Vec<String>,
    /// The values.
    #[serde(flatten)]
    pub values: T,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { rows: Vec::new() }
    }
}

impl<T> Rows<T> {
    /// Returns the values for a model of a provider in a format.
    pub fn find(&self, provider: &str, model: &str, format: Format) -> Option<&T> {
        let model = model.rsplit('/').next().unwrap_or(model);
        let is_named = |models: &[String]| models.iter().any(|part| model.contains(part.as_str()));
        let applies = |row: &&Row<T>| {
            row.format.is_none_or(|own| own == format)
                && (row.providers.is_empty() || row.providers.iter().any(|own| own == provider))
                && (row.models.is_empty() || is_named(&row.models))
        };
        self.rows.iter().find(applies).map(|row| &row.values)
    }
}

/// Reads a table in YAML.
pub fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, Vec<Problem>> {
    let value = tree::parse(file, text)?.to_value();
    let invalid = |error| vec![Problem::new("bad-value", format!("{file}: {error}"))];
    serde_json::from_value(value).map_err(invalid)
}

/// Reads a table of the program, which a test has found valid.
pub fn built_in<T: DeserializeOwned + Default>(file: &str, text: &str) -> T {
    let table = read(file, text);
    debug_assert!(table.is_ok(), "{:?}", table.err());
    table.unwrap_or_default()
}

/// Reads the entries of a mapping in the order of the file.
pub fn entries<'de, D: Deserializer<'de>, T: DeserializeOwned>(
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
