//! Actions as tools of agents: `toolsets: [{type: actions, allow: [http.get]}]`.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_cache::Observation;
use cachalot_core::text::word_list;
use cachalot_core::{EffectTarget, EffectTargets, Effects};
use cachalot_operation::permissions::ToolSignature;
use cachalot_operation::workspace::PathError;
use cachalot_operation::{ResourceAccess, ToolContext, ToolOutput, Workspace};
use cachalot_tools::WorkspaceSandbox;
use serde_json::Value;

use super::builtin;
use crate::{Action, Arguments, Failure, Operation, OperationMetadata, Runtime, origin};

/// Actions that send nothing to another machine unless an argument is a URL. All others are treated like a
/// request: the user approves them, unless a rule does.
const LOCAL: [&str; 15] = word_list(
    "csv.parse document.text file.glob file.read file.write json.parse json.stringify \
     json.transform ltm.delete ltm.retrieve ltm.search ltm.store memory.retrieve memory.store \
     schema.merge",
);

/// An action that a model may call. Paths are confined to the workspace of the agent, hosts to those that
/// the settings of the file allow.
pub struct ActionTool {
    metadata: OperationMetadata,
    action: Arc<dyn Action>,
    runtime: Arc<Runtime>,
}

/// Returns the name of an action as a tool: `http_get` for `http.get`.
#[must_use]
pub fn tool_name(action: &str) -> String {
    action.replace('.', "_")
}

/// Returns the reason why no agent may be given an action: a clause that follows its name.
#[must_use]
pub fn refusal(action: &dyn Action) -> Option<&'static str> {
    let name = &*action.metadata().name;
    if action.is_tool() && !name.starts_with("cache.") && name != "agent.run" {
        None
    } else {
        Some("runs other actions, or changes what is cached, and cannot be given to an agent")
    }
}

/// Returns the names and arguments of all built-in actions that agents may be given, for the check of
/// permission rules.
#[must_use]
pub fn signatures() -> Vec<ToolSignature> {
    let registry = builtin();
    registry
        .actions()
        .filter(|action| refusal(&***action).is_none())
        .map(|action| {
            let metadata = action.metadata();
            let parameters = metadata.parameters.table().iter();
            ToolSignature {
                name: tool_name(&metadata.name),
                arguments: parameters
                    .map(|parameter| parameter.name.to_owned())
                    .collect(),
            }
        })
        .collect()
}

impl ActionTool {
    /// Returns the runtime of a call: its programs run in the sandbox of the call.
    fn runtime(&self, context: &ToolContext) -> Cow<'_, Runtime> {
        match WorkspaceSandbox::for_call(context) {
            None => Cow::Borrowed(&self.runtime),
            sandbox => Cow::Owned(Runtime {
                sandbox,
                ..Runtime::clone(&self.runtime)
            }),
        }
    }

    /// Creates the tool. Calls run with the settings, the models and the budget of `runtime`.
    #[must_use]
    pub fn new(action: Arc<dyn Action>, runtime: Arc<Runtime>) -> Self {
        let metadata = action.metadata();
        Self {
            metadata: OperationMetadata {
                name: tool_name(&metadata.name).into(),
                aliases: &[],
                parameters: metadata.parameters.schema().into_owned().into(),
                ..metadata.clone()
            },
            action,
            runtime,
        }
    }

    /// The name of the tool.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.metadata.name
    }
}

#[async_trait]
impl Operation for ActionTool {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, arguments: &Arguments, _context: &ToolContext) -> Effects {
        let effects = self.action.effects(arguments, &self.runtime);
        if self.metadata.read_only {
            Effects {
                writes: EffectTargets::NOTHING,
                ..effects
            }
        } else {
            effects
        }
    }

    fn resource_access(&self, arguments: &Arguments) -> ResourceAccess {
        let name = &*self.action.metadata().name;
        let mut access = self.action.resource_access(arguments);
        access.remote |= !LOCAL.contains(&name) || !access.urls.is_empty();
        // A request whose arguments a model chose goes to listed hosts only, redirects included.
        access.hosts_listed = name.starts_with("http.");
        access
    }

    fn implicit_inputs(
        &self,
        arguments: &Arguments,
        context: &ToolContext,
    ) -> Result<Value, Failure> {
        self.action
            .implicit_inputs(arguments, &self.runtime(context))
    }

    async fn run(&self, arguments: Arguments, context: &ToolContext) -> ToolOutput {
        let effects = self.action.effects(&arguments, &self.runtime);
        let access = self.resource_access(&arguments);
        if let Err(refusal) = confined(&access, &effects, &context.workspace) {
            return refusal.into();
        }
        // Before the run: a file that changes while the action reads it differs from its witness.
        for path in paths(&effects.reads) {
            context.witness.observe(Observation::Content(path));
        }
        let ended = match self.action.metadata().check(arguments) {
            Ok(arguments) => {
                let runtime = self.runtime(context);
                origin::chosen_by_model(self.action.run(arguments, &runtime)).await
            }
            Err(failure) => Err(failure),
        };
        match ended {
            Ok(Value::String(text)) => ToolOutput::text(text),
            Ok(value) => ToolOutput::text(value.to_string()),
            Err(failure) => ToolOutput::error(self.runtime.masked(&failure.message)),
        }
    }
}

/// Fails if a path is outside the workspace.
fn confined(
    access: &ResourceAccess,
    effects: &Effects,
    workspace: &Workspace,
) -> Result<(), PathError> {
    let read = access.reads.iter().chain(&access.searches);
    let read = read.map(PathBuf::as_path).chain(paths(&effects.reads));
    let written = access.writes.iter().map(PathBuf::as_path);
    let written = written.chain(paths(&effects.writes));
    for path in read.chain(written) {
        workspace.resolve(&*path.to_string_lossy())?;
    }
    Ok(())
}

/// Returns the files and directories among the targets.
fn paths(targets: &EffectTargets) -> impl Iterator<Item = &Path> {
    let known: &[EffectTarget] = match targets {
        EffectTargets::Known(known) => known,
        EffectTargets::Unknown => &[],
    };
    known.iter().filter_map(|target| match target {
        EffectTarget::Path(path) | EffectTarget::Glob { root: path, .. } => Some(&**path),
        EffectTarget::Named(_) => None,
    })
}
