//! Settings from YAML and JSON, and the tools made from them.

use std::collections::BTreeMap;
use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::tree::parse;
use cachalot_mcp::settings::{
    ServerDefinition, ToolsetKind, ToolsetSettings, assemble, read_servers, read_toolsets,
};
use cachalot_mcp::{McpSettings, McpTransport, OfferSettings, ToolTrust};
use cachalot_tools::Registry;
use cachalot_tools::builtin::{ShellSettings, WebFetchSettings};

use crate::Fixture;

fn environment() -> BTreeMap<String, String> {
    [("TOKEN", "t0ken"), ("HOST", "example.com"), ("EMPTY", "")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

fn servers(text: &str) -> (BTreeMap<String, ServerDefinition>, Vec<Problem>) {
    let mut problems = Vec::new();
    let servers = read_servers(
        &parse("mcps.yaml", text).unwrap(),
        &environment(),
        &mut problems,
    );
    (servers, problems)
}

fn toolsets(text: &str) -> (ToolsetSettings, Vec<Problem>) {
    let known = "github: {command: npx}\nlocal: {url: 'http://localhost:1/'}";
    let (known, _) = servers(known);
    let mut problems = Vec::new();
    let node = parse("agent.yaml", text).unwrap();
    let settings = read_toolsets(&node, &known, &environment(), &mut problems);
    (settings, problems)
}

fn reported(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    lines.join("\n")
}

fn one(text: &str) -> ServerDefinition {
    let (servers, problems) = servers(text);
    assert!(problems.is_empty(), "{}", reported(&problems));
    servers.into_values().next().unwrap()
}

fn stdio(settings: &McpSettings) -> (&str, Vec<&str>, BTreeMap<&str, &str>) {
    match &settings.transport {
        McpTransport::Stdio {
            command,
            arguments,
            environment,
            ..
        } => (
            command,
            arguments.iter().map(String::as_str).collect(),
            environment
                .iter()
                .map(|(name, value)| (name.as_str(), value.expose().as_str()))
                .collect(),
        ),
        McpTransport::Http { .. } => panic!("not a program"),
    }
}

fn http(settings: &McpSettings) -> (&str, BTreeMap<&str, &str>) {
    match &settings.transport {
        McpTransport::Http { url, headers } => (
            url.expose(),
            headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.expose().as_str()))
                .collect(),
        ),
        McpTransport::Stdio { .. } => panic!("a program"),
    }
}

#[test]
fn program_server_settings_are_read() {
    let ServerDefinition {
        settings, filter, ..
    } = one("
github:
  command: npx
  args: [-y, server, '${HOST}']
  env: { GITHUB_TOKEN: '${env.TOKEN}', LEVEL: 3, ON: true, NONE: , DEFAULT: '${UNSET:-x}', EMPTY: '${EMPTY:-y}', PLAIN: '$${TOKEN}' }
  working_directory: tools
  timeout: 2m
  startup_timeout: 5
  required: true
  max_output: 5000
  tools: [search_*, '!search_code']
  trust: { read_only: [search_*, get], ttl: 5m }
  resources: false
  prompts: { ttl: 1h }
");
    let (command, arguments, environment) = stdio(&settings);
    assert_eq!(
        (command, arguments),
        ("npx", vec!["-y", "server", "example.com"])
    );
    let expected = [
        ("DEFAULT", "x"),
        ("EMPTY", "y"),
        ("GITHUB_TOKEN", "t0ken"),
        ("LEVEL", "3"),
        ("NONE", ""),
        ("ON", "true"),
        ("PLAIN", "${TOKEN}"),
    ];
    assert_eq!(environment, BTreeMap::from(expected));
    assert_eq!(settings.name, "github");
    assert_eq!(settings.limits.timeout, Duration::from_secs(120));
    assert_eq!(settings.limits.startup_timeout, Duration::from_secs(5));
    assert!(settings.limits.required);
    assert_eq!(settings.limits.output_limit, 5_000);
    assert_eq!(
        settings.resources,
        OfferSettings {
            is_offered: false,
            lifetime: None
        }
    );
    assert_eq!(
        settings.prompts,
        OfferSettings {
            is_offered: true,
            lifetime: Some(Duration::from_secs(3_600))
        }
    );
    let believed = ToolTrust {
        read_only: true,
        lifetime: Some(Duration::from_secs(300)),
    };
    assert_eq!(
        settings.trust,
        [
            ("search_*".to_owned(), believed),
            ("get".to_owned(), believed)
        ]
    );
    assert!(
        filter.selects(&["search_issues"])
            && !filter.selects(&["search_code"])
            && !filter.selects(&["get"])
    );
    assert!(!format!("{settings:?}").contains("t0ken"));
}

#[test]
fn http_server_settings_are_read() {
    let remote = one(
        "a:\n  remote:\n    url: https://${HOST}/mcp\n    transport_type: streamable\n    headers: { Authorization: 'Bearer ${TOKEN}' }\n  tools:\n    search: { read_only: true, ttl: 90s }\n    store: {}\n",
    );
    let (url, headers) = http(&remote.settings);
    assert_eq!(url, "https://example.com/mcp");
    assert_eq!(headers, BTreeMap::from([("Authorization", "Bearer t0ken")]));
    let trust = |read_only, seconds: Option<u64>| ToolTrust {
        read_only,
        lifetime: seconds.map(Duration::from_secs),
    };
    assert_eq!(
        remote.settings.trust,
        [
            ("search".to_owned(), trust(true, Some(90))),
            ("store".to_owned(), trust(false, None))
        ]
    );
    let plain = one("a: { url: 'http://localhost:3000/mcp', headers: { X: y } }");
    assert_eq!(http(&plain.settings).0, "http://localhost:3000/mcp");
}

#[test]
fn json_settings_of_other_clients_are_read() {
    let (servers, problems) = servers(
        r#"{
            "files": { "type": "stdio", "command": "npx", "args": ["-y", "x"], "env": { "A": "b" }, "toolTimeout": 30, "enabledTools": ["read", "mcp_files_list"] },
            "web": { "type": "streamableHttp", "url": "https://x.example/mcp", "headers": { "K": "v" }, "enabledTools": ["*"] }
        }"#,
    );
    assert!(problems.is_empty(), "{}", reported(&problems));
    let files = &servers["files"];
    assert_eq!(stdio(&files.settings).0, "npx");
    assert_eq!(files.settings.limits.timeout, Duration::from_secs(30));
    assert!(
        files.filter.selects(&["read"])
            && files.filter.selects(&["list", "mcp_files_list"])
            && !files.filter.selects(&["write"])
    );
    assert!(servers["web"].filter.selects(&["anything"]));
}

#[test]
fn problems_of_a_server_are_reported_with_their_place() {
    for (text, expected) in [
        (
            "a: { comand: npx }",
            vec![
                "mcps.yaml:1:6: unknown key `comand` in an MCP server [unknown-key]; did you mean `command`?",
                "neither `command` nor `url`",
            ],
        ),
        ("a: {}", vec!["neither `command` nor `url` [missing-key]"]),
        (
            "a: { command: x, url: 'http://y/' }",
            vec!["both `command` and an address"],
        ),
        (
            "a: { url: 'http://y/', remote: { url: 'http://z/' } }",
            vec!["two addresses"],
        ),
        (
            "a: { url: 'http://y/', args: [z] }",
            vec!["mean nothing for a server that is reached by `url`"],
        ),
        (
            "a: { url: 'y/${TOKEN}' }",
            vec!["`url` is no http:// or https:// address"],
        ),
        (
            "a: { type: sse, url: 'http://y/' }",
            vec![
                "the transport `sse` is not supported [unsupported-transport]",
                "streamable HTTP",
            ],
        ),
        (
            "a: { command: '${TOKN}' }",
            vec![
                "the environment variable `TOKN` is not set [unset-variable]; did you mean `${TOKEN}`?",
            ],
        ),
        ("a: { command: '${TOKEN' }", vec!["`${` is not closed"]),
        (
            "a: { command: x, timeout: soon }",
            vec!["`timeout` is `soon`, which is no duration [bad-value]; write a duration such as"],
        ),
        (
            "a: { command: x, timeout: 0 }",
            vec!["`timeout` is 0, but it must be above 0 [out-of-range]"],
        ),
        (
            "a: { command: x, timeout: 1, toolTimeout: 2 }",
            vec!["`toolTimeout` and `timeout` are the same key [two-spellings]"],
        ),
        (
            "a: { command: x, tools: ['a['] }",
            vec!["`a[` in `tools` is no pattern"],
        ),
        (
            "a: { command: x, tools: 3 }",
            vec!["`tools` must be a list of patterns, or a mapping"],
        ),
        (
            "a: { command: x, tools: { y: { ttl: 5m } } }",
            vec!["`ttl` means nothing for a tool that may change things"],
        ),
        (
            "a: { command: x, tools: { y: { readonly: true } } }",
            vec![
                "unknown key `readonly` in a tool of an MCP server",
                "did you mean `read_only`?",
            ],
        ),
        (
            "a: { command: x, env: { A: [1] } }",
            vec!["`A` in `env` must be text"],
        ),
        (
            "a: { command: x, env: { 'A=B': 1 } }",
            vec!["`A=B` in `env` is no variable"],
        ),
        ("a: 3", vec!["an MCP server must be a mapping"]),
        ("[]", vec!["the MCP servers must be a mapping"]),
    ] {
        let (_, problems) = servers(text);
        let reported = reported(&problems);
        for part in expected {
            assert!(reported.contains(part), "{text}\n{reported}");
        }
        assert!(!reported.contains("t0ken"), "{reported}");
    }
}

#[test]
fn toolsets_of_every_type() {
    let (settings, problems) = toolsets("
- { type: filesystem, tools: [read_file, 'g*'], readonly: true, instruction: Look before you leap. }
- { type: shell, timeout: 10, max_timeout: 1m, max_output: 1000, env: { A: '${HOST}' }, pass_env: [GITHUB_*] }
- { type: fetch, timeout: 5s, max_chars: 100, max_bytes: 200, ttl: 1h, allow: ['*.${HOST}', 10.0.0.0/8], allowed_hosts: ['docs.${HOST}'] }
- { type: memory }
- { type: skills, tools: [skill_view] }
- { type: mcp, ref: github, tools: [search] }
- { type: mcp, name: mine, command: ./server, args: [a] }
- { type: mcp, command: /usr/bin/npx }
- { type: mcp, command: npx, args: [b] }
- { type: mcp, remote: { url: 'https://api.example/mcp' } }
- { type: think }
- { type: todo, shared: true }
- { type: user_prompt }
- { type: background_jobs, max_output: 500, env: { A: b }, pass_env: [X], recall: true }
");
    assert!(problems.is_empty(), "{}", reported(&problems));
    let kinds: Vec<&ToolsetKind> = settings
        .toolsets
        .iter()
        .map(|toolset| &toolset.kind)
        .collect();
    assert!(matches!(kinds[0], ToolsetKind::Filesystem(_)));
    let first = &settings.toolsets[0];
    assert!(
        first.read_only
            && first.filter.selects(&["grep"])
            && !first.filter.selects(&["write_file"])
    );
    assert_eq!(first.instruction.as_deref(), Some("Look before you leap."));
    let ToolsetKind::Shell(shell) = kinds[1] else {
        panic!()
    };
    assert_eq!(shell.timeout, Duration::from_secs(10));
    assert_eq!(shell.max_timeout, Duration::from_secs(60));
    assert_eq!(
        (shell.commands.output_limit, shell.commands.pass.as_slice()),
        (1_000, &["GITHUB_*".to_owned()][..])
    );
    assert_eq!(shell.commands.environment["A"].expose(), "example.com");
    assert_eq!(*kinds[10], ToolsetKind::Think);
    assert_eq!(*kinds[11], ToolsetKind::Todo { shared: true });
    assert_eq!(*kinds[12], ToolsetKind::UserPrompt);
    let ToolsetKind::BackgroundJobs(jobs) = kinds[13] else {
        panic!()
    };
    assert!(jobs.recall && jobs.commands.output_limit == 500 && jobs.commands.pass == ["X"]);
    assert_eq!(jobs.commands.environment["A"].expose(), "b");
    let ToolsetKind::Fetch(fetch) = kinds[2] else {
        panic!()
    };
    let expected = WebFetchSettings {
        max_chars: 100,
        max_bytes: 200,
        timeout: Duration::from_secs(5),
        lifetime: Some(Duration::from_secs(3_600)),
        allow: vec!["*.example.com".to_owned(), "10.0.0.0/8".to_owned()],
        allowed_hosts: Some(vec!["docs.example.com".to_owned()]),
        ..WebFetchSettings::default()
    };
    assert_eq!(**fetch, expected);
    assert!(matches!(
        (kinds[3], kinds[4]),
        (ToolsetKind::Memory, ToolsetKind::Skills(_))
    ));
    let names: Vec<&str> = kinds[5..10]
        .iter()
        .map(|kind| match kind {
            ToolsetKind::Mcp(definition) => definition.settings.name.as_str(),
            _ => panic!(),
        })
        .collect();
    assert_eq!(names, ["github", "mine", "npx", "npx_2", "api.example"]);
    let (defaults, _) = toolsets("[{ type: shell }]");
    assert_eq!(
        defaults.toolsets[0].kind,
        ToolsetKind::Shell(ShellSettings::default())
    );
}

#[test]
fn problems_of_a_toolset_are_reported_with_their_place() {
    for (text, expected) in [
        (
            "- { type: filesytem, whatever: 1 }",
            "agent.yaml:1:11: there is no toolset of type `filesytem` [unknown-toolset]; did you mean `filesystem`?",
        ),
        ("- { tools: [] }", "a toolset needs `type`"),
        ("- { type: 3 }", "`type` must be text"),
        (
            "- { type: shell, time_out: 3 }",
            "unknown key `time_out` in a toolset [unknown-key]; did you mean `timeout`?",
        ),
        (
            "- { type: filesystem, tools: [read_fil] }",
            "no tool of this toolset is called `read_fil` [unknown-tool]; did you mean `read_file`?",
        ),
        (
            "- { type: memory, command: x }",
            "unknown key `command` in a toolset",
        ),
        (
            "- { type: mcp, ref: githb }",
            "there is no MCP server `githb` [unknown-server]; did you mean `github`?",
        ),
        (
            "- { type: mcp, ref: 'docker:-x' }",
            "there is no MCP server `docker:-x` [unknown-server]",
        ),
        (
            "- { type: openapi, url: 'https://x.example' }",
            "describe the requests that the agent needs with `type: api`",
        ),
        (
            "- { type: mcp, ref: github, command: x }",
            "unknown key `command`",
        ),
        (
            "- { type: mcp, name: github, command: x }",
            "there are two MCP servers called `github` [duplicate-server]",
        ),
        ("- { type: mcp }", "neither `command` nor `url`"),
        (
            "- { type: fetch, max_chars: 0 }",
            "`max_chars` must be from 1 to 500000",
        ),
        ("x: y", "`toolsets` must be a list"),
    ] {
        let (_, problems) = toolsets(text);
        let reported = reported(&problems);
        assert!(reported.contains(expected), "{text}\n{reported}");
    }
    let (settings, problems) = toolsets("~");
    assert!(settings.toolsets.is_empty() && problems.is_empty());
}

#[tokio::test]
async fn tools_are_made_from_settings() {
    let fixture = Fixture::new();
    let names = async |text: &str| {
        let (settings, problems) = toolsets(text);
        assert!(problems.is_empty(), "{}", reported(&problems));
        let assembled = assemble(&settings, &fixture.dependencies).await.unwrap();
        let registry = Registry::new(assembled.tools).unwrap();
        let names: Vec<String> = registry
            .tools()
            .map(|tool| tool.metadata().name.to_string())
            .collect();
        (names.join(" "), assembled.instructions)
    };
    let (all, instructions) = names("[{type: filesystem}, {type: shell, instruction: Be careful.}, {type: fetch}, {type: memory}, {type: skills}]").await;
    assert_eq!(
        all,
        "apply_patch edit_file glob grep list_dir memory read_file shell skill_manage skill_view skills_list web_fetch write_file"
    );
    assert_eq!(instructions, ["Be careful."]);
    let (session, _) = names("[{type: think}, {type: todo, tools: ['*', '!create_todo']}, {type: user_prompt}, {type: background_jobs, readonly: true}]").await;
    assert_eq!(
        session,
        "create_todos list_background_jobs list_todos think update_todos user_prompt view_background_job wait_background_job"
    );
    let (reading, _) = names("[{type: filesystem, readonly: true}, {type: shell, readonly: true}, {type: skills, readonly: true}]").await;
    assert_eq!(
        reading,
        "glob grep list_dir read_file skill_view skills_list"
    );
    let (some, _) = names(
        "[{type: filesystem, tools: [read_file]}, {type: filesystem, tools: ['read_*', glob]}]",
    )
    .await;
    assert_eq!(some, "glob read_file");
    let (settings, _) = toolsets("[{type: fetch, allow: ['not a host']}]");
    let error = assemble(&settings, &fixture.dependencies)
        .await
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("the toolset `fetch` cannot be")
            && error.to_string().contains("`not a host`"),
        "{error}"
    );
}
