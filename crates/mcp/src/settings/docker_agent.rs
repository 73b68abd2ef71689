//! Toolsets of docker-agent: its types and spellings, and what replaces those that have no counterpart.

use std::borrow::Cow;
use std::collections::BTreeMap;

use cachalot_core::config::{
    Custom, Literal, Parameter, ParameterKind as Kind, Table, Values, key, no_effect, required,
};
use cachalot_core::tree::{MapEntry, Node, NodeKind, expand_set, unset_variables};
use cachalot_core::{Problem, SecretSet};
use cachalot_operation::permissions::own_name as own_tool_name;
use cachalot_tools::builtin::shell::looks_like_a_credential;
use cachalot_tools::builtin::{
    ApiSettings, InlineSkill, OpenUrlSettings, ScriptSettings, signatures,
};
use cachalot_tools::is_valid_name;
use serde_json::{Value, json};

use super::kinds::{NAME, OF_OTHERS, SELECTION, TIME, TYPE, VARIABLES, problem, variables};

/// A placeholder in `instruction` for the text of the toolset itself. Toolsets have none here.
pub(super) const ORIGINAL_INSTRUCTIONS: &str = "{ORIGINAL_INSTRUCTIONS}";

/// All addresses.
pub(super) const ALL_NETWORKS: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// Types of toolsets without a counterpart, and what replaces them.
#[rustfmt::skip]
const REPLACEMENTS: [(&str, &str); 14] = [
    ("a2a", "agents of other servers are not called: define the agent in this file, and name it in `sub_agents`"),
    ("background_agents", "name the agents in `sub_agents`: those with `fork: true` work in parallel"),
    ("git", "use `shell`, with `shell:command=git *` under `permissions.allow`"),
    ("lsp", "name the MCP server of the language, for instance `type: mcp` with `command: gopls` and `args: [mcp]`"),
    ("mcp_catalog", "define the servers that the agent needs under `mcps`, and name them with `type: mcp` and `ref`"),
    ("model_picker", "give each model an agent of its own, and name these agents in `handoffs` or `sub_agents`"),
    ("openapi", "describe the requests that the agent needs with `type: api`, or name an MCP server for the API"),
    ("plan", "let the agents keep the plan in a file: `type: filesystem`"),
    ("rag", "search files with `grep` and `glob` of `type: filesystem`, or name an MCP server that searches documents"),
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

/// Returns hosts as `allowed_hosts` writes them: a host in docker-agent stands for its subdomains, too.
pub(super) fn hosts(domains: Vec<String>) -> Vec<String> {
    let hosts = domains.into_iter().flat_map(|domain| {
        let is_network = domain.contains('/') || domain.contains(':');
        let is_address = domain.parse::<std::net::IpAddr>().is_ok();
        match domain.strip_prefix('.') {
            Some(parent) => vec![format!("*.{parent}")],
            None if is_network || is_address || domain.starts_with("*.") => vec![domain],
            None => vec![format!("*.{domain}"), domain],
        }
    });
    hosts.collect()
}

/// Reports combinations of keys.
pub(super) fn check(word: &str, values: Values<'_>, problems: &mut Vec<Problem>) {
    let has = |key: &str| {
        values
            .mapping()
            .get(key)
            .is_some_and(|node| !node.is_null())
    };
    let mut report = |key: &str, code, message: &str, help: &str| {
        if let Some(node) = values.mapping().get(key) {
            problems.push(problem(node, code, message, help));
        }
    };
    if matches!(word, "fetch" | "web_fetch") {
        if has("allowed_domains") && (has("allowed_hosts") || has("allowedHosts")) {
            let message = "`allowed_domains` and `allowed_hosts` are the same";
            report(
                "allowed_domains",
                "two-spellings",
                message,
                "leave one of them out",
            );
        }
        if has("headers")
            && !["allowed_domains", "allowed_hosts", "allowedHosts"]
                .map(has)
                .contains(&true)
        {
            report(
                "headers",
                "bad-value",
                "`headers` would be sent to every host that the model names",
                "list the hosts that may get them in `allowed_hosts`",
            );
        }
    }
    if word == "filesystem" && has("allow_list") {
        let listed = values.texts("allow_list").unwrap_or_default();
        if !listed
            .iter()
            .any(|folder| matches!(folder.as_str(), "." | "./"))
        {
            report(
                "allow_list",
                "bad-value",
                "`allow_list` does not contain `.`: the tools work in the workspace, and nowhere else",
                "start the chat with `--workspace DIR`, and write `.` here",
            );
        } else if listed.len() > 1
            && let Some(node) = values.node("allow_list")
        {
            let message =
                "the tools work in the workspace: other folders of `allow_list` have no effect";
            problems.push(
                Problem::warning("no-effect", message)
                    .at(&node.head())
                    .help("start the chat with `--workspace DIR` for a larger folder"),
            );
        }
    }
}

/// Keys of a reference to a server that change nothing here.
#[rustfmt::skip]
pub(super) const OF_OTHERS_OF_SERVERS: &[Parameter] = &[
    no_effect("version", "Docker's gateway runs the version of its catalog"),
    no_effect("working_dir", "Docker's gateway decides where a server works"),
    no_effect("allow_private_ips", "the address in the file is reached, wherever it is"),
];

/// The keys of one command of the toolset `script`.
#[rustfmt::skip]
static SCRIPT_COMMAND: Table = Table::new(
    "a command of `script`",
    "A command that is a tool.",
    &[&[
        required("cmd", Kind::Text, "The command line; arguments of a call are environment variables."),
        key("description", Kind::Text, "What the tool does."),
        key("args", Kind::Object, "The arguments by name, each with its JSON Schema."),
        key("required", Kind::Texts, "The arguments that every call must have; all by default."),
        key("env", VARIABLES, "Environment variables of the command."),
        key("working_dir", Kind::Text, "The folder in the workspace in which it runs."),
    ]],
);

/// The keys of a toolset of the type `script`.
#[rustfmt::skip]
pub(super) static SCRIPT: Table = Table::new(NAME, "", &[&[
    TYPE,
    key("shell", Kind::Tables(&SCRIPT_COMMAND), "The commands by the names of their tools."),
], SELECTION, OF_OTHERS]);

/// The keys of the request of a toolset of the type `api`.
#[rustfmt::skip]
static API_CONFIG: Table = Table::new(
    "`api_config`",
    "The request.",
    &[&[
        required("name", Kind::Text, "The name of the tool."),
        required("endpoint", Kind::Text, "The address; `${NAME}` is an argument of the call."),
        key("instruction", Kind::Text, "What the tool does."),
        key("method", Kind::Word(&["GET", "POST"]), "The method.").default(Literal::Text("GET")),
        key("args", Kind::Object, "The arguments by name, each with its JSON Schema."),
        key("required", Kind::Texts, "The arguments that every call must have."),
        key("headers", VARIABLES, "Headers of the request."),
        no_effect("output_schema", "the model is shown the answer as it is"),
    ]],
);

/// The keys of a toolset of the type `api`.
#[rustfmt::skip]
pub(super) static API: Table = Table::new(NAME, "", &[&[
    TYPE,
    required("api_config", Kind::Table(&API_CONFIG), "The request: `name`, `endpoint`, `instruction`, `method`, `args`, `required`, `headers`."),
    key("timeout", TIME, "The timeout of a call.").default(Literal::Text("30s")),
    key("allow_private_ips", Kind::Boolean, "Private addresses may be called.").default(Literal::Boolean(false)),
], SELECTION, OF_OTHERS]);

/// The keys of a toolset of the type `open_url`.
#[rustfmt::skip]
pub(super) static OPEN_URL: Table = Table::new(NAME, "", &[&[
    TYPE,
    required("url", Kind::Text, "The address."),
    key("name", Kind::Text, "The name of the tool.").default(Literal::Text("open_url")),
], SELECTION, OF_OTHERS]);

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

#[rustfmt::skip]
static INLINE_SKILL: Table = Table::new(
    "a skill",
    "A skill of the agent file.",
    &[&[
        required("name", Kind::Text, "Its name."),
        required("description", Kind::Text, "What it is for."),
        required("instructions", Kind::Text, "Its text."),
        no_effect("context", "the agent reads the skill and follows it in the conversation"),
        no_effect("allowed_tools", "the agent has all its tools while it follows the skill"),
        no_effect("toolsets", "the agent has all its tools while it follows the skill"),
        no_effect("model", "the agent's own model follows the skill"),
    ]],
);

/// Skills of the agent file.
pub(super) static INLINE_SKILLS: Custom = Custom {
    schema: None,
    check: |entry, problems| {
        for skill in entry.value.as_list().unwrap_or_default() {
            INLINE_SKILL.read(skill, problems);
        }
    },
};

/// Returns a skill of the agent file.
pub(super) fn inline_skill(node: &Node) -> Option<InlineSkill> {
    let values = INLINE_SKILL.values(node)?;
    Some(InlineSkill {
        name: values.string("name")?,
        description: values.string("description")?,
        text: values.string("instructions")?,
    })
}

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
        .and_then(|it| it.get("args")?.as_map());
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
            let instruction = written.and_then(|it| it.get("instruction"));
            instruction.map_or_else(
                || expanded.clone(),
                |it| expand_set(it, None, &public, &mut Vec::new()),
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
        let Some(script) = SCRIPT_COMMAND.values(&entry.value) else {
            continue;
        };
        let Some(command) = script.string("cmd") else {
            continue;
        };
        check_tool_name(&entry.key, &entry.value, problems);
        let arguments = arguments(script);
        for (name, _) in &arguments {
            if !is_variable(name) {
                let message = format!("`{name}` cannot be an environment variable");
                let help = "use letters, digits and `_` in the names of `args`";
                problems.push(problem(&entry.value, "bad-value", message, help));
            }
        }
        // The approval of a call shows its name and arguments only.
        let message = format!("the tool `{}` runs: {}", entry.key, one_line(&command));
        problems.push(
            Problem::warning("runs-command", message)
                .at(&entry.key_place)
                .help("approve its calls only if you trust this command"),
        );
        let all = || arguments.iter().map(|(name, _)| name.clone()).collect();
        scripts.push(ScriptSettings {
            name: entry.key.clone(),
            description: script.string("description").unwrap_or_default(),
            required: script.texts("required").unwrap_or_else(all),
            environment: variables(script, "env"),
            directory: script.string("working_dir"),
            command,
            arguments,
        });
    }
    scripts
}

/// Reads the request of a toolset of the type `api`.
pub(super) fn api(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<ApiSettings> {
    let request = values.table("api_config")?;
    let (name, endpoint) = (request.string("name")?, request.string("endpoint")?);
    check_tool_name(&name, request.mapping(), problems);
    check_address(&endpoint, request.node("endpoint"), problems);
    let headers = variables(request, "headers");
    let host = endpoint.split_once("://").map_or("", |(_, rest)| rest);
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    if let Some(node) = request.node("endpoint").filter(|_| host.contains("${"))
        && !headers.is_empty()
    {
        let message = "the model chooses the host, which would receive the `headers`";
        let help = "write the host into the address, or take the headers out";
        problems.push(problem(node, "bad-value", message, help));
    }
    Some(ApiSettings {
        description: request.string("instruction").unwrap_or_default(),
        is_post: request.text("method") == Some("POST"),
        arguments: arguments(request),
        required: request.texts("required").unwrap_or_default(),
        headers,
        timeout: values.duration("timeout")?,
        allows_private: values.boolean("allow_private_ips").unwrap_or_default(),
        name,
        endpoint,
    })
}

/// Reads the address of a toolset of the type `open_url`.
pub(super) fn open_url(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<OpenUrlSettings> {
    let (name, url) = (values.string("name")?, values.string("url")?);
    check_tool_name(&name, values.mapping(), problems);
    check_address(&url, values.node("url"), problems);
    Some(OpenUrlSettings { name, url })
}

/// Returns the arguments of a tool: names and JSON Schemas.
fn arguments(values: Values<'_>) -> Vec<(String, Value)> {
    let schema = |entry: &MapEntry| match entry.value.to_value() {
        Value::Object(mut schema) => {
            schema.entry("type").or_insert_with(|| "string".into());
            Value::Object(schema)
        }
        _ => json!({ "type": "string" }),
    };
    let entries = values.map("args").iter();
    entries
        .map(|entry| (entry.key.clone(), schema(entry)))
        .collect()
}

/// Reports a name that no tool may have, or that a tool of the program has: a rule for that tool must not permit
/// this one.
fn check_tool_name(name: &str, node: &Node, problems: &mut Vec<Problem>) {
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
    text.starts_with(|sign: char| sign.is_ascii_alphabetic() || sign == '_')
        && text
            .chars()
            .all(|sign| sign.is_ascii_alphanumeric() || sign == '_')
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
