//! `provider: shell`, with real programs.

use std::time::{Duration, Instant};

use cachalot_model::{Budget, Meter};
use serde_json::{Value, json};

use super::asking;
use crate::fakes::Provider;
use crate::fixture::Fixture;
use crate::program_file::make_executable;

/// A run whose file has a program `mine` that is this shell script.
fn script(script: &str) -> Fixture {
    mine(json!({ "command": "sh", "args": ["-c", script] }))
}

/// A run whose file has this program, called `mine`.
fn mine(program: Value) -> Fixture {
    Fixture::new().with_settings(json!({ "llm": { "shell_providers": { "mine": program } } }))
}

fn asked(prompt: &str) -> Value {
    json!({ "provider": "shell", "shell_provider": "mine", "prompt": prompt })
}

#[tokio::test]
async fn program_reads_the_prompt_on_stdin_and_answers() {
    let fixture = script("printf '  [%s]\\n\\n' \"$(cat)\"");
    let answer = fixture.ok("llm.call", asked("Who? $HOME *")).await;
    assert_eq!(
        answer,
        json!({
            "content": "[Who? $HOME *]", "model": "shell/mine", "provider": "shell", "shell_provider": "mine",
            "stop_reason": "end", "usage": {}, "cost": null,
        })
    );
    let by_name = fixture.ok("llm.call", json!({ "model": "shell/mine", "prompt": "x" }));
    assert_eq!(by_name.await["content"], "[x]");
    let shown = fixture.ok("llm.stream", asked("one\ntwo")).await;
    assert_eq!(shown["content"], "[one\ntwo]");
    let printed: Vec<String> = fixture
        .events
        .printed()
        .into_iter()
        .map(|(_, value)| value)
        .collect();
    assert_eq!(printed, ["[one", "two]"]);
}

#[tokio::test]
async fn messages_are_joined_to_one_text() {
    let fixture = mine(json!({ "command": "cat" }));
    let arguments = json!({
        "provider": "shell", "shell_provider": "mine", "model": "any", "temperature": 0,
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "content": [{ "type": "text", "text": "Ho" }] },
            { "role": "user", "content": "Who?" },
        ],
    });
    let answer = fixture.ok("llm.call", arguments).await;
    assert_eq!(
        answer["content"],
        "System: Be brief.\n\nHi\n\nAssistant: Ho\n\nWho?"
    );
    let arguments =
        json!({ "provider": "shell", "shell_provider": "mine", "system": "S", "prompt": "P" });
    assert_eq!(
        fixture.ok("llm.call", arguments).await["content"],
        "System: S\n\nP"
    );
}

#[tokio::test]
async fn settings_can_name_the_shell_provider() {
    let settings = json!({
        "llm": { "provider": "shell", "shell_provider": "mine" },
        "shell_providers": { "mine": { "command": "cat" } },
    });
    let fixture = Fixture::new().with_settings(settings);
    let answer = fixture.ok("llm.call", json!({ "prompt": "x" })).await;
    assert_eq!(answer["shell_provider"], "mine");
    let failure = fixture
        .fails(
            "llm.call",
            json!({ "prompt": "x", "provider": "openai", "shell_provider": "mine" }),
        )
        .await;
    assert_eq!(failure.kind, "validation_error");
    for (arguments, part) in [
        (
            json!({ "provider": "shell", "shell_provider": "mien", "prompt": "x" }),
            "did you mean `mine`?",
        ),
        (
            json!({ "provider": "shell", "shell_provider": "mine", "prompt": "x", "tools": [] }),
            "`tools` is not for",
        ),
        (
            json!({ "provider": "shell", "shell_provider": "mine" }),
            "give `messages` or a `prompt`",
        ),
    ] {
        let failure = fixture.fails("llm.call", arguments).await;
        assert!(failure.message.contains(part), "{failure}");
    }
    let failure = Fixture::new()
        .fails("llm.call", json!({ "provider": "shell", "prompt": "x" }))
        .await;
    assert!(
        failure.message.contains("`shell_provider` is required"),
        "{failure}"
    );
}

#[tokio::test]
async fn prompt_is_passed_as_argument_or_file() {
    let fixture = mine(json!({ "command": "printf", "args": ["%s|%s", "-p", "<{prompt}>"] }));
    let answer = fixture.ok("llm.call", asked("a b; $(false)")).await;
    assert_eq!(answer["content"], "-p|<a b; $(false)>");
    // What is too long for an argument goes to stdin, and the argument is left out.
    let fixture =
        mine(json!({ "command": "sh", "args": ["-c", "echo $#; wc -c", "sh", "{prompt}"] }));
    let answer = fixture.ok("llm.call", asked(&"x".repeat(200_000))).await;
    let words: Vec<&str> = answer["content"]
        .as_str()
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(words, ["0", "200000"]);
    let fixture = mine(
        json!({ "command": "sh", "args": ["-c", "cat \"$0\"; echo; echo \"$0\"; ls -l \"$0\"", "{input_file}"], "stdin_mode": "file" }),
    );
    let answer = fixture.ok("llm.call", asked("in a file")).await;
    let lines: Vec<&str> = answer["content"].as_str().unwrap().lines().collect();
    assert_eq!(lines[0], "in a file");
    assert!(!std::path::Path::new(lines[1]).exists(), "{lines:?}");
    assert!(lines[2].starts_with("-rw-------"), "{lines:?}");
    let failure = mine(json!({ "command": "printf", "args": ["{prompt}"] }))
        .fails("llm.call", asked("a\0b"))
        .await;
    assert!(failure.message.contains("NUL"), "{failure}");
}

/// Only what the file names is passed on beside what every program of `shell.run` gets.
#[tokio::test]
async fn api_keys_are_not_passed_to_the_program() {
    let fixture = mine(json!({ "command": "env", "env": { "EXTRA": "yes", "LEVEL": 3 } }))
        .with_variable("OPENAI_API_KEY", "sk-secret")
        .with_variable("HOME", "/home/ada");
    let answer = fixture.ok("llm.call", asked("x")).await;
    let content = answer["content"].as_str().unwrap();
    for line in ["EXTRA=yes", "LEVEL=3", "HOME=/home/ada"] {
        assert!(content.lines().any(|other| other == line), "{content}");
    }
    assert!(!content.contains("sk-secret"), "{content}");
    let key = fixture.implicit("llm.call", asked("x")).to_string();
    assert!(!key.contains("yes") && key.contains("EXTRA"), "{key}");
}

#[tokio::test]
async fn failures_contain_the_reason() {
    for (fixture, kind, part) in [
        (
            mine(json!({ "command": "no-such-agent" })),
            "not_found",
            "there is no program `no-such-agent`",
        ),
        (
            script("echo 'quota is used up' >&2; exit 3"),
            "shell_error",
            "`sh` ended with exit code 3: quota is used up",
        ),
        (
            script("echo 'thinking' >&2; echo '  '"),
            "malformed_answer",
            "`sh` wrote nothing to stdout: thinking",
        ),
        (script("kill -9 $$"), "shell_error", "was ended by signal 9"),
        (script("printf '\\377'"), "validation_error", "not UTF-8"),
    ] {
        let failure = fixture.fails("llm.call", asked("x")).await;
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.message.contains(part), "{failure}");
    }
}

#[tokio::test]
async fn the_timeout_kills_the_process_group() {
    let fixture = mine(
        json!({ "command": "sh", "args": ["-c", "sleep 600 & echo $! > pid; wait"], "timeout": 60 }),
    );
    let began = Instant::now();
    let arguments =
        json!({ "provider": "shell", "shell_provider": "mine", "prompt": "x", "timeout": 0.5 });
    let failure = fixture.fails("llm.call", arguments).await;
    assert_eq!(
        (failure.kind, failure.retryable),
        ("timeout", true),
        "{failure}"
    );
    assert!(began.elapsed() < Duration::from_secs(120));
    let id = std::fs::read_to_string(fixture.path("pid")).unwrap();
    let is_running = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while is_running() {
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "the child still runs"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn answer_is_keyed_by_provider_program_and_prompt() {
    let mut fixture = script("echo x >> asked; cat");
    let wrap = |prompt: &str| json!({ "action": "llm.call", "args": asked(prompt) });
    let count = |fixture: &Fixture| {
        std::fs::read_to_string(fixture.path("asked"))
            .unwrap()
            .lines()
            .count()
    };
    assert!(!fixture.wrapped(wrap("a")).await.0);
    let (is_hit, answer) = fixture.wrapped(wrap("a")).await;
    assert!(is_hit);
    assert_eq!(
        (answer["content"].clone(), answer["cost"].clone()),
        (json!("a"), Value::Null)
    );
    assert!(!fixture.wrapped(wrap("b")).await.0);
    assert_eq!(count(&fixture), 2);
    let programs = fixture.runtime.settings.clone();
    for (pointer, value) in [
        (
            "/llm/shell_providers/mine/args/1",
            json!("echo y >> asked; cat"),
        ),
        ("/llm/shell_providers/mine/command", json!("bash")),
        ("/llm/shell_providers/mine/env", json!({ "LEVEL": 1 })),
    ] {
        fixture.runtime.settings = programs.clone();
        fixture.runtime.settings["llm"]["shell_providers"]["mine"]["env"] = json!({});
        *fixture.runtime.settings.pointer_mut(pointer).unwrap() = value;
        assert!(!fixture.wrapped(wrap("a")).await.0, "{pointer}");
    }
    // How long is waited does not change an answer.
    fixture.runtime.settings = programs;
    fixture.runtime.settings["llm"]["shell_providers"]["mine"]["timeout"] = json!(7);
    assert!(fixture.wrapped(wrap("a")).await.0);
    // A failure is not kept.
    let failing = script("echo x >> asked; exit 1");
    for _ in 0..2 {
        failing.fails("cache.wrap", wrap("a")).await;
    }
    assert_eq!(count(&failing), 2);
}

#[tokio::test]
async fn a_budget_that_cannot_be_enforced_fails_first() {
    for budget in [
        Budget {
            max_cost: Some(1),
            ..Budget::default()
        },
        Budget {
            max_tokens: Some(1_000),
            ..Budget::default()
        },
    ] {
        let mut fixture = script("touch ran; cat");
        fixture.runtime.meter = Meter::new(budget, fixture.runtime.clock.clone());
        let failure = fixture.fails("llm.call", asked("x")).await;
        assert_eq!(failure.kind, "over_budget", "{failure}");
        assert!(!fixture.path("ran").exists());
    }
    let mut fixture = script("cat");
    let budget = Budget {
        max_time: Some(Duration::from_secs(60)),
        ..Budget::default()
    };
    fixture.runtime.meter = Meter::new(budget, fixture.runtime.clock.clone());
    fixture.ok("llm.call", asked("x")).await;
    let spent = fixture.runtime.meter.spent();
    assert_eq!(
        (spent.calls, spent.cost.unpriced, spent.uncounted),
        (1, 1, 1)
    );
}

#[tokio::test]
async fn fallback_answers_when_the_program_fails() {
    let provider = Provider::answers(["the model"]);
    let mut fixture = asking(&provider, "");
    fixture.runtime.settings = json!({ "shell_providers": {
        "mine": { "command": "sh", "args": ["-c", "exit 1"] },
        "other": { "command": "cat" },
    } });
    let mut arguments = asked("x");
    arguments["timeout"] = json!(5);
    arguments["fallbacks"] = json!(["gpt-4o-mini"]);
    let answer = fixture.ok("llm.call", arguments.clone()).await;
    assert_eq!(answer["content"], "the model");
    arguments["fallbacks"] = json!(["shell/other"]);
    let answer = fixture.ok("llm.call", arguments).await;
    assert_eq!(answer["shell_provider"], "other");
}

/// The programs that are known are called as their command lines want it.
#[tokio::test]
async fn known_programs_have_default_arguments() {
    let fixture = Fixture::new();
    for (name, command, expected) in [
        (
            "claude",
            "claude",
            "-p|PROMPT|--dangerously-skip-permissions|--no-session-persistence|stdin:",
        ),
        (
            "codex",
            "codex",
            "--yolo|exec|-c|model=gpt-5.5|-c|model_reasoning_effort=xhigh|-|stdin:PROMPT",
        ),
        ("cursor", "agent", "-p|PROMPT|--output-format|text|stdin:"),
        ("gemini", "gemini", "prompt|stdin:PROMPT"),
        ("opencode", "opencode", "-p|PROMPT|-q|stdin:"),
        ("qwen", "qwen", "stdin:PROMPT"),
    ] {
        let program = "#!/bin/sh\nfor it in \"$@\"; do printf '%s|' \"$it\"; done\nprintf 'stdin:%s' \"$(cat)\"\n";
        let file = fixture.file(&format!("bin/{command}"), program);
        make_executable(&file);
        let path = format!(
            "{}:{}",
            fixture.path("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let there = Fixture::new().with_variable("PATH", &path);
        let arguments = json!({ "provider": "shell", "shell_provider": name, "prompt": "PROMPT" });
        let answer = there.ok("llm.call", arguments).await;
        assert_eq!(answer["content"], expected, "{name}");
    }
}
