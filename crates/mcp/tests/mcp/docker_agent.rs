//! Toolsets in the format of docker-agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use cachalot_core::Problem;
use cachalot_core::tree::parse;
use cachalot_mcp::McpTransport;
use cachalot_mcp::settings::{ToolsetKind, ToolsetSettings, assemble, read_toolsets};
use serde_json::json;

use crate::Fixture;

fn toolsets(text: &str) -> (ToolsetSettings, Vec<Problem>) {
    let mut problems = Vec::new();
    let node = parse("agent.yaml", text).unwrap();
    let settings = read_toolsets(&node, &BTreeMap::new(), &BTreeMap::new(), &mut problems);
    (settings, problems)
}

/// The codes of warnings and the texts of errors.
fn found(text: &str) -> Vec<String> {
    let (_, problems) = toolsets(text);
    let told = problems.iter().map(|problem| {
        if problem.is_warning {
            problem.code.to_owned()
        } else {
            problem.to_string()
        }
    });
    told.collect()
}

#[test]
fn docker_reference_runs_the_gateway() {
    let (settings, problems) =
        toolsets("- {type: mcp, ref: 'docker:github-official', env: {A: b}}");
    assert_eq!(problems, []);
    let ToolsetKind::Mcp(server) = &settings.toolsets[0].kind else {
        panic!("no server")
    };
    assert_eq!(server.settings.name, "github-official");
    let McpTransport::Stdio {
        command, arguments, ..
    } = &server.settings.transport
    else {
        panic!("no program")
    };
    let line = format!("{command} {}", arguments.join(" "));
    assert_eq!(line, "docker mcp gateway run --servers github-official");
}

#[tokio::test]
async fn docker_reference_without_docker_names_the_equivalent() {
    let mut fixture = Fixture::new();
    let nowhere = BTreeMap::from([("PATH".to_owned(), "/nowhere".to_owned())]);
    fixture.dependencies.mcp.environment = Arc::new(nowhere);
    for (reference, equivalent) in [
        ("docker:duckduckgo", "without Docker: `command: uvx`"),
        ("docker:unknown", "without Docker: its `command` or `url`"),
    ] {
        let (settings, _) = toolsets(&format!("- {{type: mcp, ref: '{reference}'}}"));
        let assembled = assemble(&settings, &fixture.dependencies).await.unwrap();
        assert!(assembled.tools.is_empty());
        let warnings = fixture.warnings();
        let last = warnings.last().unwrap();
        assert!(last.contains(equivalent), "{last}");
    }
}

#[tokio::test]
async fn unset_variable_matters_only_where_it_is_used() {
    let text = "
- {type: mcp, remote: {url: 'https://x.example/mcp', headers: {Authorization: 'Bearer ${env.NO_TOKEN}'}}}
- {type: fetch, allowed_hosts: [x.example], headers: {X-Key: '${NO_KEY}'}}
- {type: filesystem, tools: [list_directory, read_multiple_files]}
";
    assert_eq!(found(text), ["unset-variable", "unset-variable"]);
    let fixture = Fixture::new();
    let (settings, _) = toolsets(text);
    let assembled = assemble(&settings, &fixture.dependencies).await.unwrap();
    let names: Vec<&str> = assembled
        .tools
        .iter()
        .map(|tool| &*tool.metadata().name)
        .collect();
    assert_eq!(names, ["read_file", "list_dir"]);
    let warnings = fixture.warnings();
    assert!(
        warnings[0].contains("`NO_TOKEN` is not set"),
        "{warnings:?}"
    );
    assert!(warnings[1].contains("`NO_KEY` is not set"), "{warnings:?}");
}

#[tokio::test]
async fn script_runs_its_command_with_arguments_as_variables() {
    let text = "
- type: script
  shell:
    greet:
      cmd: echo \"hello ${name} ${missing:-friend}\"
      args: {name: {description: Who}}
";
    assert_eq!(found(text), ["runs-command"]);
    let fixture = Fixture::new();
    let (settings, _) = toolsets(text);
    let assembled = assemble(&settings, &fixture.dependencies).await.unwrap();
    let tool_fixture = fixture.tool_fixture_of(assembled);
    let said = tool_fixture.done("greet", json!({"name": "$(id)"})).await;
    assert!(said.starts_with("hello $(id) friend\n"), "{said}");
}

#[test]
fn tools_of_the_file_do_not_take_names_of_other_tools() {
    for name in [
        "shell",
        "Read_File",
        "transfer_task",
        "mcp_x_y",
        "Mcp_x_y",
        "list_directory",
        "a b",
    ] {
        let script = format!("- {{type: script, shell: {{'{name}': {{cmd: x}}}}}}");
        let told = found(&script);
        let is_refused = told
            .iter()
            .any(|message| message.contains("cannot be called"));
        assert!(is_refused, "{name}: {told:?}");
    }
    let bad = [
        (
            "- {type: api, api_config: {name: a, endpoint: 'https://${host}/x', headers: {A: b}, args: {host: {}}}}",
            "the model chooses the host",
        ),
        (
            "- {type: open_url, url: 'file:///etc/passwd'}",
            "does not begin with https://",
        ),
        (
            "- {type: fetch, headers: {A: b}}",
            "every host that the model names",
        ),
        (
            "- {type: filesystem, allow_list: [src]}",
            "does not contain `.`",
        ),
        (
            "- {type: model_picker}",
            "give each model an agent of its own",
        ),
    ];
    for (text, expected) in bad {
        let told = found(text).join("\n");
        assert!(told.contains(expected), "{text}: {told}");
    }
}

#[test]
fn keys_without_effect_cause_warnings() {
    let text = "
- {type: shell, safer: true, toon: '.*', defer: true}
- {type: memory, path: ./m.db}
- {type: mcp, command: gopls, version: 'golang/tools', lifecycle: {required: true}}
- {type: lsp, command: gopls}
";
    let codes = found(text);
    assert_eq!(codes, ["no-effect"; 7], "{codes:?}");
    let (settings, _) = toolsets(text);
    assert_eq!(settings.toolsets.len(), 3);
}
