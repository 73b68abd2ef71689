//! Handoffs by the model, and switches by the user.

use cachalot_agent::{CancellationToken, ForkSpec, Inherit};
use cachalot_model::Block;
use cachalot_simulator::ScriptedReply;
use serde_json::{Value, json};

use crate::event_recorder::Note;
use crate::fixture::{Fixture, WIRES, Wire};
use crate::fork::{forked, spec};

const TEAM: &str = "
agents:
  root:
    model: test
    instruction: You welcome.
    handoffs: [writer, singer]
  writer:
    model: test
    description: Writes files.
    instruction: You write.
    toolsets: [{type: filesystem}]
    handoffs: [root]
  singer:
    model: test
    instruction: You sing.
";

fn handoff(agent: &str) -> ScriptedReply {
    ScriptedReply::call("handoff", json!({"agent": agent}))
}

/// The system text of a request, in any format.
fn system(body: &Value) -> String {
    let places = ["/system", "/instructions", "/messages/0", "/input/0"];
    let found = places.iter().find_map(|place| body.pointer(place));
    found.unwrap_or(&Value::Null).to_string()
}

fn tools(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    let name = |tool: &Value| {
        let name = tool.get("name").or_else(|| tool.pointer("/function/name"));
        name.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    tools.iter().map(name).collect()
}

#[tokio::test]
async fn the_other_agent_continues_the_turn_and_the_chat() {
    for wire in WIRES {
        let replies = vec![
            handoff("writer"),
            ScriptedReply::call("write_file", json!({"path": "a", "content": "A"})),
            ScriptedReply::text("It is written."),
            ScriptedReply::text("Still the writer."),
        ];
        let file = format!("{TEAM}permissions: {{allow: [write_file]}}\n");
        let fixture = Fixture::new(wire, &file, replies).await;
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "Write A into a.").await;
        assert_eq!(report.text, "It is written.");
        assert_eq!(fixture.read("a"), "A");
        assert_eq!(chat.agent().name, "writer");
        assert_eq!(fixture.answers.asked(), [], "{wire:?}");

        let bodies = fixture.bodies();
        assert_eq!(tools(&bodies[0]), ["handoff"]);
        assert!(system(&bodies[0]).contains("You welcome."), "{wire:?}");
        let second = tools(&bodies[1]);
        assert!(second.contains(&"write_file".to_owned()), "{second:?}");
        assert!(system(&bodies[1]).contains("You write."), "{wire:?}");
        assert!(!system(&bodies[1]).contains("You welcome."), "{wire:?}");
        assert!(bodies[1].to_string().contains("Write A into a."));

        fixture.turn(&mut chat, "Who are you?").await;
        assert!(system(&fixture.last_body()).contains("You write."));
        // The session belongs to the new agent, also for other processes.
        let session = chat.session().to_owned();
        assert_eq!(fixture.session(&session).await.head.agent, "writer");
        let resumed = fixture.resume(&session).await.unwrap();
        assert_eq!(resumed.agent().name, "writer");
        let switched = Note::Switched("root".to_owned(), "writer".to_owned());
        assert!(fixture.reported.notes().contains(&switched));
        fixture.check_from(1);
    }
}

#[tokio::test]
async fn agent_without_tools_gets_calls_as_text_where_the_provider_requires_it() {
    for wire in WIRES {
        let replies = vec![handoff("singer"), ScriptedReply::text("La la.")];
        let fixture = Fixture::new(wire, TEAM, replies).await;
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "Sing.").await;
        assert_eq!(report.text, "La la.", "{wire:?}");
        let messages = fixture.messages(chat.session()).await;
        let calls = messages
            .iter()
            .flat_map(|message| message.tool_uses())
            .count();
        assert_eq!(calls, usize::from(!wire.is_anthropic()), "{wire:?}");
        fixture.check_from(1);
    }
}

#[tokio::test]
async fn handoffs_to_unknown_agents_and_second_handoffs_are_errors() {
    let two = handoff("writer").and_call("handoff", json!({"agent": "singer"}));
    let replies = vec![
        handoff("nobody"),
        two,
        ScriptedReply::text("I am the writer."),
    ];
    let fixture = Fixture::new(Wire::Chat, TEAM, replies).await;
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "hello").await;
    let ended = fixture.reported.ended();
    let failed: Vec<bool> = ended.iter().map(|call| call.is_error).collect();
    assert_eq!(failed, [true, false, true]);
    assert_eq!(chat.agent().name, "writer");
    fixture.check_from(2);
}

#[tokio::test]
async fn user_switches_to_another_agent_and_back() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::text("Welcome."),
            ScriptedReply::text("I write."),
            ScriptedReply::text("Welcome back."),
        ];
        let fixture = Fixture::new(wire, TEAM, replies).await;
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "hello").await;
        chat.switch_agent("writer").await.unwrap();
        assert_eq!(chat.agent().name, "writer");
        fixture.turn(&mut chat, "Who are you?").await;
        let body = fixture.last_body();
        assert!(system(&body).contains("You write."), "{wire:?}");
        assert!(body.to_string().contains("hello"), "{wire:?}");
        chat.switch_agent("root").await.unwrap();
        fixture.turn(&mut chat, "And now?").await;
        let body = fixture.last_body();
        assert!(system(&body).contains("You welcome."), "{wire:?}");
        assert_eq!(tools(&body), ["handoff"]);
        // The first agent's prefix is that of its earlier request.
        let first = fixture.bodies()[0].clone();
        assert_eq!(first["tools"], body["tools"], "{wire:?}");
        fixture.check_between(&[1, 2]);
    }
}

#[tokio::test]
async fn switch_to_an_unknown_agent_changes_nothing() {
    let replies = vec![ScriptedReply::text("Welcome.")];
    let fixture = Fixture::new(Wire::Chat, TEAM, replies).await;
    let mut chat = fixture.chat().await;
    let error = chat.switch_agent("wirter").await.unwrap_err();
    assert!(
        error.message.contains("did you mean `writer`"),
        "{}",
        error.message
    );
    assert_eq!(chat.agent().name, "root");
    let turn = chat.turn("hello", &CancellationToken::default()).await;
    assert_eq!(turn.unwrap().text, "Welcome.");
    fixture.check();
}

#[tokio::test]
async fn forks_do_not_hand_off() {
    const FORKS: &str = "
agents:
  root:
    model: test
    instruction: You lead.
    sub_agents: [{name: helper, fork: true}]
    handoffs: [helper]
  helper:
    model: test
    instruction: You help.
    handoffs: [root]
";
    let replies = vec![
        ScriptedReply::call("transfer_task", json!({"agent": "helper", "task": "Help."})),
        handoff("root"),
        ScriptedReply::text("Helped."),
        ScriptedReply::text("Done."),
    ];
    let fixture = Fixture::new(Wire::Messages, FORKS, replies).await;
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, "Begin.").await;
    assert_eq!(report.text, "Done.");
    let ended = fixture.reported.ended();
    assert!(ended[0].is_error && ended[0].text.contains("cannot be handed off"));
    assert_eq!(chat.agent().name, "root");
    let messages = fixture.messages(chat.session()).await;
    let is_result = |block: &Block| matches!(block, Block::ToolResult(_));
    assert!(
        messages
            .iter()
            .any(|message| message.content.iter().any(is_result))
    );
    // The leader's last request continues its first one, not those of the fork.
    fixture.check_from(3);
}

#[tokio::test]
async fn forced_handoff_follows_each_final_answer() {
    const PIPELINE: &str = "
agents:
  root:
    model: test
    instruction: You extract.
    force_handoff: editor
  editor:
    model: test
    instruction: You edit.
";
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::text("Facts."),
            ScriptedReply::text("A paragraph."),
        ];
        let fixture = Fixture::new(wire, PIPELINE, replies).await;
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "Whales dive.").await;
        assert_eq!(report.text, "A paragraph.", "{wire:?}");
        assert_eq!(chat.agent().name, "editor");
        assert!(system(&fixture.last_body()).contains("You edit."));
        fixture.check_from(1);
    }
}

#[tokio::test]
async fn tool_call_of_a_command_needs_the_permission_of_a_call() {
    let file = format!("{TEAM}permissions: {{deny: ['read_file:path=secret']}}\n");
    let fixture = Fixture::new(Wire::Chat, &file, Vec::new()).await;
    fixture.write("notes", "Depth: 2,000 m");
    fixture.write("secret", "x");
    let mut chat = fixture.chat().await;
    let cancel = CancellationToken::default();
    let (notes, secret) = (json!({"path": "notes"}), json!({"path": "secret"}));
    let missing = chat.call_tool("read_file", &notes, &cancel).await;
    let missing = missing.unwrap_err();
    assert!(missing.message.contains("has no tool"), "{missing}");
    chat.switch_agent("writer").await.unwrap();
    let read = chat.call_tool("read_file", &notes, &cancel).await;
    assert!(read.unwrap().contains("2,000 m"));
    let denied = chat.call_tool("read_file", &secret, &cancel).await;
    let denied = denied.unwrap_err();
    assert!(denied.message.contains("denied by the rule"), "{denied}");
    // A call that changes something is asked about, and the approver of the test refuses.
    let arguments = json!({"path": "a", "content": "A"});
    chat.call_tool("write_file", &arguments, &cancel)
        .await
        .unwrap_err();
    assert_eq!(fixture.answers.asked().len(), 1);
    fixture.check();
}

const READERS: &str = "
agents:
  root: {model: test, instruction: You read., readonly: true, handoffs: [helper], sub_agents: [helper]}
  helper: {model: test, instruction: You help., handoffs: [writer], sub_agents: [writer, {name: forked, fork: true}]}
  writer: {model: test, instruction: You write., toolsets: [{type: filesystem}]}
  forked: {model: test, instruction: You write., toolsets: [{type: filesystem}]}
permissions: {allow: ['*']}
";

const DIRECT: &str = "
agents:
  root: {model: test, instruction: You read., readonly: true, handoffs: [helper], sub_agents: [helper]}
  helper: {model: test, instruction: You write., toolsets: [{type: filesystem}]}
permissions: {allow: ['*']}
";

fn task(agent: &str) -> ScriptedReply {
    ScriptedReply::call("transfer_task", json!({"agent": agent, "task": "Write."}))
}

/// A read-only agent gives no work to an agent that may change something, also not through another agent.
#[tokio::test]
async fn readonly_agents_give_no_work_to_agents_that_write() {
    let refusal = "the agent `root` is `readonly` and gives no work to `writer`";
    for (file, replies, part) in [
        (
            DIRECT.to_owned(),
            vec![handoff("helper"), ScriptedReply::text("I go on.")],
            "gives no work to `helper`, whose tool `apply_patch` may",
        ),
        (
            DIRECT.to_owned(),
            vec![task("helper"), ScriptedReply::text("I go on.")],
            "gives no work to `helper`",
        ),
        (
            READERS.to_owned(),
            vec![
                handoff("helper"),
                handoff("writer"),
                ScriptedReply::text("I go on."),
            ],
            refusal,
        ),
        (
            READERS.to_owned(),
            vec![
                handoff("helper"),
                task("writer"),
                ScriptedReply::text("I go on."),
            ],
            refusal,
        ),
        (
            READERS.to_owned(),
            vec![
                handoff("helper"),
                task("forked"),
                ScriptedReply::text("I go on."),
            ],
            "gives no work to `forked`",
        ),
        (
            READERS.to_owned(),
            vec![
                task("helper"),
                task("writer"),
                ScriptedReply::text("It is not done."),
                ScriptedReply::text("I go on."),
            ],
            refusal,
        ),
    ] {
        let fixture = Fixture::new(Wire::Chat, &file, replies).await;
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "Write.").await;
        assert_eq!(report.text, "I go on.", "{part}");
        let notes = format!("{:?}", fixture.reported.notes());
        assert!(notes.contains(part), "{part}: {notes}");
        assert_ne!(chat.agent().name, "writer");
        // Each agent begins anew.
        let anew: Vec<usize> = (1..fixture.bodies().len()).collect();
        fixture.check_between(&anew);
    }
}

/// The restriction also applies in another process, in forks, in a new session and in the tasks of all of them.
#[tokio::test]
async fn restriction_of_a_readonly_agent_outlives_the_chat() {
    let refusal = "the agent `root` is `readonly` and gives no work to `writer`";
    let on = || ScriptedReply::text("I go on.");
    let replies = vec![
        handoff("helper"),
        on(),
        // Resumed.
        handoff("writer"),
        on(),
        // A fork.
        task("writer"),
        on(),
        // A new session, which is then resumed.
        handoff("writer"),
        on(),
        task("writer"),
        on(),
        // After a switch of the user.
        on(),
        handoff("writer"),
        on(),
    ];
    let fixture = Fixture::new(Wire::Chat, READERS, replies).await;
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "Read.").await;
    let session = chat.session().to_owned();
    chat.close().await;
    let refused = || fixture.last_body().to_string().matches(refusal).count();

    let mut chat = fixture.resume(&session).await.unwrap();
    fixture.turn(&mut chat, "Write.").await;
    assert_eq!(chat.agent().name, "helper");
    assert_eq!(refused(), 1);

    let all = ForkSpec {
        tools: None,
        ..spec(&[], Inherit::None)
    };
    let report = forked(&chat, all, "Write.").await;
    assert_eq!(report.text, "I go on.");
    assert_eq!(refused(), 1);

    chat.start_new_session().await.unwrap();
    fixture.turn(&mut chat, "Write.").await;
    assert_eq!(refused(), 1);
    let session = chat.session().to_owned();
    chat.close().await;
    let mut chat = fixture.resume(&session).await.unwrap();
    fixture.turn(&mut chat, "Write.").await;
    assert_eq!(refused(), 2);

    // The user may choose any agent.
    chat.switch_agent("writer").await.unwrap();
    chat.switch_agent("helper").await.unwrap();
    let session = chat.session().to_owned();
    chat.close().await;
    let mut chat = fixture.resume(&session).await.unwrap();
    fixture.turn(&mut chat, "Write.").await;
    fixture.turn(&mut chat, "Write.").await;
    assert_eq!(chat.agent().name, "writer");
    // Each agent begins anew, and so does each process.
    let anew: Vec<usize> = (1..fixture.bodies().len()).collect();
    fixture.check_between(&anew);
}

/// The user may choose any agent.
#[tokio::test]
async fn user_switches_from_a_readonly_agent_to_any_other() {
    let fixture = Fixture::new(Wire::Chat, READERS, vec![ScriptedReply::text("Yes.")]).await;
    let mut chat = fixture.chat().await;
    chat.switch_agent("writer").await.unwrap();
    fixture.turn(&mut chat, "Write.").await;
    assert_eq!(chat.agent().name, "writer");
    fixture.check();
}
