//! The reference servers of the protocol, which we did not write: only if `CACHALOT_TEST_SDKS=1`,
//! because it installs packages from the registries.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::provider::Provider;
use crate::support::Home;

const SERVERS: [&str; 3] = ["everything", "filesystem", "memory"];

/// Installs the servers; why not, if that is not possible here. A registry that does not answer is as good as none.
fn install(directory: &Path) -> Result<(), String> {
    let packages = SERVERS.map(|name| format!("@modelcontextprotocol/server-{name}"));
    let installed = Command::new("timeout")
        .args([
            "600",
            "npm",
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--prefix",
        ])
        .arg(directory)
        .args(packages)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("npm: {error}"))?;
    match installed.status.code() {
        Some(0) => Ok(()),
        Some(124) => Err("the registry took more than 600 s".to_owned()),
        _ => Err(String::from_utf8_lossy(&installed.stderr).trim().to_owned()),
    }
}

const TASKS: &str = "
rules:
  - user: 'say'
    steps:
      - tool_calls:
          - {name: mcp_everything_echo, arguments: {message: hello}}
          - {name: mcp_everything_get-tiny-image, arguments: {}}
          - {name: mcp_everything_trigger-long-running-operation, arguments: {duration: 3, steps: 6}}
          - {name: mcp_filesystem_write_file, arguments: {path: '{{1}}', content: deep}}
          - {name: mcp_memory_create_entities, arguments: {entities: [{name: whale, entityType: animal, observations: [deep]}]}}
          - {name: mcp_memory_read_graph, arguments: {}}
      - text: 'It is done: {{last_result}}'
";

#[test]
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn reference_servers_work_as_mcp_toolsets() {
    if std::env::var("CACHALOT_TEST_SDKS").as_deref() != Ok("1") {
        eprintln!(
            "skipped: set CACHALOT_TEST_SDKS=1 to run the reference servers (it installs packages)"
        );
        return;
    }
    let home = Home::new();
    if let Err(why) = install(home.path()) {
        eprintln!("skipped: the reference servers cannot be installed: {why}");
        return;
    }
    let file = home.join("depth.txt");
    let tasks = TASKS.replace("{{1}}", &file.display().to_string());
    let provider = Provider::scripted(&tasks);
    let command = |name: &str| {
        let binary = format!("node_modules/.bin/mcp-server-{name}");
        home.join(&binary).display().to_string()
    };
    let team = format!(
        "
agents:
  root:
    model: openai/gpt-4o
    toolsets: [{{type: mcp, ref: everything}}, {{type: mcp, ref: filesystem}}, {{type: mcp, ref: memory}}]
mcps:
  everything: {{command: '{}', args: [stdio], timeout: 2s}}
  filesystem: {{command: '{}', args: ['{}']}}
  memory: {{command: '{}', env: {{MEMORY_FILE_PATH: '{}'}}}}
permissions: {{allow: ['*']}}
",
        command("everything"),
        command("filesystem"),
        home.path().display(),
        command("memory"),
        home.join("memory.jsonl").display(),
    );
    home.write("team.yaml", team);
    let ran = home.ask(&provider, &["team.yaml", "-v"], "say it").ok();
    assert!(ran.stdout.contains("whale"), "{ran}");
    let warnings = ran.stderr.lines().filter(|line| line.contains("warning:"));
    let warnings: Vec<_> = warnings.collect();
    assert!(warnings.is_empty(), "{ran}");
    assert!(!ran.stderr.contains("has other tools now"), "{ran}");
    // It takes longer than the timeout of the server, and tells of its progress.
    for line in [
        "mcp_everything_trigger-long-running-operation | 2 of 6",
        "Secure MCP Filesystem Server running on stdio",
    ] {
        assert!(ran.stderr.contains(line), "{line}: {ran}");
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), "deep");
    let sent = provider.received().last().unwrap().json().to_string();
    for part in [
        "Echo: hello",
        "data:image/png;base64,",
        "Long running operation completed",
    ] {
        assert!(sent.contains(part), "{part}: {sent}");
    }
}
