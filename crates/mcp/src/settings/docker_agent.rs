//! Toolsets of docker-agent: its types and spellings, and what replaces those that have no counterpart.

use std::borrow::Cow;
use std::collections::BTreeMap;

use cachalot_core::config::{Custom, Parameter, Settings as _, Values, no_effect};
use cachalot_core::tree::{MapEntry, Node, NodeKind, expand_set, unset_variables};
use cachalot_core::{Problem, SecretSet};
use cachalot_operation::permissions::own_name as own_tool_name;
use cachalot_tools::builtin::shell::looks_like_a_credential;
use cachalot_tools::builtin::{ApiSettings, OpenUrlSettings, ScriptSettings, signatures};
use cachalot_tools::is_valid_name;

use super::shared_keys::problem;

/// A placeholder in `instruction` for the text of the toolset itself. Toolsets have none here.
pub(super) const ORIGINAL_INSTRUCTIONS: &str = "{ORIGINAL_INSTRUCTIONS}";

/// Types of toolsets without a counterpart, and what replaces them.
#[rustfmt::skip]
const REPLACEMENTS: [(&str, &str); 13] = [
    ("a2a", "agents of other servers are not called: define the agent in this file, and name it in `sub_agents`"),
    ("background_agents", "name the agents in `sub_agents`: those with `fork: true` work in parallel"),
    ("git", "use `shell`, with `shell:command=git *` under `permissions.allow`"),
    ("lsp", "name the MCP server of the language, for instance `type: mcp` with `command: gopls` and `args: [mcp]`"),
    ("mcp_catalog", "define the servers that the agent needs under `mcps`, and name them with `type: mcp` and `ref`"),
    ("model_picker", "give each model an agent of its own, and name these agents in `handoffs` or `sub_agents`"),
    ("openapi", "describe the requests that the agent needs with `type: api`, or name an MCP server for the API"),
    ("plan", "let the agents keep the plan in a file: `type: filesystem`"),
    ("scheduler", "start `cachalot chat` by the scheduler of the system, with the message on stdin"),
    ("session_context", "keep what later sessions need with `type: memory`; `cachalot sessions show` prints a session"),
    ("session_plan", "let the agent keep the plan in a file: `type: filesystem`"),
    ("tasks", "use `type: todo`, or let the agents keep the tasks in a file: `type: filesystem`"),
    ("web_search", "name an MCP server that searches the web under `mcps`"),
];

/// True for a type without which an agent works: its tools are left out, with a warning.
pub(super) fn is_dispensable(word: &str) -> bool {
    word == "lsp"
}

/// Returns what replaces a type of toolsets.
pub(super) fn replacement(word: &str) -> Option<&'static str> {
    let found = REPLACEMENTS.iter().find(|(known, _)| *known == word);
    found.map(|(_, replacement)| *replacement)
}

/// Returns a pattern with our name for a tool, unless the toolset has a tool that is called like it.
pub(super) fn own_name(pattern: &str, names: &[&str]) -> String {
    let (not, bare) = match pattern.strip_prefix('!') {
        Some(bare) => ("!", bare),
        None => ("", pattern),
    };
    // A toolset with `create_directory` alone must not write files.
    let is_narrower = not.is_empty() || bare != "create_directory";
    match own_tool_name(bare).filter(|own| names.contains(own)) {
        Some(own) if !names.contains(&bare) && is_narrower => format!("{not}{own}"),
        _ => pattern.to_owned(),
    }
}

/// Reports a list of folders without the workspace, or with others.
pub(super) fn check_folders(values: Values<'_>, problems: &mut Vec<Problem>) {
    let Some(node) = values.node("allow_list") else {
        return;
    };
    let listed = values.texts("allow_list").unwrap_or_default();
    let is_workspace = |folder: &String| matches!(folder.as_str(), "." | "./");
    if !listed.iter().any(is_workspace) {
        problems.push(problem(
            node,
            "bad-value",
            "`allow_list` does not contain `.`: the tools work in the workspace, and nowhere else",
            "start the chat with `--workspace DIR`, and write `.` here",
        ));
    } else if listed.len() > 1 {
        let message =
            "the tools work in the workspace: other folders of `allow_list` have no effect";
        problems.push(
            Problem::warning("no-effect", message)
                .at(&node.head())
                .help("start the chat with `--workspace DIR` for a larger folder"),
        );
    }
}

/// Keys of a reference to a server that change nothing here.
#[rustfmt::skip]
pub(super) const OF_OTHERS_OF_SERVERS: &[Parameter] = &[
    no_effect("version", "Docker's gateway runs the version of its catalog"),
    no_effect("working_dir", "Docker's gateway decides where a server works"),
    no_effect("allow_private_ips", "the address in the file is reached, wherever it is"),
];

/// Sources of skills: only those on this machine.
pub(super) static SKILL_SOURCES: Custom = Custom {
    schema: None,
    check: |entry, problems| {
        for source in entry.value.as_list().unwrap_or_default() {
            if source.as_text() != Some("local") {
                let message = "skills are not fetched from other machines";
                let help =
                    "save the skill in `.cachalot/skills` of the workspace, and write its name";
                problems.push(problem(source, "bad-value", message, help));
            }
        }
    },
};

/// Expands the environment variables in a toolset. Returns the names of those that are not set, too. The
/// commands of `script` are left to the shell, and the arguments of `api` to its calls.
pub(super) fn expanded(
    item: &Node,
    environment: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> (Node, Vec<String>) {
    let kind = item.get("type").and_then(Node::as_text);
    let arguments = item
        .get("api_config")
        .and_then(|written| written.get("args")?.as_map());
    let mut environment = Cow::Borrowed(environment);
    for argument in arguments
        .filter(|_| kind == Some("api"))
        .unwrap_or_default()
    {
        let place = format!("${{{}}}", argument.key);
        environment.to_mut().insert(argument.key.clone(), place);
    }
    // A model reads instructions and the address of `open_url`: they get no credentials of the user.
    let mut public = environment.clone().into_owned();
    let none = SecretSet::empty();
    public.retain(|name, value| !looks_like_a_credential(name, value, &none));
    if kind == Some("open_url") {
        environment = Cow::Owned(public.clone());
    }
    let told = |written: Option<&Node>, node: &Node| {
        map_entry(node, "instruction", &|expanded| {
            let instruction = written.and_then(|toolset| toolset.get("instruction"));
            instruction.map_or_else(
                || expanded.clone(),
                |node| expand_set(node, None, &public, &mut Vec::new()),
            )
        })
    };
    if kind != Some("script") {
        let expanded = told(Some(item), &expand_set(item, None, &environment, problems));
        let expanded = map_entry(&expanded, "api_config", &|request| {
            told(item.get("api_config"), request)
        });
        return (expanded, unset_variables(item, &environment));
    }
    let nothing = |command: &Node| Node {
        place: command.place.clone(),
        kind: NodeKind::Null,
    };
    let rest = with_commands(item, &|_, command| nothing(command));
    let expanded = told(Some(item), &expand_set(&rest, None, &environment, problems));
    let written = |name: &str| item.get("shell")?.get(name)?.get("cmd");
    let restored = with_commands(&expanded, &|name, command| {
        written(name).unwrap_or(command).clone()
    });
    (restored, unset_variables(&rest, &environment))
}

/// Returns a toolset of the type `script` with other command lines.
fn with_commands(item: &Node, command: &dyn Fn(&str, &Node) -> Node) -> Node {
    let in_script =
        |name: &str, script: &Node| map_entry(script, "cmd", &|line| command(name, line));
    map_entry(item, "shell", &|scripts| {
        let entries = scripts.as_map().map(|entries| {
            let entries = entries.iter().map(|entry| MapEntry {
                value: in_script(&entry.key, &entry.value),
                ..entry.clone()
            });
            NodeKind::Map(entries.collect())
        });
        Node {
            place: scripts.place.clone(),
            kind: entries.unwrap_or_else(|| scripts.kind.clone()),
        }
    })
}

/// Returns a mapping with another value of one key.
fn map_entry(node: &Node, key: &str, value: &dyn Fn(&Node) -> Node) -> Node {
    let Some(entries) = node.as_map() else {
        return node.clone();
    };
    let entries = entries.iter().map(|entry| {
        if entry.key == key {
            MapEntry {
                value: value(&entry.value),
                ..entry.clone()
            }
        } else {
            entry.clone()
        }
    });
    Node {
        place: node.place.clone(),
        kind: NodeKind::Map(entries.collect()),
    }
}

/// Reads the commands of a toolset of the type `script`.
pub(super) fn scripts(values: Values<'_>, problems: &mut Vec<Problem>) -> Vec<ScriptSettings> {
    let entries = values.map("shell");
    if entries.is_empty() {
        let message = "a toolset of type `script` needs `shell`";
        let help = "add the commands: `shell: {NAME: {cmd: …, description: …}}`";
        problems.push(problem(values.mapping(), "missing-key", message, help));
    }
    let mut scripts = Vec::new();
    for entry in entries {
        let keys = ScriptSettings::TABLE.values(&entry.value);
        let script = keys.and_then(|keys| ScriptSettings::from_values(keys, problems));
        let Some(script) = script else {
            continue;
        };
        check_tool_name(&entry.key, &entry.value, problems);
        for (name, _) in &script.arguments {
            if !is_variable(name) {
                let message = format!("`{name}` cannot be an environment variable");
                let help = "use letters, digits and `_` in the names of `args`";
                problems.push(problem(&entry.value, "bad-value", message, help));
            }
        }
        // The approval of a call shows its name and arguments only.
        let command = one_line(&script.command);
        let message = format!("the tool `{}` runs: {command}", entry.key);
        problems.push(
            Problem::warning("runs-command", message)
                .at(&entry.key_place)
                .help("approve its calls only if you trust this command"),
        );
        let name = entry.key.clone();
        scripts.push(ScriptSettings { name, ..script });
    }
    scripts
}

/// Reads the request of a toolset of the type `api`.
pub(super) fn api(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<ApiSettings> {
    let settings = ApiSettings::from_values(values, problems)?;
    let (request, written) = (&settings.request, values.table("api_config")?);
    check_tool_name(&request.name, written.mapping(), problems);
    check_address(&request.endpoint, written.node("endpoint"), problems);
    let host = request.endpoint.split_once("://");
    let host = host.map_or("", |(_, rest)| rest).split(['/', '?', '#']);
    let is_chosen = host.take(1).any(|host| host.contains("${"));
    if let Some(node) = written.node("endpoint").filter(|_| is_chosen)
        && !request.headers.is_empty()
    {
        let message = "the model chooses the host, which would receive the `headers`";
        let help = "write the host into the address, or take the headers out";
        problems.push(problem(node, "bad-value", message, help));
    }
    Some(settings)
}

/// Reads the address of a toolset of the type `open_url`.
pub(super) fn open_url(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<OpenUrlSettings> {
    let settings = OpenUrlSettings::from_values(values, problems)?;
    check_tool_name(&settings.name, values.mapping(), problems);
    check_address(&settings.url, values.node("url"), problems);
    Some(settings)
}

/// Reports a name that no tool may have, or that a tool of the program has: a rule for that tool must not permit
/// this one.
pub(super) fn check_tool_name(name: &str, node: &Node, problems: &mut Vec<Problem>) {
    let is_own = |tool: &str| tool.eq_ignore_ascii_case(name);
    let is_taken = signatures().iter().any(|tool| is_own(&tool.name))
        || ["transfer_task", "handoff"].into_iter().any(is_own)
        || own_tool_name(&name.to_ascii_lowercase()).is_some()
        || name
            .get(..4)
            .is_some_and(|start| start.eq_ignore_ascii_case("mcp_"));
    if !is_valid_name(name) || is_taken {
        let message = format!("a tool of the file cannot be called `{name}`");
        let help = "use letters, digits, `-` and `_`, and a name that no other tool has";
        problems.push(problem(node, "bad-value", message, help));
    }
}

fn check_address(url: &str, node: Option<&Node>, problems: &mut Vec<Problem>) {
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    if let Some(node) = node.filter(|_| !is_web) {
        let message = "the address does not begin with https:// or http://";
        let help = "write the whole address, such as `https://host/path`";
        problems.push(problem(node, "bad-value", message, help));
    }
}

fn is_variable(text: &str) -> bool {
    text.starts_with(|character: char| character.is_ascii_alphabetic() || character == '_')
        && text
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || character == '_')
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
