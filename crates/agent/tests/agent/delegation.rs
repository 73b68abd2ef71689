//! Sub-agents.

use std::sync::Arc;

use cachalot_agent::{Approval, CancellationToken, Stop};
use cachalot_simulator::{Script, ScriptedReply};
use cachalot_tools::CallOutcome;
use serde_json::json;

use crate::bodies::turns;
use crate::cancelling::HangingTool;
use crate::event_recorder::Note;
use crate::fixture::{Fixture, WIRES, Wire};

const TEAM: &str = "
agents:
  root:
    model: test
    instruction: You lead.
    sub_agents: [reader, writer]
  reader:
    model: test
    description: Reads files.
    instruction: You read.
    toolsets: [{type: filesystem}]
  writer:
    model: test
    instruction: You write.
    toolsets: [{type: filesystem}]
";

fn transfer(agent: &str, task: &str) -> ScriptedReply {
    ScriptedReply::call("transfer_task", json!({"agent": agent, "task": task}))
}

#[tokio::test]
async fn delegated_task_runs_and_returns_its_answer() {
    for wire in WIRES {
        let replies = vec![
            transfer("reader", "Read a."),
            ScriptedReply::call("read_file", json!({"path": "a"})),
            ScriptedReply::text("It says A."),
            ScriptedReply::text("The reader says: A."),
        ];
        let fixture = Fixture::new(wire, TEAM, replies).await;
        fixture.write("a", "A");
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "What does a say?").await;
        assert_eq!(report.text, "The reader says: A.");
        // Everything is added up.
        assert_eq!((report.sum.model_calls, report.sum.tool_calls), (4, 2));
        let answered: Vec<u64> = fixture
            .reported
            .notes()
            .into_iter()
            .filter_map(|note| match note {
                Note::Answered(_, cost) => Some(cost.picodollars),
                _ => None,
            })
            .collect();
        assert_eq!(answered.len(), 4);
        assert_eq!(
            report.sum.paid.cost.picodollars,
            answered.iter().sum::<u64>()
        );
        // No approval was requested.
        assert_eq!(fixture.answers.asked(), []);
        let ended = fixture.reported.ended();
        assert_eq!(
            (ended[0].agent.as_str(), ended[0].tool.as_str()),
            ("reader", "read_file")
        );
        assert_eq!(
            (ended[1].agent.as_str(), ended[1].text.as_str()),
            ("root", "It says A.")
        );

        let sessions = fixture.sessions().await;
        assert_eq!(sessions.len(), 2);
        let child = fixture.session("session-1").await;
        assert_eq!(child.head.parent.as_deref(), Some(chat.session()));
        assert_eq!(
            (child.head.agent.as_str(), child.totals.answers),
            ("reader", 2)
        );
        assert_eq!(child.head.title.as_deref(), Some("Read a."));
        assert_eq!(fixture.session(chat.session()).await.totals.answers, 2);
        fixture.check();
    }
}

#[tokio::test]
async fn the_tool_describes_the_agents() {
    let fixture = Fixture::new(Wire::Chat, TEAM, vec![ScriptedReply::text("yes")]).await;
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "hello").await;
    let tool = &fixture.last_body()["tools"][0]["function"];
    assert_eq!(tool["name"], "transfer_task");
    let description = tool["description"].as_str().unwrap();
    assert!(
        description.ends_with("Agents:\n- reader: Reads files.\n- writer"),
        "{description}"
    );
    let agents = &tool["parameters"]["properties"]["agent"]["enum"];
    assert_eq!(*agents, json!(["reader", "writer"]));
    fixture.check();
}

#[tokio::test]
async fn expected_output_is_sent_and_invalid_arguments_are_refused() {
    let replies = vec![
        ScriptedReply::call("transfer_task", json!({"agent": "nobody", "task": "x"})),
        ScriptedReply::call("transfer_task", json!({"agent": "reader", "task": " "})),
        ScriptedReply::call(
            "transfer_task",
            json!({"agent": "reader", "task": "Read.", "expected_output": "One word."}),
        ),
        ScriptedReply::text("word"),
        ScriptedReply::text("done"),
    ];
    let fixture = Fixture::new(Wire::Messages, TEAM, replies).await;
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "go").await;
    let ended = fixture.reported.ended();
    assert_eq!(ended[0].how, CallOutcome::Refused);
    assert!(ended[0].text.contains("reader"), "{}", ended[0].text);
    assert!(
        ended[1].is_error && ended[1].text.contains("the task is empty"),
        "{ended:?}"
    );
    assert_eq!(ended[2].text, "word");
    let said = &turns(&fixture.bodies()[3])[0];
    assert_eq!(
        *said,
        crate::bodies::Turn::User("Read.\n\nExpected output: One word.".to_owned())
    );
    fixture.check();
}

#[tokio::test]
async fn tasks_of_one_answer_run_sequentially() {
    let replies = vec![
        transfer("reader", "one")
            .and_call("transfer_task", json!({"agent": "writer", "task": "two"})),
        ScriptedReply::text("first"),
        ScriptedReply::text("second"),
        ScriptedReply::text("both"),
    ];
    let fixture = Fixture::new(Wire::Chat, TEAM, replies).await;
    let mut chat = fixture.chat().await;
    assert_eq!(fixture.turn(&mut chat, "go").await.text, "both");
    let asked: Vec<String> = fixture
        .reported
        .notes()
        .into_iter()
        .filter_map(|note| match note {
            Note::Asked(agent, _) => Some(agent),
            _ => None,
        })
        .collect();
    assert_eq!(asked, ["root", "reader", "writer", "root"]);
    fixture.check();
}

/// Each may delegate to the other: it ends where it may go no deeper.
#[tokio::test]
async fn delegation_cycles_end_at_the_depth_limit() {
    for wire in WIRES {
        let file = "
agents:
  ping: {model: test, instruction: You are ping., sub_agents: [pong]}
  pong: {model: test, instruction: You are pong., sub_agents: [ping]}
";
        let rule = |me: &str, other: &str| {
            format!(
                "  - tools: [transfer_task]\n    user: '^for {me} (\\d+)'\n    steps:\n      - reasoning: hm\n        tool_calls: [{{name: transfer_task, arguments: {{agent: {other}, task: 'for {other} {{{{1}}}}1'}}}}]\n      - reasoning: hm\n        text: 'passed on by {me}: {{{{last_result}}}}'\n"
            )
        };
        let script = format!(
            "rules:\n{}{}otherwise: {{reasoning: hm, text: I am at the bottom.}}\n",
            rule("ping", "pong"),
            rule("pong", "ping")
        );
        let script = Script::parse("script.yaml", &script).unwrap();
        let fixture = Fixture::scripted(wire, file, script).await;
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "for ping 1").await;
        assert_eq!(
            report.text.matches("passed on").count(),
            5,
            "{}",
            report.text
        );
        assert!(
            report.text.ends_with("I am at the bottom."),
            "{}",
            report.text
        );
        assert_eq!(report.sum.model_calls, 11);
        // A chain of sessions, each with its parent.
        for depth in 1..=5 {
            let session = fixture.session(&format!("session-{depth}")).await;
            assert_eq!(session.head.parent, Some(format!("session-{}", depth - 1)));
        }
        // The last one is not offered what it may not do.
        let bottom = &fixture.bodies()[5];
        assert!(bottom.get("tools").is_none(), "{bottom}");
        fixture.check();
    }
}

#[tokio::test]
async fn approvals_of_a_sub_agent_name_it_and_cover_it_only() {
    for wire in WIRES {
        let write =
            |path: &str| ScriptedReply::call("write_file", json!({"path": path, "content": "x"}));
        let replies = vec![
            transfer("writer", "one"),
            write("a"),
            write("a"),
            ScriptedReply::text("written"),
            transfer("reader", "two"),
            write("a"),
            ScriptedReply::text("not written"),
            transfer("writer", "three"),
            write("a"),
            ScriptedReply::text("written, too"),
            ScriptedReply::text("done"),
        ];
        let fixture = Fixture::new(wire, TEAM, replies).await;
        fixture
            .answers
            .give([Approval::Always, Approval::No(Some("not you".to_owned()))]);
        let mut chat = fixture.chat().await;
        assert_eq!(fixture.turn(&mut chat, "go").await.text, "done");
        let asked = fixture.answers.asked();
        let who: Vec<&str> = asked.iter().map(|asked| asked.agent.as_str()).collect();
        assert_eq!(who, ["writer", "reader"]);
        assert!(fixture.root.path().join("a").exists());
        fixture.check();
    }
}

#[tokio::test]
async fn permission_rules_apply_to_delegation() {
    let file = format!(
        "{TEAM}permissions: {{deny: ['transfer_task:agent=writer'], ask: ['transfer_task']}}\n"
    );
    let replies = vec![
        transfer("writer", "one"),
        transfer("reader", "two"),
        ScriptedReply::text("read"),
        ScriptedReply::text("done"),
    ];
    let fixture = Fixture::new(Wire::Chat, &file, replies).await;
    fixture.answers.give([Approval::Yes]);
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "go").await;
    let ended = fixture.reported.ended();
    assert!(ended[0].text.contains("denied by the rule"), "{ended:?}");
    assert_eq!(ended[1].text, "read");
    assert_eq!(
        fixture.answers.asked()[0].rule.as_deref(),
        Some("transfer_task")
    );
    fixture.check();
}

#[tokio::test]
async fn cancel_ends_all_nested_sub_agents() {
    for wire in WIRES {
        let file = "
agents:
  root: {model: test, instruction: You lead., sub_agents: [middle]}
  middle: {model: test, instruction: You pass on., sub_agents: [worker]}
  worker: {model: test, instruction: You work.}
";
        let replies = vec![
            transfer("middle", "one"),
            transfer("worker", "two"),
            ScriptedReply::call("forever", json!({})),
            ScriptedReply::text("yes"),
        ];
        let mut fixture = Fixture::new(wire, file, replies).await;
        let forever = Arc::new(HangingTool::new("forever"));
        fixture.tools = vec![Arc::clone(&forever) as _];
        let mut chat = fixture.chat().await;
        let cancel = CancellationToken::default();
        let began = |note: &Note| *note == Note::Began("forever".to_owned());
        fixture.reported.cancel_when(&cancel, began);
        let report = chat.turn("go", &cancel).await.unwrap();
        assert_eq!(
            (report.stop, report.sum.model_calls),
            (Stop::Interrupted, 3)
        );
        assert!(forever.was_dropped());
        let next = fixture.turn(&mut chat, "hello").await;
        assert_eq!((next.text.as_str(), next.sum.model_calls), ("yes", 1));

        // The sub-agent's own session can be resumed, too.
        let mut orphan = fixture.resume("session-2").await.unwrap();
        assert_eq!(
            fixture.turn(&mut orphan, "what were you doing?").await.text,
            "yes"
        );
        fixture.check();
    }
}

#[tokio::test]
async fn the_stop_reason_of_a_sub_agent_is_returned_to_its_caller() {
    let file = TEAM.replace(
        "instruction: You read.",
        "instruction: You read.\n    max_iterations: 1",
    );
    let replies = vec![
        transfer("reader", "one"),
        ScriptedReply {
            text: Some("I look.".to_owned()),
            ..ScriptedReply::call("list_dir", json!({}))
        },
        transfer("reader", "two"),
        ScriptedReply::default().with_fault(cachalot_simulator::Fault::status(500).times(3)),
        ScriptedReply::text("It did not work."),
    ];
    let fixture = Fixture::new(Wire::Chat, &file, replies).await;
    let mut chat = fixture.chat().await;
    assert_eq!(fixture.turn(&mut chat, "go").await.text, "It did not work.");
    let ended = fixture.reported.ended();
    assert!(ended[1].is_error);
    assert_eq!(
        ended[1].text,
        "I look.\n(reader: stopped after 1 model calls (max_iterations); send a message to continue)"
    );
    assert!(
        ended[2].is_error && ended[2].text.starts_with("`reader` failed: openai:"),
        "{ended:?}"
    );
    fixture.check();
}

#[tokio::test]
async fn budget_includes_sub_agents() {
    let file = format!("{TEAM}budget: {{max_tokens: 1000}}\n");
    let usage = cachalot_simulator::ScriptedUsage {
        input: Some(600),
        ..Default::default()
    };
    let replies = vec![
        transfer("reader", "one").with_usage(usage),
        ScriptedReply::call("list_dir", json!({})).with_usage(usage),
        ScriptedReply::text("never"),
    ];
    let fixture = Fixture::new(Wire::Chat, &file, replies).await;
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, "go").await;
    assert!(matches!(&report.stop, Stop::Budget(which) if which.contains("max_tokens")));
    assert_eq!((report.sum.model_calls, report.sum.tool_calls), (2, 2));
    fixture.check();
}

#[tokio::test]
async fn write_of_a_sub_agent_invalidates_cached_reads() {
    let file = format!(
        "{}tools: {{cacheToolResults: true}}\npermissions: {{allow: [edit_file]}}\n",
        TEAM.replace(
            "sub_agents: [reader, writer]",
            "sub_agents: [reader, writer]\n    toolsets: [{type: filesystem}]"
        )
    );
    let read = || ScriptedReply::call("read_file", json!({"path": "a"}));
    let replies = vec![
        read(),
        read(),
        transfer("writer", "one"),
        ScriptedReply::call(
            "edit_file",
            json!({"path": "a", "old_text": "one", "new_text": "two"}),
        ),
        ScriptedReply::text("edited"),
        read(),
        ScriptedReply::text("done"),
    ];
    let fixture = Fixture::new(Wire::Messages, &file, replies).await;
    fixture.write("a", "one");
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "go").await;
    let ended = fixture.reported.ended();
    assert_eq!(ended[1].how, CallOutcome::Hit);
    let last = ended.last().unwrap();
    assert!(
        matches!(last.how, CallOutcome::Ran(Some(_))) && last.text.contains("two"),
        "{last:?}"
    );
    fixture.check();
}
