//! The models of `config.json`: `models` and `providers` of the agent file.

use std::collections::BTreeMap;

use cachalot_core::config::Values;
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{Node, NodeKind, expand};
use cachalot_core::{Problem, SourceSpan};

use super::keys::PRESET;
use super::providers::{Choice, Server, choose};
use super::tree::{list, mapping, node, text};

/// The name of the model that `agents.defaults` sets.
pub(super) const DEFAULT: &str = "default";

/// The maximum of tokens of an answer if the file has none, as in nanobot.
const MAX_TOKENS: i64 = 8192;

/// The sections of an agent file that are about models.
#[derive(Debug, Default)]
pub(super) struct ModelSections {
    pub(super) models: Vec<(String, Node)>,
    pub(super) providers: Vec<(String, Node)>,
    /// Keys that the file contains, as environment variables.
    pub(super) keys: BTreeMap<String, String>,
    /// The model of the agent: a key of `models`.
    pub(super) chosen: String,
}

/// Reads models from the file.
pub(super) struct ModelReader<'a> {
    providers: Vec<(&'a str, Values<'a>)>,
    environment: &'a BTreeMap<String, String>,
    sections: ModelSections,
    problems: &'a mut Vec<Problem>,
}

impl<'a> ModelReader<'a> {
    pub(super) fn new(
        config: Values<'a>,
        environment: &'a BTreeMap<String, String>,
        problems: &'a mut Vec<Problem>,
    ) -> Self {
        Self {
            providers: config.tables("providers").collect(),
            environment,
            sections: ModelSections::default(),
            problems,
        }
    }

    /// Reads the model of the agent, its fallbacks, and the presets.
    pub(super) fn read(
        mut self,
        defaults: Values<'a>,
        presets: &[(&'a str, Values<'a>)],
    ) -> ModelSections {
        let chosen = defaults.text("modelPreset").unwrap_or(DEFAULT);
        let names: Vec<&str> = presets.iter().map(|(name, _)| *name).collect();
        if chosen != DEFAULT && !names.contains(&chosen) {
            let message = format!("there is no model preset `{chosen}`");
            let problem = Problem::new("unknown-model", message).at(&defaults.place("modelPreset"));
            self.problems
                .push(problem.help(did_you_mean(chosen, &names)));
        }
        let preset = presets.iter().find(|(name, _)| *name == chosen);
        let primary = preset.map_or(defaults, |(_, values)| *values);
        let fallbacks = self.fallbacks(defaults, primary, &names);
        match self.model(primary, None, fallbacks) {
            Ok(model) => self.sections.models.push((chosen.to_owned(), model)),
            Err(problem) => self.problems.push(problem),
        }
        chosen.clone_into(&mut self.sections.chosen);
        for (name, values) in presets.iter().filter(|(name, _)| *name != chosen) {
            match self.model(*values, None, None) {
                Ok(model) => self.sections.models.push(((*name).to_owned(), model)),
                Err(problem) => self.problems.push(Problem {
                    message: format!("the model preset `{name}` is left out: {}", problem.message),
                    is_warning: true,
                    ..problem
                }),
            }
        }
        self.sections
    }

    /// Returns the names of the fallbacks; those that are defined in place become models.
    fn fallbacks(
        &mut self,
        defaults: Values<'a>,
        primary: Values<'a>,
        presets: &[&str],
    ) -> Option<Node> {
        let written = defaults.node("fallbackModels")?;
        let mut names = Vec::new();
        for (index, item) in written.as_list().unwrap_or_default().iter().enumerate() {
            if let Some(name) = item.as_text() {
                if presets.contains(&name) {
                    names.push(item.clone());
                } else {
                    let message = format!("there is no model preset `{name}`");
                    let problem = Problem::new("unknown-model", message).at(&item.place);
                    self.problems
                        .push(problem.help(did_you_mean(name, presets)));
                }
                continue;
            }
            let Some(values) = PRESET.read(item, self.problems) else {
                continue;
            };
            match self.model(values, Some(primary), None) {
                Ok(model) => {
                    let name = format!("fallbackModels[{index}]");
                    names.push(text(&item.place, name.as_str()));
                    self.sections.models.push((name, model));
                }
                Err(problem) => self.problems.push(problem),
            }
        }
        Some(list(&written.place, names))
    }

    /// Returns an entry of `models`. Settings that it does not have are those of `inherited`.
    fn model(
        &mut self,
        values: Values<'a>,
        inherited: Option<Values<'a>>,
        fallbacks: Option<Node>,
    ) -> Result<Node, Problem> {
        let place = &values.mapping().place;
        let written = values.text("model").unwrap_or_default();
        let wanted = values.text("provider").unwrap_or("auto");
        let Some(choice) = choose(written, wanted, &self.providers) else {
            return Err(no_provider(written, wanted, values));
        };
        let name = self.provider(&choice, &values.place("model"))?;
        let setting = |key: &str| {
            let inherited = || inherited.and_then(|inherited| inherited.node(key));
            values.node(key).or_else(inherited).cloned()
        };
        let effort = values.node("reasoningEffort").cloned();
        let max_tokens = setting("maxTokens");
        let max_tokens = max_tokens.unwrap_or_else(|| node(place, NodeKind::Integer(MAX_TOKENS)));
        let is_sampled = takes_temperature(written, effort.as_ref());
        let model = text(&values.place("model"), choice.model(written));
        let (effort, budget) = match effort.as_ref().and_then(Node::as_text) {
            Some("adaptive") => (None, effort),
            _ => (effort, None),
        };
        let entries = [
            ("provider", Some(text(place, name))),
            ("model", Some(model)),
            ("max_tokens", Some(max_tokens)),
            ("temperature", setting("temperature").filter(|_| is_sampled)),
            ("context", setting("contextWindowTokens")),
            ("reasoning_effort", effort),
            ("thinking_budget", budget),
            ("fallbacks", fallbacks),
        ];
        Ok(mapping(place, present(entries)))
    }

    /// Adds the provider to the file, if it is not known or has settings. Returns its name in the agent file.
    fn provider(&mut self, choice: &Choice<'a>, model: &SourceSpan) -> Result<String, Problem> {
        let (name, base_url, key, format) = match choice.server() {
            Server::Known("bedrock") => ("bedrock", None, None, Some("converse")),
            Server::Known(name) => (name, None, None, None),
            Server::Compatible {
                base_url,
                key,
                format,
            } => (choice.name, Some(base_url), Some(key), Some(format)),
            Server::Own => (choice.name, None, None, Some("chat")),
            Server::Unsupported(help) => {
                let message = format!("the provider `{}` is not supported", choice.name);
                let problem = Problem::new("unsupported-provider", message);
                return Err(problem.at(model).help(help));
            }
        };
        if self
            .sections
            .providers
            .iter()
            .any(|(known, _)| known == name)
        {
            return Ok(name.to_owned());
        }
        let place = choice
            .written
            .map_or(model, |values| &values.mapping().place);
        let written = |key: &str| choice.written.and_then(|values| values.node(key));
        let base_url = match (written("apiBase"), base_url) {
            (Some(node), _) => Some(text(
                &node.place,
                address(name, node.as_text().unwrap_or_default()),
            )),
            (None, Some(known)) => Some(text(place, known)),
            (None, None) if choice.server() == Server::Own => {
                let message = format!("the provider `{name}` has no `apiBase`");
                let problem = Problem::new("missing-key", message).at(place);
                return Err(
                    problem.help("add `\"apiBase\": \"https://…\"`, the address of its API")
                );
            }
            (None, None) => None,
        };
        let base_url = self.with_query(choice, base_url);
        let token_key = match written("apiKey") {
            Some(key) => Some(text(&key.place, self.key(choice.name, key))),
            // A key of the environment is sent to its own server only, not to an address of the file.
            None => key
                .filter(|_| written("apiBase").is_none())
                .filter(|variable| !variable.is_empty() && !choice.needs_no_key())
                .map(|variable| text(place, variable)),
        };
        let format = match choice.written.and_then(|values| values.text("apiType")) {
            Some("responses") => Some("responses"),
            Some("chat_completions") => Some("chat"),
            _ => format,
        };
        let entries = [
            ("base_url", base_url),
            ("token_key", token_key),
            ("format", format.map(|format| text(place, format))),
            ("headers", written("extraHeaders").cloned()),
            ("provider_opts", written("extraBody").cloned()),
        ];
        let entries: Vec<(&str, Node)> = present(entries).collect();
        if !entries.is_empty() {
            let provider = mapping(place, entries);
            self.sections.providers.push((name.to_owned(), provider));
        }
        Ok(name.to_owned())
    }

    /// Adds `extraQuery` to an address.
    fn with_query(&mut self, choice: &Choice<'_>, base_url: Option<Node>) -> Option<Node> {
        let query: Vec<(&str, String)> = choice
            .written
            .into_iter()
            .flat_map(|values| values.scalars("extraQuery"))
            .collect();
        if query.is_empty() {
            return base_url;
        }
        let Some(base_url) = base_url else {
            let place = choice.written.map(|values| values.place("extraQuery"))?;
            let message = format!(
                "`extraQuery` of `{}` has no effect without `apiBase`",
                choice.name
            );
            let help = "add `apiBase`, the address of its API";
            let warning = Problem::warning("no-effect", message).at(&place);
            self.problems.push(warning.help(help));
            return None;
        };
        let pairs = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(query)
            .finish();
        let address = base_url.as_text().unwrap_or_default();
        let separator = if address.contains('?') { '&' } else { '?' };
        Some(text(
            &base_url.place,
            format!("{address}{separator}{pairs}"),
        ))
    }

    /// Returns the environment variable with the key of a provider: the one that the file names, or one for the key in the
    /// file, called as in nanobot.
    fn key(&mut self, provider: &str, written: &Node) -> String {
        let key = written.as_text().unwrap_or_default();
        let variable = key
            .strip_prefix("${")
            .and_then(|rest| rest.strip_suffix('}'));
        let is_name = |name: &&str| {
            let mut bytes = name.bytes();
            bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        if let Some(variable) = variable.filter(is_name) {
            return variable.to_owned();
        }
        let name = provider.to_ascii_uppercase();
        let name = name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
        let variable = format!("NANOBOT_PROVIDERS__{name}__API_KEY");
        let expanded = expand(written, None, self.environment, self.problems);
        if let NodeKind::Text(key) = expanded.kind {
            self.sections.keys.insert(variable.clone(), key);
        }
        variable
    }
}

fn no_provider(model: &str, wanted: &str, values: Values<'_>) -> Problem {
    if wanted == "auto" {
        let message = format!("no provider of the file serves the model `{model}`");
        let problem = Problem::new("unknown-model", message).at(&values.place("model"));
        return problem.help(
            "add the provider with its `apiKey` under `providers`, and name it in `provider`",
        );
    }
    let message = format!("there is no provider `{wanted}`");
    let problem = Problem::new("unknown-provider", message).at(&values.place("provider"));
    problem.help("write `auto`, or add the provider with its `apiBase` under `providers`")
}

/// Returns an address in the form of agent files.
fn address(provider: &str, written: &str) -> String {
    let trimmed = written.trim_end_matches('/');
    match provider {
        // Both complete the path themselves.
        "anthropic" | "minimax_anthropic" => {
            trimmed.strip_suffix("/v1").unwrap_or(trimmed).to_owned()
        }
        "azure" => format!("{trimmed}/openai/v1"),
        _ => trimmed.to_owned(),
    }
}

/// True if nanobot sends `temperature` to a model.
fn takes_temperature(model: &str, effort: Option<&Node>) -> bool {
    let reasons = effort.is_some_and(|effort| effort.as_text() != Some("none"));
    let refuses = ["gpt-5", "o1", "o3", "o4", "kimi-k3"];
    !reasons
        && !refuses
            .iter()
            .any(|part| model.to_lowercase().contains(part))
}

fn present<'a>(
    entries: impl IntoIterator<Item = (&'a str, Option<Node>)>,
) -> impl Iterator<Item = (&'a str, Node)> {
    entries
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
}
