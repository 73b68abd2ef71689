//! Commands of an agent: prompts that the user sends by a name, switches to other agents, and addresses.

use cachalot_core::Problem;
use cachalot_core::config::Settings;
use cachalot_core::tree::{self, MapEntry, Node};
use serde_json::Value;

/// The longest name of a command.
const MAX_NAME_CHARS: usize = 64;

/// A command of an agent, which the user calls as `/name arguments`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Settings)]
#[settings(name = "a command", sentence = "A command, or its instruction.")]
pub struct CommandDefinition {
    /// The name, without the slash.
    #[setting(skip)]
    pub name: String,
    /// What the command does; shown to the user.
    #[setting(default)]
    pub description: String,
    /// The message that is sent.
    pub instruction: Option<String>,
    /// The agent that continues the conversation.
    ///
    /// It does so before the message is sent.
    pub agent: Option<String>,
    /// An address that is shown.
    pub url: Option<String>,
}

/// A part of the message of a command.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandPart {
    /// Text.
    Text(String),
    /// The result of a tool call, which needs the same permission as a call of the model.
    Call {
        /// The tool.
        tool: String,
        /// The arguments: a JSON object.
        arguments: Value,
    },
}

impl CommandDefinition {
    /// Returns the parts of the message for these arguments, as the user typed them; none if the command
    /// sends no message. `variable` returns the value of an environment variable.
    ///
    /// - `${args[0]}` is an argument, `${args}` or `${args.join(" ")}` are all of them. If the instruction
    ///   contains none of these, the arguments follow it.
    /// - `${env.NAME}` is an environment variable; empty if it is not set.
    /// - `${tool({key: "value"})}` is the result of a tool call.
    /// - Other `${…}` remain as they are.
    ///
    /// Values that are inserted are not expanded again.
    #[must_use]
    pub fn expand(
        &self,
        arguments: &str,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Vec<CommandPart> {
        let arguments = arguments.trim();
        let Some(instruction) = &self.instruction else {
            // The arguments are the message to the agent that continues.
            let message = self.agent.as_ref().filter(|_| !arguments.is_empty());
            let message = message.map(|_| CommandPart::Text(arguments.to_owned()));
            return message.into_iter().collect();
        };
        let words = words(arguments);
        let mut parts = Parts::default();
        let mut uses_arguments = false;
        let mut rest = instruction.as_str();
        while let Some((before, inside, after)) = next_placeholder(rest) {
            parts.text(before);
            rest = after;
            if let Some(name) = inside.strip_prefix("env.") {
                parts.text(&variable(name.trim()).unwrap_or_default());
            } else if let Some(argument) = argument(inside, arguments, &words) {
                uses_arguments = true;
                parts.text(&argument);
            } else if let Some((tool, arguments)) = call(inside) {
                parts.0.push(CommandPart::Call { tool, arguments });
            } else {
                parts.text(&format!("${{{inside}}}"));
            }
        }
        parts.text(rest);
        if !uses_arguments && !arguments.is_empty() {
            parts.text(&format!(" {arguments}"));
        }
        parts.0
    }
}

/// Collects parts; consecutive texts become one.
#[derive(Default)]
struct Parts(Vec<CommandPart>);

impl Parts {
    fn text(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(CommandPart::Text(before)) => before.push_str(text),
            _ => self.0.push(CommandPart::Text(text.to_owned())),
        }
    }
}

/// Returns the text before the next `${…}`, the text within it, and the text behind it. Braces within it are
/// balanced.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find("${")?;
    let inside = &text[start + 2..];
    let (mut depth, mut quote) = (1_u32, None);
    let mut is_escaped = false;
    for (at, character) in inside.char_indices() {
        let was_escaped = std::mem::take(&mut is_escaped);
        match (quote, character) {
            _ if was_escaped => {}
            (Some(_), '\\') => is_escaped = true,
            (Some(open), character) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => quote = Some(character),
            (None, '{') => depth += 1,
            (None, '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..start], inside[..at].trim(), &inside[at + 1..]));
        }
    }
    None
}

/// Returns the value of `args`, `args[N]` or `args.join(…)`; `None` for other texts.
fn argument(inside: &str, all: &str, words: &[String]) -> Option<String> {
    let behind = inside.strip_prefix("args")?.trim();
    if behind.is_empty() {
        return Some(all.to_owned());
    }
    if let Some(index) = behind
        .strip_prefix('[')
        .and_then(|index| index.strip_suffix(']'))
    {
        let index: usize = index.trim().parse().ok()?;
        return Some(words.get(index).cloned().unwrap_or_default());
    }
    let separator = behind.strip_prefix(".join(")?.strip_suffix(')')?.trim();
    let quoted = |quote| separator.strip_prefix(quote)?.strip_suffix(quote);
    let separator = ['"', '\'', '`'].into_iter().find_map(quoted);
    Some(words.join(separator.unwrap_or(",")))
}

/// Parses `tool({…})`; `None` for other texts.
fn call(inside: &str) -> Option<(String, Value)> {
    let (tool, arguments) = inside.split_once('(')?;
    let tool = tool.trim();
    let is_name = |text: &str| {
        let fits = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
        !text.is_empty() && text.chars().all(fits)
    };
    let arguments = arguments.trim().strip_suffix(')')?.trim();
    if !is_name(tool) {
        return None;
    }
    if arguments.is_empty() {
        return Some((tool.to_owned(), Value::Object(serde_json::Map::new())));
    }
    // An object literal is a mapping in YAML, too.
    let value = tree::parse("", arguments).ok()?.to_value();
    value.is_object().then(|| (tool.to_owned(), value))
}

/// Splits at white space; quoted parts stay together.
fn words(arguments: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut word, mut quote) = (None::<String>, None);
    for character in arguments.chars() {
        match (quote, character) {
            (Some(open), character) if open == character => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, character) if character.is_whitespace() => words.extend(word.take()),
            (_, character) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// Reads the values of `commands`: mappings, or lists of mappings. A later command replaces an earlier one of
/// the same name.
pub(super) fn read(sections: &[&Node], problems: &mut Vec<Problem>) -> Vec<CommandDefinition> {
    let mut commands: Vec<CommandDefinition> = Vec::new();
    for section in sections {
        let mappings = section.as_list().unwrap_or(std::slice::from_ref(section));
        for mapping in mappings {
            let Some(entries) = mapping.as_map() else {
                problems.push(mapping.wrong_type("`commands`", "a mapping"));
                continue;
            };
            for entry in entries {
                if let Some(command) = command(entry, problems) {
                    commands.retain(|known| known.name != command.name);
                    commands.push(command);
                }
            }
        }
    }
    commands
}

fn command(entry: &MapEntry, problems: &mut Vec<Problem>) -> Option<CommandDefinition> {
    let name = entry.key.clone();
    let fits = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    if name.is_empty() || name.len() > MAX_NAME_CHARS || !name.chars().all(fits) {
        let message = format!("`{name}` cannot be the name of a command");
        problems.push(
            Problem::new("bad-value", message)
                .at(&entry.key_place)
                .help("use letters, digits, `-` and `_`"),
        );
        return None;
    }
    if let Some(text) = entry.value.as_text() {
        return Some(CommandDefinition {
            name,
            instruction: Some(text.to_owned()),
            ..CommandDefinition::default()
        });
    }
    let command = CommandDefinition {
        name,
        ..CommandDefinition::read(&entry.value, problems)?
    };
    if command.instruction.is_none() && command.agent.is_none() && command.url.is_none() {
        let message = format!("the command `{}` does nothing", command.name);
        problems.push(
            Problem::new("missing-key", message)
                .at(&entry.key_place)
                .help("add `instruction: …`, `agent: …` or `url: …`"),
        );
    }
    Some(command)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parts(instruction: &str, arguments: &str) -> Vec<CommandPart> {
        let command = CommandDefinition {
            instruction: Some(instruction.to_owned()),
            ..CommandDefinition::default()
        };
        let variable = |name: &str| (name == "USER").then(|| "${args}".to_owned());
        command.expand(arguments, &variable)
    }

    fn text(instruction: &str, arguments: &str) -> String {
        let parts = parts(instruction, arguments).into_iter();
        let texts = parts.map(|part| match part {
            CommandPart::Text(text) => text,
            CommandPart::Call { .. } => "CALL".to_owned(),
        });
        texts.collect()
    }

    #[test]
    fn arguments_and_variables_are_inserted_once() {
        for (instruction, arguments, expected) in [
            (
                "Fix ${args[0]} with ${args[1]}",
                "a.rs 'no tests'",
                "Fix a.rs with no tests",
            ),
            ("Fix ${args[0]}.", "", "Fix ."),
            ("Do ${args}!", " a  b ", "Do a  b!"),
            ("Do ${args.join(\" \")}!", "a  b", "Do a b!"),
            ("Do ${args.join(', ')}!", "a b", "Do a, b!"),
            ("Say hello.", "", "Say hello."),
            ("Say hello.", "to me", "Say hello. to me"),
            // What is inserted is not expanded again.
            ("Say hello to ${env.USER}.", "", "Say hello to ${args}."),
            ("Say ${args}", "${env.USER}", "Say ${env.USER}"),
            ("A ${env.UNSET}.", "", "A ."),
            ("Cost: $5, ${unknown}, ${", "", "Cost: $5, ${unknown}, ${"),
        ] {
            assert_eq!(text(instruction, arguments), expected, "{instruction}");
        }
    }

    #[test]
    fn tool_calls_are_parts_of_their_own() {
        let found = parts(r#"Lint: ${shell({cmd: "echo }", timeout: 5})}."#, "");
        let call = CommandPart::Call {
            tool: "shell".to_owned(),
            arguments: json!({"cmd": "echo }", "timeout": 5}),
        };
        let (before, after) = ("Lint: ".to_owned(), ".".to_owned());
        assert_eq!(
            found,
            [CommandPart::Text(before), call, CommandPart::Text(after)]
        );
        let alone = parts("${list_todos()}", "");
        assert!(matches!(&alone[0], CommandPart::Call { tool, .. } if tool == "list_todos"));
        assert_eq!(text("${not a call(1)}", ""), "${not a call(1)}");
    }

    #[test]
    fn command_without_instruction_passes_its_arguments_to_the_agent() {
        let switch = CommandDefinition {
            agent: Some("planner".to_owned()),
            ..CommandDefinition::default()
        };
        let message = CommandPart::Text("the release".to_owned());
        assert_eq!(switch.expand(" the release", &|_| None), [message]);
        assert_eq!(switch.expand("", &|_| None), []);
    }
}
