//! Parses the action and the options of one hook.

use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::Section;

use super::keys::{choice, required_text, texts_by_name};
use super::parser_context::ParserContext;
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
    context: &mut ParserContext<'_>,
    section: &mut Section<'_>,
    event: Event,
    dialect: Dialect,
) -> Option<Definition> {
    let (action, usual) = action(context, section, event, dialect)?;
    let problems = &mut context.problems;
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
    if let Some(plugin) = &context.plugin {
        plugin.apply_to(&mut definition, dialect);
    }
    match dialect.vocabulary().options_of_claude {
        true => claude::options(context, section, event, definition),
        false => Some(definition),
    }
}

/// Parses the action; returns it with its default timeout.
fn action(
    context: &mut ParserContext<'_>,
    section: &mut Section<'_>,
    event: Event,
    dialect: Dialect,
) -> Option<(Action, Duration)> {
    let place = section.entry("type").map(|entry| entry.value.place.clone());
    let written = section.required_text("type", &mut context.problems);
    let Some(written) = written else {
        section.take_rest();
        return None;
    };
    let is_of_claude = dialect.vocabulary().options_of_claude;
    if let ("prompt" | "agent", true) = (written, is_of_claude) {
        return claude::prompt(context, section, event, written);
    }
    let action = match written {
        "command" => command(context, section, dialect),
        "builtin" if !context.foreign => builtin(context, section, event),
        "model" if !context.foreign => model(section, &mut context.problems),
        "http" => http(section, dialect, &mut context.problems),
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
                Some(_) => context.unsupported(problem),
                None => context.problems.push(problem),
            }
            None
        }
    };
    action.map(|action| (action, dialect.vocabulary().timeout))
}

fn command(
    context: &mut ParserContext<'_>,
    section: &mut Section<'_>,
    dialect: Dialect,
) -> Option<Action> {
    let mut line = required_text(section, "command", &mut context.problems)?.to_owned();
    let arguments = section
        .entry("args")
        .filter(|arguments| !arguments.value.is_null());
    let texts = section.texts("args", &mut context.problems);
    match (arguments, dialect) {
        (Some(written), Dialect::DockerAgent) => context.problems.push(
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
        line = claude::wrap_for_shell(line, section, &mut context.problems);
    }
    Some(Action::Command { line })
}

fn builtin(
    context: &mut ParserContext<'_>,
    section: &mut Section<'_>,
    event: Event,
) -> Option<Action> {
    let name = required_text(section, "command", &mut context.problems)?;
    let place = section.node("command").map(|node| node.place.clone());
    let at = |problem: Problem| match &place {
        Some(place) => problem.at(place),
        None => problem,
    };
    let texts = section.texts("args", &mut context.problems);
    let arguments: Vec<String> = texts.into_iter().flatten().map(str::to_owned).collect();
    let Some(builtin) = context.builtins.get(name) else {
        let names: Vec<&str> = context.builtins.iter().map(|known| known.name()).collect();
        context.problems.push(at(Problem::new(
            "unknown-builtin",
            format!("there is no builtin `{name}`"),
        )
        .help(did_you_mean(name, &names))));
        return None;
    };
    if !builtin.events().contains(&event) {
        let events: Vec<&str> = builtin.events().iter().map(|event| event.name()).collect();
        context.problems.push(at(Problem::new(
            "wrong-event",
            format!("the builtin `{name}` makes no sense for `{event}`"),
        )
        .help(format!("it is for {}", events.join(", ")))));
    }
    if let Err(why) = builtin.check_arguments(&arguments) {
        let problem = Problem::new("bad-arguments", format!("the builtin `{name}`: {why}"));
        context.problems.push(match section.node("args") {
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
