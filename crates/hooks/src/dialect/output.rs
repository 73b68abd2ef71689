//! Parses the keys of an output.

use serde_json::{Map, Value, json};

use super::handler_call::HandlerCall;
use super::messages::{self, RewrittenConversation};
use super::output_object::{OutputObject, metadata, parse_text, text};
use super::{Dialect, gemini, instructions, synthetic, tools};
use crate::Event;
use crate::contract::SpecificOutput;
use crate::input::Input;
use crate::output::{Decision, Fault, Output, append_line};

/// The reason for the model if a handler gives none.
const DEFAULT_REASON: &str = "a hook blocks this without a reason";

/// Parses an output: its top-level keys and those in `hook_specific_output`, which are accepted in both
/// places. The strongest of several decisions applies, wherever it is.
///
/// # Errors
/// The invalid part of the output.
pub(super) fn read(
    dialect: Dialect,
    call: HandlerCall<'_>,
    input: &Input,
    top: OutputObject<'_>,
    specific: &[OutputObject<'_>],
) -> Result<Output, Fault> {
    let answer = OutputParser {
        dialect,
        event: call.event,
        input,
        top,
        specific,
    };
    let mut output = Output {
        system_message: text(top, "system_message")?.filter(|text| !text.is_empty()),
        additional_context: answer
            .text("additional_context")?
            .filter(|text| !text.is_empty()),
        summary: answer.text("summary")?.filter(|text| !text.is_empty()),
        metadata: metadata(answer.get("metadata"))?,
        updated_tool_response: answer.tool_response(),
        ..Output::default()
    };
    answer.decide(&mut output)?;
    answer.permit(&mut output)?;
    answer.advise(call, &mut output);
    answer.halt(&mut output)?;
    answer.rewrite_input(&mut output)?;
    answer.rewrite_messages(&mut output)?;
    answer.instruct(&mut output)?;
    answer.route(&mut output);
    let response = answer
        .get("synthetic_response")
        .or(answer.get("llm_response"));
    if let Some(response) = response.filter(|_| answer.may_answer()) {
        output.synthetic = Some(synthetic::read(response)?);
    }
    Ok(output)
}

/// Returns an output that contains only the objection of `part`, if it objects. Missing reasons are
/// taken from `whole`, which contains `part`.
pub(super) fn refusal(part: &Value, whole: &Value) -> Option<Value> {
    let top = OutputObject::new(Some(part));
    let specific = top.all("hook_specific_output");
    let places: Vec<OutputObject<'_>> = specific
        .map(|value| OutputObject::new(Some(value)))
        .chain([top])
        .collect();
    let reason = |key: &str| {
        let whole = OutputObject::new(Some(whole));
        let specific = OutputObject::new(whole.get("hook_specific_output"));
        let mut places = places.iter().copied().chain([specific, whole]);
        places.find_map(|place| place.get(key)?.as_str())
    };
    let all = |key| places.iter().flat_map(move |place| place.all(key));
    let behaves = |value: &Value| {
        OutputObject::new(Some(value))
            .get("behavior")
            .is_some_and(|is| is == "deny")
    };
    if all("decision").any(|value| value == "block" || value == "deny") {
        return Some(json!({"decision": "block", "reason": reason("reason")}));
    }
    if all("permission_decision").any(|value| value == "deny") {
        let reason = reason("permission_decision_reason");
        return Some(json!({"permission_decision": "deny", "permission_decision_reason": reason}));
    }
    if let Some(denied) = all("decision").find(|value| behaves(value)) {
        let message = denied.get("message").and_then(Value::as_str);
        return Some(json!({"decision": {"behavior": "deny", "message": message}}));
    }
    let stops = top.all("continue").any(|value| value == false);
    stops.then(|| json!({"continue": false, "stop_reason": reason("stop_reason")}))
}

/// Adds a block. If the runtime of the dialect passes the reason to the model and continues, so do we.
pub(super) fn refuse(dialect: Dialect, event: Event, reason: Option<String>, output: &mut Output) {
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    let told = || reason.clone().unwrap_or_else(|| DEFAULT_REASON.to_owned());
    match (dialect, event) {
        (Dialect::Claude | Dialect::Codex, Event::PostToolUse) => {
            append_line(&mut output.additional_context, &told());
        }
        (Dialect::Gemini, Event::PostToolUse) => output.updated_tool_response = Some(told()),
        _ => output.block = Some(reason.unwrap_or_default()),
    }
}

struct OutputParser<'a> {
    dialect: Dialect,
    event: Event,
    input: &'a Input,
    top: OutputObject<'a>,
    /// The `hook_specific_output` objects: two if the key is present in `snake_case` and in `camelCase`.
    specific: &'a [OutputObject<'a>],
}

impl<'a> OutputParser<'a> {
    /// The value of a key of `hook_specific_output`, or of the same key at the top level.
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.all(key).next()
    }

    /// All values of a key of `hook_specific_output`, in `hook_specific_output` and at the top level.
    fn all(&self, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        let places = self.specific.iter().copied().chain([self.top]);
        let values: Vec<&Value> = places.flat_map(|place| place.all(key)).collect();
        values.into_iter()
    }

    /// The value of a key in `hook_specific_output` only.
    fn specific(&self, key: &str) -> Option<&'a Value> {
        self.specific.iter().find_map(|place| place.get(key))
    }

    fn text(&self, key: &str) -> Result<Option<String>, Fault> {
        parse_text(key, self.get(key))
    }

    /// True if a synthetic answer takes effect at this event. Gemini CLI uses the same key for the
    /// model's answer in the input, so after a model call, a handler that echoes it does not replace the
    /// answer.
    fn may_answer(&self) -> bool {
        self.event
            .contract()
            .honours(SpecificOutput::SyntheticResponse)
    }

    /// Parses `decision` and `reason`.
    fn decide(&self, output: &mut Output) -> Result<(), Fault> {
        let (mut blocks, mut unknown) = (false, None);
        for decision in self.all("decision").filter(|said| !said.is_object()) {
            match (decision.as_str(), self.dialect) {
                (Some(""), _) => {}
                (Some("block" | "deny"), _) => blocks = true,
                (_, Dialect::DockerAgent) => {
                    unknown = Some(format!(
                        "`decision` is {decision}; it can be `block` (`permission_decision` can be `allow`, `ask` or `deny`)"
                    ));
                }
                // Handlers of Gemini CLI return this if they have no objection.
                (Some("allow" | "approve"), Dialect::Gemini) => {}
                (Some("allow" | "approve"), _) => {
                    rule(output, Decision::Allow, self.text("reason")?);
                }
                (Some("ask"), _) => rule(output, Decision::Ask, self.text("reason")?),
                _ => {
                    unknown = Some(format!(
                        "`decision` is {decision}; it can be `block`, `deny`, `approve` or `allow`"
                    ));
                }
            }
        }
        if blocks {
            let reason = self.text("reason")?;
            let is_told_nothing = reason.as_deref().unwrap_or_default().trim().is_empty();
            if self.dialect == Dialect::Codex && self.event == Event::Stop && is_told_nothing {
                return Err(Fault::new(
                    "`decision: block` needs a `reason`, with which the agent continues",
                ));
            }
            refuse(self.dialect, self.event, reason, output);
            return Ok(());
        }
        unknown.map_or(Ok(()), |unknown| Err(Fault::new(unknown)))
    }

    /// Parses `permission_decision`, and the `decision` of a permission request.
    fn permit(&self, output: &mut Output) -> Result<(), Fault> {
        let mut unknown = None;
        for decision in self.all("permission_decision") {
            let decision = match (decision.as_str(), self.dialect) {
                (Some(""), _) => continue,
                (Some("allow"), _) => Decision::Allow,
                (Some("deny"), _) => Decision::Deny,
                (Some("ask"), _) => Decision::Ask,
                // There is no later decision here: the user is asked.
                (Some("defer"), dialect) if dialect != Dialect::DockerAgent => Decision::Ask,
                _ => {
                    unknown = Some(format!(
                        "`permission_decision` is {decision}; it can be `allow`, `ask` or `deny`"
                    ));
                    continue;
                }
            };
            rule(output, decision, self.text("permission_decision_reason")?);
        }
        for decision in self.all("decision").filter(|said| said.is_object()) {
            let said = OutputObject::new(Some(decision));
            let behavior = said.get("behavior").unwrap_or(&Value::Null);
            let decision = match behavior.as_str() {
                Some("allow") => Decision::Allow,
                Some("deny") => Decision::Deny,
                _ => {
                    unknown = Some(format!(
                        "`decision.behavior` is {behavior}; it can be `allow` or `deny`"
                    ));
                    continue;
                }
            };
            rule(output, decision, text(said, "message")?);
        }
        match (unknown, &output.permission) {
            (Some(_), Some((Decision::Deny, _))) | (None, _) => Ok(()),
            (Some(unknown), _) => Err(Fault::new(unknown)),
        }
    }

    /// Claude Code continues with the context of a `Stop` hook, as with the reason of a block. A
    /// background hook ends after the turn: its context is for the next turn.
    fn advise(&self, call: HandlerCall<'_>, output: &mut Output) {
        // Claude Code goes on with this context, which is the effect of a block here.
        let goes_on = self.dialect == Dialect::Claude && self.event == Event::Stop;
        if !goes_on || call.in_background {
            return;
        }
        if let Some(context) = output.additional_context.take() {
            output.block = match output.block.take() {
                Some(reason) if !reason.is_empty() => Some(format!("{reason}\n{context}")),
                _ => Some(context),
            };
        }
    }

    /// Parses `continue: false` and `stop_reason`.
    fn halt(&self, output: &mut Output) -> Result<(), Fault> {
        match self.top.get("continue") {
            None | Some(Value::Bool(true)) => return Ok(()),
            Some(Value::Bool(false)) => {}
            Some(other) => {
                return Err(Fault::new(format!(
                    "`continue` is {other}; it can be `true` or `false`"
                )));
            }
        }
        let stop = text(self.top, "stop_reason")?;
        let reason = match stop {
            Some(reason) => Some(reason),
            None => text(self.top, "reason")?,
        };
        let reason = reason.filter(|reason| !reason.trim().is_empty());
        let ends = matches!(self.event, Event::Stop | Event::SubagentStop);
        if ends && self.dialect.continues_on_stop_block() {
            // The agent is about to stop, which the hook asks for; this overrides a block.
            output.block = None;
            if let Some(reason) = reason {
                append_line(&mut output.system_message, &reason);
            }
        } else if self.dialect == Dialect::DockerAgent {
            output.block = Some(reason.unwrap_or_default());
        } else {
            // After a model call, there is nothing to deny.
            if self.event != Event::AfterLlmCall {
                output.block = Some(reason.clone().unwrap_or_default());
            }
            output.ends_turn = Some(reason.unwrap_or_default());
        }
        Ok(())
    }

    fn rewrite_input(&self, output: &mut Output) -> Result<(), Fault> {
        let of_decision = OutputObject::new(self.get("decision")).get("updated_input");
        let of_gemini = match self.dialect {
            Dialect::Gemini => self.specific("tool_input"),
            _ => None,
        };
        let updated = self.get("updated_input").or(of_decision).or(of_gemini);
        let (Some(updated), Some(tool)) = (updated, &self.input.tool) else {
            return Ok(());
        };
        let updated = updated
            .as_object()
            .ok_or_else(|| Fault::new("`updated_input` is no object"))?;
        let changed = tools::changed(self.dialect, tool, self.input, updated);
        output.removed_input = tools::removed(self.dialect, tool, self.input, updated);
        output.updated_input = Some(changed).filter(|changed: &Map<_, _>| !changed.is_empty());
        Ok(())
    }

    fn rewrite_messages(&self, output: &mut Output) -> Result<(), Fault> {
        if self.event != Event::BeforeLlmCall {
            return Ok(());
        }
        let rewritten = match self.get("updated_messages") {
            Some(Value::Array(updated)) if updated.is_empty() => return Ok(()),
            Some(Value::Array(updated)) => messages::parse_rewritten(self.input, updated)?,
            Some(_) => return Err(Fault::new("`updated_messages` is no list")),
            None => match self.requested()? {
                Some(rewritten) => rewritten,
                None => return Ok(()),
            },
        };
        if rewritten.changed_sent {
            append_line(
                &mut output.system_message,
                "a hook changed messages that were sent already; those stay as they were sent",
            );
        }
        output.updated_messages = rewritten.unsent;
        Ok(())
    }

    /// Appends `instruction_context` to `additional_context`.
    fn instruct(&self, output: &mut Output) -> Result<(), Fault> {
        let is_honoured = self
            .event
            .contract()
            .honours(SpecificOutput::InstructionContext);
        let said = self.get("instruction_context").filter(|_| is_honoured);
        let Some(said) = said else { return Ok(()) };
        for paragraph in instructions::read(said, &self.input.messages)? {
            append_line(&mut output.additional_context, &paragraph);
        }
        Ok(())
    }

    /// Reports `transition`, with which handlers of docker-agent select another agent; it is not
    /// supported.
    fn route(&self, output: &mut Output) {
        let Some(transition) = self.get("transition") else {
            return;
        };
        let agent = OutputObject::new(Some(transition)).get("agent");
        let agent = agent.and_then(Value::as_str).unwrap_or_default();
        let to = match agent {
            "" => "another agent".to_owned(),
            agent => format!("the agent `{agent}`"),
        };
        append_line(
            &mut output.system_message,
            &format!(
                "a hook asked to continue with {to} (`transition`), which is not supported: the same agent continues"
            ),
        );
    }

    /// Parses the messages in `llm_request`, as handlers of Gemini CLI rewrite them.
    fn requested(&self) -> Result<Option<RewrittenConversation>, Fault> {
        let request = match self.dialect {
            Dialect::Gemini => self.specific("llm_request"),
            _ => None,
        };
        let updated = OutputObject::new(request).get("messages");
        let Some(updated) = updated.and_then(Value::as_array) else {
            return Ok(None);
        };
        messages::parse_rewritten_texts(self.input, &gemini::messages(self.input), updated)
            .map(Some)
    }

    /// The replacement of the tool result, as text.
    fn tool_response(&self) -> Option<String> {
        let keys = ["updated_tool_response", "updated_tool_output"];
        let mcp = self.get("updatedMCPToolOutput");
        let response = keys.iter().find_map(|key| self.get(key)).or(mcp)?;
        Some(response_text(response))
    }
}

/// Adds a permission decision: the strongest one applies, with the first reason given for it.
fn rule(output: &mut Output, decision: Decision, reason: Option<String>) {
    match &mut output.permission {
        Some((known, _)) if *known > decision => {}
        Some((known, known_reason)) if *known == decision => {
            *known_reason = known_reason.take().or(reason);
        }
        _ => output.permission = Some((decision, reason)),
    }
}

/// Converts a result to text: the output of a command, or the texts of an MCP result.
fn response_text(response: &Value) -> String {
    if let Some(text) = response.as_str() {
        return text.to_owned();
    }
    let list = response.as_array().or(response["content"].as_array());
    let texts = list.map(|list| list.iter().map(|part| part["text"].as_str()));
    if let Some(texts) = texts.and_then(|texts| texts.collect::<Option<Vec<&str>>>()) {
        return texts.join("\n");
    }
    match (response["stdout"].as_str(), response["stderr"].as_str()) {
        (Some(stdout), None | Some("")) => stdout.to_owned(),
        (Some(stdout), Some(stderr)) => format!("{stdout}\n{stderr}"),
        (None, _) => response.to_string(),
    }
}
