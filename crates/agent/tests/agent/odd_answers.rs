//! Answers that are not what they should be, and conversations that go on behind them.

use cachalot_agent::{CancellationToken, ErrorKind, Stop};
use cachalot_simulator::{ScriptedReply, ScriptedStop};
use serde_json::{Value, json};

use crate::bodies::{Turn, turns};
use crate::fixture::{Fixture, WIRES};
use crate::turns::{CODER, TALKER};

#[tokio::test]
async fn empty_answer_is_an_error_and_the_chat_continues() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::default(),
            ScriptedReply::default().with_reasoning("I have nothing to say."),
            ScriptedReply::text("  \n"),
            ScriptedReply::text("yes"),
        ];
        let fixture = Fixture::new(wire, TALKER, replies).await;
        let mut chat = fixture.chat().await;
        for _ in 0..3 {
            let error = chat
                .turn("hello?", &CancellationToken::default())
                .await
                .unwrap_err();
            assert_eq!(error.kind, ErrorKind::Model);
            assert!(error.message.contains("gave an empty answer"), "{error}");
        }
        assert_eq!(fixture.turn(&mut chat, "still there?").await.text, "yes");
        assert_eq!(turns(&fixture.last_body()).len(), 7);
        fixture.check();
    }
}

#[tokio::test]
async fn empty_answer_after_tool_calls_ends_the_turn_with_a_warning() {
    for wire in WIRES {
        let look = ScriptedReply {
            text: Some("I look.".to_owned()),
            ..ScriptedReply::call("list_dir", json!({}))
        };
        let replies = vec![look, ScriptedReply::default(), ScriptedReply::text("yes")];
        let fixture = Fixture::new(wire, CODER, replies).await;
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "look").await;
        assert_eq!((report.text.as_str(), report.stop), ("I look.", Stop::End));
        assert_eq!(
            fixture.reported.warnings(),
            ["the model returned an empty answer"]
        );
        assert_eq!(fixture.turn(&mut chat, "and?").await.text, "yes");
        fixture.check();
    }
}

#[tokio::test]
async fn truncated_answer_reports_max_tokens() {
    for wire in WIRES {
        let cut = |reply: ScriptedReply| reply.with_stop(ScriptedStop::Length);
        let replies = vec![
            cut(ScriptedReply::text("It is")),
            cut(ScriptedReply::default().with_reasoning("It took all tokens to think")),
            ScriptedReply::text("yes"),
        ];
        let fixture = Fixture::new(wire, TALKER, replies).await;
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "hello").await;
        assert_eq!(
            (report.text.as_str(), &report.stop),
            ("It is", &Stop::Length)
        );
        assert!(report.stop.notice().unwrap().contains("max_tokens"));
        let report = fixture.turn(&mut chat, "go on").await;
        assert_eq!((report.text.as_str(), report.stop), ("", Stop::Length));
        assert_eq!(fixture.turn(&mut chat, "go on").await.text, "yes");
        fixture.check();
    }
}

#[tokio::test]
async fn a_truncated_call_is_not_made_and_the_model_is_informed() {
    for wire in WIRES {
        let half = Value::from(r#"{"path": "a", "content": "half of it"#);
        let replies = vec![
            ScriptedReply::call("read_file", json!({"path": "b"}))
                .and_call("write_file", half)
                .with_stop(ScriptedStop::Length),
            // What came is valid, and may still not be all.
            ScriptedReply::call("write_file", json!({"path": "a", "content": "half"}))
                .with_stop(ScriptedStop::Length),
            ScriptedReply::call("write_file", json!({"path": "a", "content": "whole"})),
            ScriptedReply::text("done"),
        ];
        let fixture = Fixture::new(wire, CODER, replies).await;
        fixture.write("b", "B");
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "write").await;
        assert_eq!(report.stop, Stop::End);
        assert_eq!(fixture.read("a"), "whole");
        let ended = fixture.reported.ended();
        let cut: Vec<_> = ended.iter().filter(|ended| ended.is_error).collect();
        assert_eq!((ended.len(), cut.len()), (4, 2));
        for cut in cut {
            assert_eq!(cut.tool, "write_file");
            assert!(cut.text.contains("before the call was complete"), "{cut:?}");
        }
        fixture.check();
    }
}

#[tokio::test]
async fn a_model_that_never_completes_a_call_is_stopped() {
    for wire in WIRES {
        let mut replies: Vec<ScriptedReply> = (0..3)
            .map(|at| {
                let half = Value::from(format!(r#"{{"path": "a{at}", "content": "half"#));
                ScriptedReply::call("write_file", half).with_stop(ScriptedStop::Length)
            })
            .collect();
        replies.push(ScriptedReply::text("yes"));
        let fixture = Fixture::new(wire, CODER, replies).await;
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "write").await;
        assert_eq!((report.stop, report.sum.model_calls), (Stop::Length, 3));
        assert_eq!(fixture.turn(&mut chat, "hello").await.text, "yes");
        fixture.check();
    }
}

#[tokio::test]
async fn a_refusal_is_reported_and_its_calls_are_not_made() {
    for wire in WIRES {
        let refused = |reply: ScriptedReply| reply.with_stop(ScriptedStop::Refusal);
        let replies = vec![
            refused(ScriptedReply::text("I will not do that.")),
            refused(ScriptedReply::call(
                "write_file",
                json!({"path": "a", "content": "x"}),
            )),
            refused(ScriptedReply::default()),
            ScriptedReply::text("yes"),
        ];
        let fixture = Fixture::new(wire, CODER, replies).await;
        let mut chat = fixture.chat().await;
        for text in ["I will not do that.", "", ""] {
            let report = fixture.turn(&mut chat, "do it").await;
            assert_eq!((report.text.as_str(), report.stop), (text, Stop::Refusal));
        }
        assert!(!fixture.root.path().join("a").exists());
        assert_eq!(fixture.turn(&mut chat, "hello").await.text, "yes");
        fixture.check();
    }
}

#[tokio::test]
async fn names_and_arguments_that_providers_refuse_do_not_end_the_session() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::call("functions.read file!", json!({"path": "a"}))
                .and_call("x".repeat(80), json!({}))
                .and_call("read_file", Value::from("path=a"))
                .and_call("read_file", Value::from("[1]"))
                .and_call("list_dir", Value::from("")),
            ScriptedReply::text("done"),
            ScriptedReply::text("yes"),
        ];
        let fixture = Fixture::new(wire, CODER, replies).await;
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "go").await;
        assert_eq!((report.stop, report.sum.tool_calls), (Stop::End, 5));
        let ended = fixture.reported.ended();
        assert!(
            ended[0]
                .text
                .contains("there is no tool `functions.read file!`")
        );
        assert!(
            ended[2].text.contains("not valid JSON"),
            "{}",
            ended[2].text
        );
        assert!(!ended[4].is_error, "{}", ended[4].text);
        assert_eq!(fixture.turn(&mut chat, "hello").await.text, "yes");
        fixture.check();
    }
}

#[tokio::test]
async fn calls_of_a_model_that_has_no_tools_do_not_end_the_session() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply {
                text: Some("I would call something.".to_owned()),
                ..ScriptedReply::call("anything", json!({}))
            },
            ScriptedReply::text("yes"),
            ScriptedReply::text("yes"),
        ];
        let fixture = Fixture::new(wire, TALKER, replies).await;
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "hello").await;
        if wire.is_anthropic() {
            // It takes no calls where there are no tools.
            assert_eq!(report.text, "I would call something.");
            assert_eq!(report.sum.tool_calls, 0);
        } else {
            assert_eq!(report.text, "yes");
            let ended = fixture.reported.ended();
            assert!(
                ended[0].text.contains("there is no tool `anything`"),
                "{ended:?}"
            );
        }
        assert_eq!(fixture.turn(&mut chat, "go on").await.text, "yes");
        fixture.check();
    }
}

#[tokio::test]
async fn an_empty_result_is_not_sent_empty() {
    use std::sync::Arc;

    for wire in WIRES {
        let replies = vec![
            ScriptedReply::call("hush", json!({})),
            ScriptedReply::text("done"),
        ];
        let mut fixture = Fixture::new(wire, TALKER, replies).await;
        fixture.tools = vec![Arc::new(EmptyResultTool)];
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "go").await;
        let turns = turns(&fixture.last_body());
        let Some(Turn::Results(results)) = turns.last() else {
            panic!("{turns:?}");
        };
        assert_eq!(results[0].1, "(nothing)");
        fixture.check();
    }
}

/// Says nothing.
struct EmptyResultTool;

#[async_trait::async_trait]
impl cachalot_operation::Operation for EmptyResultTool {
    type Context = cachalot_tools::ToolContext;
    type Output = cachalot_tools::ToolOutput;

    fn metadata(&self) -> &cachalot_tools::OperationMetadata {
        static ABOUT: std::sync::OnceLock<cachalot_tools::OperationMetadata> =
            std::sync::OnceLock::new();
        ABOUT.get_or_init(|| cachalot_tools::OperationMetadata {
            read_only: true,
            ..cachalot_tools::OperationMetadata::with_side_effects(
                "hush",
                "Says nothing.".to_owned(),
                json!({"type": "object", "properties": {}}),
            )
        })
    }

    async fn run(
        &self,
        _: cachalot_tools::Arguments,
        _: &cachalot_tools::ToolContext,
    ) -> cachalot_tools::ToolOutput {
        cachalot_tools::ToolOutput::text("")
    }
}
