//! Names of servers that the command line gives no name.

use std::ffi::OsString;
use std::path::{Component, Path};

/// Programs that start a server which an argument names, without versions (`python3.11`).
const LAUNCHERS: [&str; 11] = [
    "bun", "bunx", "deno", "docker", "node", "npx", "pnpm", "podman", "python", "uv", "uvx",
];

/// Words of launchers before the name of the server.
const WORDS: [&str; 5] = ["dlx", "exec", "run", "tool", "x"];

/// Options of launchers whose value is the next word.
const OPTIONS: [&str; 21] = [
    "-e",
    "-p",
    "-v",
    "-w",
    "--directory",
    "--env",
    "--env-file",
    "--from",
    "--index-url",
    "--mount",
    "--name",
    "--network",
    "--package",
    "--prefix",
    "--project",
    "--publish",
    "--python",
    "--user",
    "--volume",
    "--with",
    "--workdir",
];

/// Names of files and folders that say nothing about the server in them.
const GENERIC: [&str; 9] = [
    "__main__", "bin", "build", "cli", "dist", "index", "main", "server", "src",
];

/// What the names of scripts end with.
const SCRIPTS: [&str; 8] = ["cjs", "cmd", "exe", "js", "mjs", "py", "sh", "ts"];

/// Returns a name for the server of a command: its program, script or package, without what starts it and without a
/// version.
pub(super) fn server_name(command: &[OsString]) -> String {
    let mut words = command.iter();
    let program = words.next().map(name).unwrap_or_default();
    let is_version = |last: char| last.is_ascii_digit() || last == '.';
    if !LAUNCHERS.contains(&program.trim_end_matches(is_version)) {
        return program;
    }
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if OPTIONS.contains(&&*text) {
            words.next();
        } else if !text.starts_with('-') && !text.contains('=') && !WORDS.contains(&&*text) {
            // `NAME=VALUE` is no name, and may hold a credential.
            return name(word);
        }
    }
    program
}

/// Returns the name of a program, script, package or image: the last part of its path that says what it is.
fn name(word: &OsString) -> String {
    let parts = Path::new(word).components().rev();
    let parts = parts.filter(|part| matches!(part, Component::Normal(_)));
    let names = parts.map(|part| {
        let part = part.as_os_str().to_string_lossy();
        let stem = match part.rsplit_once('.') {
            Some((stem, ending)) if SCRIPTS.contains(&ending) => stem,
            _ => &part,
        };
        // The version of a package, or the tag of an image.
        let versioned = |at: &usize| *at > 0;
        let end = stem.find(['@', ':']).filter(versioned);
        stem[..end.unwrap_or(stem.len())].to_owned()
    });
    let names: Vec<String> = names.collect();
    let telling = names.iter().find(|name| !GENERIC.contains(&name.as_str()));
    telling.or(names.first()).cloned().unwrap_or_default()
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
            (
                "npx @modelcontextprotocol/server-memory@2026.8.31",
                "server-memory",
            ),
            ("npx --prefix /b mcp-notes", "mcp-notes"),
            ("uvx mcp-server-git --repository /a", "mcp-server-git"),
            ("uvx --from /b mcp-server-time", "mcp-server-time"),
            ("docker run -i --rm -e TOKEN ghcr.io/a/notes:1.2", "notes"),
            ("docker run --label owner=x ghcr.io/a/notes", "notes"),
            ("node /a/notes/dist/index.js", "notes"),
            ("/usr/bin/python3.11 -u ./server.py", "server"),
            ("/opt/tool.v2/my.server", "my.server"),
            ("uv run server.py", "server"),
            ("/opt/bin/my-server --stdio", "my-server"),
            ("python -m notes.server", "notes.server"),
            ("python -m", "python"),
        ] {
            let command: Vec<OsString> = command.split(' ').map(OsString::from).collect();
            assert_eq!(server_name(&command), expected, "{command:?}");
        }
    }
}
