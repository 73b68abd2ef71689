//! The basic loop.

use cachalot_agent::{CancellationToken, Chat, ErrorKind, Stop};
use cachalot_simulator::ScriptedReply;
use cachalot_tools::CallOutcome;
use serde_json::json;

use crate::bodies::{self, Turn, turns};
use crate::event_recorder::Note;
use crate::fixture::{Fixture, WIRES, Wire};

pub(crate) const CODER: &str = "
agents:
  root:
    model: test
    instruction: You work on files.
    toolsets: [{type: filesystem}]
permissions:
  allow: [edit_file, write_file]
";

pub(crate) const TALKER: &str = "
agents:
  root: {model: test, instruction: You talk.}
";

fn coder_replies() -> Vec<ScriptedReply> {
    let edit = json!({"path": "notes.md", "old_text": "one", "new_text": "two"});
    vec![
        ScriptedReply::call("read_file", json!({"path": "notes.md"}))
            .with_reasoning("First I look."),
        ScriptedReply::call("edit_file", edit),
        ScriptedReply::text("It says two now.").with_reasoning("That was it."),
        ScriptedReply::text("You are welcome."),
    ]
}

#[tokio::test]
async fn a_turn_reads_edits_and_answers() {
    for wire in WIRES {
        let fixture = Fixture::new(wire, CODER, coder_replies()).await;
        fixture.write("notes.md", "one line\n");
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "Change one to two.").await;
        assert_eq!(fixture.read("notes.md"), "two line\n");
        assert_eq!(report.text, "It says two now.");
        assert_eq!(report.stop, Stop::End);
        assert_eq!((report.sum.model_calls, report.sum.tool_calls), (3, 2));
        assert!(report.sum.usage.total_input() > 0 && report.sum.usage.output > 0);
        assert_eq!(report.sum.paid.calls, 3);
        assert!(report.sum.paid.cost.picodollars > 0 && report.sum.paid.cost.unpriced == 0);

        let second = fixture.turn(&mut chat, "Thank you.").await;
        assert_eq!(
            (second.text.as_str(), second.sum.model_calls),
            ("You are welcome.", 1)
        );
        assert_eq!(chat.total().model_calls, 4);
        assert_eq!(
            chat.total().usage.output,
            report.sum.usage.output + second.sum.usage.output
        );

        let kept = fixture.session(chat.session()).await;
        assert_eq!(kept.head.title.as_deref(), Some("Change one to two."));
        assert_eq!((kept.totals.answers, kept.messages), (4, 8));
        assert_eq!(kept.totals.usage, chat.total().usage);
        assert_eq!(kept.totals.spent.cost, chat.total().paid.cost);
        assert_eq!(bodies::frozen_parts(&fixture.simulator.received()).len(), 1);
        fixture.check();
    }
}

#[tokio::test]
async fn tools_have_a_fixed_order_and_the_instruction_is_sent_once() {
    let mut fixture = Fixture::new(Wire::Chat, CODER, vec![ScriptedReply::text("yes")]).await;
    fixture.instructions = vec!["Paths are relative.".to_owned()];
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "hello").await;
    let body = fixture.last_body();
    let names: Vec<&str> = body["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(names, sorted);
    let system = &body["messages"][0];
    assert_eq!(
        system["content"],
        "You work on files.\n\nPaths are relative."
    );
    assert_eq!(body["messages"].as_array().unwrap().len(), 2);
    assert_eq!(chat.toolbox().definitions().len(), names.len());
    fixture.check();
}

#[tokio::test]
async fn parallel_calls_have_results_in_their_order() {
    for wire in WIRES {
        let calls = ScriptedReply::call("read_file", json!({"path": "a"}))
            .and_call("read_file", json!({"path": "b"}))
            .and_call("write_file", json!({"path": "c", "content": "C"}))
            .and_call("read_file", json!({"path": "c"}));
        let fixture = Fixture::new(wire, CODER, vec![calls, ScriptedReply::text("done")]).await;
        fixture.write("a", "A");
        fixture.write("b", "B");
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "go").await;
        assert_eq!(report.sum.tool_calls, 4);
        let turns = turns(&fixture.last_body());
        let [.., Turn::Model { calls, .. }, Turn::Results(results)] = &turns[..] else {
            panic!("{turns:?}");
        };
        let ids: Vec<&String> = results.iter().map(|(id, _)| id).collect();
        assert_eq!(ids, calls.iter().collect::<Vec<_>>());
        for (result, expected) in results.iter().zip(["A", "B", "c", "C"]) {
            assert!(result.1.contains(expected), "{result:?}");
        }
        fixture.check();
    }
}

#[tokio::test]
async fn events_are_emitted_in_order() {
    for wire in WIRES {
        let read = ScriptedReply::call("read_file", json!({"path": "a"}))
            .with_reasoning("I should look into the file.");
        let read = ScriptedReply {
            text: Some("I look first.".to_owned()),
            ..read
        };
        let answer = "It is a longer answer that does not come in one piece, but in several.";
        let fixture = Fixture::new(wire, CODER, vec![read, ScriptedReply::text(answer)]).await;
        fixture.write("a", "A");
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "go").await;
        let mut kinds = Vec::new();
        for note in fixture.reported.notes() {
            let kind = match note {
                Note::Asked(_, iteration) => format!("asked {iteration}"),
                Note::Text(..) => "text".to_owned(),
                Note::Reasoning(_) => "reasoning".to_owned(),
                Note::Answered(..) => "answered".to_owned(),
                Note::Began(tool) => format!("began {tool}"),
                Note::EndedCall(ended) => format!("ended {} {}", ended.tool, ended.how),
                other => panic!("{other:?}"),
            };
            if kinds.last() != Some(&kind) {
                kinds.push(kind);
            }
        }
        // Without being asked to, these show no thoughts.
        if matches!(wire, Wire::Messages | Wire::Responses) {
            kinds.insert(1, "reasoning".to_owned());
        }
        // This one thinks before everything it says.
        if wire == Wire::Thinking {
            let again = kinds.iter().rposition(|kind| kind == "reasoning");
            kinds.remove(again.unwrap());
        }
        assert_eq!(
            kinds,
            [
                "asked 1",
                "reasoning",
                "text",
                "answered",
                "began read_file",
                "ended read_file ran",
                "asked 2",
                "text",
                "answered"
            ]
        );
        assert_eq!(fixture.reported.shown(), format!("I look first.{answer}"));
        assert_eq!(report.text, answer);
        fixture.check();
    }
}

#[tokio::test]
async fn failing_tool_becomes_an_error_result() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::call("read_file", json!({"path": "nowhere.md"})),
            ScriptedReply::text("There is no such file."),
        ];
        let fixture = Fixture::new(wire, CODER, replies).await;
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "Read it.").await;
        assert_eq!(report.stop, Stop::End);
        let ended = fixture.reported.ended();
        assert!(ended[0].is_error && matches!(ended[0].how, CallOutcome::Ran(_)));
        let turns = turns(&fixture.last_body());
        let Some(Turn::Results(results)) = turns.last() else {
            panic!("{turns:?}");
        };
        assert!(results[0].1.contains("nowhere.md"), "{results:?}");
        fixture.check();
    }
}

#[tokio::test]
async fn unknown_tools_and_wrong_arguments_become_tool_results() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::call("red_file", json!({"path": "a"})),
            ScriptedReply::call("read_file", json!({"file": "a"})),
            ScriptedReply::call("read_file", json!({"path": "a", "offset": "2"})),
            ScriptedReply::text("done"),
        ];
        let fixture = Fixture::new(wire, CODER, replies).await;
        fixture.write("a", "one\ntwo\n");
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "go").await;
        assert_eq!(report.sum.tool_calls, 3);
        let ended = fixture.reported.ended();
        assert_eq!(ended[0].how, CallOutcome::Refused);
        assert!(
            ended[0].text.contains("did you mean `read_file`?"),
            "{}",
            ended[0].text
        );
        assert_eq!(ended[1].how, CallOutcome::Refused);
        assert!(ended[1].text.contains("path"), "{}", ended[1].text);
        // Text that is a number is cast.
        assert!(!ended[2].is_error, "{}", ended[2].text);
        fixture.check();
    }
}

#[tokio::test]
async fn panicking_tool_fails_its_call_only() {
    use std::sync::Arc;

    let replies = vec![
        ScriptedReply::call("explode", json!({})),
        ScriptedReply::text("It broke."),
    ];
    let mut fixture = Fixture::new(Wire::Messages, TALKER, replies).await;
    fixture.tools = vec![Arc::new(PanickingTool::new())];
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, "go").await;
    assert_eq!(report.text, "It broke.");
    assert!(fixture.reported.ended()[0].text.contains("broke down"));
    fixture.check();
}

struct PanickingTool(cachalot_tools::OperationMetadata);

impl PanickingTool {
    fn new() -> Self {
        let parameters = json!({"type": "object", "properties": {}});
        let mut metadata = cachalot_tools::OperationMetadata::with_side_effects(
            "explode",
            "Explodes.".to_owned(),
            parameters,
        );
        metadata.read_only = true;
        Self(metadata)
    }
}

#[async_trait::async_trait]
impl cachalot_operation::Operation for PanickingTool {
    type Context = cachalot_tools::ToolContext;
    type Output = cachalot_tools::ToolOutput;

    fn metadata(&self) -> &cachalot_tools::OperationMetadata {
        &self.0
    }

    async fn run(
        &self,
        _: cachalot_tools::Arguments,
        _: &cachalot_tools::ToolContext,
    ) -> cachalot_tools::ToolOutput {
        panic!("boom")
    }
}

#[tokio::test]
async fn empty_message_is_an_input_error() {
    let fixture = Fixture::new(Wire::Messages, TALKER, vec![ScriptedReply::text("yes")]).await;
    let mut chat = fixture.chat().await;
    for nothing in ["", " \n"] {
        let error = chat
            .turn(nothing, &CancellationToken::default())
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Input);
    }
    assert_eq!(fixture.session(chat.session()).await.messages, 0);
    assert_eq!(fixture.turn(&mut chat, "hello").await.text, "yes");
    fixture.check();
}

#[tokio::test]
async fn the_entry_agent_is_root_the_first_or_the_named_one() {
    let file = "
agents:
  first: {model: test, instruction: I am the first.}
  second: {model: test, instruction: I am the second.}
";
    let fixture = Fixture::new(Wire::Chat, file, vec![ScriptedReply::text("yes")]).await;
    let mut chat = fixture.chat().await;
    assert_eq!(chat.agent().name, "first");
    fixture.turn(&mut chat, "hello").await;
    let mut chat = Chat::begin(fixture.dependencies(), fixture.team(), Some("second"))
        .await
        .unwrap();
    fixture.turn(&mut chat, "hello").await;
    assert_eq!(
        fixture.last_body()["messages"][0]["content"],
        "I am the second."
    );
    assert_eq!(fixture.session(chat.session()).await.head.agent, "second");
    let Err(error) = Chat::begin(fixture.dependencies(), fixture.team(), Some("secnd")).await
    else {
        panic!("there is none");
    };
    assert_eq!(error.kind, ErrorKind::Definition);
    assert_eq!(
        error.message,
        "there is no agent `secnd` in the file; did you mean `second`?"
    );
    fixture.check();
}

#[tokio::test]
async fn parameters_for_tools_are_not_sent_without_tools() {
    let mut fixture = Fixture::new(Wire::Chat, TALKER, vec![ScriptedReply::text("yes")]).await;
    fixture.model_keys = ", parallel_tool_calls: true".to_owned();
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "hello").await;
    assert!(fixture.last_body().get("parallel_tool_calls").is_none());
    fixture.rewrite(CODER);
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "hello").await;
    assert_eq!(fixture.last_body()["parallel_tool_calls"], true);
    fixture.check();
}

#[tokio::test]
async fn the_user_is_warned_before_a_conversation_is_full() {
    let usage = |input| cachalot_simulator::ScriptedUsage {
        input: Some(input),
        ..Default::default()
    };
    let replies = [100_000, 103_000, 104_000]
        .map(|input| ScriptedReply::text("yes").with_usage(usage(input)));
    let fixture = Fixture::new(Wire::Chat, TALKER, replies.to_vec()).await;
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "one").await;
    assert_eq!(fixture.reported.warnings(), [] as [String; 0]);
    fixture.turn(&mut chat, "two").await;
    fixture.turn(&mut chat, "three").await;
    let warnings = fixture.reported.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("of the 128000 tokens"), "{warnings:?}");
    fixture.check();
}
