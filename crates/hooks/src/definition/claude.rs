//! Features of Claude Code hooks only: questions to models, commands without a shell, and background hooks.

use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::config::{Located, Settings as _, Values};
use cachalot_core::tree::Node;

use super::parser_context::ParserContext;
use super::tables::{ClaudeOptions, PromptHook, SHELLS};
use super::{Action, Background, Condition, Definition};
use crate::Event;
use crate::shell_word::quote;

/// Default timeouts of hooks of type `prompt` and of type `agent`.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(30);
const AGENT_TIMEOUT: Duration = Duration::from_secs(60);

/// The events that support questions to models.
const PROMPT_EVENTS: [Event; 6] = [
    Event::UserPromptSubmit,
    Event::PreToolUse,
    Event::PermissionRequest,
    Event::PostToolUse,
    Event::Stop,
    Event::SubagentStop,
];

/// Variables that are expanded in a command without a shell.
const EXPANDED_VARIABLES: [&str; 2] = ["${CLAUDE_PROJECT_DIR}", "${CLAUDE_PLUGIN_ROOT}"];

/// Returns true if hooks of type `prompt` or `agent` run at the event; otherwise reports it.
pub(super) fn supports_prompt(
    context: &mut ParserContext<'_>,
    node: &Node,
    event: Event,
    kind: &str,
) -> bool {
    let is_supported = PROMPT_EVENTS.contains(&event);
    if !is_supported {
        let message = format!("hooks of type `{kind}` do not run at `{event}`");
        let problem = Problem::new("unsupported-handler", message).at(&node.head());
        context.unsupported(problem.help("let a `command` do it"));
    }
    is_supported
}

/// Returns the action of a hook of type `prompt` or `agent`, with its default timeout.
pub(super) fn prompt(
    context: &mut ParserContext<'_>,
    values: Values<'_>,
    kind: &str,
) -> Option<(Action, Duration)> {
    let is_agent = kind == "agent";
    if is_agent {
        let message = "hooks of type `agent` are one question to a model here: it has no tools and judges by the hook's input";
        let problem = Problem::new("without-tools", message).at(&values.mapping().head());
        context
            .warnings
            .push(problem.help("let a `command` look at files and run tests"));
    }
    let hook = PromptHook::from_values(values, &mut context.problems)?;
    let action = Action::Prompt {
        model: hook.model.filter(|model| !model.trim().is_empty()),
        prompt: hook.prompt,
    };
    let timeout = if is_agent {
        AGENT_TIMEOUT
    } else {
        PROMPT_TIMEOUT
    };
    Some((action, timeout))
}

/// Applies `once`, `if`, `async` and `asyncRewake`; `None` if the hook would never run.
pub(super) fn options(
    context: &mut ParserContext<'_>,
    options: ClaudeOptions,
    event: Event,
    mut definition: Definition,
) -> Option<Definition> {
    definition.once = options.once;
    definition.background = match (options.wakes, options.is_async) {
        (true, _) => Some(Background::Heard),
        (false, true) => Some(Background::Quiet),
        (false, false) => None,
    };
    let Some(Located {
        value: written,
        place,
    }) = options.condition
    else {
        return Some(definition);
    };
    if !event.contract().tool_matched {
        let message = format!("`if` at `{event}`, where no tool is called: the hook never runs");
        let problem = Problem::new("unsupported-option", message).at(&place);
        context.unsupported(problem.help("leave `if` out"));
        return None;
    }
    definition.condition = Condition::parse(&written);
    if definition.condition.is_none() {
        let message = format!("`{written}` is no permission rule");
        let help = "write a tool, or a tool and what it is called with: `Bash(git *)`";
        let problem = Problem::new("bad-condition", message).at(&place);
        context.problems.push(problem.help(help));
    }
    Some(definition)
}

/// Wraps the line for the shell in `shell`.
pub(super) fn wrap_for_shell(line: String, values: Values<'_>) -> String {
    match values.choice("shell", &SHELLS) {
        Some(shell) => format!("exec {shell} {}", quote(&line)),
        None => line,
    }
}

/// Builds a command line in which the shell interprets nothing except the variables that Claude Code
/// expands.
pub(super) fn without_shell(program: &str, arguments: &[&str]) -> String {
    let words = std::iter::once(&program).chain(arguments);
    let words: Vec<String> = words.map(|word| expand_places(word)).collect();
    words.join(" ")
}

fn expand_places(word: &str) -> String {
    let found = EXPANDED_VARIABLES
        .iter()
        .filter_map(|place| Some((word.find(place)?, *place)))
        .min();
    let Some((at, place)) = found else {
        return quote(word);
    };
    let rest = &word[at + place.len()..];
    let before = if at > 0 {
        quote(&word[..at])
    } else {
        String::new()
    };
    let behind = if rest.is_empty() {
        String::new()
    } else {
        expand_places(rest)
    };
    format!("{before}\"{place}\"{behind}")
}

/// Converts `$NAME` and `${NAME}` to our notation, `${env.NAME}`. Variables that are not allowed are
/// removed.
pub(super) fn with_variables(value: &str, allowed: &[impl AsRef<str>]) -> String {
    let mut pieces = value.split('$');
    let mut written = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = match piece.strip_prefix('{').and_then(|p| p.split_once('}')) {
            Some(braced) => braced,
            None => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                piece.split_at(piece.find(|c| !is_part(c)).unwrap_or(piece.len()))
            }
        };
        if allowed.iter().any(|allowed| allowed.as_ref() == name) {
            written.push_str(&format!("${{env.{name}}}"));
        } else if name.is_empty() {
            written.push('$');
        }
        // Removing a variable must not create a reference to another one.
        if written.ends_with('$') && rest.starts_with('{') {
            written.pop();
        }
        written.push_str(rest);
    }
    written
}

#[cfg(test)]
#[path = "../../tests/unit/definition/claude.rs"]
mod tests;
