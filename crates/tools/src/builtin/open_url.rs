//! A tool that opens an address of the agent file in the user's browser: the toolset `open_url`.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::Effects;
use cachalot_core::config::{Settings, tool_schema};
use cachalot_operation::{OperationMetadata, ResourceAccess, ToolContext, ToolOutput, TypedTool};
use cachalot_process::{Lingering, Run, Streams};
use serde::Deserialize;
use tokio::process::Command;

/// The time within which the program that opens an address has to end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The program that opens an address.
const OPENER: &str = if cfg!(target_os = "macos") {
    "open"
} else if cfg!(windows) {
    "explorer"
} else {
    "xdg-open"
};

/// An address that a tool opens.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(name = "`open_url`")]
pub struct OpenUrlSettings {
    /// The address.
    pub url: String,
    /// The name of the tool.
    #[setting(default = "open_url")]
    pub name: String,
}

/// Opens an address of the agent file in the user's browser. The model does not choose the address.
pub struct OpenUrl {
    metadata: OperationMetadata,
    settings: OpenUrlSettings,
}

impl OpenUrl {
    /// Creates the tool.
    #[must_use]
    pub fn new(settings: OpenUrlSettings) -> Self {
        let description = format!("Opens {} in the user's browser.", settings.url);
        Self {
            metadata: OperationMetadata::with_side_effects(
                settings.name.clone(),
                description,
                tool_schema(&[]),
            ),
            settings,
        }
    }
}

/// The arguments of the tool.
#[derive(Debug, Deserialize)]
pub struct OpenUrlArguments {}

#[async_trait]
impl TypedTool for OpenUrl {
    type Arguments = OpenUrlArguments;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, _: &OpenUrlArguments, _: &ToolContext) -> Effects {
        Effects::UNKNOWN
    }

    fn resource_access(&self, _: &OpenUrlArguments) -> ResourceAccess {
        ResourceAccess {
            urls: vec![self.settings.url.clone()],
            remote: true,
            ..ResourceAccess::default()
        }
    }

    async fn run(&self, _: OpenUrlArguments, context: &ToolContext) -> ToolOutput {
        match open_address(&self.settings.url, &context.environment).await {
            Ok(()) => ToolOutput::text("The address was opened."),
            Err(why) => {
                ToolOutput::error(format!("{why}; ask the user to open {}", self.settings.url))
            }
        }
    }
}

/// Opens an address in the user's browser.
///
/// # Errors
/// The program that opens addresses is missing, fails, or takes too long.
pub async fn open_address(
    address: &str,
    environment: &BTreeMap<String, String>,
) -> Result<(), String> {
    let mut command = Command::new(OPENER);
    command.arg(address);
    command.env_clear().envs(environment.iter());
    let run = Run {
        command,
        input: None,
        streams: Streams::Merged,
        output_limit: None,
        timeout: Some(TIMEOUT),
        lingering: Lingering::Leave,
    };
    match run.run(|_, _| {}).await {
        Ok(ended) if ended.status.success() => Ok(()),
        _ => Err(format!("`{OPENER}` did not open the address")),
    }
}
