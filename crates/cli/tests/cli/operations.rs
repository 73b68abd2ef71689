//! Tools as steps of workflows, and actions as tools of agents.

use std::path::Path;

use crate::provider::Provider;
use crate::support::{CommandOutput, Home};

/// The MCP server of `examples/tool_in_workflow.yaml`.
fn server() -> String {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/servers/glossary.py");
    std::fs::read_to_string(server).unwrap()
}

fn flow(home: &Home, text: &str) -> CommandOutput {
    home.write("flow.yaml", text);
    home.run(&["run", "flow.yaml"])
}

const DEFINE: &str = "
mcps:
  glossary:
    command: python3
    args: [glossary.py]
    tools: {define: {read_only: true, ttl: 1h}}
nodes:
  - name: definition
    uses: cache.wrap
    with: {action: mcp.glossary.define, args: {term: epoch}}
    output: definition
";

#[test]
fn mcp_tool_hit_starts_no_server() {
    let home = Home::new();
    home.write("glossary.py", server());
    let first = flow(&home, DEFINE).ok().json();
    let definition = first["definition"]["result"].as_str().unwrap();
    assert!(definition.starts_with("A counter"), "{first}");
    assert_eq!(first["definition"]["_cache_hit"], false);
    // The time to live is that of `mcps`: the default of a step is longer.
    let listed = home.run(&["cache", "ls", "--json"]).ok().json();
    let entry = &listed[0];
    let time = |name: &str| entry[name].as_str().unwrap().to_owned();
    assert_eq!(
        &time("created")[14..19],
        &time("expires")[14..19],
        "{listed}"
    );
    assert_ne!(time("created"), time("expires"));

    home.write("glossary.py", "raise SystemExit(3)\n");
    let second = flow(&home, DEFINE).ok().json();
    assert_eq!(second["definition"]["_cache_hit"], true, "{second}");
    assert_eq!(second["definition"]["result"], definition);
    let refreshed = home.run(&["run", "flow.yaml", "--refresh"]).fails(1);
    assert!(refreshed.stderr.contains("glossary"), "{refreshed}");
}

#[test]
fn mcp_tool_that_declares_to_write_is_never_answered_from_the_cache() {
    let home = Home::new();
    for hints in [
        r#"{"readOnlyHint": False}"#,
        r#"{"readOnlyHint": True, "destructiveHint": True}"#,
    ] {
        home.write(
            "glossary.py",
            server().replace(r#"{"readOnlyHint": True}"#, hints),
        );
        for _ in 0..2 {
            let ran = flow(&home, DEFINE).ok();
            let definition = &ran.json()["definition"];
            assert_eq!(definition["_cache_hit"], false, "{ran}");
            for part in [
                "declares that its tool `define` changes things",
                "its setting `read_only` names `define`",
            ] {
                assert!(ran.stderr.contains(part), "{ran}");
            }
        }
    }
}

#[test]
fn announcement_of_a_server_expires_results_of_its_tools_in_other_runs() {
    let home = Home::new();
    home.write("glossary.py", server());
    let is_hit = || flow(&home, DEFINE).ok().json()["definition"]["_cache_hit"] == true;
    assert_eq!([is_hit(), is_hit()], [false, true]);
    let reply = "    print(json.dumps(reply), flush=True)\n";
    let announcement = "    if request['method'] == 'tools/call':\n        print('{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}')\n";
    let announcing = server().replace(reply, &format!("{announcement}{reply}"));
    home.write("glossary.py", &announcing);
    let wrapped = "uses: cache.wrap\n    with: {action: mcp.glossary.define, args: {term: epoch}}";
    let plain = "uses: mcp.glossary.define\n    with: {term: cache}";
    flow(&home, &DEFINE.replace(wrapped, plain)).ok();
    // A result that is overtaken by the announcement is not stored.
    assert_eq!([is_hit(), is_hit()], [false, false]);
    home.write("glossary.py", server());
    assert_eq!([is_hit(), is_hit()], [false, true]);
}

#[test]
fn mcp_tool_arguments_are_checked_by_their_schema() {
    let home = Home::new();
    home.write("glossary.py", server());
    let step = "
mcps: {glossary: {command: python3, args: [glossary.py]}}
nodes:
  - {name: a, uses: mcp.glossary.define, with: {term: whale}, output: a}
";
    let ran = flow(&home, step).fails(1);
    assert!(ran.stderr.contains("term"), "{ran}");
    let ran = flow(&home, &step.replace("define", "describe")).fails(1);
    assert!(ran.stderr.contains("has no tool `describe`"), "{ran}");
}

#[test]
fn built_in_tool_is_served_until_the_file_changes() {
    let home = Home::new();
    let text = "
nodes:
  - name: read
    uses: cache.wrap
    with: {action: tool.read_file, args: {path: notes/a.txt}}
    output: read
  - name: search
    uses: cache.wrap
    with: {action: tool.grep, args: {pattern: deep, path: notes}}
    output: search
";
    home.write("notes/a.txt", "deep\n");
    for (content, hits) in [
        ("deep\n", [false, false]),
        ("deep\n", [true, true]),
        ("deeper\n", [false, false]),
        ("deeper\n", [true, true]),
    ] {
        if content != std::fs::read_to_string(home.join("notes/a.txt")).unwrap() {
            home.write("notes/a.txt", content);
        }
        let state = flow(&home, text).ok().json();
        let found = ["read", "search"].map(|name| state[name]["_cache_hit"] == true);
        assert_eq!(found, hits, "{content}: {state}");
        let read = state["read"]["result"].as_str().unwrap();
        assert!(read.contains(content.trim()), "{read}");
    }
}

#[test]
fn memory_tool_step_invalidates_cached_retrievals() {
    let home = Home::new();
    let search = |name: &str| {
        format!(
            "  - {{name: {name}, uses: cache.wrap, with: {{action: ltm.retrieve, args: {{key: k, default: none}}}}, output: {name}}}\n"
        )
    };
    let text = format!(
        "nodes:\n{}{}  - {{name: save, uses: tool.memory, with: {{action: store, key: k, value: deep}}}}\n{}  - {{name: write, uses: tool.write_file, with: {{path: out.txt, content: written}}}}\n",
        search("first"),
        search("second"),
        search("third"),
    );
    let state = flow(&home, &text).ok().json();
    let hits = ["first", "second", "third"].map(|name| state[name]["_cache_hit"] == true);
    assert_eq!(hits, [false, true, false], "{state}");
    assert_eq!(state["first"]["result"]["value"], "none");
    assert_eq!(state["third"]["result"]["value"], "deep");
    assert_eq!(
        std::fs::read_to_string(home.join("out.txt")).unwrap(),
        "written"
    );
}

#[test]
fn operations_that_cannot_be_steps_are_refused_at_load() {
    let home = Home::new();
    let wrapped = |action: &str, args: &str| {
        format!("{{name: a, uses: cache.wrap, with: {{action: {action}, args: {args}}}}}")
    };
    let mcps = "mcps: {s: {command: python3, tools: {t: {read_only: true}}}}\n";
    for (top, node, code, hint) in [
        (
            "",
            wrapped("tool.write_file", "{path: a, content: b}"),
            "effect-only-wrapped",
            "may change something",
        ),
        (
            "",
            wrapped("tool.shell", "{command: ls}"),
            "effect-only-wrapped",
            "may change something",
        ),
        (
            mcps,
            wrapped("mcp.s.t", "{}"),
            "not-memoizable",
            "how long its results last",
        ),
        (
            mcps,
            wrapped("mcp.s.u", "{}"),
            "effect-only-wrapped",
            "may change something",
        ),
        (
            "",
            "{name: a, uses: tool.read_fil, with: {path: a}}".to_owned(),
            "unknown-action",
            "`tool.read_file`",
        ),
        (
            "",
            "{name: a, uses: mcp.other.t}".to_owned(),
            "unknown-action",
            "`other` under `mcps`",
        ),
        (
            "",
            "{name: a, uses: tool.read_file}".to_owned(),
            "missing-key",
            "add `path: …`",
        ),
        (
            "",
            "{name: a, uses: tool.read_file, with: {path: a, pat: b}}".to_owned(),
            "unknown-key",
            "`path`",
        ),
        (
            "",
            "{name: a, uses: tool.read_file, with: {path: a, offset: b}}".to_owned(),
            "wrong-type",
            "`offset`",
        ),
        (
            "mcps: {}\n",
            "{name: a, uses: file.read, with: {path: a}}".to_owned(),
            "no-agents",
            "a step that is a tool",
        ),
        (
            "permissions: {deny: [read_fil]}\n",
            "{name: a, uses: tool.read_file, with: {path: a}}".to_owned(),
            "void-rule",
            "`read_file`",
        ),
        (
            "permissions: {dney: []}\n",
            "{name: a, uses: tool.read_file, with: {path: a}}".to_owned(),
            "unknown-key",
            "`deny`",
        ),
    ] {
        home.write("flow.yaml", format!("{top}nodes:\n  - {node}\n"));
        let ran = home.run(&["validate", "flow.yaml", "--json"]).fails(2);
        let problem = &ran.json()["problems"][0];
        assert_eq!(problem["code"], code, "{node}: {ran}");
        let shown = problem.to_string();
        assert!(shown.contains(hint), "{node}: {hint}: {ran}");
    }
}

#[test]
fn deny_rules_apply_to_tool_steps() {
    let home = Home::new();
    home.write(".env", "TOKEN=abc123\n");
    let text = "
permissions: {deny: ['*:path=.env', 'shell:command=rm*']}
nodes:
  - {name: a, uses: NAME, with: WITH, output: a}
";
    for (name, with) in [
        ("tool.read_file", "{path: .env}"),
        ("tool.read_file", "{path: x/../.env}"),
        ("tool.shell", "{command: 'cat ./.env'}"),
        ("tool.shell", "{command: 'sh -c \"rm -rf x\"'}"),
    ] {
        let ran = flow(&home, &text.replace("NAME", name).replace("WITH", with)).fails(1);
        assert!(
            ran.stderr.contains("is not called: the rule"),
            "{with}: {ran}"
        );
        assert!(!ran.stdout.contains("abc123"), "{ran}");
    }
    let ran = flow(
        &home,
        &text
            .replace("NAME", "tool.shell")
            .replace("WITH", "{command: 'echo deep'}"),
    )
    .ok();
    assert!(ran.stdout.contains("deep"), "{ran}");
    // Outside of the directory of the run there is nothing to read.
    let outside = text
        .replace("NAME", "tool.read_file")
        .replace("WITH", "{path: /etc/hostname}");
    flow(&home, &outside).fails(1);
}

#[test]
fn deny_rules_apply_to_cached_results() {
    let home = Home::new();
    home.write("a.txt", "deep\n");
    let text = "
nodes:
  - name: read
    uses: cache.wrap
    with: {action: tool.read_file, args: {path: a.txt}}
    output: read
";
    for hit in [false, true] {
        let state = flow(&home, text).ok().json();
        assert_eq!(state["read"]["_cache_hit"], hit, "{state}");
    }
    let denied = format!("permissions: {{deny: ['read_file:path=a.txt']}}{text}");
    let ran = flow(&home, &denied).fails(1);
    assert!(ran.stderr.contains("is not called: the rule"), "{ran}");
    // A rule for something else does not refuse it.
    let other = format!("permissions: {{deny: ['read_file:path=b.txt']}}{text}");
    flow(&home, &other).ok();
}

#[test]
fn tool_step_takes_no_host_or_command_from_the_state() {
    let home = Home::new();
    let step = |with: &str, name: &str| {
        format!(
            "nodes:
  - {{name: first, uses: json.parse, with: {{text: '\"http://127.0.0.1:9/x; touch out.txt\"'}}, output: said}}
  - {{name: second, uses: {name}, with: {with}, output: second}}
"
        )
    };
    for (name, with, refusal) in [
        (
            "tool.web_fetch",
            "{url: '{{ state.said.data }}'}",
            "comes from the state",
        ),
        (
            "tool.shell",
            "{command: 'echo {{ state.said.data }}'}",
            "depends on the state",
        ),
        (
            "tool.shell",
            "{command: 'echo deep', working_directory: '{{ state.said.data }}'}",
            "depends on the state",
        ),
    ] {
        let ran = flow(&home, &step(with, name)).fails(1);
        assert!(ran.stderr.contains(refusal), "{with}: {ran}");
    }
    assert!(!home.join("out.txt").exists());
    let list = step("{command: [echo, '{{ state.said.data }}']}", "tool.shell");
    let ran = flow(&home, &list).ok();
    assert!(ran.stdout.contains("touch out.txt"), "{ran}");
    // What the user gave is the user's decision.
    let given = "nodes:
  - {name: a, uses: tool.shell, with: {command: 'echo {{ state.word }}'}, output: a}
";
    home.write("flow.yaml", given);
    let ran = home.run(&["run", "flow.yaml", "--input", r#"{"word": "deep"}"#]);
    assert!(ran.ok().stdout.contains("deep"));
}

#[test]
fn tool_step_is_limited_to_the_selected_tools_of_a_server() {
    let home = Home::new();
    home.write("glossary.py", server());
    let text = |tools: &str| {
        format!(
            "mcps: {{glossary: {{command: python3, args: [glossary.py], tools: {tools}}}}}
nodes:
  - {{name: a, uses: mcp.glossary.define, with: {{term: epoch}}, output: a}}
  - {{name: b, uses: mcp.glossary.define, with: {{term: epoch}}, output: b}}
"
        )
    };
    flow(&home, &text("[define]")).ok();
    let ran = flow(&home, &text("['*', '!define']")).fails(1);
    assert!(ran.stderr.contains("does not select it"), "{ran}");
}

#[test]
fn action_of_an_agent_cannot_start_programs_or_send_variables() {
    let home = Home::new();
    let file = team("llm.call", "permissions: {allow: ['*']}\n");
    for (arguments, refusal) in [
        (
            "{prompt: x, provider: shell, shell_provider: claude}",
            "cannot be a program",
        ),
        ("{prompt: x, model: shell/claude}", "cannot be a program"),
        (
            "{prompt: x, model: openai/gpt-4o, token_key: HOME}",
            "cannot be chosen by a model",
        ),
        (
            "{prompt: x, model: openai/gpt-4o, base_url: 'http://127.0.0.1:9', fallbacks: [shell/claude]}",
            "comes from the state",
        ),
    ] {
        let call = format!("{{name: llm_call, arguments: {arguments}}}");
        let ran = chat(&home, &file, &[&call], &["--yes"]);
        assert!(ran.stdout.contains(refusal), "{arguments}: {ran}");
    }
}

#[test]
fn action_of_an_agent_resolves_paths_in_the_workspace() {
    let home = Home::new();
    home.write("there/note.csv", "a\n1\n");
    let file = team(
        "storage.hash, csv.parse, document.text",
        "permissions: {allow: ['*']}\n",
    );
    let call = "{name: storage_hash, arguments: {path: note.csv}}";
    let ran = chat(&home, &file, &[call], &["--workspace", "there"]);
    assert!(ran.stdout.contains("sha256"), "{ran}");
}

fn team(allow: &str, more: &str) -> String {
    format!(
        "agents:
  root:
    model: openai/gpt-4o
    toolsets: [{{type: filesystem}}, {{type: actions, allow: [{allow}]}}]
{more}"
    )
}

/// Runs the calls one after the other; the last result is the answer.
fn chat(home: &Home, file: &str, calls: &[&str], flags: &[&str]) -> CommandOutput {
    let steps: String = calls
        .iter()
        .map(|call| format!("      - tool_calls: [{call}]\n"))
        .collect();
    let script = format!(
        "rules:\n  - user: go\n    steps:\n{steps}      - text: 'Last: {{{{last_result}}}}'\n"
    );
    home.write("team.yaml", file);
    let arguments = [&["team.yaml"], flags].concat();
    home.ask(&Provider::scripted(&script), &arguments, "go")
        .ok()
}

#[test]
fn actions_of_an_agent_follow_its_permission_rules() {
    let home = Home::new();
    home.write("note.txt", "deep\n");
    let file = team("json.parse, file.read, file.write, document.text", "");
    let parse = "{name: json_parse, arguments: {text: '[1, 2]'}}";
    let ran = chat(&home, &file, &[parse], &[]);
    assert!(ran.stdout.contains("[1,2]"), "{ran}");
    let read = "{name: file_read, arguments: {path: note.txt}}";
    let ran = chat(&home, &file, &[read], &[]);
    assert!(ran.stdout.contains("deep"), "{ran}");
    // A write needs an approval, and no user is present.
    let write = "{name: file_write, arguments: {path: out.txt, content: x}}";
    chat(&home, &file, &[write], &[]);
    assert!(!home.join("out.txt").exists());
    let allowed = team("file.write", "permissions: {allow: [file_write]}\n");
    chat(&home, &allowed, &[write], &[]);
    assert!(home.join("out.txt").exists());
}

#[test]
fn action_of_an_agent_cannot_leave_the_workspace() {
    let home = Home::new();
    let file = team(
        "file.read, file.write, file.glob, storage.hash",
        "permissions: {allow: ['*']}\n",
    );
    for call in [
        "{name: file_read, arguments: {path: /etc/hostname}}",
        "{name: file_read, arguments: {path: ../secret.txt}}",
        "{name: file_read, arguments: {path: 'file:///etc/hostname'}}",
        "{name: file_glob, arguments: {pattern: '/etc/host*'}}",
        "{name: file_glob, arguments: {pattern: '../*'}}",
        "{name: storage_hash, arguments: {path: /etc/hostname}}",
        "{name: file_write, arguments: {path: ../out.txt, content: x}}",
    ] {
        let ran = chat(&home, &file, &[call], &["--yes"]);
        assert!(ran.stdout.contains("outside"), "{call}: {ran}");
    }
}

#[test]
fn action_of_an_agent_reaches_only_allowed_hosts() {
    let home = Home::new();
    let call = "{name: http_get, arguments: {url: 'http://127.0.0.1:9/x'}}";
    let file = team("http.get", "permissions: {allow: [http_get]}\n");
    let ran = chat(&home, &file, &[call], &["--yes"]);
    assert!(ran.stdout.contains("allowed_hosts"), "{ran}");
}

#[test]
fn file_write_action_invalidates_cached_reads() {
    let home = Home::new();
    home.write("note.txt", "old\n");
    let file = team(
        "file.write, ltm.store",
        "tools: {cacheToolResults: true}\npermissions: {allow: ['*']}\n",
    );
    let read = "{name: read_file, arguments: {path: note.txt}}";
    let write = "{name: file_write, arguments: {path: note.txt, content: \"new\\n\"}}";
    let ran = chat(&home, &file, &[read, read, write, read], &[]);
    assert!(ran.stdout.contains("new"), "{ran}");
}

#[test]
fn actions_that_agents_cannot_use_are_refused_at_load() {
    let home = Home::new();
    for action in [
        "agent.run",
        "cache.wrap",
        "cache.invalidate",
        "reflection.loop",
        "nope.it",
    ] {
        home.write("team.yaml", team(action, ""));
        let ran = home.run(&["validate", "team.yaml", "--json"]).fails(2);
        assert_eq!(ran.json()["problems"][0]["code"], "unknown-action", "{ran}");
    }
    home.write("team.yaml", team("", ""));
    let ran = home.run(&["validate", "team.yaml"]).fails(2);
    assert!(ran.stderr.contains("needs `allow`"), "{ran}");
    // Rules may name the tools.
    home.write(
        "team.yaml",
        team(
            "http.get",
            "permissions: {allow: ['http_get:url=https://a.example/*']}\n",
        ),
    );
    home.run(&["validate", "team.yaml"]).ok();
}
