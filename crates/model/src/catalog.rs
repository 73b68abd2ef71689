//! What models cost and how much they take: data files, which the user's own wins over.
//!
//! A model that is in no file has no price, and what it costs is `unpriced`: never 0.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use cachalot_core::Problem;
use cachalot_core::tree::{self, Section};

pub(crate) mod decimal;
mod price;

pub use price::{Price, Rates};

/// The prices and limits that come with the program.
const BUILT_IN: &str = include_str!("../data/models.yaml");

/// What and how much a model takes; `None` where that is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Tokens of input and output of one request together.
    pub context: Option<u64>,
    /// Tokens of output of one request.
    pub max_output: Option<u64>,
    /// The shortest prefix that the provider caches, in tokens.
    pub minimum_cacheable: Option<u64>,
    /// Whether it takes images.
    pub images: Option<bool>,
}

impl Limits {
    /// These limits, and where they say nothing those.
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

/// What is known of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// What it costs.
    pub price: Option<Price>,
    /// How much it takes.
    pub limits: Limits,
}

/// Prices and limits of models, by provider and name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    providers: Arc<BTreeMap<String, BTreeMap<String, Listed>>>,
}

impl Catalog {
    /// No model.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// What comes with the program. A constant, read once.
    #[must_use]
    pub fn built_in() -> Self {
        static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
            let (catalog, problems) = Catalog::parse("models.yaml", BUILT_IN);
            debug_assert!(problems.is_empty(), "{problems:?}");
            catalog
        });
        CATALOG.clone()
    }

    /// This catalog with a file of the user's over it. A price replaces the price of the model that
    /// it is for, a limit the limit. There need be no such file.
    ///
    /// # Errors
    /// It cannot be read, or something in it is wrong.
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

    /// This catalog with the text of a file over it; `file` is its name in problems.
    ///
    /// # Errors
    /// Everything that is wrong in it.
    pub fn with_text(&self, file: &str, text: &str) -> Result<Self, Vec<Problem>> {
        let (over, problems) = Self::parse(file, text);
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut providers = (*self.providers).clone();
        for (provider, models) in over.providers.iter() {
            let known = providers.entry(provider.clone()).or_default();
            for (name, listed) in models {
                let entry = known.entry(name.clone()).or_default();
                entry.limits = listed.limits.or(entry.limits);
                if let Some(price) = &listed.price {
                    entry.price = Some(price.clone());
                }
            }
        }
        Ok(Self {
            providers: Arc::new(providers),
        })
    }

    /// What is known of a model of a provider: under its own name, or else under the longest name
    /// of which it is a snapshot (`gpt-4o-mini-2024-07-18`, `claude-opus-4-1-20250805`, `…-latest`,
    /// `…@20250805`). Any other ending may be another model with another price.
    #[must_use]
    pub fn find(&self, provider: &str, model: &str) -> Option<&Listed> {
        let models = self.providers.get(provider)?;
        models.get(model).or_else(|| {
            models
                .iter()
                .filter(|(name, _)| {
                    model
                        .strip_prefix(name.as_str())
                        .is_some_and(names_a_snapshot)
                })
                .max_by_key(|(name, _)| name.len())
                .map(|(_, listed)| listed)
        })
    }

    /// What is known of a model of which nothing is known but its name, as a request names it: its
    /// own name (`claude-sonnet-5`), or behind that of its provider (`openai/gpt-5`, and as gateways
    /// write it, `anthropic/claude-sonnet-4.5`).
    #[must_use]
    pub fn find_by_name(&self, model: &str) -> Option<&Listed> {
        match model.rsplit_once('/') {
            Some((before, name)) => {
                let provider = before.rsplit('/').next().unwrap_or(before);
                self.find(provider, name)
                    .or_else(|| self.find(provider, &name.replace('.', "-")))
                    .or_else(|| self.find_by_name(name))
            }
            None => self.find(crate::provider::owner(model)?, model),
        }
    }

    /// The names of the models of a provider that are listed.
    pub fn models(&self, provider: &str) -> impl Iterator<Item = &str> {
        self.providers
            .get(provider)
            .into_iter()
            .flat_map(|models| models.keys().map(String::as_str))
    }

    fn parse(file: &str, text: &str) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut providers = BTreeMap::new();
        match tree::parse(file, text) {
            Err(found) => problems = found,
            Ok(node) => {
                if let Some(mut section) = Section::of(&node, "a file of prices", &mut problems) {
                    section.text("date", &mut problems);
                    // Where the numbers come from, for people; anchors that the entries use.
                    section.claim("sources");
                    section.claim("shared");
                    for entry in section.map("models", &mut problems).unwrap_or_default() {
                        let models = read_models(&entry.value, &entry.key, &mut problems);
                        providers.insert(entry.key.clone(), models);
                    }
                    section.finish(&mut problems);
                }
            }
        }
        let providers = Arc::new(providers);
        (Self { providers }, problems)
    }
}

fn read_models(
    node: &tree::Node,
    provider: &str,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, Listed> {
    let Some(entries) = node.as_map() else {
        problems.push(node.wrong_type(&format!("`{provider}`"), "a mapping of models"));
        return BTreeMap::new();
    };
    let mut models = BTreeMap::new();
    for entry in entries {
        if let Some(mut section) = Section::of(&entry.value, "a model of a price file", problems) {
            let listed = Listed {
                price: Price::read(&mut section, problems),
                limits: Limits {
                    context: section.integer("context", 1..=u64::MAX, problems),
                    max_output: section.integer("max_output", 1..=u64::MAX, problems),
                    minimum_cacheable: section.integer("minimum_cacheable", 0..=u64::MAX, problems),
                    images: section.boolean("images", problems),
                },
            };
            section.finish(problems);
            models.insert(entry.key.clone(), listed);
        }
    }
    models
}

/// Whether what follows a model's name says which snapshot of it is meant: `-latest`, or a date or
/// number of at least three digits, with or without dashes (`-2024-07-18`, `-0613`, `-001`).
fn names_a_snapshot(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix(['-', '@']) else {
        return false;
    };
    if rest == "latest" {
        return true;
    }
    let digits = rest.bytes().filter(u8::is_ascii_digit).count();
    digits >= 3
        && rest
            .split('-')
            .all(|part| part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_told_from_other_models() {
        for yes in [
            "-latest",
            "-2024-07-18",
            "-20250805",
            "@20250805",
            "-0613",
            "-001",
        ] {
            assert!(names_a_snapshot(yes), "{yes}");
        }
        for no in [
            "",
            "-",
            "-mini",
            "-1",
            "-10",
            "-1-20250805",
            "-audio-preview",
            "x",
            "-preview-05-20",
            ":free",
            "2024",
            "-pro-2025-10-06",
        ] {
            assert!(!names_a_snapshot(no), "{no}");
        }
    }
}
