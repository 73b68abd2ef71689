//! Names of models that `/model` completes and lists.

use std::collections::BTreeMap;

use cachalot_agent::Team;
use cachalot_model::Models;

use crate::models::models_to_check;
use crate::render::cut;
use crate::render::visible::on_one_line;
use crate::wiring::ProcessEnvironment;

/// Names of models that a chat can continue with, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct ModelNames {
    /// Names that the agent file uses: the keys of `models:`, and the models of its agents.
    of_file: Vec<String>,
    /// `provider/model` for each of these, as far as it is known.
    full: BTreeMap<String, String>,
    /// Names in the catalog, by provider. Providers that cannot be called, as without a key, are left out.
    of_providers: Vec<(String, Vec<String>)>,
}

impl ModelNames {
    /// Collects the names for a chat; none if the user's own catalog is invalid, which its start reports.
    pub(super) fn of_chat(team: &Team, process_environment: &ProcessEnvironment) -> Self {
        models_to_check(process_environment, team.configured.clone())
            .map(|models| Self::new(team, &models))
            .unwrap_or_default()
    }

    /// Collects the names. No request is sent.
    pub(super) fn new(team: &Team, models: &Models) -> Self {
        let (configured, catalog) = (models.configured(), models.catalog());
        let mut of_file: Vec<String> = Vec::new();
        let named = configured.models.iter().map(|(name, _)| name);
        for name in named.chain(team.agents.iter().map(|agent| &agent.model)) {
            if !of_file.contains(name) {
                of_file.push(name.clone());
            }
        }
        let own = configured.providers.iter().map(|(name, settings)| {
            let listed = settings.prices.as_ref().or(settings.extends.as_ref());
            (name.as_str(), listed.unwrap_or(name).as_str())
        });
        let built_in = catalog.providers().map(|name| (name, name));
        let built_in = built_in.filter(|(name, _)| configured.provider(name).is_none());
        let of_providers = own.chain(built_in).filter_map(|(provider, listed)| {
            let names: Vec<String> = catalog.models(listed).map(str::to_owned).collect();
            let is_ready = |name: &String| {
                let found = models.find(&format!("{provider}/{name}"));
                found.is_ok_and(|model| model.ready().is_ok())
            };
            let is_usable = names.iter().any(is_ready);
            is_usable.then(|| (provider.to_owned(), names))
        });
        let full = of_file.iter().filter_map(|name| {
            let model = models.find(name).ok()?;
            let full = format!("{}/{}", model.provider(), model.name());
            Some((name.clone(), full))
        });
        Self {
            of_providers: of_providers.collect(),
            full: full.collect(),
            of_file,
        }
    }

    /// Returns `provider/model` for the name of a model, if it is known, or else the name.
    pub(super) fn full<'a>(&'a self, name: &'a str) -> &'a str {
        self.full.get(name).map_or(name, String::as_str)
    }

    /// Returns all names, those of the file first.
    pub(super) fn all(&self) -> Vec<String> {
        let mut all = self.of_file.clone();
        for (provider, names) in &self.of_providers {
            let full = names.iter().map(|name| format!("{provider}/{name}"));
            all.extend(full.filter(|name| !self.of_file.contains(name)));
        }
        all
    }

    /// Returns a line for the file and one for each provider, cut off at `width`.
    pub(super) fn lines(&self, width: usize) -> Vec<String> {
        let file = ("this chat", &self.of_file);
        let providers = self.of_providers.iter();
        let providers = providers.map(|(provider, names)| (provider.as_str(), names));
        let groups: Vec<_> = [file].into_iter().chain(providers).collect();
        let widest = groups.iter().map(|(group, _)| group.chars().count()).max();
        let widest = widest.unwrap_or_default();
        let lines = groups.iter().map(|(group, names)| {
            let line = format!("  {group:<widest$}  {}", names.join(", "));
            cut(&on_one_line(&line), width.saturating_sub(1))
        });
        lines.collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use cachalot_agent::definition::SourceFile;
    use cachalot_core::{SystemClock, tree};
    use cachalot_hooks::Builtins;
    use cachalot_model::{Catalog, ModelDependencies};
    use cachalot_storage::HttpOptions;

    use super::*;

    const FILE: &str = "
models:
  fast: {provider: openai, model: gpt-4o-mini}
providers:
  mine: {provider: groq, token_key: MY_KEY}
  other: {base_url: 'http://127.0.0.1:1/v1'}
agents:
  root: {model: fast, instruction: Help.}
  second: {model: openai/gpt-4o, instruction: Help.}
";

    const CATALOG: &str = "
models:
  anthropic: {claude-one: {input: 1, output: 1}}
  groq: {llama-one: {input: 1, output: 1}}
  openai: {gpt-4o: {input: 1, output: 1}, gpt-4o-mini: {input: 1, output: 1}}
";

    fn names(variables: &[&str]) -> ModelNames {
        let variables = variables.iter();
        let environment: BTreeMap<String, String> = variables
            .map(|&name| (name.to_owned(), "key".to_owned()))
            .collect();
        let source = SourceFile {
            text: FILE,
            directory: Path::new("/"),
            environment: &environment,
            builtins: &Builtins::default(),
        };
        let root = tree::parse("agent.yaml", FILE).unwrap();
        let team = Team::load(&root, &source).unwrap();
        let dependencies = ModelDependencies {
            environment,
            clock: Arc::new(SystemClock),
            http: HttpOptions::default(),
            catalog: Catalog::empty().with_text("models.yaml", CATALOG).unwrap(),
        };
        let models = Models::new(dependencies, team.configured.clone());
        ModelNames::new(&team, &models)
    }

    #[test]
    fn names_are_those_of_the_file_and_of_usable_providers() {
        let of_file = ["fast", "openai/gpt-4o"];
        assert_eq!(names(&[]).all(), of_file);
        assert_eq!(names(&[]).full("fast"), "openai/gpt-4o-mini");
        assert_eq!(names(&[]).full("unknown"), "unknown");
        let with_keys = names(&["OPENAI_API_KEY", "MY_KEY"]).all();
        let (first, rest) = with_keys.split_at(of_file.len());
        assert_eq!(first, of_file);
        assert_eq!(rest, ["mine/llama-one", "openai/gpt-4o-mini"]);
    }

    #[test]
    fn list_has_a_line_for_each_group() {
        let lines = names(&["OPENAI_API_KEY", "ANTHROPIC_API_KEY"]).lines(30);
        assert_eq!(
            lines,
            [
                "  this chat  fast, openai/gpt…",
                "  anthropic  claude-one",
                "  openai     gpt-4o, gpt-4o-m…",
            ]
        );
    }
}
