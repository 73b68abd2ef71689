//! Tools that an agent file defines as commands: the toolset `script`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use async_trait::async_trait;
use cachalot_core::{Effects, Secret};
use cachalot_operation::{
    Command, CommandText, OperationMetadata, ResourceAccess, ToolContext, ToolOutput, TypedTool,
};
use serde_json::{Map, Value};

use super::shell::{Shell, ShellSettings};

/// A command that is a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptSettings {
    /// The name of the tool.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The command line. Arguments are environment variables.
    pub command: String,
    /// The arguments: names, and the JSON Schemas of their values.
    pub arguments: Vec<(String, Value)>,
    /// The names of the arguments that every call must have.
    pub required: Vec<String>,
    /// Environment variables of the command.
    pub environment: BTreeMap<String, Secret<String>>,
    /// The directory in the workspace in which it runs.
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
        let parameters = super::parameters_of_file(&settings.arguments, &settings.required);
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

#[async_trait]
impl TypedTool for ScriptTool {
    type Arguments = Map<String, Value>;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, _: &Map<String, Value>, _: &ToolContext) -> Effects {
        Effects::UNKNOWN
    }

    fn resource_access(&self, _: &Map<String, Value>) -> ResourceAccess {
        ResourceAccess {
            commands: vec![Command {
                text: CommandText::Line(self.settings.command.clone()),
                directory: self.settings.directory.as_ref().map(PathBuf::from),
            }],
            ..ResourceAccess::default()
        }
    }

    async fn run(&self, arguments: Map<String, Value>, context: &ToolContext) -> ToolOutput {
        let mut environment = self.settings.environment.clone();
        for (name, value) in &arguments {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Null => continue,
                other => other.to_string(),
            };
            if text.contains('\0') {
                let message = format!("`{name}` holds a NUL character, which no command takes");
                return ToolOutput::error(message);
            }
            environment.insert(name.clone(), Secret::new(text));
        }
        let shell = Shell::new(ShellSettings {
            environment,
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
