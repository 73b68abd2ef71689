//! `reflection.loop` and `retry.loop`: work that is repeated until its result is valid.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::node::{MAX_DELAY, NodeOutcome};
use super::{RunFailure, Runner};
use crate::actions::reflection::{Judgement, RETRY_DELAY};
use crate::actions::truthiness::is_true;
use crate::actions::validate::UNREADABLE;
use crate::format::{Evaluator, Node, Reflection, Retries};
use crate::template::{Scope, State};

impl Runner<'_> {
    /// Generates, evaluates and corrects an output until it is valid or the rounds are used up.
    pub(super) async fn reflect(
        &self,
        reflection: &Reflection,
        node: &Node,
        path: &str,
        state: &State,
    ) -> Result<Value, RunFailure> {
        let limits = LoopLimits::new(self, &reflection.limits, node, path, state).await?;
        let max = limits.integer("max_iterations", 3)?;
        let on_failure = limits.text("on_failure", "return_best");
        if max == 0 {
            return Err(limits.invalid("`max_iterations` must be at least 1"));
        }
        if !["return_best", "return_last", "raise"].contains(&on_failure.as_str()) {
            return Err(limits.invalid(&format!(
                "`on_failure` is `{on_failure}`: expected return_best, return_last or raise"
            )));
        }
        let mut state = state.clone();
        let mut history: Vec<Value> = Vec::new();
        let mut best = (Value::Null, -1.0);
        for round in 1..=max {
            state.set("reflection_iteration", json!(round));
            state.set("reflection_history", json!(history));
            let generating = format!("{path}/generator[{round}]");
            let output = match self
                .run_part(&reflection.generator, generating, &state)
                .await
            {
                Ok(output) => output,
                Err(failure) if is_recorded(&failure) => {
                    let errors =
                        json!([{ "message": format!("Generator failed: {}", failure.message) }]);
                    history.push(round_entry(round, &Value::Null, false, 0.0, &errors));
                    state.set("reflection_errors", errors);
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            state.set("reflection_output", output.clone());
            let evaluating = format!("{path}/evaluator[{round}]");
            let judgement = self
                .evaluate(&reflection.evaluator, evaluating, &output, &state)
                .await?;
            let Judgement {
                valid,
                score,
                errors,
            } = judgement;
            let errors = Value::Array(errors);
            history.push(round_entry(round, &output, valid, score, &errors));
            if score > best.1 {
                best = (output.clone(), score);
            }
            state.set("reflection_best", best.0.clone());
            state.set("reflection_best_score", json!(best.1));
            state.set("reflection_errors", errors.clone());
            if valid {
                let ended = json!({
                    "reflection_iteration": round,
                    "reflection_output": output,
                    "reflection_errors": [],
                    "reflection_history": history,
                    "reflection_best": output,
                    "reflection_best_score": score,
                    "success": true,
                    "valid": true,
                });
                return Ok(with_fields_of(&output, ended));
            }
            // After the last round, there is no generation that could use a correction.
            if let Some(corrector) = reflection.corrector.as_ref().filter(|_| round < max) {
                let correcting = format!("{path}/corrector[{round}]");
                match self.run_part(corrector, correcting, &state).await {
                    Ok(Value::Object(fields)) => state.merge(fields),
                    Ok(_) => {}
                    Err(failure) if is_recorded(&failure) => {
                        let mut errors = errors;
                        if let Value::Array(errors) = &mut errors {
                            errors.push(json!({
                                "message": format!("Corrector failed: {}", failure.message),
                                "type": "corrector_error",
                            }));
                        }
                        state.set("reflection_errors", errors);
                    }
                    Err(failure) => return Err(failure),
                }
            }
        }
        let last = history.last().cloned().unwrap_or_default();
        let output = match on_failure.as_str() {
            "return_last" => last["output"].clone(),
            "raise" => {
                let message = format!(
                    "no output was valid after {max} rounds; errors of the last: {}",
                    last["errors"]
                );
                return Err(RunFailure::new(path, "reflection_failed", message).at(&node.place));
            }
            _ => best.0.clone(),
        };
        let exhausted = json!({
            "reflection_iteration": max,
            "reflection_output": output,
            "reflection_errors": last["errors"],
            "reflection_history": history,
            "reflection_best": best.0,
            "reflection_best_score": best.1,
            "success": false,
            "valid": false,
            "exhausted": true,
        });
        Ok(with_fields_of(&output, exhausted))
    }

    async fn evaluate(
        &self,
        evaluator: &Evaluator,
        path: String,
        output: &Value,
        state: &State,
    ) -> Result<Judgement, RunFailure> {
        let judged = match evaluator {
            Evaluator::Schema(schema) => {
                let scope = Scope::new(&self.context, state);
                let schema = self.render(schema, &path, &scope).await?;
                return Ok(Judgement::from_schema(output, &schema));
            }
            Evaluator::Model(ask) => {
                let mut state = state.clone();
                state.set("output_to_evaluate", output.clone());
                let answer = self.run_part(ask, path, &state).await;
                answer.map(|answer| {
                    Judgement::from_answer(answer["content"].as_str().unwrap_or_default())
                })
            }
            Evaluator::Code(code) => {
                let mut state = state.clone();
                state.set("output", output.clone());
                let returned = self.run_part(code, path, &state).await;
                returned.map(|returned| Judgement::from_code(&returned))
            }
        };
        match judged {
            Err(failure) if is_recorded(&failure) => {
                let what = match evaluator {
                    Evaluator::Model(_) => "LLM evaluation failed",
                    _ => "Custom evaluator error",
                };
                Ok(Judgement::failed(&format!("{what}: {}", failure.message)))
            }
            judged => judged,
        }
    }

    /// Validates and corrects until the validation succeeds or the retries are used up. Returns the fields
    /// that the loop has set.
    pub(super) async fn retry(
        &self,
        retries: &Retries,
        node: &Node,
        path: &str,
        state: &State,
    ) -> Result<Value, RunFailure> {
        let limits = LoopLimits::new(self, &retries.limits, node, path, state).await?;
        let max = limits.integer("max_retries", 1)?;
        let delay = limits.delay("retry_delay")?;
        let correct = &self.agent.nodes[retries.correct];
        let mut state = state.flattened().branch();
        for count in 0..=max {
            state.set("_retry_count", json!(count));
            let validating = format!("{path}/validate[{}]", count + 1);
            let validated = match self.run_part(&retries.validate, validating, &state).await {
                Ok(Value::Object(fields)) => fields,
                Ok(_) => return Err(limits.invalid("`validate` gave no mapping with `valid`")),
                Err(failure) if is_recorded(&failure) => Map::from_iter([
                    ("valid".to_owned(), json!(false)),
                    (
                        "errors".to_owned(),
                        json!([{ "message": failure.message, "type": "validation_error" }]),
                    ),
                ]),
                Err(failure) => return Err(failure),
            };
            let valid = validated.get("valid").is_some_and(is_true);
            let errors = validated.get("errors").cloned().unwrap_or(json!([]));
            let outcome = |state: State, errors: Value, exhausted: bool| {
                let mut fields = retry_fields(state, count, errors, json!(validated), exhausted);
                fields.extend(validated.clone());
                Value::Object(fields)
            };
            if valid {
                return Ok(outcome(state, json!([]), false));
            }
            state.set("_retry_errors", errors.clone());
            if count >= max {
                return Ok(outcome(state, errors, true));
            }
            let correcting = format!("{path}/{}[{}]", correct.name, count + 1);
            // A copy: a failed correction must leave the state that was validated.
            let mut corrected = state.clone();
            match self.node(correct, correcting, &mut corrected).await {
                Ok(_) => state = corrected,
                Err(failure) if is_recorded(&failure) => {
                    return Ok(uncorrected(state, count, &errors, &correct.name, &failure));
                }
                Err(failure) => return Err(failure),
            }
            tokio::time::sleep(delay).await;
        }
        Err(limits.invalid("`max_retries` is too large"))
    }

    /// Runs a part of a loop. Returns its result.
    async fn run_part(
        &self,
        part: &Node,
        path: String,
        state: &State,
    ) -> Result<Value, RunFailure> {
        let after = self.node(part, path, &mut state.clone()).await?;
        Ok(match after {
            NodeOutcome::Flow(result) => Arc::unwrap_or_clone(result),
            NodeOutcome::Fallback(_) => Value::Null,
        })
    }
}

/// True if a failure is recorded as a failed round. Other failures would fail every round in the same way,
/// or have to end the run.
fn is_recorded(failure: &RunFailure) -> bool {
    failure.retryable || ["script_error", UNREADABLE].contains(&failure.kind)
}

fn round_entry(round: u64, output: &Value, valid: bool, score: f64, errors: &Value) -> Value {
    json!({ "iteration": round, "output": output, "score": score, "valid": valid, "errors": errors })
}

/// Builds the result of a reflection: the fields of `known`, overwritten by the fields of the output.
fn with_fields_of(output: &Value, known: Value) -> Value {
    let mut fields = match known {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    match output {
        Value::Object(output) => fields.extend(output.clone()),
        other => {
            fields.insert("result".to_owned(), other.clone());
        }
    }
    Value::Object(fields)
}

/// Builds the result of a loop whose correction failed.
fn uncorrected(
    state: State,
    count: u64,
    errors: &Value,
    correct: &str,
    failure: &RunFailure,
) -> Value {
    let mut all = errors.as_array().cloned().unwrap_or_default();
    all.push(json!({
        "message": format!("Correction node '{correct}' failed: {}", failure.message),
        "type": "correction_error",
    }));
    let result = json!({ "valid": false, "errors": errors, "correction_error": failure.message });
    let mut fields = retry_fields(state, count, json!(all), result, false);
    fields.insert("valid".to_owned(), json!(false));
    Value::Object(fields)
}

/// Returns the fields that a loop has set, with those about its rounds.
fn retry_fields(
    state: State,
    count: u64,
    errors: Value,
    result: Value,
    exhausted: bool,
) -> Map<String, Value> {
    let mut fields = state.into_own_fields();
    fields.insert("_retry_count".to_owned(), json!(count));
    fields.insert("_retry_errors".to_owned(), errors);
    fields.insert("_retry_result".to_owned(), result);
    fields.insert("_retry_exhausted".to_owned(), json!(exhausted));
    fields
}

/// The rendered limits of a loop.
struct LoopLimits<'l> {
    fields: Map<String, Value>,
    node: &'l Node,
    path: &'l str,
}

impl<'l> LoopLimits<'l> {
    async fn new(
        runner: &Runner<'_>,
        limits: &crate::template::Prepared,
        node: &'l Node,
        path: &'l str,
        state: &State,
    ) -> Result<Self, RunFailure> {
        let scope = Scope::new(&runner.context, state);
        let rendered = runner.render(limits, path, &scope).await?;
        Ok(Self {
            fields: match rendered {
                Value::Object(fields) => fields,
                _ => Map::new(),
            },
            node,
            path,
        })
    }

    fn invalid(&self, message: &str) -> RunFailure {
        RunFailure::new(self.path, "validation_error", message).at(&self.node.place)
    }

    fn number(&self, name: &str) -> Result<Option<f64>, RunFailure> {
        let value = match self.fields.get(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(value) => value,
        };
        let number = match value {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_f64(),
        };
        match number.filter(|number| *number >= 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(self.invalid(&format!("`{name}` is {value}: expected a number from 0"))),
        }
    }

    fn integer(&self, name: &str, default: u64) -> Result<u64, RunFailure> {
        const MAX: f64 = 1_000.0;
        match self.number(name)? {
            None => Ok(default),
            Some(number) if number.fract() == 0.0 && number <= MAX => Ok(number as u64),
            Some(number) => Err(self.invalid(&format!(
                "`{name}` is {number}: expected a whole number up to {MAX}"
            ))),
        }
    }

    fn delay(&self, name: &str) -> Result<Duration, RunFailure> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(Duration::ZERO),
            Some(value) => RETRY_DELAY
                .read_json(value)
                .map(|delay| delay.min(MAX_DELAY))
                .map_err(|refusal| {
                    self.invalid(&format!("`{name}` {}: {}", refusal.cause, refusal.remedy))
                }),
        }
    }

    fn text(&self, name: &str, default: &str) -> String {
        let text = self.fields.get(name).and_then(Value::as_str);
        text.unwrap_or(default).to_owned()
    }
}
