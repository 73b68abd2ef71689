//! `reason.self_correct`: an output that is reviewed and improved in rounds.

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::super::arguments::{CheckedArguments, concatenated, count, declared_by, required, text};
use super::super::llm;
use super::calls::{self, ModelCalls};
use super::{ONE_OBJECT, as_text, take, take_list};
use crate::{
    Action, Arguments, Failure, Operation, OperationMetadata, Parameter, Planned, Runtime, origin,
    spending,
};

pub(super) static ABOUT: OperationMetadata = OperationMetadata::declared(
"reason.self_correct",
&["actions.reason_self_correct"],
"Lets a model do a task, and a critic review and improve the output in rounds. The result has `output`, `improvement_history`, `rounds_completed`, and `usage` and `cost`.",
&PARAMETERS,
)
.read_only()
// 2: templates in `critic_prompt` print numbers and texts as Jinja2 does.
.with_version(2);

#[rustfmt::skip]
const PARAMETERS: [Parameter; 19] = concatenated(
    &[
        required(text("task", "The task.")),
        text("generator_model", "The model that does the task; `model` by default."),
        text("critic_model", "The model that reviews the output; `model` by default."),
        count("improvement_rounds", (0, 50), "The number of reviews, 0 to 50; 2 by default."),
        text("critic_prompt", "The instruction of the critic. Templates are rendered in each round, with `output` and `task`.").rendered_with(&["output", "task"]),
    ],
    &llm::MODEL_PARAMETERS,
);

/// The instruction of the critic if the file has none.
const CRITIC: &str = "Look for errors, gaps, unclear passages and poor style.";

pub(in crate::actions) struct SelfCorrect;

#[async_trait]
impl Operation for SelfCorrect {
    declared_by!(ABOUT);

    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let [generator, critic] = models(arguments);
        Ok(json!({
            "generator": calls::inputs(arguments, generator, runtime)?,
            "critic": calls::inputs(arguments, critic, runtime)?,
        }))
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&ABOUT, &arguments);
        let rounds = given.count("improvement_rounds")?.unwrap_or(2);
        let [generator, critic] = models(&arguments);
        let mut work = CorrectionRun {
            task: given.required_text("task")?,
            calls: ModelCalls::new(&arguments, runtime),
            trace: vec![json!({
                "step": "self_correct_start",
                "task": given.text("task")?,
                "generator_model": generator,
                "critic_model": critic,
                "improvement_rounds": rounds,
            })],
            history: Vec::new(),
            given: &given,
        };
        let (mut output, generated_by) = work.generate(generator).await?;
        let mut criticized_by = Value::Null;
        let mut completed = 0;
        for round in 1..=rounds {
            if let Some((improved, model)) = work.improve(round, critic, &output).await? {
                completed += 1;
                output = improved;
                criticized_by = model;
            }
        }
        if completed < rounds {
            spending::decline_storing("a round of the critic failed");
        }
        work.trace
            .push(json!({ "step": "self_correct_complete", "rounds_completed": completed }));
        Ok(work.calls.totals(json!({
            "output": output,
            "improvement_history": work.history,
            "reasoning_trace": work.trace,
            "reasoning_answer": output,
            "model": generated_by,
            "generator_model": generated_by,
            "critic_model": criticized_by,
            "rounds_completed": completed,
        })))
    }
}

#[async_trait]
impl Action for SelfCorrect {
    async fn plan(&self, arguments: Arguments, runtime: &Runtime) -> Result<Planned, Failure> {
        let [generator, critic] = models(&arguments);
        calls::plan(&arguments, critic, runtime)?;
        calls::plan(&arguments, generator, runtime)
    }
}

/// Returns the names of the generator and the critic; `None` stands for the default model.
fn models(arguments: &Arguments) -> [Option<&str>; 2] {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    ["generator_model", "critic_model"].map(|name| text(name).or_else(|| text("model")))
}

/// One run of the action.
struct CorrectionRun<'w> {
    task: &'w str,
    given: &'w CheckedArguments<'w>,
    calls: ModelCalls<'w>,
    trace: Vec<Value>,
    history: Vec<Value>,
}

impl CorrectionRun<'_> {
    /// Returns the first output and the model that made it. An answer without the requested object counts
    /// as the output itself.
    async fn generate(&mut self, model: Option<&str>) -> Result<(Value, Value), Failure> {
        let system = format!(
            "Do the task of the user.\n\n{ONE_OBJECT}\n\
             {{\"output\": the complete result of the task, \"confidence\": a number from 0.0 to 1.0, \
             \"potential_issues\": [\"what may be wrong with the result\"]}}"
        );
        let user = format!("Task: {}", self.task);
        let reply = self.calls.ask(model, &system, &user).await?;
        let mut fields = reply.object().unwrap_or_default();
        let found = take(&mut fields, "output");
        let is_structured = found.is_some();
        let output = found.unwrap_or_else(|| reply.content.trim().into());
        if output == "" {
            return Err(reply.malformed(self.given.action(), "is empty"));
        }
        let confidence = take(&mut fields, "confidence").filter(|_| is_structured);
        self.history.push(json!({
            "round": 0,
            "type": "initial",
            "output": output,
            "confidence": confidence,
            "potential_issues": take_list(&mut fields, "potential_issues"),
        }));
        self.trace.push(json!({
            "step": "initial_generation",
            "output": output,
            "confidence": confidence,
            "structured": is_structured,
        }));
        Ok((output, reply.model))
    }

    /// Returns the improved output and the model of the critic; `None` if the round failed in a way that
    /// may pass, or the answer is not a review.
    async fn improve(
        &mut self,
        round: u64,
        model: Option<&str>,
        output: &Value,
    ) -> Result<Option<(Value, Value)>, Failure> {
        let system = format!(
            "Review the output of a task, and improve it. {}\n\n{ONE_OBJECT}\n\
             {{\"issues\": [\"what is wrong\"], \"suggestions\": [\"what would be better\"], \
             \"improved_output\": the complete output without these issues, \
             \"improvement_score\": a number from 0.0 (no better) to 1.0 (much better)}}",
            self.critic_prompt(output).await?
        );
        let user = format!("Task: {}\n\nOutput:\n{}", self.task, as_text(output));
        let reply = match self.calls.ask(model, &system, &user).await {
            Err(failure) if failure.retryable => {
                let step = format!("critique_round_{round}_error");
                self.trace
                    .push(json!({ "step": step, "error": self.calls.masked(&failure.message) }));
                return Ok(None);
            }
            reply => reply?,
        };
        let mut fields = reply.object().unwrap_or_default();
        let improved = take(&mut fields, "improved_output");
        let is_review = ["issues", "suggestions"]
            .iter()
            .any(|name| fields.get(*name).is_some_and(Value::is_array));
        if improved.is_none() && !is_review {
            let step = format!("critique_round_{round}_parse_error");
            self.trace
                .push(json!({ "step": step, "raw_content": reply.content }));
            return Ok(None);
        }
        let improved = improved.unwrap_or_else(|| output.clone());
        let issues = take_list(&mut fields, "issues");
        let score = take(&mut fields, "improvement_score");
        self.trace.push(json!({
            "step": format!("improvement_round_{round}"),
            "issues_count": issues.as_array().map_or(0, Vec::len),
            "improvement_score": score,
        }));
        self.history.push(json!({
            "round": round,
            "type": "improvement",
            "issues_found": issues,
            "suggestions": take_list(&mut fields, "suggestions"),
            "output": improved,
            "improvement_score": score,
        }));
        Ok(Some((improved, reply.model)))
    }

    async fn critic_prompt(&self, output: &Value) -> Result<String, Failure> {
        let values = Map::from_iter([
            ("output".to_owned(), output.clone()),
            ("task".to_owned(), self.task.into()),
        ]);
        if let Some(origin) = origin::current()
            && let Some(rendered) = origin.render("critic_prompt", values).await
        {
            let rendered = rendered
                .map_err(|failure| self.given.failure("template_error", failure.message))?;
            return Ok(as_text(&rendered));
        }
        Ok(self
            .given
            .text("critic_prompt")?
            .unwrap_or(CRITIC)
            .to_owned())
    }
}
