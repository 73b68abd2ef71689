//! Built-in providers, and the prefixes by which bare model names imply a provider.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::Format;
use crate::cloud::Cloud;
use cachalot_wire::table;

const BUILT_IN: &str = include_str!("../data/providers.yaml");

/// Built-in knowledge of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
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
    /// Headers of every request.
    pub(crate) headers: BTreeMap<String, String>,
    /// The provider of which this name is another one.
    same_as: Option<String>,
}

/// Built-in providers and name prefixes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProviderTable {
    #[serde(deserialize_with = "table::entries")]
    providers: Vec<(String, BuiltInProvider)>,
    prefixes: BTreeMap<String, String>,
}

impl ProviderTable {
    /// Returns the built-in providers. They are parsed once.
    pub(crate) fn built_in() -> &'static Self {
        static KNOWN: LazyLock<ProviderTable> =
            LazyLock::new(|| table::built_in("providers.yaml", BUILT_IN));
        &KNOWN
    }

    /// Returns the provider of this name.
    pub(crate) fn provider(&self, name: &str) -> Option<&BuiltInProvider> {
        self.providers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, provider)| provider)
    }

    /// Returns the provider's own name for another name of it.
    pub(crate) fn own_name<'a>(&'a self, name: &'a str) -> &'a str {
        let named = self.provider(name);
        let same_as = named.and_then(|provider| provider.same_as.as_deref());
        same_as.unwrap_or(name)
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
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../tests/unit/provider_table.rs"]
mod tests;
