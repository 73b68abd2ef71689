//! Prepares the hooks of files and builtins.

use std::sync::Arc;

use cachalot_core::Problem;

use super::{HookSet, ReadyHook};
use crate::builtin::{Builtin, Builtins, Injection};
use crate::contract::BlockEffect;
use crate::definition::{Action, Definition, HookEntry, OnError};
use crate::dependencies::HookDependencies;
use crate::handler::{self, HandlerContext};
use crate::lookup::AgentView;
use crate::{Dialect, Event};

pub(super) fn assemble(
    entries: Vec<HookEntry>,
    agent: &dyn AgentView,
    dependencies: &HookDependencies,
) -> Result<HookSet, Vec<Problem>> {
    let mut hooks = HookSet {
        environment: Arc::clone(&dependencies.environment),
        directory: dependencies.directory.clone(),
        sandbox: dependencies.sandbox.clone(),
        ..HookSet::default()
    };
    let shared = HandlerContext {
        model: agent.models().into_iter().next(),
        sessions: Arc::clone(&hooks.sessions),
    };
    let mut problems = Vec::new();
    let added = added(&dependencies.builtins, agent, &mut problems);
    for entry in entries.into_iter().chain(added) {
        let event = entry.event;
        // All problems are collected, so that one run reports each of them.
        match ready(entry, &hooks.ready[event as usize], dependencies, &shared) {
            Ok(ready) => hooks.add(ready),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(hooks)
    } else {
        Err(problems)
    }
}

impl HookSet {
    fn add(&mut self, ready: ReadyHook) {
        self.has_hooks[ready.entry.event as usize] = true;
        // Output of background hooks is delivered when the next turn starts.
        let is_command = matches!(ready.entry.definition.action, Action::Command { .. });
        self.has_hooks[Event::TurnStart as usize] |= ready.entry.definition.background.is_some()
            || (is_command && ready.entry.dialect.may_move_to_background());
        self.ready[ready.entry.event as usize].push(ready);
    }
}

fn ready(
    entry: HookEntry,
    before: &[ReadyHook],
    dependencies: &HookDependencies,
    shared: &HandlerContext,
) -> Result<ReadyHook, Problem> {
    check(&entry)?;
    let handler = handler::create(&entry, dependencies, shared)?;
    let same_as = before
        .iter()
        .position(|other| is_same(&other.entry, &entry))
        .unwrap_or(before.len());
    let (builtin, arguments) = match &entry.definition.action {
        Action::Builtin { name, arguments } => {
            (dependencies.builtins.get(name), arguments.as_slice())
        }
        _ => (None, [].as_slice()),
    };
    Ok(ReadyHook {
        fails_open: entry.dialect.fails_open()
            || builtin.is_some_and(|builtin| builtin.fails_open()),
        runs_last: builtin.is_some_and(|builtin| builtin.runs_last(entry.event)),
        permits_live_output: builtin.is_some_and(|builtin| builtin.permits_live_output(arguments)),
        entry,
        handler,
        same_as,
    })
}

/// True if two hooks have the same definition and the same dialect.
fn is_same(one: &HookEntry, other: &HookEntry) -> bool {
    one.dialect == other.dialect && one.definition == other.definition
}

fn check(entry: &HookEntry) -> Result<(), Problem> {
    let event = entry.event;
    let is_blocked = event.contract().blocks == BlockEffect::Refusal;
    if is_blocked || entry.definition.on_error != Some(OnError::Block) {
        return Ok(());
    }
    let title = entry.definition.title();
    let message = format!("`{title}`: `on_error: block`, but nothing can be blocked at `{event}`");
    let problem = Problem::new("nothing-to-block", message)
        .help(format!("`warn` or `ignore`, or one of {}", blocking()));
    Err(match &entry.place {
        Some(place) => problem.at(place),
        None => problem,
    })
}

/// Lists the events that can be blocked.
fn blocking() -> String {
    let events = Event::all().filter(|event| event.contract().blocks == BlockEffect::Refusal);
    let names: Vec<String> = events.map(|event| format!("`{event}`")).collect();
    names.join(", ")
}

/// The hooks that builtins inject.
fn added(
    builtins: &Builtins,
    agent: &dyn AgentView,
    problems: &mut Vec<Problem>,
) -> Vec<HookEntry> {
    let mut added = Vec::new();
    for builtin in builtins.iter() {
        for injection in builtin.inject(agent) {
            if builtin.events().contains(&injection.event) {
                added.push(entry(&**builtin, injection));
            } else {
                problems.push(misplaced(&**builtin, injection.event));
            }
        }
    }
    added
}

fn entry(builtin: &dyn Builtin, injection: Injection) -> HookEntry {
    HookEntry {
        event: injection.event,
        event_name: Arc::from(injection.event.name()),
        matcher: injection.matcher,
        only: None,
        definition: Definition::new(Action::Builtin {
            name: builtin.name().to_owned(),
            arguments: injection.arguments,
        }),
        dialect: Dialect::DockerAgent,
        source: Arc::from(builtin.name()),
        place: None,
    }
}

fn misplaced(builtin: &dyn Builtin, event: Event) -> Problem {
    let name = builtin.name();
    Problem::new(
        "wrong-event",
        format!("the builtin `{name}` adds itself to `{event}`, which is none of its events"),
    )
    .help("this is a mistake in the program and not in a file of yours: please report it")
}
