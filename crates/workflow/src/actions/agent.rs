//! `agent.run`: a turn of an agent as a step.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_agent::{AgentDefinition, Cancel, Chat, Event, Listener, Stop, Team, Written};
use cachalot_core::tree;
use serde_json::{Value, json};

use super::Registry;
use super::arguments::{Given, optional, required};
use crate::report::{self, Reporter, current_node};
use crate::{About, Action, Arguments, Failure, Memoizable, ParameterKind, Runtime, spending};

pub(super) fn register(registry: &mut Registry) {
    registry.register(Run);
}

static RUN: About = About {
    names: &["agent.run", "actions.agent_run"],
    version: 1,
    doc: "Lets an agent work on something, with its tools and sub-agents, until it has an answer. \
          Nobody is asked: what the permissions would ask about is refused. \
          The result has `text`, `stop_reason`, `model_calls`, `tool_calls`, `usage` and `cost`.",
    parameters: &[
        required(
            "input",
            ParameterKind::Text,
            "What the agent is told to do.",
        ),
        optional(
            "agent",
            ParameterKind::Text,
            "The agent's name in `agents`; the entry (`root`, or the first) by default.",
        ),
        optional(
            "file",
            ParameterKind::Text,
            "Another agent file (relative to the run's directory); this one by default.",
        ),
    ],
    memoizable: Memoizable::Yes,
};

struct Run;

#[async_trait]
impl Action for Run {
    fn about(&self) -> &About {
        &RUN
    }

    /// The agent with its model, if its answer depends on nothing else.
    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = Given::seen(&RUN, arguments);
        let team = team(&given, runtime)?;
        let agent = agent(&given, &team)?;
        if let Some(why) = why_not_memoizable(agent) {
            return Err(given.failure("not_memoizable", why));
        }
        let AgentDefinition {
            name,
            model,
            instruction,
            max_iterations,
            // Without tools it does not loop, and whoever delegates to it reads its description.
            max_repetitions: _,
            description: _,
            toolsets: _,
            sub_agents: _,
            add_date: _,
            recall: _,
        } = agent;
        let identity = runtime
            .models
            .configured_as(team.configured.clone())
            .find(model)
            .map(|model| model.identity())
            .map_err(|error| given.failure("configuration_error", error))?;
        Ok(json!({
            "agent": name,
            "instruction": instruction,
            "max_iterations": max_iterations,
            "model": identity,
        }))
    }

    fn looks_at(&self, arguments: &Arguments, runtime: &Runtime) -> Vec<PathBuf> {
        let file = arguments.get("file").and_then(Value::as_str);
        file.map(|file| runtime.directory.join(file))
            .into_iter()
            .collect()
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = Given::to(&RUN, arguments);
        let team = team(&given, runtime)?;
        let name = agent(&given, &team)?.name.clone();
        let input = given.required_text("input")?;
        let Some(houses) = &runtime.houses else {
            return Err(given.failure("configuration_error", "agents cannot be run here"));
        };
        let told = Arc::new(Told {
            reporter: Arc::clone(&runtime.reporter),
            node: current_node(),
        });
        let house = houses
            .house(&team, told)
            .await
            .map_err(|why| given.failure("configuration_error", why))?;
        let mut chat = Chat::begin(house, team, Some(&name))
            .await
            .map_err(|error| failure(&given, &error))?;
        let turn = chat.turn(input, &Cancel::default()).await;
        let sum = chat.close().await;
        runtime.meter.record(Some(&sum.usage), sum.paid.cost);
        let about = json!({ "agent": name, "input": input });
        spending::account(runtime, given.action(), &about, sum.paid).await;
        let turn = turn.map_err(|error| failure(&given, &error))?;
        if turn.stop != Stop::End {
            spending::decline("the agent did not come to an end by itself");
        }
        let dollars = (sum.paid.cost.unpriced == 0).then(|| sum.paid.cost.dollars());
        Ok(json!({
            "text": turn.text,
            "stop_reason": stop(&turn.stop),
            "model_calls": sum.model_calls,
            "tool_calls": sum.tool_calls,
            "usage": {
                "input_tokens": sum.usage.total_input(),
                "output_tokens": sum.usage.output,
                "cache_read_tokens": sum.usage.cache_read,
                "cache_write_tokens": sum.usage.cache_write(),
                "reasoning_tokens": sum.usage.reasoning,
            },
            "cost": dollars,
        }))
    }
}

/// Why a whole run of this agent must not be answered from an earlier one.
fn why_not_memoizable(agent: &AgentDefinition) -> Option<&'static str> {
    if agent.toolsets.is_some() || !agent.sub_agents.is_empty() {
        Some("the agent has tools or sub-agents, whose effects a hit would swallow")
    } else if agent.add_date || agent.recall > 0 {
        Some("the agent is told the time or what is remembered, which changes")
    } else {
        None
    }
}

fn team(given: &Given<'_>, runtime: &Runtime) -> Result<Arc<Team>, Failure> {
    match given.text("file")? {
        Some(file) => load(given, file, runtime).map(Arc::new),
        None => runtime.team.clone().ok_or_else(|| {
            given.failure(
                "validation_error",
                "there are no `agents` in this file; add them, or name another file with `file`",
            )
        }),
    }
}

fn load(given: &Given<'_>, file: &str, runtime: &Runtime) -> Result<Team, Failure> {
    let path = runtime.directory.join(file);
    let text = std::fs::read_to_string(&path)
        .map_err(|error| given.failure("not_found", format_args!("{}: {error}", path.display())))?;
    let written = Written {
        text: &text,
        directory: path.parent().unwrap_or(Path::new("")),
        environment: &runtime.environment,
    };
    tree::parse(file, &text)
        .and_then(|root| Team::load(&root, &written))
        .map_err(|problems| {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            given.failure("validation_error", told.join("; "))
        })
}

fn agent<'a>(given: &Given<'_>, team: &'a Team) -> Result<&'a AgentDefinition, Failure> {
    let Some(name) = given.text("agent")? else {
        return Ok(team.entry());
    };
    team.agent(name).ok_or_else(|| {
        let names: Vec<&str> = team.agents.iter().map(|agent| agent.name.as_str()).collect();
        let remedy = cachalot_core::suggest::did_you_mean(name, &names);
        given.wrong("agent", format_args!("is `{name}`: {remedy}"))
    })
}

fn failure(given: &Given<'_>, error: &cachalot_agent::Error) -> Failure {
    Failure {
        retryable: error.model.as_ref().is_some_and(cachalot_model::Error::retryable),
        ..given.failure("agent_error", error)
    }
}

fn stop(stop: &Stop) -> &'static str {
    match stop {
        Stop::End => "end",
        Stop::Refusal => "refusal",
        Stop::Length => "length",
        Stop::Iterations(_) => "max_iterations",
        Stop::Repetition(_) => "repetition",
        Stop::Budget(_) => "budget",
        Stop::Interrupted => "interrupted",
    }
}

/// Tells the run's report what the agent does.
struct Told {
    reporter: Arc<dyn Reporter>,
    node: String,
}

impl Listener for Told {
    fn tell(&self, event: &Event<'_>) {
        match event {
            Event::ToolEnded { agent, answer } => {
                let failed = if answer.output.is_error { ", failed" } else { "" };
                self.reporter.report(report::Event::Printed {
                    node: self.node.clone(),
                    text: format!("{agent}: {} {}{failed}", answer.call.name, answer.how),
                });
            }
            Event::Warning { message, .. } => self.reporter.report(report::Event::Warning {
                message: (*message).to_owned(),
            }),
            _ => {}
        }
    }
}
