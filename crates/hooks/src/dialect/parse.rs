//! Parses a hook input from JSON: the inverse of writing it, for our own dialect.

use std::path::PathBuf;
use std::sync::Arc;

use cachalot_core::suggest::did_you_mean;
use cachalot_core::{Cost, Digest, Problem, Witnesses};
use cachalot_model::Usage;
use cachalot_operation::ResourceAccess;
use serde_json::{Map, Value};

use super::docker_agent::finish_of;
use super::messages;
use crate::contract::Field;
use crate::input::{
    Answer, Compaction, Input, Notification, PermissionMode, Prompt, Switch, ToolResponse, ToolUse,
    TurnCall,
};
use crate::{Dialect, Event};

/// Parses the input of an event in our own dialect: the JSON that [`Dialect::write`] writes. All keys
/// are optional.
///
/// # Errors
/// It is no JSON object, is for another event, or has an unknown key or a value of the wrong type.
pub fn parse_input(event: Event, json: &str) -> Result<Input, Problem> {
    let value: Value = serde_json::from_str(json).map_err(|error| {
        let message = format!("the input is no valid JSON: {error}");
        Problem::new("json-syntax", message).help("write the hook's input as one JSON object")
    })?;
    let Value::Object(map) = value else {
        return Err(
            Problem::new("wrong-type", "the input must be a JSON object")
                .help("write the hook's input as one JSON object"),
        );
    };
    let told = InputParser { event, map: &map };
    told.check()?;
    told.input()
}

struct InputParser<'a> {
    event: Event,
    map: &'a Map<String, Value>,
}

impl InputParser<'_> {
    fn check(&self) -> Result<(), Problem> {
        let fields = self.event.contract().fields.iter();
        let of_event = fields.flat_map(|field| field.keys());
        let keys: Vec<&str> = Field::COMMON.iter().chain(of_event).copied().collect();
        let mut unknown = self.map.keys().filter(|key| !keys.contains(&key.as_str()));
        if let Some(key) = unknown.next() {
            let message = format!("the input of `{}` has no `{key}`", self.event);
            return Err(Problem::new("unknown-key", message).help(did_you_mean(key, &keys)));
        }
        let name = self.text("hook_event_name")?.unwrap_or_default();
        let is_other = Dialect::ALL.into_iter().all(|dialect| {
            dialect
                .event(&name)
                .is_none_or(|known| known.event != self.event)
        });
        if is_other && !name.is_empty() {
            Err(Problem::new(
                "wrong-event",
                format!(
                    "the input is for `{name}`, and the event is `{}`",
                    self.event
                ),
            )
            .help("change one of the two"))
        } else {
            Ok(())
        }
    }

    fn input(&self) -> Result<Input, Problem> {
        let messages = match self.list("messages")? {
            Some(pieces) => messages::parse(pieces)
                .map_err(|fault| wrong("messages", &fault.message))?
                .into_iter()
                .map(Arc::new)
                .collect(),
            None => Vec::new(),
        };
        let unsent = self.unsent(messages.len())?;
        Ok(Input {
            event: self.event,
            session_id: self.text("session_id")?.unwrap_or_default(),
            turn_id: self.text("turn_id")?.unwrap_or_default(),
            cwd: self.text("cwd")?.map(PathBuf::from).unwrap_or_default(),
            agent_name: self.text("agent_name")?.unwrap_or_default(),
            model_id: self.text("model_id")?.unwrap_or_default(),
            permission_mode: self.permission_mode()?,
            iteration: u32::try_from(self.whole("iteration")?.unwrap_or(0)).unwrap_or(u32::MAX),
            last_user_message: self.text("last_user_message")?,
            source: self.text("source")?,
            reason: self.text("reason")?,
            prompt: self.prompt()?,
            messages,
            unsent,
            usage: self.usage()?,
            cost: self.cost()?,
            tool: self.tool()?,
            tool_response: self.tool_response()?,
            answer: self.answer()?,
            switch: self.switch()?,
            parent_session_id: self.text("parent_session_id")?,
            compaction: self.compaction()?,
            max_iterations: self
                .whole("max_iterations")?
                .map(|limit| u32::try_from(limit).unwrap_or(u32::MAX)),
            notification: self.notification()?,
            error_message: self.text("error_message")?,
            ..Input::default()
        })
    }

    fn permission_mode(&self) -> Result<PermissionMode, Problem> {
        let name = self.one_of("permission_mode", PermissionMode::NAMES)?;
        let named = |mode: &PermissionMode| Some(mode.name()) == name;
        Ok(PermissionMode::ALL
            .into_iter()
            .find(named)
            .unwrap_or_default())
    }

    /// Returns the number of unsent messages; all of them if the input does not contain `unsent`.
    fn unsent(&self, messages: usize) -> Result<usize, Problem> {
        let (Some(pieces), Some(unsent)) = (self.list("messages")?, self.whole("unsent")?) else {
            return Ok(messages);
        };
        let unsent = usize::try_from(unsent).unwrap_or(usize::MAX);
        // The input counts pieces, and one message can be several pieces. Parsing the sent ones alone gives their
        // number of messages.
        let Some(sent) = pieces.len().checked_sub(unsent) else {
            return Err(wrong("unsent", "there are not so many messages"));
        };
        let sent =
            messages::parse(&pieces[..sent]).map_err(|fault| wrong("messages", &fault.message))?;
        Ok(messages.saturating_sub(sent.len()))
    }

    fn prompt(&self) -> Result<Option<Prompt>, Problem> {
        let Some(text) = self.text("prompt")? else {
            return Ok(None);
        };
        let prefix = match self.text("prefix")? {
            Some(hex) => Some(
                hex.parse::<Digest>()
                    .map_err(|_| wrong("prefix", "it is no digest of 64 hexadecimal digits"))?,
            ),
            None => None,
        };
        Ok(Some(Prompt {
            text,
            prefix,
            implicit: self.flag("implicit")?,
            fresh: self.flag("fresh")?,
            ..Prompt::default()
        }))
    }

    fn usage(&self) -> Result<Option<Usage>, Problem> {
        let Some(usage) = self.object("usage")? else {
            return Ok(None);
        };
        let usage = InputParser {
            event: self.event,
            map: usage,
        };
        let tokens = |key| Ok(usage.whole(key)?.unwrap_or(0));
        Ok(Some(Usage {
            uncached_input: tokens("input_tokens")?,
            output: tokens("output_tokens")?,
            cache_read: tokens("cached_input_tokens")?,
            cache_write_other: tokens("cached_write_tokens")?,
            reasoning: tokens("reasoning_tokens")?,
            ..Usage::default()
        }))
    }

    fn cost(&self) -> Result<Option<Cost>, Problem> {
        let read = |value: &Value| value.as_f64().filter(|dollars| *dollars >= 0.0);
        let dollars = self.typed("cost", read, "it is no number from 0 on")?;
        let picodollars = dollars.map(|dollars| (dollars * 1e12).round() as u64);
        Ok(picodollars.map(Cost::from_picodollars))
    }

    fn tool(&self) -> Result<Option<ToolUse>, Problem> {
        let Some(name) = self.text("tool_name")? else {
            return Ok(None);
        };
        let read_only = self.flag("tool_read_only")?;
        let input = self.object("tool_input")?.cloned().unwrap_or_default();
        Ok(Some(ToolUse {
            // No tool is available here to declare them.
            resource_access: resource_access(&name, &input, read_only),
            name,
            id: self.text("tool_use_id")?.unwrap_or_default(),
            category: self.text("tool_category")?.unwrap_or_default(),
            mcp: None,
            read_only,
            input,
        }))
    }

    fn tool_response(&self) -> Result<Option<ToolResponse>, Problem> {
        let is_error = self.flag("tool_error")?;
        let text = self.text("tool_response")?;
        Ok((is_error || text.is_some()).then(|| ToolResponse {
            text: text.unwrap_or_default(),
            is_error,
        }))
    }

    fn answer(&self) -> Result<Option<Answer>, Problem> {
        let text = self.text("stop_response")?;
        let finish = self.text("finish_reason")?;
        if text.is_none() && finish.is_none() {
            return Ok(None);
        }
        let calls = self.list("turn_tool_calls")?.into_iter().flatten();
        Ok(Some(Answer {
            text: text.unwrap_or_default(),
            finish: finish.as_deref().map(finish_of),
            synthetic: self.flag("synthetic")?,
            stop_hook_active: self.flag("stop_hook_active")?,
            calls: calls.map(call).collect(),
            ..Answer::default()
        }))
    }

    fn switch(&self) -> Result<Option<Switch>, Problem> {
        let kinds = ["transfer_task", "transfer_task_return", "handoff", "user"];
        let kind = self.one_of("agent_switch_kind", &kinds)?;
        let agents = (self.text("from_agent")?, self.text("to_agent")?);
        Ok((agents != (None, None)).then(|| Switch {
            from_agent: agents.0.unwrap_or_default(),
            to_agent: agents.1.unwrap_or_default(),
            kind: kind.unwrap_or_default(),
        }))
    }

    fn compaction(&self) -> Result<Option<Compaction>, Problem> {
        let reason = self.one_of("compaction_reason", &["threshold", "overflow", "manual"])?;
        let summary = self.text("summary")?;
        let tokens = |key| Ok::<u64, Problem>(self.whole(key)?.unwrap_or(0));
        let compaction = Compaction {
            input_tokens: tokens("input_tokens")?,
            output_tokens: tokens("output_tokens")?,
            context_limit: tokens("context_limit")?,
            reason: reason.unwrap_or_default(),
            summary,
        };
        let is_known = reason.is_some()
            || compaction.summary.is_some()
            || compaction.input_tokens > 0
            || compaction.context_limit > 0;
        Ok(is_known.then_some(compaction))
    }

    fn notification(&self) -> Result<Option<Notification>, Problem> {
        let level = self.one_of("notification_level", &["warning", "error", "info"])?;
        let kind = self.one_of("notification_type", &["permission_prompt", "idle_prompt"])?;
        let message = self.text("notification_message")?;
        Ok(message.map(|message| Notification {
            level: level.unwrap_or("info"),
            message,
            kind,
        }))
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// Returns a value converted by `read`, which returns `None` for a value of the wrong type.
    fn typed<'a, T>(
        &'a self,
        key: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
        mistake: &str,
    ) -> Result<Option<T>, Problem> {
        let value = self.get(key);
        value
            .map(|value| read(value).ok_or_else(|| wrong(key, mistake)))
            .transpose()
    }

    fn text(&self, key: &str) -> Result<Option<String>, Problem> {
        let text = self.typed(key, Value::as_str, "it is no text")?;
        Ok(text.map(str::to_owned))
    }

    fn flag(&self, key: &str) -> Result<bool, Problem> {
        let flag = self.typed(key, Value::as_bool, "it is neither `true` nor `false`")?;
        Ok(flag.unwrap_or(false))
    }

    fn whole(&self, key: &str) -> Result<Option<u64>, Problem> {
        self.typed(key, Value::as_u64, "it is no whole number from 0 on")
    }

    fn list(&self, key: &str) -> Result<Option<&Vec<Value>>, Problem> {
        self.typed(key, Value::as_array, "it is no list")
    }

    fn object(&self, key: &str) -> Result<Option<&Map<String, Value>>, Problem> {
        self.typed(key, Value::as_object, "it is no object")
    }

    fn one_of(&self, key: &str, words: &[&'static str]) -> Result<Option<&'static str>, Problem> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        match words.iter().find(|word| **word == text) {
            Some(word) => Ok(Some(*word)),
            None => Err(wrong(key, &format!("it is `{text}`")).help(did_you_mean(&text, words))),
        }
    }
}

/// Derives the resources that a call accesses from its arguments; for a patch, from the files that it
/// names.
fn resource_access(tool: &str, arguments: &Map<String, Value>, read_only: bool) -> ResourceAccess {
    let mut resource_access = ResourceAccess::declared(&Value::Null, arguments, read_only);
    let patch = arguments.get("patch").and_then(Value::as_str);
    if let (Some(patch), "apply_patch") = (patch, tool) {
        let heads = ["Add File: ", "Update File: ", "Delete File: ", "Move to: "];
        let files = patch.lines().filter_map(|line| {
            let head = line.strip_prefix("*** ")?;
            heads.iter().find_map(|of| head.strip_prefix(of))
        });
        resource_access
            .writes
            .extend(files.map(|file| PathBuf::from(file.trim())));
    }
    resource_access
}

fn call(value: &Value) -> TurnCall {
    TurnCall {
        name: value["name"].as_str().unwrap_or_default().to_owned(),
        read_only: value["read_only"] == true,
        is_error: value["error"] == true,
        witnesses: Witnesses::unknown("a file says what was called, not what it looked at"),
        expires: None,
    }
}

fn wrong(key: &str, why: &str) -> Problem {
    Problem::new("bad-value", format!("`{key}`: {why}"))
}
