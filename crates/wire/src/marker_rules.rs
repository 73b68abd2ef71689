//! Support of providers for cache markers, read from a data file.

use std::sync::LazyLock;

use cachalot_accounting::PriceFactors;
use serde::Deserialize;

use crate::Format;
use crate::table::{self, Rows};

const BUILT_IN: &str = include_str!("../data/markers.yaml");

/// Wire form of a marker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkerStyle {
    /// No markers.
    #[default]
    None,
    /// Anthropic's `cache_control`, in a content block; in other formats in a part of a message.
    CacheControl,
    /// `OpenAI`'s `prompt_cache_breakpoint`, in a part of the model's input. Parts of the model's own
    /// output accept none.
    Breakpoints,
    /// Bedrock's `cachePoint`, a separate block after the content that it marks.
    CachePoint,
}

/// Rules of a provider for the cache markers of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct MarkerRules {
    /// Wire form.
    pub style: MarkerStyle,
    /// Maximum number of markers in one request.
    #[serde(rename = "most")]
    pub max_markers: usize,
    /// Number of positions (content blocks) before a marker that the provider searches for a cached prefix,
    /// including the marker's own. 1 is an exact match.
    pub lookback: u32,
    /// True if consecutive tool calls count as one position, and consecutive tool results as well.
    pub runs_count_once: bool,
    /// True if a marker may ask for a lifetime of one hour.
    pub one_hour: bool,
    /// True if a marker may ask for a lifetime of twelve hours, and answers report such writes.
    pub twelve_hours: bool,
    /// True if tool results may carry a marker in formats where they are separate messages.
    pub in_results: bool,
    /// Minimum number of tokens that are cached, if the catalog has no value for the model.
    pub minimum: u64,
}

impl MarkerRules {
    /// Returns the rules of this provider for this model in this format.
    #[must_use]
    pub fn find(provider: &str, model: &str, format: Format) -> &'static Self {
        static TABLE: LazyLock<Rows<MarkerRules>> =
            LazyLock::new(|| table::built_in("markers.yaml", BUILT_IN));
        static NONE: LazyLock<MarkerRules> = LazyLock::new(MarkerRules::default);
        TABLE.find(provider, model, format).unwrap_or(&NONE)
    }

    /// Returns true if a marker may ask for a lifetime of twelve hours, and the price of such a write is known for this
    /// model.
    #[must_use]
    pub fn allows_twelve_hours(&self, model: &str) -> bool {
        let factors = || PriceFactors::published().listed(model, 0);
        self.twelve_hours && factors().cache_write_12h.is_some()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn built_in_table_is_valid() {
        let table: Rows<MarkerRules> = table::read("markers.yaml", BUILT_IN).unwrap();
        for row in &table.rows {
            let has_none = row.values.style == MarkerStyle::None;
            assert_eq!(row.values == MarkerRules::default(), has_none, "{row:?}");
            assert!(
                has_none || row.values.max_markers > 0 && row.values.lookback > 0,
                "{row:?}"
            );
            // Markers of this style are in parts of messages of these formats.
            let applies_to = row.values.style != MarkerStyle::Breakpoints
                || row.format != Some(Format::Messages);
            assert!(applies_to, "{row:?}");
            let is_converse = row.format == Some(Format::Converse);
            assert!(has_none || is_converse == (row.values.style == MarkerStyle::CachePoint));
            let is_openai = row.values.style == MarkerStyle::Breakpoints;
            assert!(is_openai || !row.values.twelve_hours, "{row:?}");
            assert!(!is_openai || !row.values.one_hour, "{row:?}");
        }
    }

    #[test]
    fn first_matching_row_applies() {
        let style = |provider, model, format| MarkerRules::find(provider, model, format).style;
        let cases = [
            (
                "anthropic",
                "claude-opus-5",
                Format::Messages,
                MarkerStyle::CacheControl,
            ),
            (
                "anthropic",
                "claude-opus-5",
                Format::Chat,
                MarkerStyle::None,
            ),
            (
                "openrouter",
                "anthropic/claude-sonnet-5",
                Format::Chat,
                MarkerStyle::CacheControl,
            ),
            (
                "openrouter",
                "anthropic/claude-sonnet-5",
                Format::Responses,
                MarkerStyle::None,
            ),
            (
                "openrouter",
                "qwen/qwen3-coder",
                Format::Chat,
                MarkerStyle::CacheControl,
            ),
            (
                "openrouter",
                "openai/gpt-5.6",
                Format::Chat,
                MarkerStyle::None,
            ),
            (
                "litellm",
                "us.anthropic.claude-opus-5-v1:0",
                Format::Chat,
                MarkerStyle::CacheControl,
            ),
            ("litellm", "gpt-5.6", Format::Chat, MarkerStyle::None),
            (
                "openai",
                "gpt-5.6-mini",
                Format::Chat,
                MarkerStyle::Breakpoints,
            ),
            (
                "openai",
                "gpt-6.1-sol",
                Format::Responses,
                MarkerStyle::Breakpoints,
            ),
            (
                "openai",
                "gpt-5.6-chat-latest",
                Format::Chat,
                MarkerStyle::None,
            ),
            ("openai", "gpt-5.5", Format::Responses, MarkerStyle::None),
            ("openai", "gpt-4o", Format::Chat, MarkerStyle::None),
            ("azure", "gpt-5.6", Format::Responses, MarkerStyle::None),
            ("ollama", "claude", Format::Chat, MarkerStyle::None),
        ];
        for (provider, model, format, expected) in cases {
            assert_eq!(
                style(provider, model, format),
                expected,
                "{provider} {model} {format:?}"
            );
        }
        let marker_rules = |provider, model| MarkerRules::find(provider, model, Format::Chat);
        assert!(!marker_rules("openrouter", "qwen/qwen3-max").one_hour);
        assert!(marker_rules("openrouter", "anthropic/claude-opus-5").in_results);
        assert!(!marker_rules("litellm", "claude-opus-5").in_results);
    }

    #[test]
    fn twelve_hours_need_a_marker_and_a_price() {
        for (provider, model, expected) in [
            ("openai", "gpt-5.6", true),
            ("openai", "gpt-6.2-sol", true),
            ("openai", "gpt-6-cyber", true),
            // The price of a model that is not listed is not known.
            ("openai", "gpt-5.9-unlisted", false),
            ("openai", "gpt-5.6-chat-latest", false),
            ("openai", "gpt-5.5", false),
            ("azure", "gpt-5.6", false),
            ("anthropic", "claude-opus-5", false),
        ] {
            for format in [Format::Chat, Format::Responses, Format::Messages] {
                let expected = expected && format == Format::Responses;
                let marker_rules = MarkerRules::find(provider, model, format);
                let allows = marker_rules.allows_twelve_hours(model);
                assert_eq!(allows, expected, "{provider} {model} {format:?}");
            }
        }
    }

    #[test]
    fn an_unknown_style_is_reported() {
        let read = |text| table::read::<Rows<MarkerRules>>("markers.yaml", text);
        assert!(read("rows: [{style: none, mots: 1}]").is_err());
        let problems = read("rows: [{style: cache-control}]").unwrap_err();
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].to_string().contains("`cache-control`"),
            "{}",
            problems[0]
        );
    }
}
