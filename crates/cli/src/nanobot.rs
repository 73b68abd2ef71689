//! `config.json` of nanobot, which is converted into an agent file with one agent. Everything after that is as for any
//! agent file.

mod keys;
mod models;
mod providers;
mod tools;
mod tree;

use std::collections::BTreeMap;

use cachalot_core::config::Values;
use cachalot_core::tree::{Node, NodeKind};
use cachalot_core::{Problem, SourceSpan};

use self::keys::{CONFIG, DEFAULTS};
use self::models::ModelReader;
use self::tree::{list, mapping, node, normalized, text};

/// The name of the agent.
const AGENT: &str = "nanobot";

/// Files of the workspace that nanobot adds to the system text.
const PROMPT_FILES: [&str; 5] = [
    "AGENTS.md",
    "SOUL.md",
    "USER.md",
    "memory/MEMORY.md",
    "--depth=0",
];

/// Keys of an agent that `agents.defaults` of nanobot does not have.
const OF_AGENTS: [&str; 4] = ["instruction", "instruction_file", "toolsets", "sub_agents"];

/// An agent file that was made of `config.json`. All places are those of `config.json`.
pub(crate) struct Converted {
    /// The agent file.
    pub(crate) root: Node,
    /// Keys of providers in the file, by the environment variables that the agent file names in their place.
    pub(crate) keys: BTreeMap<String, String>,
    /// The places of these keys.
    pub(crate) secrets: Vec<SourceSpan>,
    /// Problems of the file. What cannot be honored is a warning.
    pub(crate) problems: Vec<Problem>,
}

/// True for the tree of a `config.json` of nanobot.
pub(crate) fn is_config(root: &Node) -> bool {
    let has = |keys: &[&str]| keys.iter().any(|key| root.get(key).is_some());
    match root.get("agents").and_then(Node::as_map) {
        // An agent may have the name `defaults`, too.
        Some([only]) if only.key == "defaults" && only.value.as_map().is_some() => {
            !has(&["nodes"]) && OF_AGENTS.iter().all(|key| only.value.get(key).is_none())
        }
        Some(_) => false,
        None => {
            let servers = root.get("tools").is_some_and(|tools| {
                tools.get("mcpServers").is_some() || tools.get("mcp_servers").is_some()
            });
            let mut providers = root
                .get("providers")
                .and_then(Node::as_map)
                .into_iter()
                .flatten();
            let has_key = providers.any(|provider| {
                let keys = ["apiKey", "api_key", "apiBase", "api_base"];
                keys.iter().any(|key| provider.value.get(key).is_some())
            });
            !has(&["nodes", "upstreams", "models"])
                && (servers || has_key || has(&["modelPresets", "model_presets", "channels"]))
        }
    }
}

/// Converts `config.json` into an agent file. `environment` has the values of variables.
pub(crate) fn convert(root: &Node, environment: &BTreeMap<String, String>) -> Converted {
    let config = normalized(root);
    let mut problems = Vec::new();
    let nothing = node(&config.place, NodeKind::Map(Vec::new()));
    let values = CONFIG.read(&config, &mut problems);
    for problem in &mut problems {
        // A newer version has more keys.
        problem.is_warning |= problem.code == "unknown-key";
    }
    let agents = values.and_then(|values| values.table("agents"));
    let defaults = agents.and_then(|agents| agents.table("defaults"));
    let (Some(values), Some(defaults)) = (values, defaults.or_else(|| DEFAULTS.values(&nothing)))
    else {
        return Converted {
            root: config,
            keys: BTreeMap::new(),
            secrets: Vec::new(),
            problems,
        };
    };
    problems.extend(workspace(defaults));
    let presets: Vec<(&str, Values<'_>)> = values.tables("modelPresets").collect();
    let models = ModelReader::new(values, environment, &mut problems).read(defaults, &presets);
    let tools = tools::sections(values.table("tools"), &config.place, &mut problems);
    let agent = agent(defaults, &models.chosen, tools.toolsets);
    let place = &config.place;
    let file = [
        ("models", mapping(place, models.models)),
        ("providers", mapping(place, models.providers)),
        ("agents", mapping(place, [(AGENT, agent)])),
        ("mcps", tools.servers),
        ("tools", tools.cache),
    ];
    Converted {
        root: mapping(place, file),
        keys: models.keys,
        secrets: secrets(values),
        problems,
    }
}

/// Returns the places of the keys of all providers.
fn secrets(config: Values<'_>) -> Vec<SourceSpan> {
    let providers = config.tables("providers");
    let keys = providers.filter_map(|(_, provider)| Some(provider.node("apiKey")?.place.clone()));
    keys.collect()
}

fn agent(defaults: Values<'_>, model: &str, toolsets: Node) -> Node {
    let place = &defaults.mapping().place;
    let name = defaults.text("botName").unwrap_or(AGENT);
    let instruction = format!(
        "You are {name}, a personal assistant. You do what the user asks with your tools, and report what you have done and what you have found. Files of the workspace say more about you, the user and what you remember."
    );
    let iterations = defaults
        .integer("maxToolIterations")
        .unwrap_or(i64::MAX as u64);
    let files = PROMPT_FILES.map(|file| text(place, file));
    let keys = [
        ("model", text(place, model)),
        ("instruction", text(place, instruction)),
        ("add_date", node(place, NodeKind::Boolean(true))),
        ("add_prompt_files", list(place, files)),
        (
            "max_iterations",
            node(place, NodeKind::Unsigned(iterations)),
        ),
        ("toolsets", toolsets),
    ];
    mapping(place, keys)
}

/// Reports that the user chooses the workspace, not the file.
fn workspace(defaults: Values<'_>) -> Option<Problem> {
    let folder = defaults.text("workspace")?;
    let message =
        "`workspace` in `agents.defaults` has no effect: tools work in the current directory";
    let warning = Problem::warning("no-effect", message).at(&defaults.place("workspace"));
    Some(warning.help(format!("start the chat with `--workspace {folder}`")))
}
