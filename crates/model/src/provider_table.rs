//! Built-in providers, and the prefixes by which bare model names imply a provider.

use std::sync::LazyLock;

use cachalot_core::Problem;
use cachalot_core::tree::{self, MapEntry, Section};

use crate::Format;
use crate::cloud::Cloud;

const BUILT_IN: &str = include_str!("../data/providers.yaml");

/// Built-in knowledge of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BuiltInProvider {
    /// Base URL.
    pub(crate) base_url: Option<String>,
    /// Further base URLs, for other formats; the key may be sent there too.
    pub(crate) also_base_urls: Vec<String>,
    /// Environment variables with the base URL; the first that is set wins.
    pub(crate) base_url_variables: Vec<String>,
    /// Path that is added if such a variable contains a host alone.
    pub(crate) base_url_path: Option<String>,
    /// Port that is added if such a variable has neither scheme nor port.
    pub(crate) port: Option<u16>,
    /// Environment variables with the key; the first that is set wins.
    pub(crate) key_variables: Vec<String>,
    /// True if every request needs a key.
    pub(crate) needs_key: bool,
    /// Header that carries the key; `None` means the format's header.
    pub(crate) key_header: Option<String>,
    /// Cloud platform, which determines addresses and credentials.
    pub(crate) cloud: Option<Cloud>,
    /// Further environment variables with secrets.
    pub(crate) secret_variables: Vec<String>,
    /// Format of its servers; `None` means Chat Completions.
    pub(crate) format: Option<Format>,
}

/// Built-in providers and name prefixes.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProviderTable {
    providers: Vec<(String, BuiltInProvider)>,
    prefixes: Vec<(String, String)>,
}

impl ProviderTable {
    /// Returns the built-in providers. They are parsed once.
    pub(crate) fn built_in() -> &'static Self {
        static KNOWN: LazyLock<ProviderTable> = LazyLock::new(|| {
            let (known, problems) = ProviderTable::parse(BUILT_IN);
            debug_assert!(problems.is_empty(), "{problems:?}");
            known
        });
        &KNOWN
    }

    /// Returns the provider of this name.
    pub(crate) fn provider(&self, name: &str) -> Option<&BuiltInProvider> {
        self.providers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, provider)| provider)
    }

    /// Returns the names of the providers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.providers.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the environment variables that hold keys.
    pub(crate) fn key_variables(&self) -> impl Iterator<Item = &str> {
        let providers = self.providers.iter();
        providers.flat_map(|(_, provider)| {
            let secrets = provider
                .key_variables
                .iter()
                .chain(&provider.secret_variables);
            secrets.map(String::as_str)
        })
    }

    /// Returns the provider that a bare model name implies: that of its longest matching prefix.
    pub(crate) fn owner(&self, model: &str) -> Option<&str> {
        self.prefixes
            .iter()
            .filter(|(prefix, _)| {
                model.strip_prefix(prefix.as_str()).is_some_and(|rest| {
                    !prefix.ends_with(|c: char| c.is_ascii_alphanumeric())
                        || rest.is_empty()
                        || rest.starts_with(['-', '.'])
                })
            })
            .max_by_key(|(prefix, _)| prefix.len())
            .map(|(_, provider)| provider.as_str())
    }

    fn parse(text: &str) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut known = Self::default();
        match tree::parse("providers.yaml", text) {
            Err(found) => problems = found,
            Ok(node) => {
                if let Some(mut section) =
                    Section::from_node(&node, "a file of providers", &mut problems)
                {
                    for entry in section.map("providers", &mut problems).unwrap_or_default() {
                        let provider = BuiltInProvider::read(entry, &mut problems);
                        known.providers.push((entry.key.clone(), provider));
                    }
                    for entry in section.map("prefixes", &mut problems).unwrap_or_default() {
                        let provider = entry.value.as_text().unwrap_or_default().to_owned();
                        known.prefixes.push((entry.key.clone(), provider));
                    }
                    section.finish(&mut problems);
                }
            }
        }
        (known, problems)
    }
}

impl BuiltInProvider {
    fn read(entry: &MapEntry, problems: &mut Vec<Problem>) -> Self {
        let Some(mut section) = Section::from_node(&entry.value, "a provider", problems) else {
            return Self::default();
        };
        let owned = |texts: Option<Vec<&str>>| {
            texts
                .unwrap_or_default()
                .into_iter()
                .map(str::to_owned)
                .collect()
        };
        let provider = Self {
            base_url: section.text("base_url", problems).map(str::to_owned),
            also_base_urls: owned(section.texts("also_base_urls", problems)),
            base_url_variables: owned(section.texts("base_url_variables", problems)),
            base_url_path: section.text("base_url_path", problems).map(str::to_owned),
            port: section
                .integer("port", 1..=u64::from(u16::MAX), problems)
                .and_then(|port| u16::try_from(port).ok()),
            key_variables: owned(section.texts("key_variables", problems)),
            needs_key: section.boolean("needs_key", problems).unwrap_or(false),
            key_header: section.text("key_header", problems).map(str::to_owned),
            cloud: section.text("cloud", problems).and_then(Cloud::parse),
            secret_variables: owned(section.texts("secret_variables", problems)),
            format: Format::read(&mut section, problems),
        };
        section.finish(problems);
        provider
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn built_in_table_is_valid() {
        let (known, problems) = ProviderTable::parse(BUILT_IN);
        assert_eq!(problems, []);
        for (name, provider) in &known.providers {
            if let Some(url) = &provider.base_url {
                let url = url::Url::parse(url).unwrap();
                assert!(matches!(url.scheme(), "http" | "https"), "{name}");
            } else {
                let is_somewhere =
                    provider.cloud.is_some() || !provider.base_url_variables.is_empty();
                assert!(is_somewhere, "{name} is nowhere");
            }
            assert!(
                !provider.needs_key || !provider.key_variables.is_empty(),
                "{name}"
            );
        }
        for (prefix, provider) in &known.prefixes {
            assert!(known.provider(provider).is_some(), "{prefix}: {provider}");
        }
    }

    #[test]
    fn bare_model_names_map_to_their_provider() {
        let known = ProviderTable::built_in();
        for (model, owner) in [
            ("gpt-4o-mini", Some("openai")),
            ("ft:gpt-4o-mini:me::1", Some("openai")),
            ("chatgpt-4o-latest", Some("openai")),
            ("o1", Some("openai")),
            ("o3-mini", Some("openai")),
            ("o4-mini-2025-04-16", Some("openai")),
            ("claude-sonnet-5", Some("anthropic")),
            ("gemini-2.5-pro", Some("google")),
            ("o35", None),
            ("gpt", None),
            ("llama3.2", None),
            ("xclaude-1", None),
            ("", None),
        ] {
            assert_eq!(known.owner(model), owner, "{model}");
        }
    }
}
