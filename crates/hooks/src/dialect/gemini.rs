//! The dialect of Gemini CLI.

use cachalot_core::clock::iso8601;
use cachalot_model::{Role, StopReason};
use serde_json::{Value, json};

use super::claude::{EDIT, FILE, prompt};
use super::handler_call::HandlerCall;
use super::vocabulary::{
    Argument, DEFAULT_TIMEOUT, Form, NamedEvent, Tool, Vocabulary, argument, named_event, tool,
    unsupported_event,
};
use super::{docker_agent, tools, transcript};
use crate::Dialect;
use crate::contract::Event;
use crate::input::Input;

pub(super) static VOCABULARY: Vocabulary = Vocabulary {
    events: &EVENTS,
    unsupported: &[unsupported_event("BeforeToolSelection")],
    tools: &TOOLS,
    comment_keys: &["description"],
    options_of_claude: false,
    arguments_beside: false,
    input_is_replaced: false,
    timeouts_in_milliseconds: true,
    timeout: DEFAULT_TIMEOUT,
    plain_context: &[],
};

static EVENTS: [NamedEvent; 10] = [
    named_event("SessionStart", Event::SessionStart),
    named_event("SessionEnd", Event::SessionEnd),
    named_event("BeforeAgent", Event::UserPromptSubmit),
    named_event("AfterAgent", Event::Stop),
    named_event("BeforeModel", Event::BeforeLlmCall),
    named_event("AfterModel", Event::AfterLlmCall),
    named_event("BeforeTool", Event::PreToolUse),
    named_event("AfterTool", Event::PostToolUse),
    named_event("Notification", Event::Notification),
    named_event("PreCompress", Event::PreCompact),
];

const DIRECTORY: Argument = argument("path", "dir_path", Form::Same);

#[rustfmt::skip]
static TOOLS: [Tool; 10] = [
    tool("shell", &["run_shell_command"], &[argument("command", "command", Form::Line), argument("working_directory", "dir_path", Form::Same)]),
    // A guard of the shell guards commands in the background, too.
    tool("run_background_job", &["run_shell_command"], &[argument("cmd", "command", Form::Line), argument("cwd", "dir_path", Form::Same)]),
    tool("read_file", &["read_file"], &[FILE]),
    tool("write_file", &["write_file"], &[FILE]),
    tool("edit_file", &["replace"], EDIT),
    tool("apply_patch", &["apply_patch"], &[]),
    tool("glob", &["glob"], &[DIRECTORY]),
    tool("grep", &["search_file_content", "grep_search"], &[DIRECTORY, argument("glob", "include", Form::Same)]),
    tool("list_dir", &["list_directory"], &[DIRECTORY]),
    tool("web_fetch", &["web_fetch"], &[]),
];

/// The input of its handlers.
pub(super) fn write_input(call: HandlerCall<'_>, input: &Input) -> Value {
    let mut told = docker_agent::base(call.event_name, input);
    let transcript = transcript::path(Dialect::Gemini, input);
    told.insert("transcript_path".to_owned(), transcript.into());
    if let Some(at) = input.at {
        told.insert("timestamp".to_owned(), iso8601(at).into());
    }
    let answer = input.answer.as_ref();
    let about = match input.event {
        Event::SessionStart => json!({"source": input.source.as_deref().unwrap_or("startup")}),
        Event::SessionEnd => json!({"reason": input.reason.as_deref().unwrap_or("other")}),
        Event::UserPromptSubmit => json!({"prompt": prompt(input)}),
        Event::Stop => json!({
            "prompt": prompt(input),
            "prompt_response": answer.map_or("", |answer| answer.text.as_str()),
            "stop_hook_active": answer.is_some_and(|answer| answer.stop_hook_active),
        }),
        Event::BeforeLlmCall => json!({"llm_request": request(input)}),
        Event::AfterLlmCall => json!({
            "llm_request": request(input),
            "llm_response": response(input),
        }),
        Event::PreToolUse | Event::PostToolUse => tool_fields(input),
        Event::PreCompact => json!({"trigger": input.source.as_deref().unwrap_or("auto")}),
        Event::Notification => notification(input),
        _ => {
            docker_agent::about(input, &mut told);
            Value::Null
        }
    };
    if let Value::Object(about) = about {
        told.extend(about);
    }
    Value::Object(told)
}

/// The messages for its handlers: text only, one entry per message.
pub(super) fn messages(input: &Input) -> Vec<Value> {
    let messages = input.messages.iter().map(|message| {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "model",
        };
        json!({"role": role, "content": message.text()})
    });
    messages.collect()
}

fn request(input: &Input) -> Value {
    let model = input.model_id.rsplit('/').next().unwrap_or_default();
    json!({"model": model, "messages": messages(input), "config": {}})
}

/// The finish reason, in the notation of the Gemini API.
fn finish_reason(input: &Input) -> &'static str {
    let answer = input.answer.as_ref();
    match answer.and_then(|answer| answer.finish.as_ref()) {
        None | Some(StopReason::End | StopReason::StopText | StopReason::ToolUse) => "STOP",
        Some(StopReason::Length) => "MAX_TOKENS",
        Some(StopReason::Refusal) => "SAFETY",
        Some(StopReason::Other(_)) => "OTHER",
    }
}

fn response(input: &Input) -> Value {
    let text = input
        .answer
        .as_ref()
        .map_or("", |answer| answer.text.as_str());
    let mut response = json!({
        "text": text,
        "candidates": [{
            "content": {"role": "model", "parts": [text]},
            "finishReason": finish_reason(input),
        }],
    });
    if let Some(usage) = &input.usage {
        response["usageMetadata"] = json!({
            "promptTokenCount": usage.total_input(),
            "candidatesTokenCount": usage.output,
            "totalTokenCount": usage.total_input().saturating_add(usage.output),
        });
    }
    response
}

fn tool_fields(input: &Input) -> Value {
    let Some(tool) = &input.tool else {
        return Value::Null;
    };
    let mut about = json!({
        "tool_name": tools::input_name(Dialect::Gemini, tool),
        "tool_input": tools::input_arguments(Dialect::Gemini, tool, input),
    });
    if let Some((server, name)) = &tool.mcp {
        about["mcp_context"] = json!({"server_name": server, "tool_name": name});
    }
    if let Some(response) = &input.tool_response {
        about["tool_response"] = json!({
            "llmContent": response.text,
            "returnDisplay": response.text,
        });
        if response.is_error {
            about["tool_response"]["error"] = json!({"message": response.text});
        }
    }
    about
}

fn notification(input: &Input) -> Value {
    let Some(notification) = &input.notification else {
        return Value::Null;
    };
    let kind = match notification.kind {
        Some("permission_prompt") => "ToolPermission",
        Some(kind) => kind,
        None => notification.level,
    };
    json!({"notification_type": kind, "message": notification.message, "details": {}})
}
