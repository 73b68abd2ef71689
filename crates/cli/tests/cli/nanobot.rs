//! `config.json` of nanobot: chats with it, and its problems.

use serde_json::{Value, json};

use crate::provider::{Provider, SCRIPTED_MODEL};
use crate::support::{CommandOutput, Home};

/// A key as the file contains it.
const KEY: &str = "sk-lab-4f9a8b7c6d5e4f3a2b1c";

/// A file whose provider is the simulator, with a change.
fn home_with(provider: &Provider, change: impl FnOnce(&mut Value)) -> Home {
    let mut config = json!({
        "agents": {"defaults": {"model": "lab/gpt-4o"}},
        "providers": {"lab": {"apiKey": KEY, "apiBase": format!("{}/v1/", provider.url())}},
    });
    change(&mut config);
    let home = Home::new();
    home.write("nanobot.json", config.to_string());
    home
}

/// The same file, and an answer with it.
fn ask(provider: &Provider, question: &str, change: impl FnOnce(&mut Value)) -> CommandOutput {
    let home = home_with(provider, change);
    home.write("depth.txt", "42 m\n");
    home.ask(provider, &["--config", "nanobot.json", "--yes"], question)
}

/// The requests for answers, as JSON.
fn bodies(provider: &Provider) -> Vec<Value> {
    let requests = provider.received();
    let bodies = requests
        .iter()
        .map(|request| serde_json::from_slice(&request.body).unwrap());
    bodies.collect()
}

/// The names of the tools in a request.
fn tools(body: &Value) -> Vec<&str> {
    let tools = body["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect()
}

/// The codes and messages of `validate --json`, warnings and errors.
fn problems(config: &Value) -> Vec<(String, String)> {
    let home = Home::new();
    home.write("config.json", config.to_string());
    let document = home.run(&["validate", "config.json", "--json"]).json();
    let all = ["problems", "warnings"].map(|list| document[list].as_array().unwrap().clone());
    let text = |problem: &Value, key: &str| problem[key].as_str().unwrap().to_owned();
    let told = all.concat();
    let told = told
        .iter()
        .map(|problem| (text(problem, "code"), text(problem, "message")));
    told.collect()
}

#[test]
fn config_is_the_agent_of_a_chat() {
    let provider = Provider::scripted(SCRIPTED_MODEL);
    let home = home_with(&provider, |_| {});
    home.write("USER.md", "Likes sperm whales.\n");
    for arguments in [&["--config", "nanobot.json"][..], &["nanobot.json"]] {
        let ran = home.ask(&provider, arguments, "hello").ok();
        assert!(ran.stdout.starts_with("I was told: "), "{ran}");
        assert!(!ran.stderr.contains("no effect"), "{ran}");
        assert!(!ran.to_string().contains(KEY), "{ran}");
    }
    let request = &provider.received()[0];
    assert_eq!(request.path, "/v1/chat/completions");
    assert_eq!(
        request.header("authorization"),
        Some(&*format!("Bearer {KEY}"))
    );
    let body = &bodies(&provider)[0];
    assert_eq!(
        (&body["model"], &body["max_completion_tokens"]),
        (&json!("gpt-4o"), &json!(8192))
    );
    assert!(
        body["messages"].to_string().contains("Likes sperm whales."),
        "{body}"
    );
    let offered = tools(body);
    for tool in ["read_file", "edit_file", "shell", "web_fetch", "skill_view"] {
        assert!(offered.contains(&tool), "{offered:?}");
    }
    let holders = home.files().into_iter().filter(|(path, bytes)| {
        !path.ends_with("nanobot.json")
            && bytes.windows(KEY.len()).any(|part| part == KEY.as_bytes())
    });
    assert_eq!(
        holders.map(|(path, _)| path).collect::<Vec<_>>(),
        Vec::<std::path::PathBuf>::new()
    );
}

#[test]
fn missing_json_file_is_no_prompt() {
    let home = Home::new();
    let ran = home.run(&["chat", "--print", "missing.json"]).fails(2);
    assert!(ran.stderr.contains("missing.json"), "{ran}");
    let ran = home
        .run(&["chat", "--config", "missing.json", "hello"])
        .fails(2);
    assert!(ran.stderr.contains("missing.json"), "{ran}");
}

#[test]
fn settings_of_the_model_are_sent() {
    let provider = Provider::scripted(SCRIPTED_MODEL);
    ask(&provider, "hello", |config| {
        config["agents"]["defaults"] = json!({
            "model_preset": "exact", "max_tool_iterations": 3,
        });
        config["model_presets"] = json!({
            "exact": {"model": "gpt-4o", "provider": "lab", "max_tokens": 77, "temperature": 0},
            "unused": {"model": "x", "provider": "nowhere"},
        });
        config["providers"]["lab"]["extraHeaders"] = json!({"X-Team": "deep"});
        config["providers"]["lab"]["extraBody"] = json!({"seed": 7});
        config["providers"]["lab"]["extraQuery"] = json!({"api-version": "1 a"});
    })
    .ok();
    let body = &bodies(&provider)[0];
    let sent = ["max_completion_tokens", "temperature", "seed"].map(|key| body[key].as_f64());
    assert_eq!(sent, [Some(77.0), Some(0.0), Some(7.0)], "{body}");
    assert_eq!(provider.received()[0].header("x-team"), Some("deep"));
}

#[test]
fn keys_and_addresses_may_be_in_the_environment() {
    let provider = Provider::scripted(SCRIPTED_MODEL);
    let home = home_with(&provider, |config| {
        config["providers"]["lab"] = json!({"apiKey": "${LAB_KEY}", "apiBase": "${LAB_URL}/v1"});
    });
    let url = provider.url().to_owned();
    let arguments = ["--config", "nanobot.json"];
    let ran = home.ask_with(&provider, &arguments, b"hello", |command| {
        command.env("LAB_KEY", KEY).env("LAB_URL", url);
    });
    ran.ok();
    let sent = provider.received();
    assert_eq!(
        sent[0].header("authorization"),
        Some(&*format!("Bearer {KEY}"))
    );
    let ran = home.ask(&provider, &arguments, "hello");
    assert_ne!(ran.code, Some(0), "{ran}");
    assert!(ran.stderr.contains("LAB_URL"), "{ran}");
}

#[test]
fn fallbacks_answer_in_place_of_the_model() {
    let provider = Provider::scripted(SCRIPTED_MODEL);
    let ran = ask(&provider, "hello", |config| {
        // No server is at this port.
        config["providers"]["away"] = json!({"apiBase": "http://127.0.0.1:9"});
        config["agents"]["defaults"] = json!({
            "model": "away/x", "maxTokens": 99, "modelPreset": "default",
            "fallbackModels": [{"provider": "lab", "model": "gpt-4o-mini"}, "last"],
        });
        config["modelPresets"] = json!({"last": {"provider": "away", "model": "y"}});
    })
    .ok();
    assert!(ran.stdout.starts_with("I was told: "), "{ran}");
    let [body] = bodies(&provider).try_into().unwrap();
    assert_eq!(body["model"], "gpt-4o-mini");
    assert_eq!(
        body["max_completion_tokens"], 99,
        "that of the model before"
    );
}

#[test]
fn tools_that_are_off_are_not_offered() {
    let provider = Provider::scripted(SCRIPTED_MODEL);
    for (settings, missing) in [
        (json!({"exec": {"enable": false}}), "shell"),
        (json!({"web": {"enable": false}}), "web_fetch"),
        (json!({"file": {"enable": false}}), "read_file"),
        (json!({"exec": {"deny_patterns": ["rm .*"]}}), "shell"),
        (json!({"exec": {"allowPatterns": ["ls"]}}), "shell"),
    ] {
        let before = provider.received().len();
        let ran = ask(&provider, "hello", |config| {
            config["tools"] = settings.clone()
        })
        .ok();
        let told = ran.stderr.contains("the tool `shell` is left out");
        assert_eq!(
            told,
            settings.to_string().to_lowercase().contains("patterns"),
            "{ran}"
        );
        let body = &bodies(&provider)[before];
        assert!(
            !tools(body).contains(&missing),
            "{settings}: {:?}",
            tools(body)
        );
    }
}

#[test]
fn commands_get_the_path_and_the_variables_of_the_file() {
    let provider = Provider::scripted(SCRIPTED_MODEL);
    let home = home_with(&provider, |config| {
        config["tools"] = json!({"exec": {
            "pathPrepend": "/first", "pathAppend": "/last", "allowedEnvKeys": ["DEEP_TOKEN"],
        }});
    });
    let arguments = ["--config", "nanobot.json", "--yes", "--sandbox=off"];
    let question = b"run echo \"$PATH\" $DEEP_TOKEN $OTHER_TOKEN.";
    let ran = home.ask_with(&provider, &arguments, question, |command| {
        command
            .env("DEEP_TOKEN", "deep")
            .env("OTHER_TOKEN", "other");
    });
    let ran = ran.ok();
    assert!(ran.stdout.contains("/first:"), "{ran}");
    assert!(ran.stdout.contains(":/last deep ."), "{ran}");
}

/// Reads the same file twice, and writes how the second call was answered.
const TWICE: &str = r#"
rules:
  - user: 'twice (\S+)'
    tools: [read_file]
    steps:
      - tool_calls: [{name: read_file, arguments: {path: '{{1}}'}}]
      - tool_calls: [{name: read_file, arguments: {path: '{{1}}'}}]
      - text: 'It says: {{last_result}}'
  - user: 'list (\S+)'
    tools: [list_dir]
    steps:
      - tool_calls: [{name: list_dir, arguments: {path: '{{1}}'}}]
      - tool_calls: [{name: list_dir, arguments: {path: '{{1}}'}}]
      - text: 'It says: {{last_result}}'
"#;

#[test]
fn tool_results_are_cached_only_if_the_file_says_so() {
    let provider = Provider::scripted(TWICE);
    for (settings, is_cached) in [
        (json!({}), false),
        (json!({"cacheToolResults": false}), false),
        (json!({"cacheToolResults": true}), true),
        (
            json!({"cache_tool_results": true, "cache_tool_results_max_size": 1}),
            true,
        ),
    ] {
        let ran = ask(&provider, "twice depth.txt", |config| {
            config["tools"] = settings.clone()
        });
        let ran = ran.ok();
        let is_hit = ran.stderr.contains("saved 1 tool call");
        assert_eq!(is_hit, is_cached, "{settings}: {ran}");
    }
}

#[test]
fn result_that_begins_like_an_error_is_not_kept() {
    let provider = Provider::scripted(TWICE);
    let is_hit = |name: &str| {
        let home = home_with(&provider, |config| {
            config["tools"] = json!({"cacheToolResults": true})
        });
        home.write(&format!("listed/{name}"), "");
        let ran = home.ask(&provider, &["nanobot.json"], "list listed").ok();
        assert!(ran.stdout.contains(name), "{ran}");
        ran.stderr.contains("saved 1 tool call")
    };
    assert!(is_hit("Errors"));
    assert!(!is_hit("Error: none"));
}

#[cfg(unix)]
#[test]
fn servers_offer_the_enabled_tools() {
    let provider = Provider::scripted(SCRIPTED_MODEL);
    for (enabled, is_offered) in [
        (Value::Null, true),
        (json!(["*"]), true),
        (json!(["sound"]), true),
        (json!(["mcp_depths_sound"]), true),
        (json!(["other"]), false),
        (json!([]), false),
    ] {
        let home = home_with(&provider, |config| {
            let number = "number";
            // The server of `tool_server`.
            config["tools"]["mcp_servers"] = json!({"depths": {
                "type": null, "url": "", "headers": {}, "command": std::env::current_exe().unwrap(),
                "args": ["tool_server::serve", "--exact", "--nocapture"],
                "env": {"CACHALOT_TEST_TOOL_SERVER": number}, "enabled_tools": enabled,
            }});
        });
        home.ask(&provider, &["nanobot.json"], "hello").ok();
        let body = bodies(&provider).pop().unwrap();
        assert_eq!(
            tools(&body).contains(&"mcp_depths_sound"),
            is_offered,
            "{enabled}"
        );
        let is_started = home.join("number").exists();
        assert_eq!(is_started, enabled != json!([]), "{enabled}");
    }
}

#[test]
fn what_cannot_be_honored_is_named_once() {
    let config = json!({
        "agents": {"defaults": {
            "model": "openai/gpt-4o", "workspace": "~/.nanobot/workspace", "dream": {"enabled": true},
            "botIcon": "", "timezone": null, "modle": "x",
        }},
        "channels": {"telegram": {"enabled": true, "token": "x"}, "sendProgress": true},
        "gateway": {"port": 1, "heartbeat": {"enabled": true}},
        "providers": {"openai": {"apiKey": "sk-x", "proxy": null}, "groq": {"apiKey": null}},
        "tools": {
            "restrictToWorkspace": false, "my": {"allowSet": true},
            "exec": {"sandbox": "bwrap", "timeout": 0},
            "mcpServers": {"docs": {"command": "docs-server", "url": "", "headers": {}, "auth": "oauth"}},
        },
    });
    let told = problems(&config);
    let named = [
        ("no-effect", "`channels` in `config.json`"),
        ("no-effect", "`gateway` in `config.json`"),
        ("no-effect", "`workspace` in `agents.defaults`"),
        ("no-effect", "`dream` in `agents.defaults`"),
        ("unknown-key", "unknown key `modle` in `agents.defaults`"),
        ("no-effect", "`restrictToWorkspace: false`"),
        ("no-effect", "`my` in `tools`"),
        ("not-sandboxed", "`sandbox` in `tools.exec`"),
        ("no-effect", "`timeout: 0` in `tools.exec`"),
        ("no-effect", "`auth` in an MCP server"),
    ];
    for (code, beginning) in named {
        let matching = told
            .iter()
            .filter(|(known, message)| known == code && message.contains(beginning));
        assert_eq!(matching.count(), 1, "{beginning}: {told:#?}");
    }
    assert_eq!(told.len(), named.len(), "{told:#?}");
}

#[test]
fn problems_of_the_file_are_reported_without_its_key() {
    let home = Home::new();
    let file = |model: &str, provider: &str| {
        format!(
            "{{\"agents\": {{\"defaults\": {model}}}, \"providers\": {{\"lab\": {{{provider} \"apiKey\": \"{KEY}\"}}}}}}"
        )
    };
    for (model, provider, code, part) in [
        (
            "{\"model\": \"x\", \"provider\": \"lba\"}",
            "",
            "unknown-provider",
            "there is no provider `lba`",
        ),
        (
            "{\"model\": \"lab/x\"}",
            "",
            "missing-key",
            "has no `apiBase`",
        ),
        (
            "{\"modelPreset\": \"fats\"}",
            "",
            "unknown-model",
            "no model preset `fats`",
        ),
        (
            "{\"model\": \"openai-codex/x\", \"provider\": \"openaiCodex\"}",
            "",
            "unsupported-provider",
            "a program cannot sign in",
        ),
        (
            "{\"model\": \"lab/x\", \"maxTokens\": 0}",
            "\"apiBase\": \"http://127.0.0.1:9\",",
            "out-of-range",
            "`maxTokens`",
        ),
        (
            "{\"model\": \"lab/x\"}",
            "\"apiBase\": \"here\",",
            "bad-value",
            "`base_url`",
        ),
    ] {
        home.write("config.json", file(model, provider));
        let ran = home.run(&["validate", "config.json"]).fails(2);
        for part in [code, part, "config.json:1:"] {
            assert!(ran.unwrapped().contains(part), "{part}: {ran}");
        }
        assert!(!ran.to_string().contains(KEY), "{ran}");
    }
}

#[test]
fn agent_files_are_not_taken_for_a_config() {
    for text in [
        "agents:\n  defaults: {model: gpt-4o, instruction: Help.}\n",
        "agents:\n  defaults: {model: gpt-4o}\n  other: {model: gpt-4o}\n",
        "agents:\n  root: {model: gpt-4o}\nproviders:\n  lab: {base_url: 'https://lab.example/v1'}\n",
    ] {
        let home = Home::new();
        home.write("agent.yaml", text);
        let ran = home.run(&["validate", "agent.yaml"]).ok();
        assert!(ran.stderr.contains("no problems"), "{ran}");
    }
}
