//! A fork and its chat have nothing of each other that they should not.

use std::sync::Arc;

use cachalot_agent::{CancellationToken, Chat, Inherit};
use cachalot_simulator::{Script, ScriptedReply};
use serde_json::json;

use super::{Recording, forked, review, spec, whale_agent};
use crate::fixture::{Fixture, WIRES, Wire};

/// Tools that reviews may use, and tools that could do harm.
const OF_REVIEWS: [&str; 4] = ["memory", "skill_manage", "skill_view", "skills_list"];
const OF_OTHERS: [&str; 4] = ["shell", "send_message", "web_search", "execute_code"];

#[tokio::test]
async fn review_is_limited_to_the_tools_of_its_kind() {
    let file = "
agents:
  root:
    model: test
    instruction: You know whales.
    toolsets: [{type: filesystem}]
    sub_agents: [worker]
    review: {every_turns: 1, kind: KIND}
  worker: {model: test, instruction: You work.}
permissions: {allow: ['*']}
";
    for (kind, allowed) in [
        ("combined", &OF_REVIEWS[..]),
        ("memory", &OF_REVIEWS[..1]),
        ("skill", &OF_REVIEWS[1..]),
    ] {
        let names = OF_REVIEWS.iter().chain(&OF_OTHERS);
        let mut calls = ScriptedReply::call("read_file", json!({"path": "depths"}))
            .and_call("write_file", json!({"path": "depths", "content": "0 m"}))
            .and_call("transfer_task", json!({"agent": "worker", "task": "Work."}));
        for name in names.clone() {
            calls = calls.and_call(*name, json!({}));
        }
        let replies = vec![
            ScriptedReply::text("1,200 m."),
            calls,
            ScriptedReply::text("Kept."),
        ];
        let mut fixture = Fixture::new(Wire::Messages, &file.replace("KIND", kind), replies).await;
        fixture.write("depths", "1,200 m");
        let tools: Vec<_> = names.map(|name| Recording::new(name)).collect();
        fixture.tools = tools.iter().map(|tool| Arc::clone(tool) as _).collect();
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "How deep?").await;
        chat.wait_for_review().await;
        let mut denied = review(&fixture).denied;
        denied.sort_unstable();
        let others = OF_OTHERS.iter().chain(&["transfer_task", "write_file"]);
        let kept_out = OF_REVIEWS.iter().filter(|name| !allowed.contains(name));
        let mut expected: Vec<&str> = others.chain(kept_out).copied().collect();
        expected.sort_unstable();
        assert_eq!(denied, expected, "{kind}");
        for (name, tool) in OF_REVIEWS.iter().chain(&OF_OTHERS).zip(&tools) {
            let times = usize::from(allowed.contains(name));
            assert_eq!(tool.times(), times, "{kind}: {name}");
        }
        assert_eq!(fixture.read("depths"), "1,200 m");
        fixture.check();
    }
}

/// The gate limits the fork only: nothing has to be restored after it ends.
#[tokio::test]
async fn gate_of_a_fork_does_not_affect_its_chat() {
    let script = |wire| {
        let thought = if wire == Wire::Thinking {
            "reasoning: Hm., "
        } else {
            ""
        };
        let call = format!("{{{thought}tool_calls: [{{name: danger, arguments: {{}}}}]}}");
        format!(
            "
rules:
  - {{user: '^Look back', steps: [{call}, {{{thought}text: looked}}]}}
  - {{user: '^Go', steps: [{call}, {{{thought}text: gone}}]}}
otherwise: {{{thought}text: hello}}
"
        )
    };
    for wire in WIRES {
        let script = Script::parse("script.yaml", &script(wire)).unwrap();
        let mut fixture = Fixture::scripted(wire, &whale_agent(""), script).await;
        let danger = Recording::new("danger");
        fixture.tools = vec![Arc::clone(&danger) as _];
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "Hello.").await;
        let fork = chat.fork(spec(&["read_file"], Inherit::Full)).unwrap();
        let cancel = CancellationToken::default();
        let (report, turn) = tokio::join!(
            fork.run("Look back.", &cancel),
            fixture.turn(&mut chat, "Go.")
        );
        let report = report.unwrap();
        assert_eq!(
            (report.text.as_str(), turn.text.as_str()),
            ("looked", "gone")
        );
        assert_eq!(report.denied, ["danger"]);
        assert_eq!(danger.times(), 1, "{wire:?}: the chat's own call");
        fixture.turn(&mut chat, "Go on.").await;
        assert_eq!(danger.times(), 2, "{wire:?}");
        // Which request of which came first is not told.
        let each: Vec<usize> = (1..fixture.bodies().len()).collect();
        fixture.check_between(&each);
    }
}

/// A human-paced chat changes the requested cache lifetime and nothing else.
#[tokio::test]
async fn a_session_and_its_forks_continue_identically_in_every_front_end() {
    for wire in WIRES {
        let replies = vec![ScriptedReply::text("yes"); 3];
        let fixture = Fixture::new(wire, &whale_agent(""), replies)
            .await
            .in_file();
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "How deep?").await;
        let mut dependencies = fixture.dependencies();
        dependencies.human_paced = true;
        let mut chat = Chat::resume(dependencies, fixture.team(), chat.session())
            .await
            .unwrap();
        let turn = fixture.turn(&mut chat, "And in May?").await;
        assert!(turn.sum.usage.cache_read > 1_024, "{wire:?}");
        let report = forked(&chat, spec(&[], Inherit::Full), "Look back.").await;
        assert_eq!(report.differences, []);
        assert!(report.first.unwrap().cache_read >= turn.sum.usage.cache_read);
        fixture.check();
    }
}
