//! Facts of models by name, which the providers refuse requests by: `data/models.json`, made by
//! `scripts/simulator-facts`.
//!
//! Independent of the catalog of the clients that the simulator tests. A name that is not in the table is
//! not judged by model.

use std::sync::LazyLock;

use serde_json::{Map, Value};

static TABLE: LazyLock<Value> = LazyLock::new(|| {
    let table = include_str!("../data/models.json");
    serde_json::from_str(table).unwrap_or_default()
});

/// Facts of a model that OpenAI serves. `None` is unknown: nothing is refused for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAiFacts {
    /// Served by `/v1/chat/completions`.
    pub chat: Option<bool>,
    /// Served by `/v1/responses`.
    pub responses: Option<bool>,
    /// Reasons, unless the effort is `none`.
    pub reasons: bool,
    /// One of o1, o3 and o4: refuses sampling parameters as unknown, and not their values.
    pub is_o_series: bool,
    /// The values of the effort that it takes.
    pub efforts: Option<Vec<String>>,
    /// The effort of a request that names none.
    pub default_effort: String,
    /// Takes function tools on Chat Completions only with the effort `none`.
    pub tools_need_responses: bool,
    /// Can be streamed.
    pub streams: bool,
    /// Takes `parallel_tool_calls`.
    pub parallel_tool_calls: bool,
    /// The most output tokens.
    pub max_output: Option<u64>,
}

/// Facts of a model that Anthropic serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnthropicFacts {
    /// Takes `thinking: {type: adaptive}`.
    pub adaptive_thinking: bool,
    /// Takes `thinking: {type: enabled, budget_tokens: …}`.
    pub budgeted_thinking: bool,
    /// Thinks in any case: refuses `thinking: {type: disabled}`.
    pub thinking_always_on: bool,
    /// The values of `output_config.effort` that it takes; empty if it has no effort.
    pub efforts: Vec<String>,
    /// The effort of a request that names none.
    pub default_effort: String,
    /// Takes `temperature`, `top_p` and `top_k`.
    pub sampling: bool,
    /// Takes an assistant message at the end.
    pub prefill: bool,
    /// Takes a `tool_choice` that forces a tool.
    pub forced_tools: bool,
    /// Takes `role: system` within the messages.
    pub system_messages: bool,
    /// The shortest prefix that is cached, in tokens.
    pub minimum_cacheable: Option<u64>,
    /// The most output tokens.
    pub max_output: Option<u64>,
}

/// Returns the facts of an OpenAI model, by its name or its name without a date.
#[must_use]
pub fn openai(model: &str) -> Option<OpenAiFacts> {
    let row = row("openai", model)?;
    Some(OpenAiFacts {
        chat: flag(row, "chat"),
        responses: flag(row, "responses"),
        reasons: flag(row, "reasons") == Some(true),
        is_o_series: flag(row, "is_o_series") == Some(true),
        efforts: row.contains_key("efforts").then(|| texts(row, "efforts")),
        default_effort: text(row, "default_effort", "medium"),
        tools_need_responses: flag(row, "tools_need_responses") == Some(true),
        streams: flag(row, "streams") != Some(false),
        parallel_tool_calls: flag(row, "parallel_tool_calls") != Some(false),
        max_output: row.get("max_output").and_then(Value::as_u64),
    })
}

/// Returns the facts of an Anthropic model, by its name or its name without a date.
#[must_use]
pub fn anthropic(model: &str) -> Option<AnthropicFacts> {
    let row = row("anthropic", model)?;
    Some(AnthropicFacts {
        adaptive_thinking: flag(row, "adaptive_thinking") == Some(true),
        budgeted_thinking: flag(row, "budgeted_thinking") == Some(true),
        thinking_always_on: flag(row, "thinking_always_on") == Some(true),
        efforts: texts(row, "efforts"),
        default_effort: text(row, "default_effort", "high"),
        sampling: flag(row, "sampling") != Some(false),
        prefill: flag(row, "prefill") != Some(false),
        forced_tools: flag(row, "forced_tools") != Some(false),
        system_messages: flag(row, "system_messages") == Some(true),
        minimum_cacheable: row.get("minimum_cacheable").and_then(Value::as_u64),
        max_output: row.get("max_output").and_then(Value::as_u64),
    })
}

/// Returns the names of the models of a provider: `openai` or `anthropic`.
#[must_use]
pub fn names(provider: &str) -> Vec<&'static str> {
    let rows = TABLE.get(provider).and_then(Value::as_object);
    rows.into_iter()
        .flat_map(Map::keys)
        .map(String::as_str)
        .collect()
}

fn row(provider: &str, model: &str) -> Option<&'static Map<String, Value>> {
    let rows = TABLE.get(provider)?;
    let row = rows.get(model).or_else(|| rows.get(undated(model)?))?;
    row.as_object()
}

/// The name without a date at its end: `-20260416` or `-2026-04-16`.
fn undated(model: &str) -> Option<&str> {
    let is_date = |date: &str| {
        let digits = date.bytes().filter(u8::is_ascii_digit).count();
        digits == 8
            && date
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    [9, 11].iter().find_map(|length| {
        let (name, date) = model.split_at_checked(model.len().checked_sub(*length)?)?;
        is_date(date.strip_prefix('-')?).then_some(name)
    })
}

fn flag(row: &Map<String, Value>, key: &str) -> Option<bool> {
    row.get(key).and_then(Value::as_bool)
}

fn text(row: &Map<String, Value>, key: &str, default: &str) -> String {
    let value = row.get(key).and_then(Value::as_str);
    value.unwrap_or(default).to_owned()
}

fn texts(row: &Map<String, Value>, key: &str) -> Vec<String> {
    let values = row.get(key).and_then(Value::as_array);
    let texts = values.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_model_is_found_by_its_name_with_and_without_a_date() {
        assert!(names("openai").len() > 100 && names("anthropic").len() > 20);
        let dated = openai("gpt-5.4-2026-03-05").unwrap();
        assert_eq!(dated, openai("gpt-5.4").unwrap());
        assert_eq!(openai("gpt-5.6-terra-2027-01-31"), openai("gpt-5.6-terra"));
        assert_eq!(
            anthropic("claude-opus-4-8-20270131"),
            anthropic("claude-opus-4-8")
        );
        for unknown in [
            "gpt-5.4-1234",
            "openai/gpt-5.4",
            "claude-x",
            "",
            "-20260416",
        ] {
            assert_eq!(openai(unknown), None, "{unknown}");
            assert_eq!(anthropic(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn an_unknown_fact_refuses_nothing() {
        let codex = openai("gpt-5.2-codex").unwrap();
        assert_eq!((codex.chat, codex.efforts), (Some(false), None));
        let gpt_4o = openai("gpt-4o").unwrap();
        assert_eq!((gpt_4o.chat, gpt_4o.responses), (None, None));
        assert!(anthropic("claude-haiku-4-5").unwrap().efforts.is_empty());
        assert!(openai("gpt-5-pro").unwrap().efforts.unwrap() == ["high"]);
    }
}
