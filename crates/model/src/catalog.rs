//! The model catalog: prices, limits and capabilities, read from data files. The user's file overrides the
//! built-in one.
//!
//! A model that is in no file has no price, and its cost is `unpriced`, never 0. `scripts/model-catalog`
//! generates the built-in file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use cachalot_core::Problem;
use cachalot_core::config::Settings;
use cachalot_core::tree::{self, Section};

use cachalot_accounting::Price;
use cachalot_wire::Capabilities;

use crate::provider_table::ProviderTable;

/// The built-in catalog file.
const BUILT_IN: &str = include_str!("../data/models.yaml");

/// Limits of a model; `None` if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Settings)]
#[settings(name = "the limits of a model")]
pub struct ModelLimits {
    /// The context window in tokens.
    ///
    /// The maximum of input and output of one request together.
    #[setting(range = 1..)]
    pub context: Option<u64>,
    /// The maximum number of output tokens.
    #[setting(range = 1..)]
    pub max_output: Option<u64>,
    /// The minimum tokens of a prefix that the provider caches.
    pub minimum_cacheable: Option<u64>,
    /// Accepts images.
    pub images: Option<bool>,
}

impl ModelLimits {
    /// Fills unknown limits from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            context: self.context.or(other.context),
            max_output: self.max_output.or(other.max_output),
            minimum_cacheable: self.minimum_cacheable.or(other.minimum_cacheable),
            images: self.images.or(other.images),
        }
    }
}

/// The prices and limits of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Settings)]
#[settings(name = "a model of a price file")]
pub struct CatalogEntry {
    /// Price.
    #[setting(flatten)]
    pub price: Option<Price>,
    /// Limits.
    #[setting(flatten)]
    pub limits: ModelLimits,
    /// Capabilities: the requests that the model accepts.
    #[setting(flatten)]
    pub capabilities: Capabilities,
}

/// Prices, limits and capabilities of models, by provider and name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    providers: Arc<Providers>,
    /// Models that make embeddings.
    embeddings: Arc<Providers>,
}

/// Entries by provider and name.
type Providers = BTreeMap<String, BTreeMap<String, CatalogEntry>>;

impl Catalog {
    /// Returns a catalog without models.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Returns the built-in catalog. It is parsed once.
    #[must_use]
    pub fn built_in() -> Self {
        static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
            let catalog = Catalog::parse("models.yaml", BUILT_IN);
            debug_assert!(catalog.is_ok(), "{:?}", catalog.err());
            catalog.unwrap_or_default()
        });
        CATALOG.clone()
    }

    /// Returns this catalog, overridden by the user's file at `path`. A price in the file replaces the
    /// whole price of its model; any other value replaces only that value. A missing file changes nothing.
    ///
    /// # Errors
    /// The file cannot be read or contains problems.
    pub fn with_file(&self, path: &Path) -> Result<Self, Vec<Problem>> {
        let name = path.display().to_string();
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(self.clone()),
            Err(error) => {
                let problem = Problem::new("unreadable", format!("cannot read {name}: {error}"));
                return Err(vec![problem.help("check the file, or take it away")]);
            }
        };
        self.with_text(&name, &text)
    }

    /// Returns this catalog, overridden by the text of a file; `file` is the file's name in problems.
    ///
    /// # Errors
    /// All problems of the file.
    pub fn with_text(&self, file: &str, text: &str) -> Result<Self, Vec<Problem>> {
        let over = Self::parse(file, text)?;
        Ok(Self {
            providers: Arc::new(overridden(&self.providers, &over.providers)),
            embeddings: Arc::new(overridden(&self.embeddings, &over.embeddings)),
        })
    }

    /// Returns the entry of a provider's model: the entry under its own name, or else the entry with the
    /// longest name of which it is a snapshot (`gpt-4o-mini-2024-07-18`, `claude-opus-4-1-20250805`,
    /// `…-latest`, `…@20250805`, `…@default`). A name with any other suffix does not match, because it may
    /// be another model with another price.
    #[must_use]
    pub fn find(&self, provider: &str, model: &str) -> Option<&CatalogEntry> {
        self.find_entry(provider, model).map(|(_, listed)| listed)
    }

    /// Like [`Catalog::find`]; also returns the name under which the model is listed.
    #[must_use]
    pub fn find_entry(&self, provider: &str, model: &str) -> Option<(&str, &CatalogEntry)> {
        let lists = [&self.providers, &self.embeddings];
        let mut lists = lists.into_iter().filter_map(|list| list.get(provider));
        let found = lists.find_map(|models| {
            models.get_key_value(model).or_else(|| {
                models
                    .iter()
                    .filter(|(name, _)| {
                        model
                            .strip_prefix(name.as_str())
                            .is_some_and(is_snapshot_suffix)
                    })
                    .max_by_key(|(name, _)| name.len())
            })
        });
        found.map(|(name, listed)| (name.as_str(), listed))
    }

    /// Returns the entry of a model by the name in a request alone. The name is the model's own
    /// (`claude-sonnet-5`) or follows the provider's name (`openai/gpt-5`, or in the spelling of gateways
    /// `anthropic/claude-sonnet-4.5`). Names of Anthropic's models at Bedrock (`us.anthropic.claude-…`) and Vertex AI
    /// (`claude-…@20250929`) have the prices of these platforms. The length of the context, which clients write behind
    /// a name (`claude-opus-4-8[1m]`), does not matter.
    #[must_use]
    pub fn find_by_name(&self, model: &str) -> Option<&CatalogEntry> {
        let model = match model.split_once('[') {
            Some((name, context)) if context.ends_with(']') => name,
            _ => model,
        };
        match model.rsplit_once('/') {
            Some((before, name)) => {
                let provider = before.rsplit('/').next().unwrap_or(before);
                self.find(provider, name)
                    .or_else(|| self.find(provider, &name.replace('.', "-")))
                    .or_else(|| self.find_by_name(name))
            }
            None if model.contains("anthropic.claude-") => self.find("bedrock", model),
            None if model.starts_with("claude-") && model.contains('@') => self
                .find("vertex", model)
                .or_else(|| self.find("anthropic", model)),
            None => self.find(ProviderTable::built_in().owner(model)?, model),
        }
    }

    /// Returns the names of a provider's listed models, without those that make embeddings.
    pub fn models(&self, provider: &str) -> impl Iterator<Item = &str> {
        self.providers
            .get(provider)
            .into_iter()
            .flat_map(|models| models.keys().map(String::as_str))
    }

    /// Returns the names of the providers with listed models.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.providers.keys().map(String::as_str)
    }

    fn parse(file: &str, text: &str) -> Result<Self, Vec<Problem>> {
        let node = tree::parse(file, text)?;
        let mut problems = Vec::new();
        let (mut providers, mut embeddings) = (Providers::new(), Providers::new());
        if let Some(mut section) = Section::from_node(&node, "a file of prices", &mut problems) {
            section.text("date", &mut problems);
            // `sources` documents the origin of the numbers for readers; `shared` holds YAML
            // anchors for the entries.
            section.claim("sources");
            section.claim("shared");
            for (key, listed) in [("models", &mut providers), ("embeddings", &mut embeddings)] {
                for entry in section.map(key, &mut problems).unwrap_or_default() {
                    let models = read_models(&entry.value, &entry.key, &mut problems);
                    listed.insert(entry.key.clone(), models);
                }
            }
            section.finish(&mut problems);
        }
        if problems.is_empty() {
            Ok(Self {
                providers: Arc::new(providers),
                embeddings: Arc::new(embeddings),
            })
        } else {
            Err(problems)
        }
    }
}

/// Returns the entries, overridden by those of `over`.
fn overridden(known: &Providers, over: &Providers) -> Providers {
    let mut providers = known.clone();
    for (provider, models) in over {
        let known = providers.entry(provider.clone()).or_default();
        for (name, listed) in models {
            let entry = known.entry(name.clone()).or_default();
            entry.limits = listed.limits.or(entry.limits);
            let known = std::mem::take(&mut entry.capabilities);
            entry.capabilities = listed.capabilities.clone().or(known);
            if let Some(price) = &listed.price {
                entry.price = Some(price.clone());
            }
        }
    }
    providers
}

fn read_models(
    node: &tree::Node,
    provider: &str,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, CatalogEntry> {
    let Some(entries) = node.as_map() else {
        problems.push(node.wrong_type(&format!("`{provider}`"), "a mapping of models"));
        return BTreeMap::new();
    };
    let mut models = BTreeMap::new();
    for entry in entries {
        if let Some(listed) = CatalogEntry::read(&entry.value, problems) {
            models.insert(entry.key.clone(), listed);
        }
    }
    models
}

/// Returns true if the rest of a model's name identifies a snapshot: `-latest`, `@default`, or a date or
/// number of at least three digits, with or without dashes (`-2024-07-18`, `-0613`, `-001`).
fn is_snapshot_suffix(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix(['-', '@']) else {
        return false;
    };
    if matches!(rest, "latest" | "default") {
        return true;
    }
    let digits = rest.bytes().filter(u8::is_ascii_digit).count();
    digits >= 3
        && rest
            .split('-')
            .all(|part| part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
#[path = "../tests/unit/catalog.rs"]
mod tests;
