//! `reason.cot`: an answer with the thinking that leads to it.

use async_trait::async_trait;
use cachalot_core::config::words;
use serde_json::{Value, json};

use super::super::arguments::{
    CheckedArguments, concatenated, declared_by, list, required, text, word,
};
use super::super::llm;
use super::calls::{self, ModelCalls};
use super::{ONE_OBJECT, as_text, take, take_text};
use crate::report::Event;
use crate::{
    Action, Arguments, Failure, Operation, OperationMetadata, Parameter, Planned, Runtime,
};

pub(super) static ABOUT: OperationMetadata = OperationMetadata::declared(
"reason.cot",
&["actions.reason_cot"],
"Asks a model for an answer and the thinking that leads to it. The result has `thinking`, `answer`, and `usage` and `cost`.",
&PARAMETERS,
)
.read_only();

#[rustfmt::skip]
const PARAMETERS: [Parameter; 17] = concatenated(
    &[
        required(text("problem", "The problem to solve.")),
        word("thinking_format", &FORMAT_WORDS, "The way to think: `step_by_step` (by default), `pros_cons`, `tree` or `first_principles`."),
        list("few_shot_examples", "Solved problems: mappings with `problem`, `thinking` and `answer`."),
    ],
    &llm::MODEL_PARAMETERS,
);

/// The formats of thinking, the default first, with their instructions.
#[rustfmt::skip]
const FORMATS: [(&str, &str); 4] = [
    ("step_by_step", "State what is given and what is asked. Then take one step after another, and show each step with its result."),
    ("pros_cons", "Collect the arguments for each possible answer and those against it, weigh them against each other, and decide."),
    ("tree", "Divide the problem into branches and follow each to its end. Drop the branches that fail, and combine the findings of the others."),
    ("first_principles", "Start from facts that are beyond doubt, take nothing else for granted, and derive the answer from these facts alone."),
];

const FORMAT_WORDS: [&str; 4] = words(&FORMATS);

pub(in crate::actions) struct Cot;

#[async_trait]
impl Operation for Cot {
    declared_by!(ABOUT);

    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        calls::inputs(arguments, None, runtime)
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&ABOUT, &arguments);
        let problem = given.required_text("problem")?;
        let (format, instruction) = format(&given, runtime)?;
        let system = format!(
            "Solve the problem of the user. {instruction}\n\n{ONE_OBJECT}\n\
             {{\"thinking\": \"the whole way to the answer\", \"answer\": the answer: text, a number or other JSON}}{}",
            examples(&given)?
        );
        let mut calls = ModelCalls::new(&arguments, runtime);
        let user = format!("Problem: {problem}");
        let reply = calls.ask(None, &system, &user).await?;
        let mut fields = reply
            .object()
            .ok_or_else(|| reply.malformed(given.action(), "is no JSON object"))?;
        let answer = take(&mut fields, "answer")
            .ok_or_else(|| reply.malformed(given.action(), "has no `answer`"))?;
        let thinking = take_text(&mut fields, "thinking");
        let trace = json!([
            {
                "step": "cot_request",
                "problem": problem,
                "thinking_format": format,
                "model": given.text("model")?,
            },
            { "step": "cot_response", "thinking": thinking, "answer": answer },
        ]);
        Ok(calls.totals(json!({
            "thinking": thinking,
            "answer": answer,
            "reasoning_trace": trace,
            "model": reply.model,
            "thinking_format": format,
            "reasoning_thinking": thinking,
            "reasoning_answer": answer,
        })))
    }
}

#[async_trait]
impl Action for Cot {
    async fn plan(&self, arguments: Arguments, runtime: &Runtime) -> Result<Planned, Failure> {
        calls::plan(&arguments, None, runtime)
    }
}

/// Returns the format of thinking and its instruction. An unknown format, which only a template can give,
/// is replaced by the default with a warning.
fn format(
    given: &CheckedArguments<'_>,
    runtime: &Runtime,
) -> Result<(&'static str, &'static str), Failure> {
    let Some(wanted) = given.text("thinking_format")? else {
        return Ok(FORMATS[0]);
    };
    let known = FORMATS.into_iter().find(|(name, _)| *name == wanted);
    Ok(known.unwrap_or_else(|| {
        let message = format!(
            "{}: there is no `thinking_format` `{wanted}`; `{}` is used",
            given.action(),
            FORMATS[0].0
        );
        runtime.reporter.report(Event::Warning {
            message: runtime.secret_set.redact(&message).into_owned(),
        });
        FORMATS[0]
    }))
}

fn examples(given: &CheckedArguments<'_>) -> Result<String, Failure> {
    let mut text = String::new();
    for (index, example) in given
        .list("few_shot_examples")?
        .into_iter()
        .flatten()
        .enumerate()
    {
        let Some(fields) = example.as_object() else {
            return Err(given.wrong(
                "few_shot_examples",
                format_args!("[{index}] is no mapping with `problem`, `thinking` and `answer`"),
            ));
        };
        if index == 0 {
            text.push_str("\n\nProblems that are solved already:");
        }
        text.push('\n');
        for name in ["problem", "thinking", "answer"] {
            if let Some(value) = fields.get(name) {
                text.push_str(&format!("\n{name}: {}", as_text(value)));
            }
        }
    }
    Ok(text)
}
