//! Calls in plan mode and in accept-edits mode.

use cachalot_hooks::input::PermissionMode;
use cachalot_simulator::ScriptedReply;
use cachalot_tools::CallOutcome;
use serde_json::json;

use crate::fixture::{Fixture, WIRES};

const FILE: &str = "
agents:
  root: {model: test, instruction: You work., toolsets: [{type: filesystem}, {type: shell}]}
permissions:
  allow: ['write_file:path=allowed/*', 'shell:command=touch *']
  ask: ['write_file:path=asked/*']
";

fn calls() -> ScriptedReply {
    let write = |path: &str| json!({"path": path, "content": "x"});
    ScriptedReply::call("read_file", json!({"path": "there"}))
        .and_call("write_file", write("allowed/a"))
        .and_call("write_file", write("b"))
        .and_call("write_file", write("asked/c"))
        .and_call("write_file", write(".git/hooks/pre-commit"))
        .and_call(
            "edit_file",
            json!({"path": "there", "old_text": "x", "new_text": "y"}),
        )
        .and_call("shell", json!({"command": "touch d"}))
        .and_call("shell", json!({"command": "echo e > e"}))
}

async fn run(mode: PermissionMode, wire: crate::fixture::Wire) -> Fixture {
    let fixture = Fixture::new(wire, FILE, vec![calls(), ScriptedReply::text("done")]).await;
    fixture.write("there", "x");
    fixture.answers.set_mode(mode);
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "go").await;
    fixture
}

fn written(fixture: &Fixture) -> Vec<&'static str> {
    let paths = [
        "allowed/a",
        "b",
        "asked/c",
        ".git/hooks/pre-commit",
        "d",
        "e",
    ];
    let root = fixture.root.path();
    paths
        .into_iter()
        .filter(|path| root.join(path).exists())
        .collect()
}

#[tokio::test]
async fn plan_mode_permits_only_tools_that_read() {
    for wire in WIRES {
        let fixture = run(PermissionMode::Plan, wire).await;
        assert_eq!(fixture.answers.asked(), [], "nothing is asked for");
        assert_eq!(written(&fixture), Vec::<&str>::new());
        let content = std::fs::read_to_string(fixture.root.path().join("there")).unwrap();
        assert_eq!(content, "x");
        let ended = fixture.reported.ended();
        assert_eq!(ended.len(), 8);
        for call in ended {
            if call.tool == "read_file" {
                assert_ne!(call.how, CallOutcome::Refused, "{call:?}");
                continue;
            }
            assert_eq!(call.how, CallOutcome::Refused);
            assert!(
                call.text.contains("in plan mode, only tools that read"),
                "{call:?}"
            );
        }
        fixture.check();
    }
}

#[tokio::test]
async fn accept_edits_mode_asks_for_everything_but_edits() {
    for wire in WIRES {
        let fixture = run(PermissionMode::AcceptEdits, wire).await;
        let asked = fixture.answers.asked();
        let asked: Vec<String> = asked
            .iter()
            .map(|asked| format!("{} {}", asked.tool, asked.arguments))
            .collect();
        // A rule that asks, a protected file, and a command.
        assert_eq!(asked.len(), 3, "{asked:?}");
        assert!(asked[0].contains("asked/c"), "{asked:?}");
        assert!(asked[1].contains("pre-commit"), "{asked:?}");
        assert!(asked[2].contains("echo e > e"), "{asked:?}");
        assert_eq!(written(&fixture), ["allowed/a", "b", "d"]);
        let content = std::fs::read_to_string(fixture.root.path().join("there")).unwrap();
        assert_eq!(content, "y");
        fixture.check();
    }
}

const TEAM: &str = "
agents:
  root: {model: test, instruction: You lead., sub_agents: [helper]}
  helper: {model: test, instruction: You help., toolsets: [{type: filesystem}]}
permissions:
  allow: ['write_file']
";

#[tokio::test]
async fn plan_mode_holds_for_sub_agents() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::call("transfer_task", json!({"agent": "helper", "task": "write"})),
            ScriptedReply::call("write_file", json!({"path": "b", "content": "x"})),
            ScriptedReply::text("refused"),
            ScriptedReply::text("done"),
        ];
        let fixture = Fixture::new(wire, TEAM, replies).await;
        fixture.answers.set_mode(PermissionMode::Plan);
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "go").await;
        assert!(!fixture.root.path().join("b").exists());
        let ended = fixture.reported.ended();
        assert!(ended[0].text.contains("in plan mode"), "{ended:?}");
        assert!(ended[1].how != CallOutcome::Refused, "{ended:?}");
        fixture.check();
    }
}
