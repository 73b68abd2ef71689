//! Model and provider settings from `models:`, `providers:` and `settings.llm` of an agent file.

use std::collections::BTreeMap;

use cachalot_core::Problem;
use cachalot_core::config::Settings as _;
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{MapEntry, Node, unset_variables};

use super::settings::{ModelSettings, PROVIDER};
use crate::provider_table::ProviderTable;

/// Configured models and providers. Nothing is resolved yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelConfiguration {
    /// `models:`, in the order written.
    pub models: Vec<(String, ModelSettings)>,
    /// `providers:`, in the order written.
    pub providers: Vec<(String, ModelSettings)>,
    /// `settings.llm`: the default model, and defaults of every model that does not set them itself.
    pub defaults: ModelSettings,
}

impl ModelConfiguration {
    /// Reads both sections. Reports every problem, including unknown providers.
    pub fn read(
        models: Option<&Node>,
        providers: Option<&Node>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let known = ProviderTable::built_in();
        let providers = entries(providers, "`providers`", problems)
            .iter()
            .filter_map(|entry| {
                let values = PROVIDER.read(&entry.value, problems)?;
                let mut settings = ModelSettings::from_values(values, problems)?;
                settings.extends = settings.provider.take();
                settings.extends.take_if(|name| *name == entry.key);
                if let Some(extends) = &settings.extends
                    && known.provider(extends).is_none()
                {
                    let names: Vec<&str> = known.names().collect();
                    let message = format!("there is no provider `{extends}`");
                    let problem = Problem::new("bad-value", message).at(&values.place("provider"));
                    problems.push(problem.help(did_you_mean(extends, &names)));
                }
                let has_address = settings.base_url.is_some()
                    || settings.extends.is_some()
                    || values.node("base_url").is_some();
                if known.provider(&entry.key).is_none() && !has_address {
                    let message = format!("the address of the provider `{}` is unknown", entry.key);
                    let problem = Problem::new("missing-key", message);
                    let names: Vec<&str> = known.names().collect();
                    problems.push(problem.at(&entry.key_place).help(format!(
                        "add `base_url: …`, or name one that comes with Cachalot: {}",
                        did_you_mean(&entry.key, &names)
                    )));
                }
                Some((entry.key.clone(), settings))
            })
            .collect();
        let mut configured = Self {
            providers,
            ..Self::default()
        };
        for entry in entries(models, "`models`", problems) {
            if let Some(settings) = configured.read_model(entry, known, problems) {
                configured.models.push((entry.key.clone(), settings));
            }
        }
        configured
    }

    /// Notes the environment variables that the entries name and that are not set. `models` and `providers`
    /// are the sections as written.
    pub fn note_unset(
        &mut self,
        models: Option<&Node>,
        providers: Option<&Node>,
        environment: &BTreeMap<String, String>,
    ) {
        let sections = [(models, &mut self.models), (providers, &mut self.providers)];
        for (section, settings) in sections {
            for (name, settings) in settings {
                let written = section.and_then(|section| section.get(name));
                let unset = written.map(|entry| unset_variables(entry, environment));
                settings.unset = unset.unwrap_or_default();
            }
        }
    }

    /// Sets the defaults (`settings.llm`).
    #[must_use]
    pub fn with_defaults(mut self, defaults: ModelSettings) -> Self {
        self.defaults = defaults;
        self
    }

    /// Returns the settings under this name in `models:`.
    #[must_use]
    pub fn model(&self, name: &str) -> Option<&ModelSettings> {
        find(&self.models, name)
    }

    /// Returns the settings under this name in `providers:`.
    #[must_use]
    pub fn provider(&self, name: &str) -> Option<&ModelSettings> {
        find(&self.providers, name)
    }

    /// Returns the environment variables that are configured to hold keys.
    pub(super) fn key_variables(&self) -> impl Iterator<Item = &str> {
        let named = self.models.iter().chain(&self.providers);
        let settings = named.map(|(_, settings)| settings).chain([&self.defaults]);
        settings.filter_map(|settings| settings.token_key.as_deref())
    }

    fn read_model(
        &self,
        entry: &MapEntry,
        known: &ProviderTable,
        problems: &mut Vec<Problem>,
    ) -> Option<ModelSettings> {
        if let Some(name) = entry.value.as_text() {
            return Some(ModelSettings {
                model: Some(name.to_owned()),
                ..ModelSettings::default()
            });
        }
        let values = ModelSettings::TABLE.read(&entry.value, problems)?;
        let settings = ModelSettings::read_entry(values, problems)?;
        if let Some(provider) = &settings.provider
            && self.provider(provider).is_none()
            && known.provider(provider).is_none()
        {
            let help = match provider.as_str() {
                // Requests of this subscription need a sign-in in a browser.
                "chatgpt" => "write `provider: openai`, whose key is in OPENAI_API_KEY".to_owned(),
                _ => format!(
                    "{} Or set its address under `providers:`",
                    sentence(&did_you_mean(provider, &self.provider_names(known)))
                ),
            };
            let problem = Problem::new("bad-value", format!("there is no provider `{provider}`"))
                .at(&values.place("provider"));
            problems.push(problem.help(help));
        }
        Some(settings)
    }

    /// Returns the names of the file's providers, then those of the built-in ones.
    pub(crate) fn provider_names<'a>(&'a self, known: &'a ProviderTable) -> Vec<&'a str> {
        let own = self.providers.iter().map(|(name, _)| name.as_str());
        own.chain(known.names().filter(|name| self.provider(name).is_none()))
            .collect()
    }
}

/// Appends a full stop to a remedy, unless it is a question.
pub(crate) fn sentence(text: &str) -> String {
    if text.ends_with('?') {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

fn find<'a>(list: &'a [(String, ModelSettings)], name: &str) -> Option<&'a ModelSettings> {
    list.iter()
        .find(|(known, _)| known == name)
        .map(|(_, settings)| settings)
}

fn entries<'a>(node: Option<&'a Node>, what: &str, problems: &mut Vec<Problem>) -> &'a [MapEntry] {
    let Some(node) = node.filter(|node| !node.is_null()) else {
        return &[];
    };
    node.as_map().unwrap_or_else(|| {
        problems.push(node.wrong_type(what, "a mapping"));
        &[]
    })
}
