//! Fallbacks: other models that answer when the agent's own does not.

use cachalot_agent::{CancellationToken, Stop};
use cachalot_simulator::{
    Fault, FaultKind, RunningSimulator, Script, ScriptedReply, Simulator, SimulatorOptions,
};

use crate::event_recorder::Note;
use crate::fixture::{Fixture, WIRES, Wire};
use crate::turns::CODER;

const TALKER: &str = "
agents:
  root: {model: test, instruction: You talk.}
";

/// Another provider.
async fn other(replies: Vec<ScriptedReply>) -> RunningSimulator {
    let script = Script::replies(replies);
    Simulator::start(SimulatorOptions {
        script,
        ..SimulatorOptions::default()
    })
    .await
    .unwrap()
}

/// A world whose model falls back to `wire` at another provider.
async fn falling_back(
    file: &str,
    own: Wire,
    replies: Vec<ScriptedReply>,
    wire: Wire,
    other: &RunningSimulator,
) -> Fixture {
    let providers = format!(
        "{file}\nproviders:\n  backup: {{base_url: '{}{}', token_key: TEST_KEY, format: {}}}\n",
        other.url(),
        if wire.is_anthropic() { "" } else { "/v1" },
        match wire {
            Wire::Chat => "chat",
            Wire::Responses => "responses",
            _ => "messages",
        }
    );
    let mut fixture = Fixture::new(own, &providers, replies).await;
    let model = match wire {
        Wire::Chat => "gpt-4o-mini",
        Wire::Responses => "gpt-5-mini",
        _ => "claude-sonnet-4-5",
    };
    fixture.model_keys = format!(", retries: 1, fallbacks: [backup/{model}]");
    fixture
}

fn overloaded() -> ScriptedReply {
    ScriptedReply::default().with_fault(Fault::status(529).times(2))
}

#[tokio::test]
async fn fallback_answers_when_the_model_fails() {
    for (own, wire) in
        WIRES
            .into_iter()
            .zip([Wire::Messages, Wire::Chat, Wire::Responses, Wire::Chat])
    {
        let other = other(vec![ScriptedReply::text("from the other")]).await;
        let replies = vec![
            ScriptedReply::call("read_file", serde_json::json!({"path": "notes.md"}))
                .with_reasoning("I look."),
            overloaded(),
            ScriptedReply::text("mine again"),
        ];
        let fixture = falling_back(CODER, own, replies, wire, &other).await;
        fixture.write("notes.md", "one line\n");
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "Read it.").await;
        assert_eq!(
            (report.text.as_str(), report.stop),
            ("from the other", Stop::End)
        );
        assert_eq!((report.sum.model_calls, report.sum.fallback_calls), (2, 1));
        assert_eq!(other.received().len(), 1);
        let sent = other.received()[0].json().to_string();
        assert!(
            sent.contains("one line") && sent.contains("You work on files."),
            "{sent}"
        );
        let warnings = fixture.reported.warnings();
        assert!(
            warnings.len() == 1 && warnings[0].contains("asking the fallback `backup/"),
            "{warnings:?}"
        );
        // The session goes on with the agent's own model.
        let report = fixture.turn(&mut chat, "And now?").await;
        assert_eq!(report.text, "mine again");
        assert_eq!(report.sum.fallback_calls, 0);
        assert_eq!(other.violations(), [] as [String; 0]);
        fixture.check();
    }
}

#[tokio::test]
async fn cost_is_computed_for_the_model_that_answered() {
    let other = other(vec![ScriptedReply::text("yes")]).await;
    let mut fixture =
        falling_back(TALKER, Wire::Chat, vec![overloaded()], Wire::Chat, &other).await;
    let file = format!(
        "{TALKER}\nproviders:\n  backup: {{base_url: '{}/v1', token_key: TEST_KEY, cost: {{input: 1000, output: 0}}}}\n",
        other.url()
    );
    fixture.rewrite(&file);
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, "hello").await;
    let tokens = report.sum.usage.total_input();
    assert_eq!(report.sum.paid.cost.picodollars, tokens * 1_000_000_000);
    let answered = fixture
        .reported
        .notes()
        .into_iter()
        .find_map(|note| match note {
            Note::Answered(_, cost) => Some(cost),
            _ => None,
        });
    assert_eq!(answered, Some(report.sum.paid.cost));
    fixture.check();
}

#[tokio::test]
async fn fallback_is_used_only_for_errors_that_it_can_help_with() {
    let shown = ScriptedReply::text("A long answer that breaks off in the middle of what it says.")
        .with_fault(FaultKind::ErrorEvent { after_events: 3 }.into());
    for (reply, is_asked) in [
        (ScriptedReply::error(400), false),
        (ScriptedReply::error(401), false),
        (ScriptedReply::error(404), false),
        (shown, false),
        (
            ScriptedReply::default().with_fault(Fault::status(429).times(2)),
            true,
        ),
        (
            ScriptedReply::default().with_fault(Fault::status(500).times(2)),
            true,
        ),
    ] {
        let other = other(vec![ScriptedReply::text("yes")]).await;
        let fixture =
            falling_back(TALKER, Wire::Chat, vec![reply.clone()], Wire::Chat, &other).await;
        let mut chat = fixture.chat().await;
        let turn = chat.turn("hello", &CancellationToken::default()).await;
        assert_eq!(turn.is_ok(), is_asked, "{reply:?}: {turn:?}");
        assert_eq!(other.received().len(), usize::from(is_asked), "{reply:?}");
        fixture.check();
    }
}

#[tokio::test]
async fn error_of_the_first_model_includes_those_of_its_fallbacks() {
    let other = other(vec![ScriptedReply::error(401)]).await;
    let fixture = falling_back(
        TALKER,
        Wire::Chat,
        vec![overloaded()],
        Wire::Messages,
        &other,
    )
    .await;
    let mut chat = fixture.chat().await;
    let error = chat
        .turn("hello", &CancellationToken::default())
        .await
        .unwrap_err();
    let model = error.model.as_ref().unwrap();
    assert_eq!(model.kind, cachalot_model::ErrorKind::Unavailable);
    let text = error.to_string();
    for part in [
        "overloaded",
        "the fallback `backup/claude-sonnet-4-5` failed as well",
        "backup: ",
    ] {
        assert!(text.contains(part), "{text}");
    }
    fixture.check();
}
