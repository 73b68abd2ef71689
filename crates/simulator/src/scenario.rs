//! The built-in scenario: the behavior of the simulator without a script.

mod coder;
mod faults;
mod review;
mod translator;

use std::borrow::Cow;

use cachalot_core::text::truncate;
use serde_json::Value;

use crate::accounting::Pattern;
use crate::dialogue::{Choice, Dialogue, OfferedTool};
use crate::reply::ScriptedReply;
use crate::schema;

/// Maximum length of an echoed text, in characters.
const MAX_ECHO_CHARS: usize = 300;

/// Returns true if chat answers of `model` show their reasoning in the built-in scenario.
pub(crate) fn reasons(model: &str) -> bool {
    let names = ["deepseek-reasoner*", "*-r1*", "qwq*"];
    names.iter().any(|name| Pattern::new(name).matches(model))
}

/// Returns the reply of the built-in scenario.
pub(crate) fn reply(dialogue: &Dialogue) -> ScriptedReply {
    let reply = faults::reply(dialogue)
        .or_else(|| required_call(dialogue))
        .or_else(|| review::reply(dialogue))
        .or_else(|| coder::reply(dialogue))
        .or_else(|| required_schema_reply(dialogue))
        .or_else(|| translator::reply(dialogue))
        .unwrap_or_else(|| echo(dialogue));
    reply.with_reasoning("The simulator has no model behind it. It looks up what to say.")
}

/// Returns a call of the tool that the request requires, once per turn.
fn required_call(dialogue: &Dialogue) -> Option<ScriptedReply> {
    if !dialogue.calls.is_empty() {
        return None;
    }
    let tool = match &dialogue.choice {
        Choice::Named(name) => dialogue.tools.iter().find(|tool| tool.name == *name),
        Choice::Any => dialogue.tools.first(),
        Choice::Auto | Choice::None => None,
    };
    tool.map(|tool| ScriptedReply::call(tool.name.clone(), minimal_arguments(tool)))
}

fn minimal_arguments(tool: &OfferedTool) -> Value {
    match schema::instance(&tool.schema) {
        arguments @ Value::Object(_) => arguments,
        _ => Value::Object(serde_json::Map::new()),
    }
}

fn required_schema_reply(dialogue: &Dialogue) -> Option<ScriptedReply> {
    let schema = dialogue.schema.as_ref()?;
    Some(ScriptedReply::text(schema::instance(schema).to_string()))
}

fn echo(dialogue: &Dialogue) -> ScriptedReply {
    let model = &dialogue.model;
    if let Some(result) = dialogue.results.last() {
        let called = dialogue.calls.iter().find(|call| call.id == result.call_id);
        let tool = called.map_or("The tool", |call| call.name.as_str());
        let outcome = if result.is_error {
            "failed"
        } else {
            "answered"
        };
        let text = shortened(&result.text);
        return ScriptedReply::text(format!("[simulated {model}] {tool} {outcome}: {text}"));
    }
    let user = dialogue.user_text();
    let text = format!(
        "[simulated {model}] This is the Cachalot simulator: it speaks the provider's API, and there is \
         no language model behind it. You wrote: {}\n\nTry `Translate to French: good morning`, or \
         `simulate 429`.",
        shortened(&user)
    );
    ScriptedReply::text(text)
}

fn shortened(text: &str) -> Cow<'_, str> {
    truncate(text.trim(), MAX_ECHO_CHARS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asking(text: &str) -> Dialogue {
        Dialogue {
            model: "gpt-5-mini".to_owned(),
            user: vec![text.to_owned()],
            ..Dialogue::default()
        }
    }

    #[test]
    fn unmatched_text_is_echoed_and_truncated() {
        let text = reply(&asking("What is a whale?")).text.unwrap_or_default();
        assert!(text.contains("[simulated gpt-5-mini]") && text.contains("What is a whale?"));
        let long = reply(&asking(&"ä".repeat(1_000))).text.unwrap_or_default();
        assert!(long.matches('ä').count() == MAX_ECHO_CHARS && long.contains('…'));
    }

    #[test]
    fn required_tool_is_called_once() {
        let mut dialogue = asking("weather?");
        dialogue.tools = vec![OfferedTool {
            name: "get_weather".to_owned(),
            schema: json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
        }];
        assert!(reply(&dialogue).tool_calls.is_empty());
        dialogue.choice = Choice::Named("get_weather".to_owned());
        let calls = reply(&dialogue).tool_calls;
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].arguments, json!({"city": "simulated"}));
        dialogue.calls.push(crate::dialogue::ToolCall {
            id: "1".to_owned(),
            name: "get_weather".to_owned(),
            arguments: json!({}),
        });
        dialogue.results.push(crate::dialogue::ToolResult {
            call_id: "1".to_owned(),
            text: "18 degrees".to_owned(),
            is_error: false,
        });
        let text = reply(&dialogue).text.unwrap_or_default();
        assert!(text.contains("get_weather answered: 18 degrees"), "{text}");
    }

    #[test]
    fn required_schema_gets_a_valid_instance() {
        let mut dialogue = asking("Extract.");
        dialogue.schema = Some(
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
        );
        assert_eq!(reply(&dialogue).text.as_deref(), Some(r#"{"n":0}"#));
    }
}
