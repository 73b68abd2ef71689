//! Names of servers that the command line gives no name.

use std::ffi::OsString;
use std::path::Path;

/// Programs that start a server which an argument names.
const LAUNCHERS: [&str; 12] = [
    "bun", "bunx", "deno", "docker", "node", "npx", "pnpm", "podman", "python", "python3", "uv",
    "uvx",
];

/// Words of launchers before the name of the server.
const WORDS: [&str; 5] = ["dlx", "exec", "run", "tool", "x"];

/// Returns a name for the server of a command: its program or package, without what starts it.
pub(super) fn server_name(command: &[OsString]) -> String {
    let stem = |part: &OsString| {
        let stem = Path::new(part).file_stem().unwrap_or(part);
        stem.to_string_lossy().into_owned()
    };
    let mut parts = command.iter();
    let program = parts.next().map(stem).unwrap_or_default();
    if !LAUNCHERS.contains(&program.as_str()) {
        return program;
    }
    let is_name = |part: &&OsString| {
        let part = part.to_string_lossy();
        !part.starts_with('-') && !WORDS.contains(&&*part)
    };
    parts.find(is_name).map_or(program, stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_after_what_is_started() {
        for (command, expected) in [
            (
                "npx -y @modelcontextprotocol/server-filesystem /a",
                "server-filesystem",
            ),
            ("uvx mcp-server-git --repository /a", "mcp-server-git"),
            ("uv run server.py", "server"),
            ("/opt/bin/my-server --stdio", "my-server"),
            ("python -m", "python"),
        ] {
            let command: Vec<OsString> = command.split(' ').map(OsString::from).collect();
            assert_eq!(server_name(&command), expected, "{command:?}");
        }
    }
}
