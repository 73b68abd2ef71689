//! Sub-agents that continue the conversation of the agent that delegates to them.

use std::sync::Arc;
use std::time::Duration;

use cachalot_agent::CancellationToken;
use cachalot_hooks::Event;
use cachalot_simulator::{Fault, ScriptedReply};
use serde_json::json;

use super::{Recording, long};
use crate::bodies::{self, Turn, turns};
use crate::event_recorder::Note;
use crate::fixture::{Fixture, WIRES, Wire, load};

fn team() -> String {
    format!(
        "
agents:
  root:
    model: test
    instruction: '{}'
    toolsets: [{{type: shell}}, {{type: filesystem}}]
    sub_agents: [{{name: reader, fork: true}}, {{name: diver, fork: true}}, stranger]
  reader:
    model: test
    description: Reads files.
    instruction: Answer in one word.
    toolsets: [{{type: filesystem}}]
  diver: {{model: test}}
  stranger: {{model: test}}
permissions: {{allow: [shell, safe]}}
",
        long()
    )
}

fn transfer(agent: &str, task: &str) -> ScriptedReply {
    ScriptedReply::call("transfer_task", json!({"agent": agent, "task": task}))
}

#[tokio::test]
async fn a_forked_sub_agent_sees_the_conversation_and_may_use_its_own_tools() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::text("hello"),
            ScriptedReply::text("On it.").and_call(
                "transfer_task",
                json!({"agent": "reader", "task": "Read depths."}),
            ),
            ScriptedReply::call("shell", json!({"command": "touch there"}))
                .and_call("read_file", json!({"path": "depths"})),
            ScriptedReply::text("Deep."),
            ScriptedReply::text("The reader says: deep."),
        ];
        let fixture = Fixture::new(wire, &team(), replies).await;
        fixture.write("depths", "1,200 m");
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "Hello.").await;
        let report = fixture.turn(&mut chat, "How deep?").await;
        assert_eq!(report.text, "The reader says: deep.");
        assert_eq!((report.sum.model_calls, report.sum.tool_calls), (4, 3));
        assert_eq!(chat.total().model_calls, 5);
        assert!(!fixture.root.path().join("there").exists());

        let received = fixture.simulator.received();
        // The fork's requests go on from the one that the call answered, and so does the one behind.
        bodies::check(&received[..4]);
        bodies::check(&[received[1].clone(), received[4].clone()]);
        let said = turns(&received[2].json());
        let Some(Turn::User(said)) = said.last() else {
            panic!("{said:?}");
        };
        for part in [
            "`reader`",
            "Answer in one word.",
            "Read depths.",
            "`read_file`",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains("`shell`"), "{said}");
        let denied = fixture.reported.ended();
        assert_eq!(
            (denied[0].agent.as_str(), denied[0].tool.as_str()),
            ("reader", "shell")
        );
        assert!(
            denied[0].text.contains("the agent `reader` may not use it"),
            "{denied:?}"
        );

        let child = fixture.session("session-1").await;
        assert_eq!(child.head.agent, "reader");
        assert_eq!(child.head.parent.as_deref(), Some(chat.session()));
        assert_eq!(child.head.origin.unwrap().session, chat.session());
        let usage = child.totals.usage;
        assert!(usage.cache_read * 10 > usage.total_input() * 9, "{usage:?}");
        fixture.check_between(&[4]);
    }
}

#[tokio::test]
async fn the_delegation_tool_describes_the_visibility_of_the_conversation() {
    let fixture = Fixture::new(Wire::Chat, &team(), vec![ScriptedReply::text("yes")]).await;
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "hello").await;
    let body = fixture.last_body();
    let mut tools = body["tools"].as_array().unwrap().iter();
    let tool = tools
        .find(|tool| tool["function"]["name"] == "transfer_task")
        .unwrap();
    let described = tool["function"]["description"].as_str().unwrap();
    assert!(
        described.contains("`reader`, `diver` see this conversation"),
        "{described}"
    );
    let named = &tool["function"]["parameters"]["properties"]["agent"]["enum"];
    assert_eq!(*named, json!(["reader", "diver", "stranger"]));
    fixture.check();
}

/// The first request of several goes alone, and the others when its response begins.
#[tokio::test]
async fn first_fork_of_an_answer_warms_the_prefix_for_the_others() {
    for wire in WIRES {
        let slow = Fault::slow(Duration::from_millis(150), Duration::from_millis(30));
        let replies = vec![
            transfer("reader", "one")
                .and_call("transfer_task", json!({"agent": "diver", "task": "two"}))
                .and_call("transfer_task", json!({"agent": "reader", "task": "three"})),
            ScriptedReply::text("I am the first, and take my time.").with_fault(slow),
            ScriptedReply::text("next"),
            ScriptedReply::text("next"),
            ScriptedReply::text("all"),
        ];
        let fixture = Fixture::new(wire, &team(), replies).await;
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "Go.").await;
        assert_eq!(report.text, "all");
        let mut notes = fixture.reported.notes();
        notes.retain(|note| matches!(note, Note::Text(..) | Note::Reasoning(_) | Note::Asked(..)));
        let asked: Vec<usize> = (0..notes.len())
            .filter(|at| matches!(notes[*at], Note::Asked(..)))
            .collect();
        // Root, the first fork, the others, root.
        assert_eq!(asked.len(), 5, "{notes:?}");
        let between = &notes[asked[1] + 1..asked[2]];
        assert!(
            !between.is_empty(),
            "{wire:?}: the second did not wait: {notes:?}"
        );
        // The others do not wait for its end, nor for each other.
        assert!(asked[3] - asked[2] < 3, "{notes:?}");
        let last = notes
            .iter()
            .rposition(|note| matches!(note, Note::Text(agent, _) if agent == "reader"));
        assert!(last.unwrap() > asked[3], "{notes:?}");
        for session in fixture.sessions().await {
            assert!(session.totals.usage.cache_read > 0, "{session:?}");
        }
        fixture.check_between(&[2, 3, 4]);
    }
}

#[tokio::test]
async fn other_forks_run_when_the_first_fails() {
    let replies = vec![
        transfer("reader", "one")
            .and_call("transfer_task", json!({"agent": "diver", "task": "two"})),
        ScriptedReply::default().with_fault(Fault::status(400)),
        ScriptedReply::text("second"),
        ScriptedReply::text("one of two"),
    ];
    let fixture = Fixture::new(Wire::Responses, &team(), replies).await;
    let mut chat = fixture.chat().await;
    assert_eq!(fixture.turn(&mut chat, "Go.").await.text, "one of two");
    let ended = fixture.reported.ended();
    let failed = ended.iter().filter(|ended| ended.is_error).count();
    assert_eq!((ended.len(), failed), (2, 1), "{ended:?}");
    fixture.check_between(&[2, 3]);
}

#[tokio::test]
async fn forked_sub_agents_end_with_the_turn_and_emit_the_usual_events() {
    let replies = vec![
        transfer("reader", "one"),
        ScriptedReply::call("forever", json!({})),
        ScriptedReply::text("yes"),
    ];
    let mut fixture = Fixture::new(Wire::Messages, &team(), replies).await;
    let forever = Arc::new(crate::cancelling::HangingTool::new("forever"));
    fixture.tools = vec![Arc::clone(&forever) as _, Recording::new("safe") as _];
    fixture.hook_recorder.listen([
        Event::OnAgentSwitch,
        Event::SubagentStop,
        Event::SessionStart,
    ]);
    let mut chat = fixture.chat().await;
    let cancel = CancellationToken::default();
    fixture
        .reported
        .cancel_when(&cancel, |note| *note == Note::Began("forever".to_owned()));
    let report = chat.turn("Go.", &cancel).await.unwrap();
    assert_eq!(report.stop, cachalot_agent::Stop::Interrupted);
    assert!(forever.was_dropped());
    assert_eq!(report.sum.model_calls, 2);
    assert_eq!(fixture.turn(&mut chat, "Hello.").await.text, "yes");
    let switches = fixture
        .hook_recorder
        .recorded_of(Event::OnAgentSwitch)
        .len();
    assert!(switches >= 1);
    fixture.check_between(&[2]);
}

#[test]
fn fork_key_of_sub_agents_is_read_and_checked() {
    let here = std::path::Path::new("/dir");
    let file = |sub_agents: &str| {
        format!(
            "agents:\n  root: {{model: gpt-4o, sub_agents: {sub_agents}}}\n  other: {{model: gpt-4o}}\n"
        )
    };
    let team = load(&file("[{name: other, fork: true}]"), here).unwrap();
    let other = &team.entry().sub_agents[0];
    assert!(other.fork && other.name == "other");
    let team = load(&file("[{name: other}, other]"), here).unwrap();
    assert!(!team.entry().sub_agents[0].fork && team.entry().sub_agents.len() == 1);
    for (sub_agents, code) in [
        ("[{fork: true}]", "missing-key"),
        ("[{name: other, fork: maybe}]", "wrong-type"),
        ("[{name: other, forks: true}]", "unknown-key"),
        ("[{name: root, fork: true}]", "delegates-to-itself"),
        ("[{name: othr, fork: true}]", "unknown-agent"),
        ("[other, {name: other, fork: true}]", "conflicting-keys"),
        ("[[other]]", "wrong-type"),
    ] {
        let problems = load(&file(sub_agents), here).unwrap_err();
        let codes: Vec<_> = problems.iter().map(|problem| problem.code).collect();
        assert_eq!(codes, [code], "{sub_agents}");
    }
}
