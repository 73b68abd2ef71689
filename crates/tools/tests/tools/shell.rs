//! `shell`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cachalot_core::{DigestKey, Effects, Secret, SecretSet};
use cachalot_tools::builtin::{CommandSettings, Shell, ShellSettings};
use cachalot_tools::{Arguments, CacheClass};
use serde_json::{Value, json};

use crate::tool_fixture::{ToolFixture, object, text};
use crate::tool_fixture::{runs, until};

fn tool_fixture() -> ToolFixture {
    with(ShellSettings::default())
}

fn with(settings: ShellSettings) -> ToolFixture {
    let mut tool_fixture = ToolFixture::with(vec![Arc::new(Shell::new(settings).unwrap())]);
    let path = std::env::var("PATH").unwrap();
    let secret_set = SecretSet::with_key(DigestKey::new([3; 32]));
    secret_set.learn("swordfish");
    tool_fixture.context.secret_set = Arc::new(secret_set);
    tool_fixture.context.environment = Arc::new(BTreeMap::from([
        ("PATH".to_owned(), path),
        ("GREETING".to_owned(), "hello".to_owned()),
        ("SERVICE_TOKEN".to_owned(), "abc123".to_owned()),
    ]));
    tool_fixture
}

fn number_in(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.ends_with('\n').then_some(text)
}

#[tokio::test]
async fn text_command_is_run_by_the_shell() {
    let shown = tool_fixture()
        .done(
            "shell",
            json!({ "command": "echo one && echo $GREETING | tr a-z A-Z" }),
        )
        .await;
    assert_eq!(shown, "one\nHELLO\n[exit status 0]");
}

#[tokio::test]
async fn list_command_is_a_program_with_arguments() {
    let shown = tool_fixture()
        .done(
            "shell",
            json!({ "command": ["printf", "%s|", "a b", "$HOME", "*"] }),
        )
        .await;
    assert_eq!(shown, "a b|$HOME|*|\n[exit status 0]");
}

#[tokio::test]
async fn stdout_and_stderr_are_interleaved_as_written() {
    let shown = tool_fixture()
        .done(
            "shell",
            json!({ "command": "echo 1; echo 2 >&2; echo 3; echo 4 >&2" }),
        )
        .await;
    assert_eq!(shown, "1\n2\n3\n4\n[exit status 0]");
}

#[tokio::test]
async fn the_exit_code_is_reported_and_nonzero_is_an_error() {
    let tool_fixture = tool_fixture();
    let shown = tool_fixture
        .fails("shell", json!({ "command": "echo no; exit 3" }))
        .await;
    assert_eq!(shown, "no\n[exit status 3]");
    let shown = tool_fixture
        .fails("shell", json!({ "command": "kill -9 $$" }))
        .await;
    assert_eq!(shown, "[ended by signal 9]");
}

#[tokio::test]
async fn stdin_is_empty() {
    let shown = tool_fixture()
        .done("shell", json!({ "command": "cat; echo end" }))
        .await;
    assert_eq!(shown, "end\n[exit status 0]");
}

#[tokio::test]
async fn start_errors_give_the_reason() {
    let tool_fixture = tool_fixture();
    let shown = tool_fixture
        .fails("shell", json!({ "command": ["no-such-program-here"] }))
        .await;
    assert!(
        shown.contains("there is no program `no-such-program-here`"),
        "{shown}"
    );
    tool_fixture.write("data", "x");
    let shown = tool_fixture
        .fails("shell", json!({ "command": ["./data"] }))
        .await;
    assert!(shown.contains("`./data` may not be run"), "{shown}");
    for command in [json!("  "), json!([""])] {
        let shown = tool_fixture
            .fails("shell", json!({ "command": command }))
            .await;
        assert!(shown.contains("`command` is empty"), "{shown}");
    }
    let shown = tool_fixture
        .fails("shell", json!({ "command": "echo a\0b" }))
        .await;
    assert!(shown.contains("NUL"), "{shown}");
}

#[tokio::test]
async fn working_directory_is_confined_to_the_workspace() {
    let tool_fixture = tool_fixture();
    tool_fixture.write("inner/file", "x");
    let root = tool_fixture.context.workspace.root().display().to_string();
    let shown = tool_fixture
        .done("shell", json!({ "command": "pwd" }))
        .await;
    assert_eq!(shown, format!("{root}\n[exit status 0]"));
    let inner = json!({ "command": "pwd", "working_directory": "inner" });
    assert_eq!(
        tool_fixture.done("shell", inner).await,
        format!("{root}/inner\n[exit status 0]")
    );
    std::os::unix::fs::symlink("/", tool_fixture.path("out")).unwrap();
    for (directory, why) in [
        ("..", "outside the workspace"),
        ("/", "outside the workspace"),
        ("out", "outside the workspace"),
        ("nowhere", "there is no directory `nowhere`"),
        ("inner/file", "is no directory"),
    ] {
        let arguments = json!({ "command": "pwd", "working_directory": directory });
        let shown = tool_fixture.fails("shell", arguments).await;
        assert!(shown.contains(why), "{directory}: {shown}");
    }
}

#[tokio::test]
async fn timeout_kills_the_process_group() {
    let tool_fixture = tool_fixture();
    let command = "sleep 100 & echo $! > grandchild; echo $$ > child; echo said; wait";
    let shown = tool_fixture
        .fails("shell", json!({ "command": command, "timeout": 0.4 }))
        .await;
    assert!(
        shown.starts_with("said\n[killed after 0.4 seconds"),
        "{shown}"
    );
    let (child, grandchild) = (tool_fixture.read("child"), tool_fixture.read("grandchild"));
    until("both are dead", || !runs(&child) && !runs(&grandchild)).await;
}

#[tokio::test]
async fn dropping_the_call_kills_the_process_group() {
    let tool_fixture = tool_fixture();
    let command = "sleep 100 & echo $! > grandchild; echo $$ > child; wait";
    let call = tool_fixture.call("shell", json!({ "command": command }));
    let started = async {
        let path = tool_fixture.path("child");
        until("it runs", || number_in(&path).is_some()).await;
    };
    tokio::select! {
        output = call => panic!("it ended: {}", text(&output)),
        () = started => {}
    }
    let (child, grandchild) = (tool_fixture.read("child"), tool_fixture.read("grandchild"));
    until("both are dead", || !runs(&child) && !runs(&grandchild)).await;
}

#[tokio::test]
async fn background_process_is_not_awaited_and_reported() {
    let tool_fixture = tool_fixture();
    let began = Instant::now();
    let shown = tool_fixture
        .done(
            "shell",
            json!({ "command": "sleep 600 & echo $! > left; echo done" }),
        )
        .await;
    assert!(
        began.elapsed() < Duration::from_secs(120),
        "{:?}",
        began.elapsed()
    );
    assert!(
        shown.starts_with("done\n[exit status 0]\n[something that it started is still running"),
        "{shown}"
    );
    let left = tool_fixture.read("left");
    assert!(runs(&left), "it is left alone");
    let shown = tool_fixture
        .done("shell", json!({ "command": format!("kill {left}") }))
        .await;
    assert_eq!(shown, "[exit status 0]");
}

#[tokio::test]
async fn background_process_without_the_output_is_not_reported() {
    let shown = tool_fixture()
        .done(
            "shell",
            json!({ "command": "sleep 0.01 > /dev/null 2>&1 & echo done" }),
        )
        .await;
    assert_eq!(shown, "done\n[exit status 0]");
}

#[tokio::test]
async fn truncated_output_shows_its_beginning_and_end() {
    let tool_fixture = with(ShellSettings {
        commands: CommandSettings {
            output_limit: 2_000,
            ..CommandSettings::default()
        },
        ..ShellSettings::default()
    });
    let shown = tool_fixture
        .done(
            "shell",
            json!({ "command": "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done" }),
        )
        .await;
    assert!(shown.starts_with("line 0\nline 1\n"), "{shown}");
    assert!(shown.contains("bytes left out"), "{shown}");
    assert!(shown.ends_with("line 19999\n[exit status 0]"), "{shown}");
    assert!(shown.len() < 2_300, "{}", shown.len());
}

#[tokio::test]
async fn credential_variables_are_passed_only_if_named() {
    let command = json!({ "command": "echo ${SERVICE_TOKEN:-none} $GREETING $OWN" });
    assert_eq!(
        tool_fixture().done("shell", command.clone()).await,
        "none hello\n[exit status 0]"
    );
    let generous = with(ShellSettings {
        commands: CommandSettings {
            pass: vec!["SERVICE_*".to_owned()],
            environment: BTreeMap::from([("OWN".to_owned(), Secret::new("own".to_owned()))]),
            ..CommandSettings::default()
        },
        ..ShellSettings::default()
    });
    assert_eq!(
        generous.done("shell", command).await,
        "abc123 hello own\n[exit status 0]"
    );
}

#[tokio::test]
async fn known_secrets_are_masked() {
    let tool_fixture = tool_fixture();
    let shown = tool_fixture
        .done(
            "shell",
            json!({ "command": "echo a sword; printf sword; echo fish" }),
        )
        .await;
    assert_eq!(shown, "a sword\n[secret]\n[exit status 0]");
    let shown = tool_fixture
        .fails("shell", json!({ "command": ["swordfish"] }))
        .await;
    assert!(!shown.contains("swordfish"), "{shown}");
}

#[tokio::test]
async fn timeout_out_of_range_is_refused() {
    let tool_fixture = tool_fixture();
    for timeout in [0.0, -1.0, 601.0] {
        let shown = tool_fixture
            .fails(
                "shell",
                json!({ "command": "echo ran", "timeout": timeout }),
            )
            .await;
        assert!(
            shown.contains("`timeout` must be above 0 and at most 600"),
            "{shown}"
        );
    }
}

#[test]
fn effects_of_shell_are_unknown() {
    let tool_fixture = tool_fixture();
    let shell = tool_fixture.registry.tool("shell").unwrap();
    let metadata = shell.metadata();
    assert!(!metadata.read_only && metadata.exclusive);
    assert_eq!(metadata.cache_class, CacheClass::Never);
    let arguments: Arguments = object(json!({ "command": "true" }));
    assert_eq!(
        shell.effects(&arguments, &tool_fixture.context),
        Effects::UNKNOWN
    );
    assert_eq!(
        metadata.parameters.schema()["required"],
        Value::from(vec!["command"])
    );
}
