//! Parses the action and the options of one hook.

use std::collections::BTreeMap;
use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{Node, NodeKind, Section};

use super::read::HooksParser;
use super::{Action, Definition, Judgement, claude, options};
use crate::{Dialect, Event};

/// The supported handler types.
const TYPES: [&str; 4] = ["command", "builtin", "model", "http"];

/// Handler types of other runtimes, and their replacements.
const FOREIGN_TYPES: [(&str, &str); 4] = [
    (
        "evaluator",
        "write `{type: model, model: MODEL, prompt: \"QUESTION {{ input | tojson }}\", schema: guard_decision}` in its place, with the model and the question of the evaluator",
    ),
    (
        "prompt",
        "with `dialect: claude` it runs; a hook of type `model` judges, too",
    ),
    (
        "agent",
        "with `dialect: claude` it is asked; a hook of type `model` judges, too",
    ),
    (
        "mcp_tool",
        "hooks have no connection to servers of tools: let a `command` ask the server",
    ),
];

/// Parses a hook; `None` if there is nothing to run, for a reason that was reported.
pub(super) fn definition(
    parser: &mut HooksParser<'_>,
    section: &mut Section<'_>,
    event: Event,
    dialect: Dialect,
) -> Option<Definition> {
    let (action, usual) = action(parser, section, event, dialect)?;
    let problems = &mut parser.problems;
    let mut definition = Definition {
        name: section.text("name", problems).map(str::to_owned),
        timeout: options::timeout(section, dialect, usual, problems),
        env: texts_by_name(section, "env", problems),
        working_dir: section.text("working_dir", problems).map(str::to_owned),
        on_error: options::on_error(section, event, problems),
        strict_output: section.boolean("strict_output", problems).unwrap_or(false),
        sequential: section.boolean("sequential", problems).unwrap_or(false),
        ..Definition::new(action)
    };
    if let Some(plugin) = &parser.plugin {
        plugin.apply_to(&mut definition, dialect);
    }
    match dialect.vocabulary().options_of_claude {
        true => claude::options(parser, section, event, definition),
        false => Some(definition),
    }
}

/// Parses the action; returns it with its default timeout.
fn action(
    parser: &mut HooksParser<'_>,
    section: &mut Section<'_>,
    event: Event,
    dialect: Dialect,
) -> Option<(Action, Duration)> {
    let place = section.entry("type").map(|entry| entry.value.place.clone());
    let written = section.required_text("type", &mut parser.problems);
    let Some(written) = written else {
        section.take_rest();
        return None;
    };
    let is_of_claude = dialect.vocabulary().options_of_claude;
    if let ("prompt" | "agent", true) = (written, is_of_claude) {
        return claude::prompt(parser, section, event, written);
    }
    let action = match written {
        "command" => command(parser, section, dialect),
        "builtin" if !parser.foreign => builtin(parser, section, event),
        "model" if !parser.foreign => model(section, &mut parser.problems),
        "http" => http(section, dialect, &mut parser.problems),
        other => {
            // The other keys are unknown here, and the problem with the hook is reported below.
            section.take_rest();
            let elsewhere = FOREIGN_TYPES.iter().find(|(name, _)| *name == other);
            let problem = match elsewhere {
                Some((_, instead)) => Problem::new(
                    "unsupported-handler",
                    format!("hooks of type `{other}` do not run here"),
                )
                .help(*instead),
                None => Problem::new("unknown-handler", format!("there is no type `{other}`"))
                    .help(did_you_mean(other, &TYPES)),
            };
            let problem = match &place {
                Some(place) => problem.at(place),
                None => problem,
            };
            match elsewhere {
                Some(_) => parser.unsupported(problem),
                None => parser.problems.push(problem),
            }
            None
        }
    };
    action.map(|action| (action, dialect.vocabulary().timeout))
}

fn command(
    parser: &mut HooksParser<'_>,
    section: &mut Section<'_>,
    dialect: Dialect,
) -> Option<Action> {
    let mut line = required_text(section, "command", &mut parser.problems)?.to_owned();
    let arguments = section
        .entry("args")
        .filter(|arguments| !arguments.value.is_null());
    let texts = section.texts("args", &mut parser.problems);
    match (arguments, dialect) {
        (Some(written), Dialect::DockerAgent) => parser.problems.push(
            Problem::new(
                "bad-arguments",
                "`args` are for builtins, and a command has none",
            )
            .at(&written.key_place)
            .help("write them into the line of `command`"),
        ),
        // Claude Code runs a command with arguments without a shell: shell syntax has no meaning in
        // them.
        (Some(_), _) => line = claude::without_shell(&line, &texts.unwrap_or_default()),
        (None, _) => {}
    }
    if dialect.vocabulary().options_of_claude {
        line = claude::wrap_for_shell(line, section, &mut parser.problems);
    }
    Some(Action::Command { line })
}

/// Quotes the text as one word of a shell command.
pub(crate) fn quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn builtin(
    parser: &mut HooksParser<'_>,
    section: &mut Section<'_>,
    event: Event,
) -> Option<Action> {
    let name = required_text(section, "command", &mut parser.problems)?;
    let place = section.node("command").map(|node| node.place.clone());
    let at = |problem: Problem| match &place {
        Some(place) => problem.at(place),
        None => problem,
    };
    let texts = section.texts("args", &mut parser.problems);
    let arguments: Vec<String> = texts.into_iter().flatten().map(str::to_owned).collect();
    let Some(builtin) = parser.builtins.get(name) else {
        let names: Vec<&str> = parser.builtins.iter().map(|known| known.name()).collect();
        parser.problems.push(at(Problem::new(
            "unknown-builtin",
            format!("there is no builtin `{name}`"),
        )
        .help(did_you_mean(name, &names))));
        return None;
    };
    if !builtin.events().contains(&event) {
        let events: Vec<&str> = builtin.events().iter().map(|event| event.name()).collect();
        parser.problems.push(at(Problem::new(
            "wrong-event",
            format!("the builtin `{name}` makes no sense for `{event}`"),
        )
        .help(format!("it is for {}", events.join(", ")))));
    }
    if let Err(why) = builtin.check_arguments(&arguments) {
        let problem = Problem::new("bad-arguments", format!("the builtin `{name}`: {why}"));
        parser.problems.push(match section.node("args") {
            Some(node) => problem.at(&node.head()),
            None => at(problem),
        });
    }
    Some(Action::Builtin {
        name: name.to_owned(),
        arguments,
    })
}

fn model(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> Option<Action> {
    let model = required_text(section, "model", problems);
    let prompt = required_text(section, "prompt", problems);
    let system_prompt = section.text("system_prompt", problems).map(str::to_owned);
    let schema = choice(
        section,
        "schema",
        &[
            ("pre_tool_use_decision", Judgement::PreToolUse),
            ("guard_decision", Judgement::Guard),
        ],
        problems,
    );
    Some(Action::Model {
        model: model?.to_owned(),
        prompt: prompt?.to_owned(),
        system_prompt,
        schema,
    })
}

fn http(
    section: &mut Section<'_>,
    dialect: Dialect,
    problems: &mut Vec<Problem>,
) -> Option<Action> {
    let url = required_text(section, "url", problems)?;
    if !(url.starts_with("http://") || url.starts_with("https://")) {
        let problem = Problem::new(
            "bad-value",
            format!("`{url}` is no address of a web server"),
        )
        .help("write `https://` and the name of the server before it");
        problems.push(match section.node("url") {
            Some(node) => problem.at(&node.place),
            None => problem,
        });
    }
    let mut headers = texts_by_name(section, "headers", problems);
    // Claude Code: only variables that the hook allows are expanded in headers.
    if dialect != Dialect::DockerAgent {
        let allowed = section
            .texts("allowedEnvVars", problems)
            .unwrap_or_default();
        for value in headers.values_mut() {
            *value = claude::with_variables(value, &allowed);
        }
    }
    Some(Action::Http {
        url: url.to_owned(),
        headers,
    })
}

/// Reads and claims `key`, which must be one of `choices`.
pub(super) fn choice<T: Copy>(
    section: &mut Section<'_>,
    key: &'static str,
    choices: &[(&str, T)],
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let node = section.present(key)?;
    let written = section.text(key, problems)?;
    let found = choices.iter().find(|(name, _)| *name == written);
    if found.is_none() {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        problems.push(
            Problem::new("bad-value", format!("`{key}` cannot be `{written}`"))
                .at(&node.place)
                .help(did_you_mean(written, &names)),
        );
    }
    found.map(|(_, value)| *value)
}

/// Reads and claims `key`, which must be a non-blank text.
pub(super) fn required_text<'a>(
    section: &mut Section<'a>,
    key: &'static str,
    problems: &mut Vec<Problem>,
) -> Option<&'a str> {
    let text = section.required_text(key, problems)?;
    if !text.trim().is_empty() {
        return Some(text);
    }
    let problem = Problem::new("missing-key", format!("`{key}` is blank"))
        .help(format!("write a value for `{key}`"));
    problems.push(match section.node(key) {
        Some(node) => problem.at(&node.place),
        None => problem,
    });
    None
}

/// Reads and claims `key`, a mapping of texts. Numbers and booleans are converted to text.
fn texts_by_name(
    section: &mut Section<'_>,
    key: &'static str,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for entry in section.map(key, problems).unwrap_or_default() {
        match text_of(&entry.value) {
            Some(text) => drop(texts.insert(entry.key.clone(), text)),
            None => {
                let name = format!("`{}` in `{key}`", entry.key);
                problems.push(entry.value.wrong_type(&name, "text"));
            }
        }
    }
    texts
}

fn text_of(node: &Node) -> Option<String> {
    match &node.kind {
        NodeKind::Text(text) => Some(text.clone()),
        NodeKind::Null => Some(String::new()),
        NodeKind::List(_) | NodeKind::Map(_) => None,
        _ => Some(node.to_value().to_string()),
    }
}
