//! `reason.react`: a model that thinks, uses tools, and sees their results, until it has an answer.

use std::borrow::Cow;

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_core::text::truncate;
use cachalot_core::tree::Node;
use serde_json::{Map, Value, json};

use super::super::arguments::{
    CheckedArguments, concatenated, count, declared_by, list, required, text,
};
use super::super::llm;
use super::calls::{self, ModelCalls, message};
use super::tools::{self, Tools};
use super::{ONE_OBJECT, take, take_text};
use crate::action::argument_checker::ArgumentChecker;
use crate::report::Event;
use crate::{
    Action, Arguments, CacheClass, Failure, Operation, OperationMetadata, Parameter, Planned,
    Registry, Runtime,
};

pub(super) static ABOUT: OperationMetadata = OperationMetadata::declared(
"reason.react",
&["actions.reason_react"],
"Lets a model think, use tools and see their results in steps, until it has an answer. The result has `final_answer`, `steps`, `total_steps`, and `usage` and `cost`.",
&PARAMETERS,
)
.with_cache_class(CacheClass::Excluded("runs other actions, whose effects a hit would skip"));

#[rustfmt::skip]
const PARAMETERS: [Parameter; 17] = concatenated(
    &[
        required(text("goal", "The goal to reach, or the question to answer.")),
        list("tools", "The actions that the model may run, with arguments of its choice. Written out, without templates."),
        count("max_steps", (1, 100), "The number of answers of the model, 1 to 100; 10 by default."),
    ],
    &llm::MODEL_PARAMETERS,
);

/// The action by which the model gives its answer.
const FINAL: &str = "final_answer";

/// The maximum number of characters of a tool's result that the model sees.
const MAX_OBSERVATION_CHARS: usize = 50_000;

pub(in crate::actions) struct React;

#[async_trait]
impl Operation for React {
    declared_by!(ABOUT);

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&ABOUT, &arguments);
        let goal = given.required_text("goal")?;
        let maximum = given.count("max_steps")?.unwrap_or(10);
        let tools = Tools::read(&given, &runtime.actions)?;
        let mut calls = ModelCalls::new(&arguments, runtime);
        let mut messages = vec![
            message("system", &system(&tools)),
            message("user", &format!("Goal: {goal}")),
        ];
        let mut steps: Vec<Value> = Vec::new();
        let mut trace = vec![json!({
            "step": "react_start",
            "goal": goal,
            "tools": tools.names(),
            "max_steps": maximum,
            "model": given.text("model")?,
        })];
        let mut model = Value::Null;
        for number in 1..=maximum {
            let reply = calls.converse(None, messages.clone()).await?;
            model.clone_from(&reply.model);
            if reply.content.trim().is_empty() {
                return Err(reply.malformed(given.action(), "is empty"));
            }
            messages.push(message("assistant", &reply.content));
            let step = match Step::read(reply.object()) {
                Ok(step) => step,
                Err(lacks) => {
                    trace.push(json!({
                        "step": format!("step_{number}_parse_error"),
                        "error": format!("the answer {lacks}"),
                        "raw_content": reply.content,
                    }));
                    messages.push(message(
                        "user",
                        &format!("Your answer {lacks}. Answer with one JSON object as described."),
                    ));
                    continue;
                }
            };
            let is_final = step.action == FINAL;
            let observation = if is_final {
                "The goal is reached.".to_owned()
            } else {
                tools.run(&step.action, &step.input, number, runtime).await
            };
            let mut record = json!({
                "step": number,
                "thought": step.thought,
                "action": step.action,
                "action_input": step.input,
                "observation": observation,
            });
            steps.push(record.clone());
            record["type"] = json!(if is_final { FINAL } else { "action" });
            trace.push(record);
            if let Some(answer) = step.answer {
                trace.push(json!({
                    "step": "react_complete",
                    "total_steps": number,
                    "final_answer": answer,
                }));
                return Ok(calls.totals(json!({
                    "steps": steps,
                    "final_answer": answer,
                    "reasoning_trace": trace,
                    "react_steps": steps,
                    "reasoning_answer": answer,
                    "model": model,
                    "total_steps": number,
                })));
            }
            messages.push(message(
                "user",
                &format!("Result of `{}`: {}", step.action, shown(&observation)),
            ));
        }
        let warning = format!("`max_steps` ({maximum}) is reached without an answer");
        runtime.reporter.report(Event::Warning {
            message: format!("{}: {warning}", given.action()),
        });
        trace
            .push(json!({ "step": "react_max_steps", "total_steps": maximum, "warning": warning }));
        Ok(calls.totals(json!({
            "steps": steps,
            "final_answer": null,
            "reasoning_trace": trace,
            "react_steps": steps,
            "model": model,
            "total_steps": maximum,
            "warning": warning,
        })))
    }
}

#[async_trait]
impl Action for React {
    fn check(&self, with: Option<&Node>, registry: &Registry) -> Vec<Problem> {
        let mut problems = ArgumentChecker::new(&ABOUT, with).problems();
        problems.extend(tools::problems(with, registry));
        problems
    }

    fn is_tool(&self) -> bool {
        false
    }

    async fn plan(&self, arguments: Arguments, runtime: &Runtime) -> Result<Planned, Failure> {
        calls::plan(&arguments, None, runtime)
    }
}

fn system(tools: &Tools) -> String {
    format!(
        "Reach the goal of the user in steps. In each step, think, and then run one tool or give the answer. \
         The result of a tool is shown to you before the next step.\n\nTools, with their parameters:\n{}\
         - {FINAL}: Ends the work with the answer.\n    answer (any JSON, required): The answer.\n\n{ONE_OBJECT}\n\
         {{\"thought\": \"why this step\", \"action\": \"the name of a tool or {FINAL}\", \
         \"action_input\": {{\"parameter\": \"value\"}}}}\n\nRun one tool per step. Use {FINAL} only when the goal is reached.",
        tools.describe()
    )
}

/// One step of the model.
struct Step {
    thought: String,
    action: String,
    input: Value,
    /// The answer, if this step gives it.
    answer: Option<Value>,
}

impl Step {
    /// Reads a step. The error is a clause that follows "the answer".
    fn read(fields: Option<Map<String, Value>>) -> Result<Self, &'static str> {
        let mut fields = fields.ok_or("is no JSON object")?;
        let action = match take(&mut fields, "action") {
            Some(Value::String(action)) => action,
            _ => return Err("has no `action`"),
        };
        let input = take(&mut fields, "action_input").unwrap_or(Value::Null);
        let answer = match &input {
            _ if action != FINAL => None,
            Value::Object(given) if given.contains_key("answer") => Some(given["answer"].clone()),
            other => Some(other.clone()),
        };
        if answer.as_ref().is_some_and(Value::is_null) {
            return Err("has no `answer` in its `action_input`");
        }
        Ok(Self {
            thought: take_text(&mut fields, "thought"),
            action,
            input,
            answer,
        })
    }
}

/// Returns the part of an observation that the model sees.
fn shown(observation: &str) -> String {
    match truncate(observation, MAX_OBSERVATION_CHARS) {
        Cow::Borrowed(whole) => whole.to_owned(),
        Cow::Owned(cut) => format!(
            "{cut} (cut off after {MAX_OBSERVATION_CHARS} of {} characters)",
            observation.chars().count()
        ),
    }
}
