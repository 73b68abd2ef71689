//! Reads `settings.llm`, the defaults of models, with the keys of the reference implementation.

use cachalot_core::Problem;
use cachalot_core::tree::{Node, NodeKind, Section};
use cachalot_model::ModelSettings;

use super::calls::names_action;
use super::codes;
use super::settings::{shell_providers, without_effect};

const MODEL: &str = "the default model is `model`, its provider `provider`";
const LOCAL: &str = "for a model on this machine, run a server and name it with `base_url`";

/// Keys that do not change any request.
const NO_EFFECT: &[(&str, &str)] = &[
    ("default_model", MODEL),
    ("default_provider", MODEL),
    (
        "deployment",
        "the name of a deployment is written as `model`",
    ),
    ("backend", LOCAL),
    ("model_path", LOCAL),
    ("n_ctx", LOCAL),
    ("n_threads", LOCAL),
    ("n_gpu_layers", LOCAL),
];

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

/// Reads and finishes `settings.llm`.
pub(super) fn read(mut section: Section<'_>, problems: &mut Vec<Problem>) -> ModelSettings {
    let settings = ModelSettings::read(&mut section, problems);
    if let Some(entry) = section.entry_if_unclaimed("api_key") {
        let problem = Problem::new(codes::BAD_VALUE, "a key stands in the file");
        problems.push(problem.at(&entry.key_place).help(
            "write it into an environment variable, and the name of that here: `token_key: NAME`",
        ));
    }
    section.text("shell_provider", problems);
    shell_providers(&mut section, problems);
    without_effect(&mut section, NO_EFFECT, "`settings.llm`", problems);
    section.finish(problems);
    settings
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
            .any(|it| name.contains(it))
    };
    nodes.filter(|nodes| names_action(nodes, &may_ask))?;
    let message = "no model is loaded into this process: prompts would leave this machine";
    Some(
        Problem::new(codes::UNSUPPORTED, message)
            .at(&asks_for_one.place)
            .help(LOCAL),
    )
}
