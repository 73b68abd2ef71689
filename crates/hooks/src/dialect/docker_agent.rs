//! The dialect of docker-agent, which is also our own.

use serde_json::{Map, Value, json};

use super::handler_call::HandlerCall;
use super::messages;
use super::tools;
use super::vocabulary::{
    DEFAULT_TIMEOUT, Form, UnsupportedEvent, Vocabulary, argument, guarding, named_event, tool,
};
use crate::Dialect;
use crate::contract::Event;
use crate::contract::Field;
use crate::input::{Answer, Input};
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
        tool(
            "shell",
            &[],
            &[
                argument("command", "cmd", Form::Line),
                argument("working_directory", "cwd", Form::Same),
            ],
        ),
        tool("list_dir", &["list_directory"], &[]),
        tool(
            "grep",
            &["search_files_content"],
            &[argument("pattern", "query", Form::Same)],
        ),
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

/// Events that this runtime does not fire. Guards of something that does not exist here are only a
/// warning.
static UNSUPPORTED: [UnsupportedEvent; 8] = [
    UnsupportedEvent {
        name: "user_steering_messages_submit",
        nearest: "messages cannot be added to a running turn here: `user_prompt_submit` receives every message of the user",
        guards: false,
    },
    UnsupportedEvent {
        name: "user_followup_submit",
        nearest: "the user's next message begins a turn here: use `user_prompt_submit`",
        guards: false,
    },
    UnsupportedEvent {
        name: "after_agent_complete",
        nearest: "`stop` receives the answer but cannot forbid it",
        guards: true,
    },
    UnsupportedEvent {
        name: "on_session_resume",
        nearest: "a turn cannot get more model calls here: `on_max_iterations` runs when none are left",
        guards: false,
    },
    UnsupportedEvent {
        name: "on_tool_approval_decision",
        nearest: "`permission_request` runs before the user is asked, `post_tool_use` after each call",
        guards: false,
    },
    UnsupportedEvent {
        name: "worktree_create",
        nearest: "no worktrees are created here: `session_start` runs when a session begins",
        guards: false,
    },
    UnsupportedEvent {
        name: "skill_content_guard",
        nearest: "skills are read with the tool `skill_view` here: `tool_guard` can forbid that, and `tool_response_transform` rewrite what it gives",
        guards: true,
    },
    UnsupportedEvent {
        name: "prompt_file_guard",
        nearest: "instead of `add_prompt_files`, a command at `turn_start` can look at a file before it prints it",
        guards: true,
    },
];

/// The input of its handlers: all fields of the event; empty values are left out.
pub(super) fn write_input(call: HandlerCall<'_>, input: &Input) -> Value {
    let mut told = common(call.event_name, input);
    for field in input.event.contract().fields {
        write(*field, input, &mut told);
    }
    if *call.event_name == *BEFORE_AGENT_RUN {
        write_invocation(input, &mut told);
    }
    Value::Object(told)
}

/// Adds the fields of its agent guards.
fn write_invocation(input: &Input, told: &mut Map<String, Value>) {
    put(told, "invocation_id", &input.turn_id);
    let said = input.prompt.as_ref().map(|prompt| prompt.text.as_str());
    put_some(told, "input", said);
}

fn common(event_name: &str, input: &Input) -> Map<String, Value> {
    let mut told = base(event_name, input);
    put(&mut told, "agent_name", &input.agent_name);
    put(&mut told, "model_id", &input.model_id);
    put(&mut told, "turn_id", &input.turn_id);
    if input.iteration > 0 {
        told.insert("iteration".to_owned(), input.iteration.into());
    }
    put_some(
        &mut told,
        "last_user_message",
        input.last_user_message.as_deref(),
    );
    told
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

/// Adds the event's fields in our notation, for dialects that do not have the event.
pub(super) fn about(input: &Input, told: &mut Map<String, Value>) {
    for field in input.event.contract().fields {
        write(*field, input, told);
    }
}

fn write(field: Field, input: &Input, told: &mut Map<String, Value>) {
    match field {
        Field::Source => put_some(told, "source", input.source.as_deref()),
        Field::Prompt => write_prompt(input, told),
        Field::Messages => write_messages(input, told),
        Field::Usage => write_usage(input, told),
        Field::Text => {
            let answer = input.answer.as_ref();
            put_some(
                told,
                "stop_response",
                answer.map(|answer| answer.text.as_str()),
            );
        }
        Field::Tool => write_tool(input, told),
        Field::ToolResponse => write_response(input, told),
        Field::Answer => write_answer(input, told),
        Field::Reason => put_some(told, "reason", input.reason.as_deref()),
        Field::Agents => write_switch(input, told),
        Field::Parent => {
            put_some(
                told,
                "parent_session_id",
                input.parent_session_id.as_deref(),
            );
        }
        Field::Compaction => write_compaction(input, told),
        Field::Summary => {
            let compaction = input.compaction.as_ref();
            let summary = compaction.and_then(|compaction| compaction.summary.as_deref());
            put_some(told, "summary", summary);
        }
        Field::Limit => {
            if let Some(limit) = input.max_iterations {
                told.insert("max_iterations".to_owned(), limit.into());
            }
        }
        Field::Notification => write_notification(input, told),
        Field::Error => put_some(told, "error_message", input.error_message.as_deref()),
    }
}

fn write_prompt(input: &Input, told: &mut Map<String, Value>) {
    let Some(prompt) = &input.prompt else { return };
    put(told, "prompt", &prompt.text);
    put_true(told, "fresh", prompt.fresh);
    put_true(told, "implicit", prompt.implicit);
    if let Some(prefix) = &prompt.prefix {
        told.insert("prefix".to_owned(), prefix.to_hex().into());
    }
}

fn write_messages(input: &Input, told: &mut Map<String, Value>) {
    if input.messages.is_empty() {
        return;
    }
    let (messages, unsent) = messages::to_pieces(input);
    told.insert("messages".to_owned(), Value::Array(messages));
    told.insert("unsent".to_owned(), unsent.into());
}

fn write_usage(input: &Input, told: &mut Map<String, Value>) {
    if let Some(usage) = &input.usage {
        told.insert("usage".to_owned(), usage_of(usage));
    }
    // Unpriced usage has no known cost: the field is left out.
    if let Some(cost) = input.cost.filter(|cost| cost.unpriced == 0) {
        told.insert("cost".to_owned(), cost.dollars().into());
    }
    let finish = input
        .answer
        .as_ref()
        .and_then(|answer| answer.finish.as_ref());
    put_some(told, "finish_reason", finish.map(finish_name));
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

fn write_tool(input: &Input, told: &mut Map<String, Value>) {
    let Some(tool) = &input.tool else { return };
    put(told, "tool_name", &tool.name);
    put(told, "tool_use_id", &tool.id);
    put(told, "tool_category", &tool.category);
    put_true(told, "tool_read_only", tool.read_only);
    let arguments = tools::input_arguments(Dialect::DockerAgent, tool, input);
    told.insert("tool_input".to_owned(), Value::Object(arguments));
}

fn write_response(input: &Input, told: &mut Map<String, Value>) {
    let Some(response) = &input.tool_response else {
        return;
    };
    put(told, "tool_response", &response.text);
    put_true(told, "tool_error", response.is_error);
}

fn write_answer(input: &Input, told: &mut Map<String, Value>) {
    let Some(answer) = &input.answer else { return };
    put(told, "stop_response", &answer.text);
    put_some(
        told,
        "finish_reason",
        answer.finish.as_ref().map(finish_name),
    );
    put_true(told, "synthetic", answer.synthetic);
    put_true(told, "stop_hook_active", answer.stop_hook_active);
    if !answer.calls.is_empty() {
        told.insert("turn_tool_calls".to_owned(), calls(answer));
    }
}

fn calls(answer: &Answer) -> Value {
    let calls = answer.calls.iter().map(
        |call| json!({"name": call.name, "read_only": call.read_only, "error": call.is_error}),
    );
    calls.collect()
}

fn write_switch(input: &Input, told: &mut Map<String, Value>) {
    let Some(switch) = &input.switch else { return };
    put(told, "from_agent", &switch.from_agent);
    put(told, "to_agent", &switch.to_agent);
    put(told, "agent_switch_kind", switch.kind);
}

fn write_compaction(input: &Input, told: &mut Map<String, Value>) {
    let Some(compaction) = &input.compaction else {
        return;
    };
    let tokens = [
        ("input_tokens", compaction.input_tokens),
        ("output_tokens", compaction.output_tokens),
        ("context_limit", compaction.context_limit),
    ];
    for (key, tokens) in tokens.into_iter().filter(|(_, tokens)| *tokens > 0) {
        told.insert(key.to_owned(), tokens.into());
    }
    put(told, "compaction_reason", compaction.reason);
}

fn write_notification(input: &Input, told: &mut Map<String, Value>) {
    let Some(notification) = &input.notification else {
        return;
    };
    put(told, "notification_level", notification.level);
    put(told, "notification_message", &notification.message);
    put_some(told, "notification_type", notification.kind);
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

fn put(told: &mut Map<String, Value>, key: &str, value: &str) {
    if !value.is_empty() {
        told.insert(key.to_owned(), value.into());
    }
}

fn put_some(told: &mut Map<String, Value>, key: &str, value: Option<&str>) {
    put(told, key, value.unwrap_or_default());
}

fn put_true(told: &mut Map<String, Value>, key: &str, value: bool) {
    if value {
        told.insert(key.to_owned(), true.into());
    }
}
