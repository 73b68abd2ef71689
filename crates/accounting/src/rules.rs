//! The published numbers, from a data file.

use cachalot_core::tree::{self, Node, Section};
use cachalot_core::{Millis, Problem};

use crate::pattern::Pattern;

const PUBLISHED_RULES: &str = include_str!("../data/cache_rules.yaml");

/// The published rules of the providers' prompt caches.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// The rules of Anthropic.
    pub anthropic: AnthropicRules,
    /// The rules of OpenAI.
    pub openai: OpenAiRules,
}

/// The rules of Anthropic.
#[derive(Debug, Clone)]
pub struct AnthropicRules {
    /// The number of positions that a lookback visits, including the breakpoint.
    pub lookback: u64,
    /// True if consecutive `tool_use` blocks count as one position, and consecutive `tool_result`
    /// blocks.
    pub runs_count_once: bool,
    models: Vec<(Vec<Pattern>, AnthropicModel)>,
    default_model: AnthropicModel,
}

/// The rules of one Anthropic model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnthropicModel {
    /// The minimum length of a cacheable prefix, in tokens.
    pub minimum: u64,
    /// True if earlier thinking stays in the prompt after a user message that is no tool result.
    pub keeps_thinking: bool,
    /// True if `role: system` is allowed in `messages`.
    pub system_messages: bool,
    /// True if thinking and effort are rendered before the tools.
    pub settings_first: bool,
}

/// The rules of OpenAI.
#[derive(Debug, Clone, Default)]
pub struct OpenAiRules {
    lifetimes: Vec<(String, Lifetime)>,
    models: Vec<(Vec<Pattern>, OpenAiModel)>,
    default_model: OpenAiModel,
}

/// The lifetime of an entry, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// The time since its last use.
    pub idle: Millis,
    /// The time since it was written.
    pub maximum: Millis,
}

/// The positions at which OpenAI's prefixes match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caching {
    /// At regular intervals.
    Automatic {
        /// The interval in tokens.
        interval: u64,
    },
    /// At breakpoints only; writes are charged.
    Exact,
}

/// The rules of one OpenAI model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAiModel {
    /// The positions at which prefixes match.
    pub caching: Caching,
    /// The minimum length of a cacheable prefix, in tokens.
    pub minimum: u64,
    /// The name of the default lifetime, for requests that contain none.
    pub lifetime: String,
    /// Set for reasoning models: they refuse `max_tokens`, and answer with a reasoning item in
    /// Responses.
    pub reasons: bool,
}

impl Default for AnthropicRules {
    fn default() -> Self {
        Self {
            lookback: 20,
            runs_count_once: true,
            models: Vec::new(),
            default_model: AnthropicModel::default(),
        }
    }
}

impl Default for AnthropicModel {
    fn default() -> Self {
        Self {
            minimum: 1_024,
            keeps_thinking: true,
            system_messages: false,
            settings_first: true,
        }
    }
}

impl Default for OpenAiModel {
    fn default() -> Self {
        Self {
            caching: Caching::Automatic { interval: 128 },
            minimum: 1_024,
            lifetime: "in_memory".to_owned(),
            reasons: false,
        }
    }
}

impl Rules {
    /// The published rules: the data file of this crate.
    #[must_use]
    pub fn published() -> Self {
        Self::parse("cache_rules.yaml", PUBLISHED_RULES).unwrap_or_default()
    }

    /// Parses rules in the format of `data/cache_rules.yaml`.
    ///
    /// # Errors
    /// All problems in the file.
    pub fn parse(file_name: &str, text: &str) -> Result<Self, Vec<Problem>> {
        let node = tree::parse(file_name, text)?;
        let mut problems = Vec::new();
        let mut rules = Self::default();
        if let Some(mut file) = Section::from_node(&node, "the cache rules", &mut problems) {
            if let Some(section) = file.section("anthropic", "`anthropic`", &mut problems) {
                rules.anthropic = anthropic(section, &mut problems);
            }
            if let Some(section) = file.section("openai", "`openai`", &mut problems) {
                rules.openai = openai(section, &mut problems);
            }
            file.finish(&mut problems);
        }
        if problems.is_empty() {
            Ok(rules)
        } else {
            Err(problems)
        }
    }
}

impl AnthropicRules {
    /// Returns the rules for `model`.
    #[must_use]
    pub fn model(&self, model: &str) -> &AnthropicModel {
        row(&self.models, model).unwrap_or(&self.default_model)
    }
}

impl OpenAiRules {
    /// Returns the rules for `model`.
    #[must_use]
    pub fn model(&self, model: &str) -> &OpenAiModel {
        row(&self.models, model).unwrap_or(&self.default_model)
    }

    /// True if `model` is in the table, or its name starts with `gpt-`.
    #[must_use]
    pub fn contains_model(&self, model: &str) -> bool {
        row(&self.models, model).is_some() || model.starts_with("gpt-")
    }

    /// Returns the default lifetime of entries, from their last use, of a model whose writes are charged. `None` for a model
    /// that keeps entries for as long as there is room: its published lifetime is only the usual one.
    #[must_use]
    pub fn fixed_lifetime(&self, model: &str) -> Option<Millis> {
        let OpenAiModel {
            caching, lifetime, ..
        } = self.model(model);
        let lifetime = self.lifetime(lifetime);
        (*caching == Caching::Exact && lifetime.maximum == Millis::MAX).then_some(lifetime.idle)
    }

    /// The lifetime with this name, as in `prompt_cache_retention`. For an unknown name: five minutes
    /// since the last use, one hour in total.
    #[must_use]
    pub fn lifetime(&self, name: &str) -> Lifetime {
        let found = self.lifetimes.iter().find(|(known, _)| known == name);
        found.map_or(
            Lifetime {
                idle: 300_000,
                maximum: 3_600_000,
            },
            |(_, lifetime)| *lifetime,
        )
    }
}

/// Returns the first row with a name that matches the model.
pub(crate) fn row<'a, T>(rows: &'a [(Vec<Pattern>, T)], model: &str) -> Option<&'a T> {
    // Once, and not for each pattern.
    let model = model.to_lowercase();
    rows.iter()
        .find(|(names, _)| names.iter().any(|name| name.matches_lowercase(&model)))
        .map(|(_, row)| row)
}

fn anthropic(mut section: Section<'_>, problems: &mut Vec<Problem>) -> AnthropicRules {
    let mut rules = AnthropicRules::default();
    if let Some(lookback) = section.integer("lookback", 1..=1_000, problems) {
        rules.lookback = lookback;
    }
    if let Some(once) = section.boolean("runs_count_once", problems) {
        rules.runs_count_once = once;
    }
    if let Some(row) = section.section("otherwise", "`otherwise`", problems) {
        rules.default_model = anthropic_model(row, problems).1;
    }
    for node in section.list("models", problems).unwrap_or_default() {
        if let Some(row) = Section::from_node(node, "a row of `models`", problems) {
            rules.models.push(anthropic_model(row, problems));
        }
    }
    section.finish(problems);
    rules
}

fn anthropic_model(
    mut row: Section<'_>,
    problems: &mut Vec<Problem>,
) -> (Vec<Pattern>, AnthropicModel) {
    let names = names(&mut row, problems);
    let default = AnthropicModel::default();
    let model = AnthropicModel {
        minimum: minimum(&mut row, problems),
        keeps_thinking: row.boolean("keeps_thinking", problems).unwrap_or(false),
        system_messages: row.boolean("system_messages", problems).unwrap_or(false),
        settings_first: row
            .boolean("settings_first", problems)
            .unwrap_or(default.settings_first),
    };
    row.finish(problems);
    (names, model)
}

fn openai(mut section: Section<'_>, problems: &mut Vec<Problem>) -> OpenAiRules {
    let mut rules = OpenAiRules::default();
    for node in section.list("lifetimes", problems).unwrap_or_default() {
        rules.lifetimes.extend(lifetime(node, problems));
    }
    if let Some(row) = section.section("otherwise", "`otherwise`", problems) {
        rules.default_model = openai_model(row, problems).1;
    }
    for node in section.list("models", problems).unwrap_or_default() {
        if let Some(row) = Section::from_node(node, "a row of `models`", problems) {
            rules.models.push(openai_model(row, problems));
        }
    }
    section.finish(problems);
    rules
}

fn openai_model(mut row: Section<'_>, problems: &mut Vec<Problem>) -> (Vec<Pattern>, OpenAiModel) {
    let names = names(&mut row, problems);
    let interval = row.integer("interval", 1..=1_000_000, problems);
    let place = row.place().clone();
    let caching = match row.required_text("caching", problems) {
        Some("exact") => Caching::Exact,
        Some("automatic") | None => Caching::Automatic {
            interval: interval.unwrap_or(128),
        },
        Some(other) => {
            let message = format!("`caching` is `automatic` or `exact`, not `{other}`");
            problems.push(Problem::new("unknown-caching", message).at(&place));
            Caching::Exact
        }
    };
    let model = OpenAiModel {
        caching,
        minimum: minimum(&mut row, problems),
        lifetime: row
            .required_text("lifetime", problems)
            .unwrap_or_default()
            .to_owned(),
        reasons: row.boolean("reasons", problems).unwrap_or(false),
    };
    row.finish(problems);
    (names, model)
}

fn lifetime(node: &Node, problems: &mut Vec<Problem>) -> Option<(String, Lifetime)> {
    let mut row = Section::from_node(node, "a lifetime", problems)?;
    let name = row.required_text("name", problems)?.to_owned();
    let mut seconds = |key| {
        row.integer(key, 1..=31_536_000, problems)
            .map(|seconds| Millis::try_from(seconds * 1_000).unwrap_or(Millis::MAX))
    };
    let idle = seconds("idle");
    let maximum = seconds("most");
    row.finish(problems);
    let lifetime = Lifetime {
        idle: idle?,
        maximum: maximum.unwrap_or(Millis::MAX),
    };
    Some((name, lifetime))
}

/// Reads the names of a row.
pub(crate) fn names(row: &mut Section<'_>, problems: &mut Vec<Problem>) -> Vec<Pattern> {
    let names = row.texts("names", problems).unwrap_or_default();
    names.into_iter().map(Pattern::new).collect()
}

fn minimum(row: &mut Section<'_>, problems: &mut Vec<Problem>) -> u64 {
    row.integer("minimum", 0..=1_000_000, problems)
        .unwrap_or(1_024)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn published_rules_apply_the_first_matching_row() {
        let rules = Rules::parse("cache_rules.yaml", PUBLISHED_RULES).unwrap();
        let minimum = |model: &str| rules.anthropic.model(model).minimum;
        assert_eq!(minimum("claude-opus-5"), 512);
        assert_eq!(minimum("claude-fable-5-1"), 512);
        assert_eq!(minimum("claude-mythos-preview"), 2_048);
        assert_eq!(minimum("claude-opus-4-8"), 1_024);
        assert_eq!(minimum("claude-opus-4-7"), 2_048);
        assert_eq!(minimum("claude-opus-4-5-20251101"), 4_096);
        assert_eq!(minimum("claude-haiku-4-5-20251001"), 4_096);
        assert_eq!(minimum("claude-3-5-haiku-20241022"), 2_048);
        assert_eq!(minimum("claude-opus-4-20250514"), 1_024);
        assert_eq!(minimum("claude-sonnet-4-5-20250929"), 1_024);
        assert!(rules.anthropic.model("claude-sonnet-4-6").keeps_thinking);
        assert!(!rules.anthropic.model("claude-sonnet-4-5").keeps_thinking);
        assert!(rules.anthropic.model("claude-opus-4-8").system_messages);
        assert!(!rules.anthropic.model("claude-sonnet-5").system_messages);

        let openai = |model: &str| rules.openai.model(model).clone();
        assert_eq!(openai("gpt-5.6-mini").caching, Caching::Exact);
        assert_eq!(openai("gpt-6-astra").caching, Caching::Exact);
        assert_eq!(
            openai("gpt-5.5").caching,
            Caching::Automatic { interval: 2_048 }
        );
        assert_eq!(openai("gpt-5.5").lifetime, "24h");
        assert_eq!(
            openai("gpt-5-mini").caching,
            Caching::Automatic { interval: 128 }
        );
        assert!(openai("o3").reasons && openai("gpt-5").reasons);
        assert!(!openai("gpt-5-chat-latest").reasons && !openai("gpt-4o").reasons);
        assert_eq!(rules.openai.lifetime("30m").idle, 1_800_000);
        assert_eq!(rules.openai.lifetime("in_memory").maximum, 3_600_000);
    }
}
