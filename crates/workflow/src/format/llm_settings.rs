//! `settings.llm`, the defaults of models, with the keys of the reference implementation.

use std::collections::BTreeMap;
use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::config::{
    Custom, ParameterKind as Kind, Settings, Table, Values, key, no_effect,
};
use cachalot_core::tree::{MapEntry, Node, NodeKind};
use cachalot_model::{MODEL_KEYS, PROVIDER_KEYS};

use super::calls::names_action;
use crate::codes;

const MODEL: &str = "the default model is `model`, its provider `provider`";
const LOCAL: &str = "for a model on this machine, run a server and name it with `base_url`";

/// The keys of `settings.llm`: those of all models, and the programs that answer in place of a model.
#[rustfmt::skip]
pub(super) static LLM: Table = Table::new(
    "`settings.llm`",
    "The default model, and defaults of all models.",
    &[
        MODEL_KEYS,
        PROVIDER_KEYS,
        &[
            key("shell_provider", Kind::Text, "The program that `provider: shell` names."),
            key("shell_providers", Kind::Tables(ShellProvider::TABLE), "Programs that answer in place of models (`provider: shell`), by name."),
            key("api_key", Kind::Custom(&Custom { schema: None, check: refuse_key }), ""),
            no_effect("default_model", MODEL),
            no_effect("default_provider", MODEL),
            no_effect("deployment", "the name of a deployment is written as `model`"),
            no_effect("backend", LOCAL),
            no_effect("model_path", LOCAL),
            no_effect("n_ctx", LOCAL),
            no_effect("n_threads", LOCAL),
            no_effect("n_gpu_layers", LOCAL),
        ],
    ],
);

/// A program that answers a prompt on stdout.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(name = "a shell provider", check = check_input)]
pub struct ShellProvider {
    /// The program; the name of the provider by default.
    pub command: Option<String>,
    /// Its arguments; `{prompt}` in one stands for the prompt, `{input_file}` for the path of a file with it.
    pub args: Vec<String>,
    /// How it gets a prompt that no argument holds.
    #[setting(kind = Kind::Word(&["pipe", "file"]))]
    pub stdin_mode: Option<&'static str>,
    /// The time after which it is killed; `5m` by default.
    pub timeout: Option<Duration>,
    /// Environment variables, beside PATH, HOME, LANG, LC_* and TMPDIR.
    #[setting(kind = Kind::Scalars { null: false })]
    pub env: BTreeMap<String, String>,
    /// Read for other runtimes, without effect.
    // They print the answer while it streams; here `llm.stream` does.
    pub verbose: Option<bool>,
}

/// Reports a program that reads its prompt from a file, and has no argument for the path.
fn check_input(program: &ShellProvider, values: Values<'_>, problems: &mut Vec<Problem>) {
    if program.stdin_mode == Some("file")
        && !program
            .args
            .iter()
            .any(|argument| argument.contains("{input_file}"))
    {
        let message = "`stdin_mode: file`, and no argument holds the path";
        let help = "put `{input_file}` where the program takes the path of its input";
        let problem = Problem::new(codes::BAD_VALUE, message).at(&values.place("stdin_mode"));
        problems.push(problem.help(help));
    }
}

fn refuse_key(entry: &MapEntry, problems: &mut Vec<Problem>) {
    let problem = Problem::new(codes::BAD_VALUE, "a key stands in the file");
    problems.push(problem.at(&entry.key_place).help(
        "write it into an environment variable, and the name of that here: `token_key: NAME`",
    ));
}

/// Returns the settings with `api_key: ${NAME}` in `llm` replaced by `token_key: NAME`. The key is read
/// from the variable when a model is called, and no setting that templates can show contains it.
pub(super) fn with_token_key(settings: &Node) -> Node {
    let mut settings = settings.clone();
    if let NodeKind::Map(entries) = &mut settings.kind
        && let Some(llm) = entries.iter_mut().find(|entry| entry.key == "llm")
        && let NodeKind::Map(entries) = &mut llm.value.kind
        && let Some(entry) = entries.iter_mut().find(|entry| entry.key == "api_key")
        && let Some(name) = variable(&entry.value)
    {
        entry.value.kind = NodeKind::Text(name.to_owned());
        entry.key = "token_key".to_owned();
    }
    settings
}

/// Returns the name in `${NAME}` or `${NAME:-}`.
fn variable(node: &Node) -> Option<&str> {
    let inside = node.as_text()?.trim().strip_prefix("${")?;
    let inside = inside.strip_suffix('}')?;
    let name = inside.strip_suffix(":-").unwrap_or(inside);
    let name = name.strip_prefix("env.").unwrap_or(name);
    (!name.contains([':', '{'])).then_some(name)
}

/// Refuses a file that configures a model on this machine if its nodes would send prompts to a provider.
/// The reference implementation loads such models itself.
pub(super) fn check_local(settings: Option<&Node>, nodes: Option<&Node>) -> Option<Problem> {
    let llm = settings?.get("llm")?;
    let is_remote = |node: &&Node| matches!(node.as_text(), Some("api" | "auto"));
    let backend = llm.get("backend").filter(|node| !is_remote(node));
    let asks_for_one = backend.or_else(|| llm.get("model_path"))?;
    // A template may name any action.
    let may_ask = |name: &str| {
        ["llm", "agent", "reflection", "reason", "summarize", "{{"]
            .iter()
            .any(|part| name.contains(part))
    };
    nodes.filter(|nodes| names_action(nodes, &may_ask))?;
    let message = "no model is loaded into this process: prompts would leave this machine";
    Some(
        Problem::new(codes::UNSUPPORTED, message)
            .at(&asks_for_one.place)
            .help(LOCAL),
    )
}
