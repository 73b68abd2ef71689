//! The dispatcher: selects the handlers of an event, runs them and combines their outputs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cachalot_core::{Canonical, Digest, Problem};
use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value, json};

use crate::Event;
use crate::contract::EVENTS;
use crate::definition::HookEntry;
use crate::dependencies::{HookDependencies, HookSandbox};
use crate::handler::{Handler, exports};
use crate::input::Input;
use crate::lookup::AgentView;
use crate::sessions::Sessions;
use crate::verdict::Verdict;

mod assemble;
mod rewrite;
mod run;
mod select;
mod verdict_builder;
mod writes;

use verdict_builder::VerdictBuilder;

/// The hooks of an agent, ready to run. Cheap to clone; clones share their state.
#[derive(Clone, Default)]
pub struct Hooks(Arc<HookSet>);

#[derive(Default)]
struct HookSet {
    /// The hooks, by event.
    ready: [Vec<ReadyHook>; EVENTS],
    /// True for events that have a hook or deliver background output.
    has_hooks: [bool; EVENTS],
    sessions: Arc<Sessions>,
    /// The environment variables, working directory and sandbox of commands.
    environment: Arc<BTreeMap<String, String>>,
    directory: PathBuf,
    sandbox: Option<Arc<dyn HookSandbox>>,
}

/// A hook that is ready to run.
struct ReadyHook {
    entry: HookEntry,
    handler: Arc<dyn Handler>,
    /// The index of the first equal hook of the event (same definition and dialect): only one of them
    /// runs.
    same_as: usize,
    /// Set if a failure is only a warning, unless the event or the definition overrides it: hooks of
    /// other runtimes, and builtins that guard nothing.
    fails_open: bool,
    /// Set if it runs after all others of the event ([`crate::Builtin::runs_last`]).
    runs_last: bool,
    /// Set if it need not see the output of a running tool ([`crate::Builtin::permits_live_output`]).
    permits_live_output: bool,
}

impl Hooks {
    /// Prepares the hooks of an agent: those of files and flags in the given order, then those that
    /// builtins inject, in their order of registration.
    ///
    /// # Errors
    /// All problems: an unknown builtin, an unknown model, `on_error: block` at an event that cannot be
    /// blocked, or a builtin that injects itself into an event that it does not support.
    pub fn assemble(
        entries: Vec<HookEntry>,
        agent: &dyn AgentView,
        dependencies: &HookDependencies,
    ) -> Result<Self, Vec<Problem>> {
        assemble::assemble(entries, agent, dependencies).map(|all| Self(Arc::new(all)))
    }

    /// A digest of all hooks and their order. Hooks with different digests may produce different
    /// outputs.
    #[must_use]
    pub fn identity(&self) -> Digest {
        let ready = self.0.ready.iter().flatten();
        let hooks = ready
            .map(|ReadyHook { entry, .. }| {
                let HookEntry {
                    event,
                    event_name,
                    matcher,
                    only,
                    definition,
                    dialect,
                    // The place of the definition does not change the output of a hook.
                    source: _,
                    place: _,
                } = entry;
                json!({
                    "event": event.name(),
                    "event_name": **event_name,
                    "matcher": matcher.pattern(),
                    "only": only,
                    "definition": definition,
                    "dialect": dialect.name(),
                })
            })
            .collect();
        Canonical::value(&Value::Array(hooks)).digest()
    }

    /// True if an event has hooks. Callers check this before they build an [`Input`].
    #[must_use]
    #[inline]
    pub fn handles(&self, event: Event) -> bool {
        self.0.has_hooks[event as usize]
    }

    /// True if an event may have hooks for this tool. May return true without a match: dialects have
    /// names of their own, and tools of MCP servers are matched by more than their name.
    #[must_use]
    pub fn handles_tool(&self, event: Event, tool: &str) -> bool {
        self.0.ready[event as usize]
            .iter()
            .any(|ready| select::may_be_for(ready, tool))
    }

    /// True if hooks must process the result of this tool before any of its output is shown or passed on.
    #[must_use]
    pub fn withholds_output(&self, tool: &str) -> bool {
        self.0.ready[Event::ToolResponseTransform as usize]
            .iter()
            .any(|ready| !ready.permits_live_output && select::may_be_for(ready, tool))
    }

    /// Runs all matching handlers of an event and combines their outputs. Never fails: errors, panics
    /// and timeouts of handlers are part of the verdict. Dropping the future cancels the handlers,
    /// except those in the background.
    #[inline]
    pub fn fire(&self, input: Input) -> impl Future<Output = Verdict> + Send {
        // Without hooks, the input is not moved into a future.
        let running = if self.handles(input.event) {
            Some(self.dispatch(input))
        } else {
            None
        };
        async move {
            match running {
                Some(running) => running.await,
                None => Verdict::default(),
            }
        }
    }

    /// Boxed, to keep the futures of callers small.
    #[inline(never)]
    fn dispatch(&self, input: Input) -> BoxFuture<'_, Verdict> {
        Box::pin(self.run(input))
    }

    /// Runs the handlers wave by wave. The handlers of a wave run concurrently and see the rewrites of
    /// earlier waves. Outputs are combined in the order of the configuration, independent of the order
    /// of completion.
    async fn run(&self, mut input: Input) -> Verdict {
        let sessions = &self.0.sessions;
        let told = select::select(&self.0.ready[input.event as usize], &input, sessions);
        let mut builder = VerdictBuilder::new(&input, told.len());
        if input.event == Event::TurnStart {
            for background_report in sessions.take_background_reports(&input.session_id) {
                // It is too late to deny anything.
                builder.add(
                    &background_report.entry,
                    true,
                    background_report.report,
                    &mut input,
                );
            }
        }
        for wave in select::waves(input.event.contract(), &told) {
            let heard = wave
                .iter()
                .map(|ready| run::run_handler(ready, &input, sessions));
            let reports = join_all(heard).await;
            for (ready, report) in wave.iter().zip(reports) {
                builder.add(&ready.entry, ready.fails_open, report, &mut input);
            }
        }
        match input.event {
            Event::SessionStart => self.take_exports(&input.session_id, &mut builder).await,
            Event::SessionEnd => sessions.remove(&input.session_id),
            _ => {}
        }
        builder.verdict()
    }

    /// Reads the environment variables that `session_start` hooks have set.
    async fn take_exports(&self, session: &str, builder: &mut VerdictBuilder) {
        let Some(file) = self.0.sessions.exported(session) else {
            return;
        };
        let HookSet {
            environment,
            directory,
            sandbox,
            ..
        } = &*self.0;
        match exports::read(&file, environment, directory, sandbox.clone()).await {
            Ok(environment) => {
                self.0.sessions.set(session, &environment);
                builder.set(environment);
            }
            Err(fault) => builder.add_message(Some(&fault.message)),
        }
    }
}
