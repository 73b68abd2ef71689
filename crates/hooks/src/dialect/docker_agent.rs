//! The dialect of docker-agent, which is also our own.

use serde_json::{Map, Value, json};

use super::handler_call::HandlerCall;
use super::vocabulary::{
    Argument, DEFAULT_TIMEOUT, Form, UnsupportedEvent, Vocabulary, argument, guarding, named_event,
    tool,
};
use super::{messages, tools};
use crate::Dialect;
use crate::contract::{Event, Field};
use crate::input::{Answer, Input};
use cachalot_core::Cost;
use cachalot_model::{StopReason, Usage};

/// Its name for the event before an agent runs, for the user or for another agent.
const BEFORE_AGENT_RUN: &str = "before_agent_run";

pub(super) static VOCABULARY: Vocabulary = Vocabulary {
    // All other event names are the same as ours.
    events: &[
        named_event("pre_user_turn", Event::PreUserTurn),
        guarding(BEFORE_AGENT_RUN, Event::PreUserTurn),
    ],
    unsupported: &UNSUPPORTED,
    tools: &[
        tool("shell", &[], SHELL),
        // A guard of the shell guards commands in the background, too.
        tool("run_background_job", &["shell"], &[]),
        tool("list_dir", &["list_directory"], &[]),
        tool("grep", &["search_files_content"], GREP),
        tool("web_fetch", &["fetch"], &[]),
    ],
    comment_keys: &[],
    options_of_claude: false,
    arguments_beside: true,
    input_is_replaced: false,
    timeouts_in_milliseconds: false,
    timeout: DEFAULT_TIMEOUT,
    plain_context: &[
        Event::SessionStart,
        Event::UserPromptSubmit,
        Event::TurnStart,
        Event::PreCompact,
    ],
};

const SHELL: &[Argument] = &[
    argument("command", "cmd", Form::Line),
    argument("working_directory", "cwd", Form::Same),
];

const GREP: &[Argument] = &[argument("pattern", "query", Form::Same)];

/// Events that this runtime does not fire. Guards of something that does not exist here are only a
/// warning.
#[rustfmt::skip]
static UNSUPPORTED: [UnsupportedEvent; 8] = [
    UnsupportedEvent { name: "user_steering_messages_submit", nearest: "messages cannot be added to a running turn here: `user_prompt_submit` receives every message of the user", guards: false },
    UnsupportedEvent { name: "user_followup_submit", nearest: "the user's next message begins a turn here: use `user_prompt_submit`", guards: false },
    UnsupportedEvent { name: "after_agent_complete", nearest: "`stop` receives the answer but cannot forbid it", guards: true },
    UnsupportedEvent { name: "on_session_resume", nearest: "a turn cannot get more model calls here: `on_max_iterations` runs when none are left", guards: false },
    UnsupportedEvent { name: "on_tool_approval_decision", nearest: "`permission_request` runs before the user is asked, `post_tool_use` after each call", guards: false },
    UnsupportedEvent { name: "worktree_create", nearest: "no worktrees are created here: `session_start` runs when a session begins", guards: false },
    UnsupportedEvent { name: "skill_content_guard", nearest: "skills are read with the tool `skill_view` here: `tool_guard` can forbid that, and `tool_response_transform` rewrite what it gives", guards: true },
    UnsupportedEvent { name: "prompt_file_guard", nearest: "instead of `add_prompt_files`, a command at `turn_start` can look at a file before it prints it", guards: true },
];

/// The input of its handlers: all fields of the event; empty values are left out.
pub(super) fn write_input(call: HandlerCall<'_>, input: &Input) -> Value {
    let mut told = base(call.event_name, input);
    let common = json!({
        "agent_name": input.agent_name,
        "model_id": input.model_id,
        "turn_id": input.turn_id,
        "iteration": positive(input.iteration.into()),
        "last_user_message": input.last_user_message,
    });
    extend(&mut told, common);
    about(input, &mut told);
    if *call.event_name == *BEFORE_AGENT_RUN {
        let said = input.prompt.as_ref().map(|prompt| &prompt.text);
        extend(
            &mut told,
            json!({"invocation_id": input.turn_id, "input": said}),
        );
    }
    Value::Object(told)
}

/// The fields that handlers of all dialects receive at every event.
pub(super) fn base(event_name: &str, input: &Input) -> Map<String, Value> {
    let mut told = Map::new();
    let mut always = |key: &str, value: &str| told.insert(key.to_owned(), Value::from(value));
    always("session_id", &input.session_id);
    always("cwd", &input.cwd.to_string_lossy());
    always("hook_event_name", event_name);
    // Empty: our own handlers receive the conversation in other fields.
    always("transcript_path", "");
    always("permission_mode", input.permission_mode.name());
    told
}

/// Adds the event's fields in our notation, also for dialects that do not have the event.
pub(super) fn about(input: &Input, told: &mut Map<String, Value>) {
    for field in input.event.contract().fields {
        if let Some(values) = values(*field, input) {
            extend(told, values);
        }
    }
}

/// Adds values that are not empty.
fn extend(told: &mut Map<String, Value>, values: Value) {
    let is_empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::Object(_) => false,
    };
    if let Value::Object(values) = values {
        told.extend(values.into_iter().filter(|(_, value)| !is_empty(value)));
    }
}

/// The keys and values of a group, including empty ones.
fn values(field: Field, input: &Input) -> Option<Value> {
    Some(match field {
        Field::Source => json!({"source": input.source}),
        Field::Prompt => {
            let prompt = input.prompt.as_ref()?;
            json!({
                "prompt": prompt.text,
                "fresh": prompt.fresh,
                "implicit": prompt.implicit,
                "prefix": prompt.prefix.map(|prefix| prefix.to_hex()),
            })
        }
        Field::Messages if input.messages.is_empty() => return None,
        Field::Messages => {
            let (messages, unsent) = messages::to_pieces(input);
            let mut values = json!({"messages": null, "unsent": unsent});
            values["messages"] = Value::Array(messages);
            values
        }
        Field::Usage => {
            // Unpriced usage has no known cost: the field is left out.
            let cost = input.cost.filter(|cost| cost.unpriced == 0);
            json!({
                "usage": input.usage.as_ref().map(usage_of),
                "cost": cost.map(Cost::dollars),
                "finish_reason": input.answer.as_ref().and_then(finish_reason),
            })
        }
        Field::Text => json!({"stop_response": input.answer.as_ref()?.text}),
        Field::Tool => {
            let tool = input.tool.as_ref()?;
            let mut values = json!({
                "tool_name": tool.name,
                "tool_use_id": tool.id,
                "tool_category": tool.category,
                "tool_read_only": tool.read_only,
            });
            let arguments = tools::input_arguments(Dialect::DockerAgent, tool, input);
            values["tool_input"] = Value::Object(arguments);
            values
        }
        Field::ToolResponse => {
            let response = input.tool_response.as_ref()?;
            json!({"tool_response": response.text, "tool_error": response.is_error})
        }
        Field::Answer => {
            let answer = input.answer.as_ref()?;
            json!({
                "stop_response": answer.text,
                "finish_reason": finish_reason(answer),
                "synthetic": answer.synthetic,
                "stop_hook_active": answer.stop_hook_active,
                "turn_tool_calls": calls(answer),
            })
        }
        Field::Reason => json!({"reason": input.reason}),
        Field::Agents => {
            let switch = input.switch.as_ref()?;
            json!({
                "from_agent": switch.from_agent,
                "to_agent": switch.to_agent,
                "agent_switch_kind": switch.kind,
            })
        }
        Field::Parent => json!({"parent_session_id": input.parent_session_id}),
        Field::Compaction => {
            let compaction = input.compaction.as_ref()?;
            json!({
                "input_tokens": positive(compaction.input_tokens),
                "output_tokens": positive(compaction.output_tokens),
                "context_limit": positive(compaction.context_limit),
                "compaction_reason": compaction.reason,
            })
        }
        Field::Summary => json!({"summary": input.compaction.as_ref()?.summary}),
        Field::Limit => json!({"max_iterations": input.max_iterations}),
        Field::Notification => {
            let notification = input.notification.as_ref()?;
            json!({
                "notification_level": notification.level,
                "notification_message": notification.message,
                "notification_type": notification.kind,
            })
        }
        Field::Error => json!({"error_message": input.error_message}),
    })
}

fn positive(number: u64) -> Option<u64> {
    (number > 0).then_some(number)
}

fn usage_of(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.uncached_input,
        "output_tokens": usage.output,
        "cached_input_tokens": usage.cache_read,
        "cached_write_tokens": usage.cache_write(),
        "reasoning_tokens": usage.reasoning,
    })
}

fn finish_reason(answer: &Answer) -> Option<&str> {
    answer.finish.as_ref().map(finish_name)
}

fn calls(answer: &Answer) -> Value {
    let calls = answer.calls.iter().map(
        |call| json!({"name": call.name, "read_only": call.read_only, "error": call.is_error}),
    );
    calls.collect()
}

/// The provider-style name of a stop reason.
pub(super) fn finish_name(finish: &StopReason) -> &str {
    match finish {
        StopReason::End => "stop",
        StopReason::ToolUse => "tool_calls",
        StopReason::Length => "length",
        StopReason::StopText => "stop_sequence",
        StopReason::Refusal => "refusal",
        StopReason::Other(other) => other,
    }
}

/// The inverse of [`finish_name`].
pub(super) fn finish_of(name: &str) -> StopReason {
    match name {
        "stop" => StopReason::End,
        "tool_calls" => StopReason::ToolUse,
        "length" => StopReason::Length,
        "stop_sequence" => StopReason::StopText,
        "refusal" => StopReason::Refusal,
        other => StopReason::Other(other.to_owned()),
    }
}
