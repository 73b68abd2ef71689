//! `agent.run`: runs one turn of an agent as a step.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_agent::{
    AgentDefinition, CancellationToken, Chat, ErrorKind, Event, Listener, SourceFile, Stop, Team,
    UsageTotals,
};
use cachalot_core::{Effects, SecretSet, tree};
use cachalot_model::{Budget, Meter};
use serde_json::{Value, json};

use super::arguments::{CheckedArguments, declared_by, required, text};
use super::{action_tool, model_error};
use crate::report::{self, Reporter, current_node};
use crate::{Action, Arguments, Failure, Operation, OperationMetadata, Planned, Runtime, spending};

#[rustfmt::skip]
static RUN: OperationMetadata = OperationMetadata::declared(
    "agent.run",
    &["actions.agent_run"],
    "Lets an agent work on something, with its tools and sub-agents, until it has an answer. \
          No user is asked for approval: a call that would need it is denied. \
          The result has `text`, `stop_reason`, `model_calls`, `tool_calls`, `usage` and `cost`.",
    &[
        required(text("input", "The task of the agent.")),
        text("agent", "The agent's name in `agents`; the entry (`root`, or the first) by default."),
        text("file", "Another agent file (relative to the run's directory); this one by default."),
    ],
);

pub(super) struct Run;

#[async_trait]
impl Operation for Run {
    declared_by!(RUN);

    /// Returns the files that make up another agent file. The key contains their content, but they may
    /// change before the agent runs.
    fn effects(&self, arguments: &Arguments, runtime: &Runtime) -> Effects {
        match arguments.get("file").and_then(Value::as_str) {
            Some(file) => Effects::reading_files(agent_files(&runtime.directory.join(file))),
            None => Effects::reading(Vec::new()),
        }
    }

    /// Returns the agent's definition and model identity. Fails if the answer depends on anything else.
    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&RUN, arguments);
        let team = team(&given, runtime)?;
        let agent = agent(&given, &team)?;
        let agent_host = runtime.agent_host.as_ref();
        let adds_hooks = agent_host.is_some_and(|agent_host| agent_host.adds_hooks());
        if let Some(why) = why_not_memoizable(agent, adds_hooks) {
            return Err(given.failure("not_memoizable", why));
        }
        let AgentDefinition {
            name,
            model: _,
            model_settings: _,
            instruction,
            // Their text is part of the instruction.
            instruction_files: _,
            context,
            max_iterations,
            // Irrelevant without tools and delegation: the agent does not loop, and no other agent reads
            // its description.
            max_repetitions: _,
            description: _,
            toolsets: _,
            read_only: _,
            sub_agents: _,
            handoffs: _,
            force_handoff: _,
            // For users of chats.
            welcome_message: _,
            commands: _,
            // A single turn is not compacted.
            compaction_threshold: _,
            // Summaries by the provider are a parameter of the model.
            compaction: _,
            recall: _,
            // Affects the cost, not the answer.
            prefix: _,
            // Only chats are reviewed.
            review: _,
            hooks: _,
            sections: _,
        } = agent;
        let models = runtime.models.with_configuration(team.configured.clone());
        let identity = agent
            .find_model(&models)
            .map(|model| model.identity())
            .map_err(|error| given.failure("configuration_error", error))?;
        let mut inputs = json!({
            "agent": name,
            "instruction": instruction,
            "max_iterations": max_iterations,
            "model": identity,
        });
        // Agents of a file have none: their keys stay those of earlier versions.
        if !context.is_empty() {
            inputs["context"] = json!(context);
        }
        Ok(inputs)
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&RUN, &arguments);
        let team = team(&given, runtime)?;
        let name = agent(&given, &team)?.name.clone();
        let input = given.required_text("input")?;
        let over_budget = |error: cachalot_model::Error| model_error::failure(&given, &error);
        runtime.meter.check().map_err(over_budget)?;
        let mut team = Arc::unwrap_or_clone(team);
        team.budget = stricter_budget(&team.budget, &runtime.meter);
        for agent in &mut team.agents {
            // The review only benefits later chats, so the run does not wait for it.
            agent.review = None;
        }
        let mut chat = start_chat(&given, Arc::new(team), &name, runtime).await?;
        let call_guard = runtime.meter.start_call();
        let turn = chat.turn(input, &CancellationToken::default()).await;
        drop(call_guard);
        let sum = chat.close().await;
        // Before the failure of the turn is returned: its calls were paid for, too.
        account(&given, &name, &sum, runtime).await;
        let turn = turn.map_err(|error| failure(&given, &error))?;
        if let Stop::Budget(_) = turn.stop {
            // The agent's own budget ends the agent; the run's budget ends the run.
            runtime.meter.check().map_err(over_budget)?;
        }
        if let Stop::Hook(why) = &turn.stop {
            return Err(given.failure("denied", format_args!("a hook stopped the agent: {why}")));
        }
        if turn.stop != Stop::End {
            spending::decline_storing("the agent did not come to an end by itself");
        }
        if sum.fallback_calls > 0 {
            spending::decline_storing("another model answered in place of the agent's own");
        }
        let dollars = (sum.paid.cost.unpriced == 0).then(|| sum.paid.cost.dollars());
        Ok(json!({
            "text": turn.text,
            "stop_reason": stop_reason_name(&turn.stop),
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

#[async_trait]
impl Action for Run {
    async fn plan(&self, arguments: Arguments, runtime: &Runtime) -> Result<Planned, Failure> {
        let given = CheckedArguments::new(&RUN, &arguments);
        let team = team(&given, runtime)?;
        agent(&given, &team)?;
        given.required_text("input")?;
        Ok(spending::unwrapped_plan())
    }
}

/// Returns the smaller of the team's own budget and the run's remaining budget, per limit.
fn stricter_budget(own: &Budget, meter: &Meter) -> Budget {
    let (limit, spent) = (meter.budget(), meter.spent());
    let left = Budget {
        max_cost: limit
            .max_cost
            .map(|limit| limit.saturating_sub(spent.cost.picodollars)),
        max_tokens: limit
            .max_tokens
            .map(|limit| limit.saturating_sub(spent.tokens)),
        max_time: meter.time_left(),
    };
    let smaller = |own: Option<u64>, left: Option<u64>| own.into_iter().chain(left).min();
    Budget {
        max_cost: smaller(own.max_cost, left.max_cost),
        max_tokens: smaller(own.max_tokens, left.max_tokens),
        max_time: own.max_time.into_iter().chain(left.max_time).min(),
    }
}

async fn start_chat(
    given: &CheckedArguments<'_>,
    team: Arc<Team>,
    name: &str,
    runtime: &Runtime,
) -> Result<Chat, Failure> {
    let Some(agent_host) = &runtime.agent_host else {
        return Err(given.failure("configuration_error", "agents cannot be run here"));
    };
    let forwarder = Arc::new(EventForwarder {
        reporter: Arc::clone(&runtime.reporter),
        secret_set: Arc::clone(&runtime.secret_set),
        node: current_node(),
    });
    let mut dependencies = agent_host
        .dependencies(&team, forwarder)
        .await
        .map_err(|why| given.failure("configuration_error", why))?;
    dependencies.single_turn = true;
    Chat::begin(dependencies, team, Some(name))
        .await
        .map_err(|error| failure(given, &error))
}

/// Records the cost and the savings of a turn, whether it succeeded or failed.
async fn account(given: &CheckedArguments<'_>, name: &str, sum: &UsageTotals, runtime: &Runtime) {
    if sum.model_calls == 0 {
        if sum.saved.calls > 0 {
            spending::report_saved(runtime, sum.saved);
        }
        return;
    }
    // A provider that reports no usage has used tokens all the same.
    let is_reported = sum.usage.total_input() > 0 || sum.usage.output > 0;
    let usage = is_reported.then_some(&sum.usage);
    runtime.meter.record(usage, sum.paid.cost);
    let about = json!({ "agent": name });
    spending::account(runtime, given.action(), &about, sum.paid, sum.saved).await;
}

/// Returns the reason why a whole run of this agent must not be answered from an earlier run.
fn why_not_memoizable(agent: &AgentDefinition, adds_hooks: bool) -> Option<&'static str> {
    if agent.toolsets.is_some() || !agent.sub_agents.is_empty() || agent.hands_off() {
        Some("the agent has tools or sub-agents, whose effects a hit would swallow")
    } else if agent.recall > 0 {
        Some("the agent reads long-term memory, which changes")
    } else if adds_hooks || !agent.hooks.is_empty() || !agent.sections.is_empty() {
        Some("the agent has hooks, which may answer otherwise another time")
    } else {
        None
    }
}

fn team(given: &CheckedArguments<'_>, runtime: &Runtime) -> Result<Arc<Team>, Failure> {
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

/// Returns the agent file and the instruction files that its agents name.
fn agent_files(file: &Path) -> Vec<PathBuf> {
    let mut found = vec![file.to_owned()];
    let name = file.to_string_lossy();
    let root = std::fs::read_to_string(file)
        .ok()
        .and_then(|text| tree::parse(&name, &text).ok());
    let agents = root
        .as_ref()
        .and_then(|root| root.get("agents")?.as_map())
        .unwrap_or_default();
    let directory = file.parent().unwrap_or(Path::new(""));
    let instructions = agents
        .iter()
        .filter_map(|agent| agent.value.get("instruction_file")?.as_text());
    found.extend(instructions.map(|path| directory.join(path)));
    found
}

fn load(given: &CheckedArguments<'_>, file: &str, runtime: &Runtime) -> Result<Team, Failure> {
    let path = runtime.directory.join(file);
    let text = std::fs::read_to_string(&path)
        .map_err(|error| given.failure("not_found", format_args!("{}: {error}", path.display())))?;
    let builtins = match &runtime.agent_host {
        Some(agent_host) => agent_host.builtins(),
        None => Arc::default(),
    };
    let written = SourceFile {
        text: &text,
        directory: path.parent().unwrap_or(Path::new("")),
        environment: &runtime.environment,
        builtins: &builtins,
    };
    tree::parse(file, &text)
        .and_then(|root| {
            let team = Team::load(&root, &written)?;
            match team.check_permissions(action_tool::signatures()) {
                problems if problems.is_empty() => Ok(team),
                problems => Err(problems),
            }
        })
        .map_err(|problems| {
            let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
            given.failure("validation_error", messages.join("; "))
        })
}

fn agent<'a>(given: &CheckedArguments<'_>, team: &'a Team) -> Result<&'a AgentDefinition, Failure> {
    let Some(name) = given.text("agent")? else {
        return Ok(team.entry());
    };
    team.agent(name).ok_or_else(|| {
        let names: Vec<&str> = team
            .agents
            .iter()
            .map(|agent| agent.name.as_str())
            .collect();
        let remedy = cachalot_core::suggest::did_you_mean(name, &names);
        given.wrong("agent", format_args!("is `{name}`: {remedy}"))
    })
}

fn failure(given: &CheckedArguments<'_>, error: &cachalot_agent::Error) -> Failure {
    if let Some(error) = &error.model {
        return model_error::failure(given, error);
    }
    let kind = match error.kind {
        ErrorKind::Input => "validation_error",
        ErrorKind::Definition | ErrorKind::Tools => "configuration_error",
        _ => "agent_error",
    };
    given.failure(kind, error)
}

fn stop_reason_name(stop: &Stop) -> &'static str {
    match stop {
        Stop::End => "end",
        Stop::Refusal => "refusal",
        Stop::Length => "length",
        Stop::Iterations(_) => "max_iterations",
        Stop::Repetition(_) => "repetition",
        Stop::Budget(_) => "budget",
        Stop::Interrupted => "interrupted",
        Stop::Hook(_) => "hook",
    }
}

/// Forwards the agent's events to the run's reporter.
struct EventForwarder {
    reporter: Arc<dyn Reporter>,
    secret_set: Arc<SecretSet>,
    node: String,
}

impl Listener for EventForwarder {
    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::ToolEnded { agent, answer } => {
                let failed = if answer.output.is_error {
                    ", failed"
                } else {
                    ""
                };
                self.reporter.report(report::Event::Printed {
                    node: self.node.clone(),
                    text: format!("{agent}: {} {}{failed}", answer.call.name, answer.outcome),
                });
            }
            Event::Warning { agent, message } => self.reporter.report(report::Event::Warning {
                message: format!("{agent}: {}", self.secret_set.redact(message)),
            }),
            _ => {}
        }
    }
}
