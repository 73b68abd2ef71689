//! Claude Code's `prompt` hooks: a question to a model, which may object.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_model::{Model, ModelSettings, OutputFormat};
use serde_json::{Map, Value, json};

use super::judgement::objects;
use super::model::{ModelQuestion, find_model};
use super::{Handler, HandlerContext};
use crate::definition::HookEntry;
use crate::dependencies::HookDependencies;
use crate::input::Input;
use crate::output::{Fault, Output};

/// The placeholder for the hook input.
const ARGUMENTS: &str = "$ARGUMENTS";

/// Model names that let the runtime choose the model.
const DEFAULT_MODEL_NAMES: [&str; 5] = ["", "inherit", "haiku", "sonnet", "opus"];

const SYSTEM: &str = "You judge one step of an agent for the people who it works for. You have no tools: judge by the given input. Answer with one JSON object and nothing else: {\"ok\": true} if what you are asked about holds and the step may be made, {\"ok\": false, \"reason\": \"…\"} if not.";

struct PromptHandler {
    model: Option<Model>,
    prompt: String,
    entry: HookEntry,
}

pub(super) fn create(
    model: Option<&str>,
    prompt: &str,
    entry: &HookEntry,
    dependencies: &HookDependencies,
    shared: &HandlerContext,
) -> Result<Arc<dyn Handler>, Problem> {
    let named = model.unwrap_or_default();
    let model = match find_model(named, dependencies) {
        Ok(model) => Some(model),
        // After the look-up: a model of the user's with such a name takes precedence.
        Err(_) if DEFAULT_MODEL_NAMES.contains(&named) => {
            let usual = dependencies.models.choose(None, &ModelSettings::default());
            let usual = usual.ok().filter(|model| model.ready().is_ok());
            usual.or_else(|| shared.model.clone())
        }
        Err(problem) => return Err(problem),
    };
    Ok(Arc::new(PromptHandler {
        model,
        prompt: prompt.to_owned(),
        entry: entry.clone(),
    }))
}

#[async_trait]
impl Handler for PromptHandler {
    async fn handle(&self, input: &Input) -> Result<Output, Fault> {
        let model = self.model.as_ref().ok_or_else(|| {
            Fault::new("there is no model to ask: give the hook a `model`, or the settings one")
        })?;
        let question = ModelQuestion {
            system: Some(SYSTEM.to_owned()),
            question: self.question(input)?,
            form: Some(form()),
        };
        question
            .answer(model, |answer| self.interpret(answer))
            .await
    }
}

impl PromptHandler {
    fn question(&self, input: &Input) -> Result<String, Fault> {
        let told = self.entry.dialect.write(&self.entry, input)?;
        let told = String::from_utf8_lossy(&told);
        Ok(if self.prompt.contains(ARGUMENTS) {
            self.prompt.replace(ARGUMENTS, &told)
        } else {
            format!("{}\n\n{told}", self.prompt)
        })
    }

    fn interpret(&self, answer: &str) -> Result<Output, Fault> {
        let mut output = Output::default();
        if let Some(reason) = find_objection(answer)? {
            let HookEntry { dialect, event, .. } = self.entry;
            dialect.refuse(event, Some(reason), &mut output);
        }
        Ok(output)
    }
}

/// Returns the objection in an answer, if there is one. An answer that contains both results is an
/// objection.
fn find_objection(answer: &str) -> Result<Option<String>, Fault> {
    let said: Vec<(bool, String)> = objects::<Map<String, Value>>(answer)
        .filter_map(|said| {
            let reason = said.get("reason").and_then(Value::as_str);
            Some((
                said.get("ok")?.as_bool()?,
                reason.unwrap_or_default().to_owned(),
            ))
        })
        .collect();
    let objection = said.iter().find(|(is_ok, _)| !is_ok);
    match (objection, said.is_empty()) {
        (Some((_, reason)), _) => Ok(Some(reason.clone())),
        (None, false) => Ok(None),
        (None, true) => Err(Fault::new(
            "the model's answer is neither {\"ok\": true} nor {\"ok\": false, \"reason\": …}",
        )),
    }
}

/// The output schema for providers, which enforce it if they can.
fn form() -> OutputFormat {
    OutputFormat {
        name: "objection".to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "ok": { "type": "boolean" },
                "reason": { "type": "string" },
            },
            "required": ["ok", "reason"],
            "additionalProperties": false,
        }),
        strict: true,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/handler/prompt.rs"]
mod tests;
