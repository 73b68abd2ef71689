//! The dialect of Claude Code.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::handler_call::HandlerCall;
use super::vocabulary::{
    Argument, Form, NamedEvent, Tool, Vocabulary, argument, filtered_event, named_event, tool,
    unsupported_event,
};
use super::{docker_agent, tools, transcript};
use crate::Dialect;
use crate::contract::Event;
use crate::input::{Input, ToolUse};
use crate::matcher::ResultFilter;

pub(super) static VOCABULARY: Vocabulary = Vocabulary {
    events: &EVENTS,
    unsupported: &[
        unsupported_event("Setup"),
        unsupported_event("UserPromptExpansion"),
        unsupported_event("SubagentStart"),
        unsupported_event("TeammateIdle"),
        unsupported_event("TaskCreated"),
        unsupported_event("TaskCompleted"),
        unsupported_event("PermissionDenied"),
        unsupported_event("StopFailure"),
        unsupported_event("InstructionsLoaded"),
        unsupported_event("ConfigChange"),
        unsupported_event("CwdChanged"),
        unsupported_event("FileChanged"),
        unsupported_event("WorktreeCreate"),
        unsupported_event("WorktreeRemove"),
        unsupported_event("Elicitation"),
        unsupported_event("ElicitationResult"),
        unsupported_event("PostToolBatch"),
        unsupported_event("MessageDisplay"),
        unsupported_event("DirectoryAdded"),
        unsupported_event("PreModelSwitch"),
        unsupported_event("PostModelSwitch"),
    ],
    tools: &TOOLS,
    comment_keys: &["description", "statusMessage"],
    options_of_claude: true,
    arguments_beside: false,
    input_is_replaced: true,
    timeouts_in_milliseconds: false,
    timeout: TIMEOUT,
    plain_context: &[Event::SessionStart, Event::UserPromptSubmit],
};

/// The default timeout of a command or a request.
pub(super) const TIMEOUT: Duration = Duration::from_secs(600);

static EVENTS: [NamedEvent; COUNT] = events(filtered_event(
    "PostToolUse",
    Event::PostToolUse,
    ResultFilter::Successes,
));

/// The number of events, of Codex too.
pub(super) const COUNT: usize = 12;

/// The events. Codex differs in the tool calls that `PostToolUse` applies to.
pub(super) const fn events(post_tool_use: NamedEvent) -> [NamedEvent; COUNT] {
    [
        named_event("SessionStart", Event::SessionStart),
        named_event("SessionEnd", Event::SessionEnd),
        named_event("UserPromptSubmit", Event::UserPromptSubmit),
        named_event("PreToolUse", Event::PreToolUse),
        named_event("PermissionRequest", Event::PermissionRequest),
        post_tool_use,
        filtered_event(
            "PostToolUseFailure",
            Event::PostToolUse,
            ResultFilter::Failures,
        ),
        named_event("Stop", Event::Stop),
        named_event("SubagentStop", Event::SubagentStop),
        named_event("PreCompact", Event::PreCompact),
        named_event("PostCompact", Event::AfterCompaction),
        named_event("Notification", Event::Notification),
    ]
}

pub(super) const FILE: Argument = argument("path", "file_path", Form::AbsolutePath);

static TOOLS: [Tool; TOOLS_COUNT] = tools(tool("apply_patch", &["apply_patch"], &[]));

/// The number of tools, of Codex too.
pub(super) const TOOLS_COUNT: usize = 11;

/// The tools. Codex differs in the names of `apply_patch`.
pub(super) const fn tools(apply_patch: Tool) -> [Tool; TOOLS_COUNT] {
    [
        tool("shell", &["Bash"], SHELL),
        // A guard of the shell guards commands in the background, too.
        tool("run_background_job", &["Bash"], BACKGROUND),
        tool("read_file", &["Read"], &[FILE]),
        tool("write_file", &["Write"], &[FILE]),
        tool("edit_file", &["Edit", "MultiEdit"], EDIT),
        apply_patch,
        tool("glob", &["Glob"], &[]),
        tool("grep", &["Grep"], &[]),
        tool("list_dir", &["LS"], LIST),
        tool("web_fetch", &["WebFetch"], &[]),
        tool("transfer_task", &["Task", "Agent"], TASK),
    ]
}

const SHELL: &[Argument] = &[
    argument("command", "command", Form::Line),
    argument("timeout", "timeout", Form::Milliseconds),
];

const BACKGROUND: &[Argument] = &[argument("cmd", "command", Form::Line)];

pub(super) const EDIT: &[Argument] = &[
    FILE,
    argument("old_text", "old_string", Form::Same),
    argument("new_text", "new_string", Form::Same),
];

const LIST: &[Argument] = &[argument("path", "path", Form::AbsolutePath)];

const TASK: &[Argument] = &[
    argument("agent", "subagent_type", Form::Same),
    argument("task", "prompt", Form::Same),
];

/// The documented reasons for the end of a session.
const ENDS: [&str; 4] = ["clear", "logout", "prompt_input_exit", "other"];

/// The input of its handlers.
pub(super) fn write_input(call: HandlerCall<'_>, input: &Input) -> Value {
    Value::Object(fields(Dialect::Claude, call, input))
}

/// The input fields, of Codex too.
pub(super) fn fields(dialect: Dialect, call: HandlerCall<'_>, input: &Input) -> Map<String, Value> {
    let mut told = docker_agent::base(call.event_name, input);
    let transcript = transcript::path(dialect, input);
    told.insert("transcript_path".to_owned(), transcript.into());
    if input.parent_session_id.is_some() || input.event == Event::SubagentStop {
        told.insert("agent_id".to_owned(), input.session_id.as_str().into());
        told.insert("agent_type".to_owned(), input.agent_name.as_str().into());
    }
    let about = match input.event {
        Event::SessionStart => json!({
            "source": input.source.as_deref().unwrap_or("startup"),
            "model": input.model_id,
        }),
        Event::SessionEnd => json!({"reason": end(input)}),
        Event::UserPromptSubmit => json!({"prompt": prompt(input)}),
        Event::PreToolUse | Event::PermissionRequest => tool_fields(dialect, input),
        Event::PostToolUse => after_tool(dialect, input),
        Event::Stop | Event::SubagentStop => stop(input),
        Event::PreCompact => json!({
            "trigger": input.source.as_deref().unwrap_or("auto"),
            "custom_instructions": "",
        }),
        Event::AfterCompaction => json!({
            "trigger": input.source.as_deref().unwrap_or("auto"),
            "compact_summary": summary(input),
        }),
        Event::Notification => notification(input),
        _ => {
            docker_agent::about(input, &mut told);
            Value::Null
        }
    };
    if let Value::Object(about) = about {
        told.extend(about);
    }
    told
}

/// The message of the user.
pub(super) fn prompt(input: &Input) -> &str {
    let prompt = input.prompt.as_ref().map(|prompt| prompt.text.as_str());
    prompt
        .or(input.last_user_message.as_deref())
        .unwrap_or_default()
}

fn end(input: &Input) -> &str {
    let reason = input.reason.as_deref();
    reason
        .filter(|reason| ENDS.contains(reason))
        .unwrap_or("other")
}

fn summary(input: &Input) -> &str {
    let compaction = input.compaction.as_ref();
    let summary = compaction.and_then(|compaction| compaction.summary.as_deref());
    summary.unwrap_or_default()
}

fn stop(input: &Input) -> Value {
    let answer = input.answer.as_ref();
    json!({
        "stop_hook_active": answer.is_some_and(|answer| answer.stop_hook_active),
        "last_assistant_message": answer.map_or("", |answer| answer.text.as_str()),
    })
}

fn notification(input: &Input) -> Value {
    let Some(notification) = &input.notification else {
        return Value::Null;
    };
    json!({
        "message": notification.message,
        "notification_type": notification.kind.unwrap_or(notification.level),
    })
}

fn tool_fields(dialect: Dialect, input: &Input) -> Value {
    let Some(tool) = &input.tool else {
        return Value::Null;
    };
    json!({
        "tool_name": tools::input_name(dialect, tool),
        "tool_input": tools::input_arguments(dialect, tool, input),
        "tool_use_id": tool.id,
    })
}

fn after_tool(dialect: Dialect, input: &Input) -> Value {
    let mut about = tool_fields(dialect, input);
    if let (Some(tool), Some(response)) = (&input.tool, &input.tool_response) {
        about["tool_response"] = self::response(dialect, tool, input, &response.text);
        if response.is_error {
            about["error"] = response.text.as_str().into();
            about["is_interrupt"] = false.into();
        }
    }
    about
}

/// The result of a tool, in the format of Claude Code's own tools.
fn response(dialect: Dialect, tool: &ToolUse, input: &Input, text: &str) -> Value {
    match tool.name.as_str() {
        _ if tool.mcp.is_some() => json!([{"type": "text", "text": text}]),
        "shell" => json!({
            "stdout": text,
            "stderr": "",
            "interrupted": false,
            "isImage": false,
        }),
        "write_file" | "edit_file" => {
            let arguments = tools::input_arguments(dialect, tool, input);
            let is_error = (input.tool_response.as_ref()).is_some_and(|told| told.is_error);
            json!({
                "filePath": arguments.get("file_path"),
                "success": !is_error,
                "content": text,
            })
        }
        _ => text.into(),
    }
}
