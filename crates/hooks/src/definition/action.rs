//! Parses the action and the options of one hook.

use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::config::{Settings as _, Table, Values};
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::Node;

use super::parser_context::ParserContext;
use super::tables::{
    BUILTIN, CLAUDE_COMMAND, COMMAND, ClaudeOptions, FOREIGN_COMMAND, ForeignHttpHook, HttpHook,
    McpToolHook, ModelHook, PromptHook, SharedOptions, TYPED,
};
use super::{Action, Definition, claude, options};
use crate::{Dialect, Event, go_template};

/// The supported handler types.
const TYPES: [&str; 5] = ["command", "builtin", "model", "http", "mcp_tool"];

/// Handler types of other runtimes, and their replacements.
#[rustfmt::skip]
const FOREIGN_TYPES: [(&str, &str); 4] = [
    ("evaluator", "write `{type: model, model: MODEL, prompt: \"QUESTION {{ input | tojson }}\", schema: guard_decision}` in its place, with the model and the question of the evaluator"),
    ("prompt", "with `dialect: claude` it runs; a hook of type `model` judges, too"),
    ("agent", "with `dialect: claude` it is asked; a hook of type `model` judges, too"),
    ("mcp_tool", "with `dialect: claude` it runs"),
];

/// Parses a hook; `None` if there is nothing to run, for a reason that was reported.
pub(super) fn definition(
    context: &mut ParserContext<'_>,
    node: &Node,
    event: Event,
    dialect: Dialect,
) -> Option<Definition> {
    let written = TYPED.read(node, &mut context.problems)?;
    let kind = written.text("type")?;
    let is_of_claude = dialect.vocabulary().options_of_claude;
    let table = match table(kind, dialect, context.foreign) {
        Some(table)
            if table != PromptHook::TABLE
                || claude::supports_prompt(context, node, event, kind) =>
        {
            table
        }
        Some(_) => return None,
        None => {
            report_type(context, kind, written);
            return None;
        }
    };
    let own = table.read(node, &mut context.problems)?;
    let shared = SharedOptions::read(node, &mut context.problems)?;
    let of_claude = if is_of_claude {
        ClaudeOptions::read(node, &mut context.problems)
    } else {
        None
    };
    let mut tables = vec![&TYPED, SharedOptions::TABLE, table];
    tables.extend(of_claude.as_ref().map(|_| ClaudeOptions::TABLE));
    context.report_undeclared(node, &tables, dialect);
    let usual = dialect.vocabulary().timeout;
    let (action, usual) = match kind {
        "command" => {
            warn_of_templates(context, own);
            (command(context, own, dialect)?, usual)
        }
        "builtin" => (builtin(context, own, event)?, usual),
        "model" => (model(own, &mut context.problems)?, usual),
        "http" => (http(own, dialect, &mut context.problems)?, usual),
        "mcp_tool" => (mcp_tool(own, &mut context.problems)?, MCP_TOOL_TIMEOUT),
        _ => claude::prompt(context, own, kind)?,
    };
    let problems = &mut context.problems;
    let mut definition = Definition {
        name: shared.name,
        timeout: options::timeout(shared.timeout.as_ref(), dialect, usual, problems),
        env: shared.env,
        working_dir: shared.working_dir,
        on_error: options::on_error(shared.on_error, event, problems),
        strict_output: shared.strict_output,
        sequential: shared.sequential,
        ..Definition::new(action)
    };
    if let Some(plugin) = &context.plugin {
        plugin.apply_to(&mut definition, dialect);
    }
    match of_claude {
        Some(options) => claude::options(context, options, event, definition),
        None => Some(definition),
    }
}

/// Returns the keys of a type; `None` if there is no such type. In files of other runtimes, only their own
/// types are known.
fn table(kind: &str, dialect: Dialect, foreign_file: bool) -> Option<&'static Table> {
    let is_own = dialect == Dialect::DockerAgent;
    let is_of_claude = dialect.vocabulary().options_of_claude;
    match kind {
        "command" if is_own => Some(&COMMAND),
        "command" if is_of_claude => Some(&CLAUDE_COMMAND),
        "command" => Some(&FOREIGN_COMMAND),
        "http" if is_own => Some(HttpHook::TABLE),
        "http" => Some(ForeignHttpHook::TABLE),
        "prompt" | "agent" if is_of_claude => Some(PromptHook::TABLE),
        "mcp_tool" if is_of_claude || !foreign_file => Some(McpToolHook::TABLE),
        "builtin" if !foreign_file => Some(&BUILTIN),
        "model" if !foreign_file => Some(ModelHook::TABLE),
        _ => None,
    }
}

/// Reports a type that is unknown, or that only other runtimes have.
fn report_type(context: &mut ParserContext<'_>, kind: &str, written: Values<'_>) {
    let place = written.place("type");
    match FOREIGN_TYPES.iter().find(|(name, _)| *name == kind) {
        Some((_, instead)) => context.unsupported(
            Problem::new(
                "unsupported-handler",
                format!("hooks of type `{kind}` do not run here"),
            )
            .at(&place)
            .help(*instead),
        ),
        None => context.problems.push(
            Problem::new("unknown-handler", format!("there is no type `{kind}`"))
                .at(&place)
                .help(did_you_mean(kind, &TYPES)),
        ),
    }
}

/// Returns the items of a list that are text.
fn words<'a>(values: Values<'a>, key: &str) -> Vec<&'a str> {
    let items = values.list(key).unwrap_or_default().iter();
    items.filter_map(Node::as_text).collect()
}

/// Warns of a template in a command line. No runtime renders it: the shell gets it as it is written.
fn warn_of_templates(context: &mut ParserContext<'_>, values: Values<'_>) {
    let line = values.text("command").unwrap_or_default();
    let words = words(values, "args");
    let mut texts = std::iter::once(line).chain(words);
    let Some(field) = texts.find_map(go_template::named_field) else {
        return;
    };
    let message = format!("the template with `{field}` in a command is not rendered");
    let help = format!("read the value from the input on stdin: `jq -r .{field}`");
    let warning = Problem::warning("no-effect", message);
    let warning = warning.at(&values.place("command"));
    context.warnings.push(warning.help(help));
}

fn command(
    context: &mut ParserContext<'_>,
    values: Values<'_>,
    dialect: Dialect,
) -> Option<Action> {
    let mut line = values.string("command")?;
    let arguments = values
        .entry("args")
        .filter(|arguments| !arguments.value.is_null());
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
        (Some(_), _) => line = claude::without_shell(&line, &words(values, "args")),
        (None, _) => {}
    }
    if dialect.vocabulary().options_of_claude {
        line = claude::wrap_for_shell(line, values);
    }
    Some(Action::Command { line })
}

/// The builtin of docker-agent that keeps the files of the workspace before each turn.
const SNAPSHOT: &str = "snapshot";

/// The builtin of docker-agent that adds texts of the file to the context.
const CONTEXT: &str = "add_context";

fn builtin(context: &mut ParserContext<'_>, values: Values<'_>, event: Event) -> Option<Action> {
    let name = values.text("command")?;
    let place = values.place("command");
    let arguments = values.texts("args").unwrap_or_default();
    let Some(builtin) = context.builtins.get(name) else {
        if name == SNAPSHOT {
            let message = format!("the builtin `{name}` has no effect");
            let warning = Problem::warning("no-effect", message).at(&place);
            let help = "commit before you start a chat: `git diff` shows what an agent changed, and git takes it back";
            context.problems.push(warning.help(help));
            return None;
        }
        let names: Vec<&str> = context.builtins.iter().map(|known| known.name()).collect();
        let help = match name {
            CONTEXT => "write a hook of the type `command` that prints the text".to_owned(),
            _ => did_you_mean(name, &names),
        };
        context.problems.push(
            Problem::new("unknown-builtin", format!("there is no builtin `{name}`"))
                .at(&place)
                .help(help),
        );
        return None;
    };
    if !builtin.events().contains(&event) {
        let events: Vec<&str> = builtin.events().iter().map(|event| event.name()).collect();
        let message = format!("the builtin `{name}` makes no sense for `{event}`");
        let help = format!("it is for {}", events.join(", "));
        let problem = Problem::new("wrong-event", message).at(&place);
        context.problems.push(problem.help(help));
    }
    if let Err(why) = builtin.check_arguments(&arguments) {
        let problem = Problem::new("bad-arguments", format!("the builtin `{name}`: {why}"));
        let place = values.node("args").map_or(place, Node::head);
        context.problems.push(problem.at(&place));
    }
    Some(Action::Builtin {
        name: name.to_owned(),
        arguments,
    })
}

fn model(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<Action> {
    let hook = ModelHook::from_values(values, problems)?;
    Some(Action::Model {
        model: hook.model,
        prompt: hook.prompt,
        system_prompt: hook.system_prompt,
        schema: hook.schema,
    })
}

/// The timeout of a call of a tool, in all dialects.
const MCP_TOOL_TIMEOUT: Duration = Duration::from_secs(60);

fn mcp_tool(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<Action> {
    let hook = McpToolHook::from_values(values, problems)?;
    let input = hook.input.map(|input| input.to_value());
    Some(Action::McpTool {
        server: hook.server,
        tool: hook.tool,
        input: input.and_then(|input| input.as_object().cloned()),
    })
}

fn http(values: Values<'_>, dialect: Dialect, problems: &mut Vec<Problem>) -> Option<Action> {
    if dialect == Dialect::DockerAgent {
        let HttpHook { url, headers } = HttpHook::from_values(values, problems)?;
        return Some(Action::Http { url, headers });
    }
    let ForeignHttpHook {
        url,
        mut headers,
        allowed_variables,
    } = ForeignHttpHook::from_values(values, problems)?;
    // Claude Code: only variables that the hook allows are expanded in headers.
    for value in headers.values_mut() {
        *value = claude::with_variables(value, &allowed_variables);
    }
    Some(Action::Http { url, headers })
}
