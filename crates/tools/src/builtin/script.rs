//! Tools that an agent file defines as commands: the toolset `script`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use async_trait::async_trait;
use cachalot_core::config::{ParameterKind as Kind, Settings};
use cachalot_core::{Effects, Secret};
use cachalot_operation::{
    Command, CommandText, OperationMetadata, ResourceAccess, ToolContext, ToolOutput, TypedTool,
};
use serde_json::{Map, Value};

use super::shell::{CommandSettings, Shell, ShellSettings};

/// A command that is a tool.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(name = "a command of `script`")]
pub struct ScriptSettings {
    /// The name of the tool.
    #[setting(skip)]
    pub name: String,
    /// The command line; arguments of a call are environment variables.
    #[setting(key = "cmd")]
    pub command: String,
    /// What the tool does.
    #[setting(default)]
    pub description: String,
    /// The arguments by name, each with its JSON Schema.
    #[setting(key = "args", kind = Kind::Object, with = super::arguments_of_file)]
    pub arguments: Vec<(String, Value)>,
    /// The arguments that every call must have; all by default.
    pub required: Option<Vec<String>>,
    /// Environment variables of the command.
    #[setting(key = "env")]
    pub environment: BTreeMap<String, Secret<String>>,
    /// The folder in the workspace in which it runs.
    #[setting(key = "working_dir")]
    pub directory: Option<String>,
}

/// A command of an agent file as a tool. The arguments of a call are environment variables of the command, so
/// that the shell never parses them. Runs like a command of the tool `shell`.
pub struct ScriptTool {
    metadata: OperationMetadata,
    settings: ScriptSettings,
}

impl ScriptTool {
    /// Creates the tool.
    #[must_use]
    pub fn new(settings: ScriptSettings) -> Self {
        let parameters =
            super::parameters_of_file(&settings.arguments, settings.required.as_deref());
        Self {
            metadata: OperationMetadata::with_side_effects(
                settings.name.clone(),
                settings.description.clone(),
                parameters,
            ),
            settings,
        }
    }
}

/// Returns the environment variables for the arguments of a call.
fn variables(arguments: &Map<String, Value>) -> impl Iterator<Item = (&str, String)> {
    arguments.iter().filter_map(|(name, value)| match value {
        Value::Null => None,
        Value::String(text) => Some((name.as_str(), text.clone())),
        other => Some((name.as_str(), other.to_string())),
    })
}

#[async_trait]
impl TypedTool for ScriptTool {
    type Arguments = Map<String, Value>;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, _: &Map<String, Value>, _: &ToolContext) -> Effects {
        Effects::UNKNOWN
    }

    fn resource_access(&self, arguments: &Map<String, Value>) -> ResourceAccess {
        // Rules and the guard of protected files see the values of the variables.
        let mut line: String = variables(arguments)
            .map(|(name, value)| format!("{name}='{}'; ", value.replace('\'', r"'\''")))
            .collect();
        line.push_str(&self.settings.command);
        ResourceAccess {
            commands: vec![Command {
                text: CommandText::Line(line),
                directory: self.settings.directory.as_ref().map(PathBuf::from),
            }],
            ..ResourceAccess::default()
        }
    }

    async fn run(&self, arguments: Map<String, Value>, context: &ToolContext) -> ToolOutput {
        let mut environment = self.settings.environment.clone();
        for (name, text) in variables(&arguments) {
            if text.contains('\0') {
                let message = format!("`{name}` holds a NUL character, which no command takes");
                return ToolOutput::error(message);
            }
            environment.insert(name.to_owned(), Secret::new(text));
        }
        let shell = Shell::new(ShellSettings {
            commands: CommandSettings {
                environment,
                ..CommandSettings::default()
            },
            ..ShellSettings::default()
        });
        match shell {
            Ok(shell) => {
                let directory = self.settings.directory.clone();
                shell
                    .run_line(&self.settings.command, directory, context)
                    .await
            }
            Err(error) => ToolOutput::error(error.to_string()),
        }
    }
}
