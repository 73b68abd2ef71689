//! MCP servers of Docker's catalog: `ref: docker:NAME`. Docker's gateway runs them in containers.

use std::collections::BTreeMap;

use cachalot_core::Secret;

use crate::{McpError, McpSettings, McpTransport};

/// The beginning of a reference to a server of the catalog.
const PREFIX: &str = "docker:";

/// The program that runs the servers.
const DOCKER: &str = "docker";

/// Servers of the catalog, and how they run without Docker.
const EQUIVALENTS: [(&str, &str); 12] = [
    ("apify", "`url: https://mcp.apify.com`"),
    ("atlassian", "`url: https://mcp.atlassian.com/v1/mcp`"),
    (
        "brave",
        "`command: npx` with `args: [-y, \"@brave/brave-search-mcp-server\"]`",
    ),
    ("context7", "`url: https://mcp.context7.com/mcp`"),
    (
        "couchbase",
        "`command: uvx` with `args: [couchbase-mcp-server]`",
    ),
    (
        "duckduckgo",
        "`command: uvx` with `args: [duckduckgo-mcp-server]`",
    ),
    ("fetch", "the toolset `fetch`, which needs no server"),
    (
        "filesystem",
        "the toolset `filesystem`, which needs no server",
    ),
    (
        "github-official",
        "`url: https://api.githubcopilot.com/mcp/` with a token in `headers`",
    ),
    (
        "kubernetes",
        "`command: npx` with `args: [-y, mcp-server-kubernetes]`",
    ),
    ("notion", "`url: https://mcp.notion.com/mcp`"),
    (
        "openbnb-airbnb",
        "`command: npx` with `args: [-y, \"@openbnb/mcp-server-airbnb\"]`",
    ),
];

/// Returns the settings of a server of the catalog; `None` for a reference of another form.
pub(super) fn settings(
    reference: &str,
    environment: BTreeMap<String, Secret<String>>,
) -> Option<McpSettings> {
    let name = reference.strip_prefix(PREFIX)?;
    let fits = |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
    // The name must not be an option of the program.
    if name.is_empty() || name.starts_with('-') || !name.chars().all(fits) {
        return None;
    }
    let arguments = ["mcp", "gateway", "run", "--servers", name];
    Some(McpSettings::new(
        name,
        McpTransport::Stdio {
            command: DOCKER.to_owned(),
            arguments: arguments.map(str::to_owned).to_vec(),
            environment,
            directory: None,
        },
    ))
}

/// Adds to the error of a server of the catalog how it runs without Docker.
pub(super) fn with_equivalent(error: McpError, settings: &McpSettings) -> McpError {
    let McpTransport::Stdio {
        command, arguments, ..
    } = &settings.transport
    else {
        return error;
    };
    let of_catalog = ["mcp", "gateway", "run", "--servers"];
    let Some(name) = arguments
        .get(of_catalog.len())
        .filter(|_| command == DOCKER)
    else {
        return error;
    };
    let known = EQUIVALENTS.iter().find(|(known, _)| known == name);
    let equivalent = known.map_or(
        "its `command` or `url` under `mcps`, in place of `ref`",
        |(_, equivalent)| *equivalent,
    );
    error.with_hint(&format!("without Docker: {equivalent}"))
}
