//! The tools of `config.json`: `toolsets` of the agent, `mcps` and `tools` of the agent file.

use cachalot_core::config::Values;
use cachalot_core::tree::{Node, NodeKind};
use cachalot_core::{Problem, SourceSpan};

use super::tree::{list, mapping, node, text};

/// The beginning of results that nanobot does not cache.
const ERROR_PREFIX: &str = "Error:";

/// The time that a call of an MCP server may take, in seconds, if the file does not say.
const SERVER_TIMEOUT: i64 = 30;

/// Keys of a server that agent files have, too.
const OF_SERVERS: [&str; 8] = [
    "type",
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "headers",
    "toolTimeout",
];

/// The sections of an agent file that are about tools.
pub(super) struct ToolSections {
    pub(super) toolsets: Node,
    pub(super) servers: Node,
    /// The cache of results.
    pub(super) cache: Node,
}

/// Converts `tools`, which may be missing. `place` is that of the file.
pub(super) fn sections(
    tools: Option<Values<'_>>,
    place: &SourceSpan,
    problems: &mut Vec<Problem>,
) -> ToolSections {
    let place = tools.map_or(place, |tools| &tools.mapping().place);
    let section = |name: &str| tools.and_then(|tools| tools.table(name));
    let is_on = |name: &str| {
        let enabled = section(name).and_then(|section| section.boolean("enable"));
        enabled.unwrap_or(true)
    };
    let toolset = |kind: &str, keys: Vec<(&'static str, Node)>| {
        let kind = [("type", text(place, kind))];
        mapping(place, kind.into_iter().chain(keys))
    };
    let truth = |truth| node(place, NodeKind::Boolean(truth));
    let mut toolsets = Vec::new();
    if is_on("file") {
        toolsets.push(toolset("filesystem", Vec::new()));
    }
    if is_on("exec")
        && let Some(keys) = shell(section("exec"), place, problems)
    {
        toolsets.push(toolset("shell", keys));
    }
    if is_on("web") {
        let networks = tools.and_then(|tools| tools.node("ssrfWhitelist")).cloned();
        let allowed = networks.map(|networks| ("allow", networks));
        toolsets.push(toolset("fetch", allowed.into_iter().collect()));
    }
    toolsets.push(toolset("skills", vec![("readonly", truth(true))]));
    if let Some(tools) = tools {
        confinement(tools, problems);
    }
    let mut servers = Vec::new();
    for (name, values) in tools
        .into_iter()
        .flat_map(|tools| tools.tables("mcpServers"))
    {
        servers.push((name, server(values)));
        let named = values.texts("enabledTools");
        if named.is_none_or(|named| !named.is_empty()) {
            let reference = vec![("ref", text(&values.mapping().place, name))];
            toolsets.push(toolset("mcp", reference));
        }
    }
    ToolSections {
        toolsets: list(place, toolsets),
        servers: mapping(place, servers),
        cache: mapping(place, tools.into_iter().flat_map(cache)),
    }
}

/// Returns the keys of the toolset `shell`; `None` if commands cannot be restricted as the file demands.
fn shell(
    exec: Option<Values<'_>>,
    place: &SourceSpan,
    problems: &mut Vec<Problem>,
) -> Option<Vec<(&'static str, Node)>> {
    let Some(exec) = exec else {
        return Some(vec![("timeout", text(place, "60s"))]);
    };
    for key in ["denyPatterns", "allowPatterns"] {
        let Some(patterns) = exec.list(key).filter(|patterns| !patterns.is_empty()) else {
            continue;
        };
        let message = format!("the tool `shell` is left out: `{key}` is not supported");
        problems.push(
            Problem::warning("unsupported-guard", message)
                .at(&patterns[0].place)
                .help("remove the patterns: each command then needs your approval; an agent file can have rules under `permissions.deny`"),
        );
        return None;
    }
    if exec.text("sandbox").is_some() {
        let message = "`sandbox` in `tools.exec` has no effect: commands run in a sandbox if the user says so";
        let warning = Problem::warning("not-sandboxed", message).at(&exec.place("sandbox"));
        problems.push(warning.help("start the chat with `--sandbox`"));
    }
    let seconds: u64 = match exec.integer("timeout") {
        Some(0) => {
            let message = "`timeout: 0` in `tools.exec` has no effect: each command has a timeout";
            let warning = Problem::warning("no-effect", message).at(&exec.place("timeout"));
            problems.push(warning.help("write the number of seconds"));
            60
        }
        given => given.unwrap_or(60),
    };
    let timeout = |seconds: u64| text(&exec.place("timeout"), format!("{seconds}s"));
    let mut keys = vec![
        ("timeout", timeout(seconds)),
        ("max_timeout", timeout(seconds.max(600))),
    ];
    let part = |key| exec.text(key).map(str::to_owned);
    let (before, after) = (part("pathPrepend"), part("pathAppend"));
    if before.is_some() || after.is_some() {
        let path = before
            .into_iter()
            .chain(["${PATH:-}".to_owned()])
            .chain(after);
        let path = path.collect::<Vec<_>>().join(":");
        let path = text(&exec.mapping().place, path);
        keys.push(("env", mapping(&exec.mapping().place, [("PATH", path)])));
    }
    if let Some(passed) = exec.node("allowedEnvKeys") {
        keys.push(("pass_env", passed.clone()));
    }
    Some(keys)
}

/// Reports that tools cannot leave the workspace.
fn confinement(tools: Values<'_>, problems: &mut Vec<Problem>) {
    if tools.boolean("restrictToWorkspace") == Some(false) {
        let message =
            "`restrictToWorkspace: false` has no effect: file tools never leave the workspace";
        let warning =
            Problem::warning("no-effect", message).at(&tools.place("restrictToWorkspace"));
        problems.push(warning.help("`--workspace DIR` names a larger folder"));
    }
}

/// Converts an MCP server.
fn server(values: Values<'_>) -> Node {
    let place = &values.mapping().place;
    let written = OF_SERVERS
        .iter()
        .filter_map(|key| Some((*key, values.node(key)?.clone())));
    let mut keys: Vec<(&str, Node)> = written.collect();
    if values.node("toolTimeout").is_none() {
        keys.push((
            "toolTimeout",
            node(place, NodeKind::Integer(SERVER_TIMEOUT)),
        ));
    }
    let named = values.texts("enabledTools").unwrap_or_default();
    if let Some(patterns) = values.node("enabledTools").filter(|_| !named.is_empty()) {
        keys.push(("enabledTools", patterns.clone()));
        // A server whose tools are named offers neither resources nor prompts.
        if !named.iter().any(|name| name == "*") {
            let off = || node(place, NodeKind::Boolean(false));
            keys.extend([("resources", off()), ("prompts", off())]);
        }
    }
    mapping(place, keys)
}

/// Returns the keys of the cache of results.
fn cache(tools: Values<'_>) -> impl Iterator<Item = (&'static str, Node)> {
    let keys = ["cacheToolResults", "cacheToolResultsMaxSize"];
    let written = keys
        .into_iter()
        .filter_map(move |key| Some((key, tools.node(key)?.clone())));
    let prefix = tools.node("cacheToolResults").map(|on| {
        let prefix = text(&on.place, ERROR_PREFIX);
        ("cacheToolResultsErrorPrefix", prefix)
    });
    written.chain(prefix)
}
