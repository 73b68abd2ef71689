//! Commands that agents define: `/name arguments`.

use cachalot_agent::definition::{CommandDefinition, CommandPart};
use cachalot_agent::{AgentDefinition, CancellationToken, Chat, Error};
use cachalot_core::SecretSet;
use cachalot_tools::builtin::shell::looks_like_a_credential;

use super::command::Command;
use crate::terminal::CommandHint;
use crate::wiring::ProcessEnvironment;

/// What a command has come to.
pub(super) struct CommandOutcome {
    /// The message that is to be sent.
    pub(super) message: Option<String>,
    /// An address for the user.
    pub(super) url: Option<String>,
}

/// Returns the command of the agent that a line calls, and the arguments behind it. A command of the chat
/// precedes a command of the same name.
pub(super) fn find<'a>(
    agent: &AgentDefinition,
    line: &'a str,
) -> Option<(CommandDefinition, &'a str)> {
    let line = line.strip_prefix('/')?;
    let name = line.split(char::is_whitespace).next()?;
    let command = agent.command(name).filter(|_| !Command::is_known(name))?;
    Some((command.clone(), line[name.len()..].trim()))
}

/// Runs a command up to its message: switches to its agent and makes its tool calls, which need the same
/// permissions as calls of the model.
///
/// # Errors
/// The agent cannot begin, or a tool call failed or was denied.
pub(super) async fn run(
    chat: &mut Chat,
    command: &CommandDefinition,
    arguments: &str,
    process_environment: &ProcessEnvironment,
    cancel: &CancellationToken,
) -> Result<CommandOutcome, Error> {
    if let Some(url) = &command.url {
        let url = url.replace("{{session_id}}", chat.session());
        return Ok(CommandOutcome {
            message: None,
            url: Some(url),
        });
    }
    if let Some(agent) = &command.agent {
        chat.switch_agent(agent).await?;
    }
    // The file may be of another author: its messages get no credentials of the user.
    let variable = |name: &str| {
        let value = process_environment.environment.get(name)?;
        let is_secret = looks_like_a_credential(name, value, &SecretSet::empty());
        (!is_secret).then(|| value.clone())
    };
    let mut message = String::new();
    for part in command.expand(arguments, &variable) {
        match part {
            CommandPart::Text(text) => message.push_str(&text),
            CommandPart::Call { tool, arguments } => {
                message.push_str(&chat.call_tool(&tool, &arguments, cancel).await?);
            }
        }
    }
    Ok(CommandOutcome {
        message: Some(message).filter(|message| !message.trim().is_empty()),
        url: None,
    })
}

/// Describes the commands of an agent, one per line.
pub(super) fn describe(agent: &AgentDefinition) -> Vec<String> {
    let commands = agent.commands.iter();
    let commands = commands.filter(|command| !Command::is_known(&command.name));
    let widest = commands.clone().map(|command| command.name.len()).max();
    let widest = widest.unwrap_or_default().min(24);
    let describe = |command: &CommandDefinition| {
        let text = summary(command);
        format!("/{:<widest$}  {text}", command.name)
    };
    commands.map(describe).collect()
}

/// Returns the commands of an agent for their completion.
pub(super) fn hints(agent: &AgentDefinition) -> impl Iterator<Item = CommandHint> {
    let commands = agent.commands.iter();
    let commands = commands.filter(|command| !Command::is_known(&command.name));
    commands.map(|command| CommandHint {
        name: format!("/{}", command.name),
        help: summary(command).to_owned(),
        values: Vec::new(),
    })
}

/// Returns the description of a command, or the first line of its text.
fn summary(command: &CommandDefinition) -> &str {
    match (&command.description, &command.instruction) {
        (description, _) if !description.is_empty() => description,
        (_, Some(instruction)) => instruction.lines().next().unwrap_or_default(),
        _ => "",
    }
}
