//! Strict output: an output that the event ignores is a failure.

use cachalot_core::text::word_list;

use super::Dialect;
use super::handler_call::HandlerCall;
use super::output_object::{OutputObject, snake};
use crate::Event;
use crate::contract::SpecificOutput;
use crate::output::Fault;

/// The top-level keys of an output.
const KEYS: [&str; 6] =
    word_list("continue stop_reason system_message decision reason hook_specific_output");

/// True for a key of an output or of `hook_specific_output`.
pub(super) fn is_key(key: &str) -> bool {
    let specific = SpecificOutput::ALL
        .iter()
        .flat_map(|honoured| honoured.keys());
    key == "suppress_output"
        || KEYS.contains(&key)
        || specific.into_iter().any(|known| known.name == key)
}

/// Aliases of outputs.
const ALIASES: [(&str, SpecificOutput); 2] = [
    ("updated_tool_output", SpecificOutput::UpdatedToolResponse),
    (
        "updated_m_c_p_tool_output",
        SpecificOutput::UpdatedToolResponse,
    ),
];

/// Checks an output and its `hook_specific_output`.
///
/// # Errors
/// The first key or value that has no effect.
pub(super) fn check(
    dialect: Dialect,
    call: HandlerCall<'_>,
    top: OutputObject<'_>,
    specific: OutputObject<'_>,
) -> Result<(), Fault> {
    for key in top.keys() {
        let plain = snake(key);
        let is_legacy = plain == "suppress_output" && dialect != Dialect::DockerAgent;
        if !is_legacy && !KEYS.contains(&plain.as_str()) {
            return Err(Fault::new(format!(
                "strict output: `{key}` is no key of an output"
            )));
        }
    }
    let decision = top
        .get("decision")
        .filter(|said| *said != "block" && *said != "deny");
    if let (Dialect::DockerAgent, Some(decision)) = (dialect, decision) {
        return Err(Fault::new(format!(
            "strict output: `decision` is {decision}; it can be `block` or `deny`"
        )));
    }
    if let Some(name) = specific.get("hook_event_name")
        && !name.as_str().is_some_and(|name| names(call, name))
    {
        return Err(Fault::new(format!(
            "strict output: it is for {name}, and this is `{}`",
            call.event_name
        )));
    }
    for key in specific
        .keys()
        .filter(|key| snake(key) != "hook_event_name")
    {
        match output_of_key(dialect, call.event, &snake(key)) {
            None => {
                return Err(Fault::new(format!(
                    "strict output: `{key}` is no key of `hook_specific_output`"
                )));
            }
            // The agent continues with it (`stop`).
            Some(SpecificOutput::AdditionalContext)
                if dialect == Dialect::Claude && call.event == Event::Stop => {}
            Some(what) if !call.event.contract().honours(what) => {
                return Err(Fault::new(format!(
                    "strict output: `{key}` is not honoured on `{}`",
                    call.event
                )));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn names(call: HandlerCall<'_>, name: &str) -> bool {
    *name == *call.event_name
        || Dialect::ALL
            .into_iter()
            .filter_map(|dialect| dialect.event(name))
            .any(|event_name| event_name.event == call.event)
}

/// Returns the output that a key of `hook_specific_output` stands for.
fn output_of_key(dialect: Dialect, event: Event, key: &str) -> Option<SpecificOutput> {
    let of_request = match (dialect, event, key) {
        (Dialect::Gemini, Event::PreToolUse, "tool_input") => Some(SpecificOutput::UpdatedInput),
        (Dialect::Gemini, Event::BeforeLlmCall, "llm_request") => {
            Some(SpecificOutput::UpdatedMessages)
        }
        (_, Event::PermissionRequest, "decision") => Some(SpecificOutput::PermissionDecision),
        _ => None,
    };
    let has = |what: &SpecificOutput| what.keys().iter().any(|known| known.name == key);
    let named = SpecificOutput::ALL.into_iter().find(has);
    let alias = ALIASES.iter().find(|(name, _)| *name == key);
    of_request.or(named).or(alias.map(|(_, what)| *what))
}
