//! `reason.decompose`: a problem that is solved in parts.

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::super::arguments::{
    CheckedArguments, concatenated, declared_by, integer, required, text,
};
use super::super::llm;
use super::calls::{self, ModelCalls, Reply};
use super::{ONE_OBJECT, as_text, take, take_text};
use crate::{
    Action, Arguments, Failure, Operation, OperationMetadata, Parameter, Planned, Runtime, spending,
};

pub(super) static ABOUT: OperationMetadata = OperationMetadata::declared(
"reason.decompose",
&["actions.reason_decompose"],
"Lets a model divide a problem into parts, solve each, and combine the answers. The result has `sub_problems`, `sub_answers`, `final_answer`, and `usage` and `cost`.",
&PARAMETERS,
)
.read_only();

#[rustfmt::skip]
const PARAMETERS: [Parameter; 17] = concatenated(
    &[
        required(text("problem", "The problem to solve.")),
        integer("max_depth", "Accepted without effect: parts are not divided further. In no key.").unkeyed(),
        text("synthesis_prompt", "How to combine the answers; the model that divides the problem decides by default."),
    ],
    &llm::MODEL_PARAMETERS,
);

/// The maximum number of parts, each of which is a paid call.
const MAX_PARTS: usize = 50;

pub(in crate::actions) struct Decompose;

#[async_trait]
impl Operation for Decompose {
    declared_by!(ABOUT);

    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        calls::inputs(arguments, None, runtime)
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&ABOUT, &arguments);
        let problem = given.required_text("problem")?;
        let mut calls = ModelCalls::new(&arguments, runtime);
        let mut trace = vec![json!({
            "step": "decompose_start",
            "problem": problem,
            "max_depth": given.value_of("max_depth").unwrap_or(&json!(2)),
            "current_depth": 0,
            "model": given.text("model")?,
        })];
        let (parts, mut fields) = divide(&given, problem, &mut calls).await?;
        trace.push(json!({
            "step": "decomposition",
            "analysis": take_text(&mut fields, "analysis"),
            "sub_problem_count": parts.len(),
        }));
        let mut answers: Vec<Value> = Vec::new();
        for part in in_order(&parts) {
            let answer = solve(part, &answers, problem, &mut calls).await?;
            trace.push(json!({
                "step": format!("sub_problem_{}", as_text(&part.id)),
                "description": part.description,
                "answer": answer["answer"],
                "confidence": answer["confidence"],
            }));
            answers.push(answer);
        }
        if answers.iter().any(|answer| answer.get("error").is_some()) {
            spending::decline_storing("a part of the problem is not solved");
        }
        if let Some(error) = answers
            .iter()
            .map(|answer| answer.get("error"))
            .collect::<Option<Vec<_>>>()
        {
            let message = format!("no part of the problem was solved: {}", as_text(error[0]));
            return Err(given.transient("invalid_answer", message));
        }
        let strategy = take_text(&mut fields, "synthesis_strategy");
        let wanted = given.text("synthesis_prompt")?.unwrap_or(&strategy);
        let reply = combine(problem, wanted, &answers, &mut calls).await?;
        let mut fields = reply.object().unwrap_or_default();
        let final_answer = answer_in(&mut fields, "final_answer", &reply)
            .ok_or_else(|| reply.malformed(given.action(), "is empty"))?;
        let reasoning = take_text(&mut fields, "reasoning");
        trace.push(json!({
            "step": "synthesis",
            "reasoning": reasoning,
            "final_answer": final_answer,
            "confidence": take(&mut fields, "confidence"),
        }));
        trace.push(json!({
            "step": "decompose_complete",
            "sub_problems_solved": answers.iter().filter(|answer| answer.get("error").is_none()).count(),
            "depth_used": 0,
        }));
        let parts: Vec<Value> = parts.into_iter().map(Part::into_value).collect();
        Ok(calls.totals(json!({
            "sub_problems": parts,
            "sub_answers": answers,
            "final_answer": final_answer,
            "synthesis_reasoning": reasoning,
            "reasoning_trace": trace,
            "reasoning_answer": final_answer,
            "model": reply.model,
            "depth_used": 0,
        })))
    }
}

#[async_trait]
impl Action for Decompose {
    async fn plan(&self, arguments: Arguments, runtime: &Runtime) -> Result<Planned, Failure> {
        calls::plan(&arguments, None, runtime)
    }
}

/// A part of a problem.
struct Part {
    id: Value,
    description: String,
    /// The ids of the parts whose answers it needs.
    dependencies: Vec<Value>,
}

impl Part {
    /// Reads a part: a mapping, or its description alone. `number` is its id if it has none.
    fn read(value: Value, number: usize) -> Option<Self> {
        let mut fields = match value {
            Value::String(description) => {
                return Some(Self {
                    id: json!(number),
                    description,
                    dependencies: Vec::new(),
                });
            }
            Value::Object(fields) => fields,
            _ => return None,
        };
        let dependencies = take(&mut fields, "dependencies");
        Some(Self {
            id: take(&mut fields, "id").unwrap_or_else(|| json!(number)),
            description: as_text(&take(&mut fields, "description")?),
            dependencies: match dependencies {
                Some(Value::Array(ids)) => ids,
                Some(id) => vec![id],
                None => Vec::new(),
            },
        })
    }

    fn is(&self, id: &Value) -> bool {
        as_text(&self.id) == as_text(id)
    }

    fn into_value(self) -> Value {
        json!({ "id": self.id, "description": self.description, "dependencies": self.dependencies })
    }
}

/// Returns the parts of a problem, and the other fields of the answer of the model.
async fn divide(
    given: &CheckedArguments<'_>,
    problem: &str,
    calls: &mut ModelCalls<'_>,
) -> Result<(Vec<Part>, Map<String, Value>), Failure> {
    let system = format!(
        "Divide the problem of the user into smaller ones that can be solved one by one. Do not solve them.\n\n{ONE_OBJECT}\n\
         {{\"analysis\": \"what makes up the problem\", \"sub_problems\": [\
         {{\"id\": 1, \"description\": \"a problem that can be understood without the others\", \"dependencies\": []}}, \
         {{\"id\": 2, \"description\": \"…\", \"dependencies\": [the ids of the problems whose answers are needed first]}}], \
         \"synthesis_strategy\": \"how the answers combine to one\"}}"
    );
    let user = format!("Problem: {problem}");
    let reply = calls.ask(None, &system, &user).await?;
    let malformed = |lacks: &str| reply.malformed(given.action(), lacks);
    let mut fields = reply
        .object()
        .ok_or_else(|| malformed("is no JSON object"))?;
    let Some(Value::Array(parts)) = take(&mut fields, "sub_problems") else {
        return Err(malformed("has no list `sub_problems`"));
    };
    if parts.is_empty() || parts.len() > MAX_PARTS {
        let count = parts.len();
        return Err(malformed(&format!(
            "has {count} `sub_problems`, expected 1 to {MAX_PARTS}"
        )));
    }
    let parts = parts.into_iter().enumerate();
    let parts: Option<Vec<Part>> = parts.map(|(at, part)| Part::read(part, at + 1)).collect();
    let parts = parts.ok_or_else(|| malformed("has a sub-problem without `description`"))?;
    Ok((parts, fields))
}

/// Returns the parts in the order of the list, except that each comes after those that it depends on.
/// Dependencies in a cycle are ignored.
fn in_order(parts: &[Part]) -> Vec<&Part> {
    let mut waiting: Vec<&Part> = parts.iter().collect();
    let mut ordered = Vec::new();
    while !waiting.is_empty() {
        let is_ready = |part: &&Part| {
            let waits_for = |id: &Value| waiting.iter().any(|other| other.is(id));
            !part.dependencies.iter().any(waits_for)
        };
        let next = waiting.iter().position(is_ready).unwrap_or(0);
        ordered.push(waiting.remove(next));
    }
    ordered
}

/// Returns the answer to a part: a mapping with `error` if the call failed in a way that may pass.
async fn solve(
    part: &Part,
    answers: &[Value],
    problem: &str,
    calls: &mut ModelCalls<'_>,
) -> Result<Value, Failure> {
    let system = format!(
        "Solve one part of a larger problem. The larger problem: {problem}\n\n{ONE_OBJECT}\n\
         {{\"reasoning\": \"the way to the answer\", \"answer\": the answer to this part, \
         \"confidence\": a number from 0.0 to 1.0}}"
    );
    let mut user = format!("Part: {}", part.description);
    for answer in answers {
        if part
            .dependencies
            .iter()
            .any(|id| as_text(id) == as_text(&answer["id"]))
        {
            user.push_str(&format!(
                "\nAnswer to part {}: {}",
                as_text(&answer["id"]),
                as_text(&answer["answer"])
            ));
        }
    }
    let (id, description) = (&part.id, &part.description);
    let unsolved = |error: &str| json!({ "id": id, "description": description, "error": error, "answer": null });
    let reply = match calls.ask(None, &system, &user).await {
        Err(failure) if failure.retryable => {
            return Ok(unsolved(&calls.masked(&failure.message)));
        }
        reply => reply?,
    };
    let mut fields = reply.object().unwrap_or_default();
    let Some(answer) = answer_in(&mut fields, "answer", &reply) else {
        return Ok(unsolved("the answer of the model is empty"));
    };
    Ok(json!({
        "id": id,
        "description": description,
        "reasoning": fields.get("reasoning"),
        "answer": answer,
        "confidence": fields.get("confidence"),
    }))
}

/// Returns the field of an answer, or else the text of the answer; `None` if that is empty.
fn answer_in(fields: &mut Map<String, Value>, name: &str, reply: &Reply) -> Option<Value> {
    take(fields, name).or_else(|| {
        let text = reply.content.trim();
        (!text.is_empty()).then(|| text.into())
    })
}

/// Returns the answer of the model to the whole problem.
async fn combine(
    problem: &str,
    wanted: &str,
    answers: &[Value],
    calls: &mut ModelCalls<'_>,
) -> Result<Reply, Failure> {
    let system = format!(
        "Combine the answers to the parts of a problem into one answer. {wanted}\n\n{ONE_OBJECT}\n\
         {{\"reasoning\": \"how the answers were combined\", \"final_answer\": the answer to the whole problem, \
         \"confidence\": a number from 0.0 to 1.0}}"
    );
    let user = format!(
        "Problem: {problem}\n\nAnswers to its parts:\n{}",
        Value::from(answers.to_vec())
    );
    calls.ask(None, &system, &user).await
}
