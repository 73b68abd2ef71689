//! Conversations that become too long, and go on from a summary.

use cachalot_agent::{CancellationToken, Chat, Inherit};
use cachalot_core::Spend;
use cachalot_hooks::{Event, Output};
use cachalot_simulator::{
    RunningSimulator, Script, ScriptedCompaction, ScriptedReply, ScriptedUsage, Simulator,
    SimulatorOptions,
};
use serde_json::{Value, json};

use crate::bodies::{self, Turn, turns};
use crate::event_recorder::Note;
use crate::fixture::{Fixture, WIRES, Wire};
use crate::fork::{forked, spec};
use crate::hook_recorder::{adds, blocks};
use crate::hooks::read;
use crate::turns::CODER;

fn first(fixture: &Fixture) -> String {
    match turns(&fixture.last_body()).remove(0) {
        Turn::User(text) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn conversation_continues_after_compaction() {
    for wire in WIRES {
        let replies = vec![
            read("a"),
            ScriptedReply::text("It says A."),
            ScriptedReply::text("The user wants to know what a says: A."),
            ScriptedReply::text("Yes."),
            ScriptedReply::text("Still yes."),
        ];
        let fixture = Fixture::new(wire, CODER, replies).await;
        fixture.write("a", "A");
        fixture.hook_recorder.listen_to_all();
        fixture
            .hook_recorder
            .say(Event::SessionStart, adds("Begun."));
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "What does a say?").await;
        fixture.hook_recorder.forget();
        let before = chat.total();
        assert!(chat.compact(&CancellationToken::default()).await.unwrap());
        assert_eq!(chat.total().model_calls, before.model_calls + 1);
        assert!(chat.total().paid.cost.picodollars > before.paid.cost.picodollars);
        assert_eq!(
            fixture.hook_recorder.events(),
            [
                "pre_compact",
                "before_compaction",
                "after_compaction",
                "session_start"
            ]
        );
        let recorded = fixture.hook_recorder.recorded();
        assert_eq!(recorded[0].source.as_deref(), Some("manual"));
        assert_eq!(recorded[3].source.as_deref(), Some("compact"));
        let compaction = recorded[2].compaction.clone().unwrap();
        let summary = "The user wants to know what a says: A.";
        assert_eq!(
            (compaction.summary.as_deref(), compaction.reason),
            (Some(summary), "manual")
        );
        assert!(compaction.input_tokens > 0 && compaction.context_limit > 0);
        assert!(fixture.reported.notes().iter().any(
            |note| matches!(note, Note::Compacted(tokens, reported) if *tokens > 0 && reported == summary)
        ));
        assert!(!fixture.reported.shown().contains("wants to know"));
        assert!(fixture.messages(chat.session()).await.is_empty());

        // In another process.
        let session = chat.session().to_owned();
        let mut chat = fixture.resume(&session).await.unwrap();
        assert_eq!(fixture.turn(&mut chat, "Sure?").await.text, "Yes.");
        assert!(
            first(&fixture).starts_with("<summary>\nThe user wants to know"),
            "{}",
            first(&fixture)
        );
        assert!(first(&fixture).contains("Sure?"));
        fixture.turn(&mut chat, "Really?").await;
        let request = fixture.last_body().to_string();
        assert_eq!(request.matches("<summary>").count(), 1);
        // Tools and the system's text are the same bytes.
        assert_eq!(bodies::frozen_parts(&fixture.simulator.received()).len(), 1);
        let kept = fixture.session(&session).await;
        assert_eq!((kept.messages, kept.totals.answers), (4, 5));
        assert_eq!(kept.head.title.as_deref(), Some("What does a say?"));
        fixture.check_from(3);
    }
}

fn full() -> ScriptedReply {
    ScriptedReply::text("long").with_usage(ScriptedUsage {
        input: Some(190_000),
        ..ScriptedUsage::default()
    })
}

#[tokio::test]
async fn full_conversation_is_compacted_before_the_next_turn() {
    let replies = vec![
        full(),
        ScriptedReply::text("summary"),
        ScriptedReply::text("on"),
    ];
    let fixture = Fixture::new(Wire::Messages, CODER, replies).await;
    fixture
        .hook_recorder
        .listen([Event::PreCompact, Event::PreUserTurn]);
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "one").await;
    let report = fixture.turn(&mut chat, "two").await;
    assert_eq!((report.text.as_str(), report.sum.model_calls), ("on", 2));
    assert_eq!(
        fixture.hook_recorder.events(),
        ["pre_user_turn", "pre_compact", "pre_user_turn"]
    );
    let reported = fixture
        .hook_recorder
        .recorded_of(Event::PreCompact)
        .pop()
        .unwrap();
    assert_eq!(reported.source.as_deref(), Some("auto"));
    assert_eq!(reported.compaction.unwrap().reason, "threshold");
    assert!(first(&fixture).contains("summary") && first(&fixture).contains("two"));
    fixture.check_from(2);
}

/// Each message of `chat -p --resume` runs in a process of its own.
#[tokio::test]
async fn full_conversation_is_compacted_by_the_process_that_resumes_it() {
    let replies = vec![
        full(),
        ScriptedReply::text("summary"),
        ScriptedReply::text("on"),
        ScriptedReply::text("and on"),
    ];
    let mut fixture = Fixture::new(Wire::Messages, CODER, replies).await.in_file();
    let mut chat = fixture.chat().await;
    let session = chat.session().to_owned();
    fixture.turn(&mut chat, "one").await;
    for (message, text, calls) in [("two", "on", 2), ("three", "and on", 1)] {
        chat.close().await;
        fixture.restart();
        chat = fixture.resume(&session).await.unwrap();
        let report = fixture.turn(&mut chat, message).await;
        assert_eq!(
            (report.text.as_str(), report.sum.model_calls),
            (text, calls)
        );
    }
    assert!(first(&fixture).contains("summary") && first(&fixture).contains("two"));
    fixture.check_from(2);
}

/// A process that ends between the summary and the next answer has paid for the summary.
#[tokio::test]
async fn resumed_conversation_is_not_summarized_twice() {
    let replies = vec![
        full(),
        ScriptedReply::text("summary"),
        ScriptedReply::text("on"),
    ];
    let mut fixture = Fixture::new(Wire::Messages, CODER, replies).await.in_file();
    let mut chat = fixture.chat().await;
    let session = chat.session().to_owned();
    fixture.turn(&mut chat, "one").await;
    assert!(chat.compact(&CancellationToken::default()).await.unwrap());
    chat.close().await;
    fixture.restart();
    chat = fixture.resume(&session).await.unwrap();
    let report = fixture.turn(&mut chat, "two").await;
    assert_eq!((report.text.as_str(), report.sum.model_calls), ("on", 1));
    fixture.check_from(2);
}

/// The worth of an answer is its own cost, without that of the compaction before it.
#[tokio::test]
async fn worth_of_an_answer_excludes_the_cost_of_compaction() {
    let priced = |text: &str| {
        ScriptedReply::text(text).with_usage(ScriptedUsage {
            input: Some(100),
            output: Some(10),
            ..ScriptedUsage::default()
        })
    };
    let replies = vec![full(), priced("summary"), priced("on")];
    let fixture = Fixture::new(Wire::Messages, CODER, replies).await;
    fixture.hook_recorder.listen([Event::Stop]);
    let spent = Output {
        spent: Spend {
            calls: 1,
            input_tokens: 1_000,
            ..Spend::default()
        },
        ..Output::default()
    };
    fixture.hook_recorder.say(Event::AfterCompaction, spent);
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "one").await;
    let report = fixture.turn(&mut chat, "two").await;
    assert_eq!(report.sum.paid.calls, 3);
    let reported = fixture
        .hook_recorder
        .recorded_of(Event::Stop)
        .pop()
        .unwrap();
    let worth = reported.answer.unwrap().worth;
    assert_eq!(
        (worth.calls, worth.input_tokens, worth.output_tokens),
        (1, 100, 10)
    );
    fixture.check_from(2);
}

#[tokio::test]
async fn compaction_threshold_is_configurable() {
    for (threshold, calls) in [("0", 1), ("0.99", 1), ("0.5", 2)] {
        let file = CODER.replace(
            "toolsets:",
            &format!("compaction_threshold: {threshold}\n    toolsets:"),
        );
        let fixture = Fixture::new(
            Wire::Messages,
            &file,
            vec![full(), ScriptedReply::text("x"), ScriptedReply::text("y")],
        )
        .await;
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "one").await;
        let report = fixture.turn(&mut chat, "two").await;
        assert_eq!(report.sum.model_calls, calls, "{threshold}");
        match calls {
            1 => fixture.check(),
            _ => fixture.check_from(2),
        }
    }
}

/// A conversation that is full after its first turn, whose summaries another provider writes.
async fn with_summaries_by(
    other: &RunningSimulator,
    replies: Vec<ScriptedReply>,
) -> (Fixture, Chat) {
    let file = CODER.replace(
        "toolsets:",
        "compaction: {model: backup/gpt-4o-mini}\n    toolsets:",
    );
    let url = other.url();
    let provider = format!("{{base_url: '{url}/v1', token_key: TEST_KEY, prices: openai}}");
    let file = format!("{file}providers:\n  backup: {provider}\n");
    let fixture = Fixture::new(Wire::Messages, &file, replies).await;
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "one").await;
    (fixture, chat)
}

async fn simulator(reply: ScriptedReply) -> RunningSimulator {
    let options = SimulatorOptions {
        script: Script::replies(vec![reply]),
        ..SimulatorOptions::default()
    };
    Simulator::start(options).await.unwrap()
}

/// The warnings beside that of a conversation that is almost too long.
fn warnings_of_summaries(fixture: &Fixture) -> Vec<String> {
    let warnings = fixture.reported.warnings().into_iter();
    warnings
        .filter(|warning| !warning.starts_with("the conversation takes "))
        .collect()
}

#[tokio::test]
async fn another_model_writes_the_summary_at_its_own_price() {
    let summary = ScriptedReply::text("summary").with_usage(ScriptedUsage {
        input: Some(100_000),
        output: Some(10),
        ..ScriptedUsage::default()
    });
    let other = simulator(summary).await;
    let replies = vec![full(), ScriptedReply::text("on")];
    let (fixture, mut chat) = with_summaries_by(&other, replies).await;
    let report = fixture.turn(&mut chat, "two").await;
    assert_eq!((report.text.as_str(), report.sum.model_calls), ("on", 2));
    assert!(first(&fixture).contains("summary") && first(&fixture).contains("two"));
    assert_eq!(warnings_of_summaries(&fixture), [] as [String; 0]);
    let asked = other.received();
    assert_eq!(asked.len(), 1);
    let asked = String::from_utf8_lossy(&asked[0].body).into_owned();
    for part in [
        "You work on files.",
        "one",
        "long",
        "Write that summary now",
    ] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    assert_eq!(other.violations(), [] as [String; 0]);
    // 100,000 tokens at 0.15 $ and 10 at 0.60 $ per million.
    let costs = fixture
        .reported
        .notes()
        .into_iter()
        .filter_map(|note| match note {
            Note::Answered(_, cost) => Some((cost.picodollars, cost.unpriced)),
            _ => None,
        });
    let costs: Vec<_> = costs.collect();
    assert_eq!(costs[1], (15_006_000_000, 0), "{costs:?}");
    fixture.check_from(1);
}

#[tokio::test]
async fn agents_own_model_writes_the_summary_if_the_other_fails() {
    for (reply, reason) in [
        (ScriptedReply::error(400), "backup"),
        (
            ScriptedReply::text(" "),
            "the model returned an empty answer",
        ),
    ] {
        let other = simulator(reply).await;
        let replies = vec![
            full(),
            ScriptedReply::text("summary"),
            ScriptedReply::text("on"),
        ];
        let (fixture, mut chat) = with_summaries_by(&other, replies).await;
        let report = fixture.turn(&mut chat, "two").await;
        assert_eq!(report.text, "on");
        assert!(first(&fixture).contains("summary"));
        let warnings = warnings_of_summaries(&fixture);
        let [warning] = warnings.as_slice() else {
            panic!("{warnings:?}");
        };
        assert!(
            warning.starts_with("`backup/gpt-4o-mini` of `compaction` wrote no summary: ")
                && warning.contains(reason)
                && warning.ends_with("; asking the agent's own model"),
            "{warning}"
        );
        fixture.check_from(2);
    }
}

/// Returns the provider's summaries in a request.
fn compactions(body: &Value) -> Vec<Value> {
    let list = body.get("messages").or_else(|| body.get("input")).unwrap();
    let list = list.as_array().unwrap();
    let parts = list.iter().flat_map(|message| match &message["content"] {
        Value::Array(parts) => parts.as_slice(),
        _ => std::slice::from_ref(message),
    });
    let is_compaction = |part: &&Value| part["type"] == "compaction";
    parts.filter(is_compaction).cloned().collect()
}

#[tokio::test]
async fn summaries_by_the_provider_are_counted_and_sent_back_unchanged() {
    for (wire, window) in [(Wire::Messages, 200_000), (Wire::Responses, 400_000)] {
        let full = ScriptedReply::text("long").with_usage(ScriptedUsage {
            input: Some(window / 100 * 95),
            ..ScriptedUsage::default()
        });
        let compacted = ScriptedReply::text("on").with_usage(ScriptedUsage {
            input: Some(20_000),
            output: Some(10),
            compaction: Some(ScriptedCompaction {
                input: 180_000,
                output: 3_000,
                ..ScriptedCompaction::default()
            }),
            ..ScriptedUsage::default()
        });
        let others = ["further", "forked"].map(ScriptedReply::text);
        let replies = [vec![full, compacted], others.into()].concat();
        let file = CODER.replace(
            "toolsets:",
            "compaction: {by_provider: true}\n    toolsets:",
        );
        let fixture = Fixture::new(wire, &file, replies).await;
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "one").await;
        // The agent's own summary is not needed.
        let report = fixture.turn(&mut chat, "two").await;
        assert_eq!((report.text.as_str(), report.sum.model_calls), ("on", 1));
        let usage = report.sum.usage;
        let (input, output) = match wire {
            Wire::Messages => (200_000, 3_010),
            // OpenAI reports no tokens of its own for it.
            _ => (20_000, 10),
        };
        assert_eq!((usage.total_input(), usage.output), (input, output));
        let told = "the provider has summarized the conversation before it answered";
        assert!(
            fixture
                .reported
                .notes()
                .contains(&Note::Noted(told.to_owned()))
        );

        let session = chat.session().to_owned();
        let mut chat = fixture.resume(&session).await.unwrap();
        fixture.turn(&mut chat, "three").await;
        forked(&chat, spec(&[], Inherit::Full), "four").await;
        let threshold = window / 10 * 9;
        let expected = match wire {
            Wire::Messages => {
                json!({"edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": threshold}}]})
            }
            _ => json!([{"type": "compaction", "compact_threshold": threshold}]),
        };
        let bodies = fixture.bodies();
        assert_eq!(bodies.len(), 4);
        for body in &bodies {
            assert_eq!(body["context_management"], expected);
        }
        assert_eq!(compactions(&bodies[1]), [] as [Value; 0]);
        let [kept]: [Value; 1] = compactions(&bodies[2]).try_into().unwrap();
        let opaque = match wire {
            Wire::Messages => &kept["signature"],
            _ => &kept["encrypted_content"],
        };
        assert!(opaque.as_str().unwrap().starts_with("simulated-"), "{kept}");
        assert_eq!(compactions(&bodies[3]), [kept]);
        // Nothing is lost that the provider did not leave out itself.
        assert_eq!(warnings_of_summaries(&fixture), [] as [String; 0]);
        fixture.check();
    }
}

#[tokio::test]
async fn provider_without_summaries_leaves_them_to_the_agent() {
    let replies = vec![
        ScriptedReply::text("long").with_usage(ScriptedUsage {
            input: Some(125_000),
            ..ScriptedUsage::default()
        }),
        ScriptedReply::text("summary"),
        ScriptedReply::text("on"),
    ];
    let file = CODER.replace(
        "toolsets:",
        "compaction: {by_provider: true}\n    toolsets:",
    );
    let fixture = Fixture::new(Wire::Chat, &file, replies).await;
    let dependencies = fixture.dependencies();
    let problems = fixture.team().check_models(&dependencies.models);
    let [problem] = problems.as_slice() else {
        panic!("{problems:?}");
    };
    assert_eq!(problem.code, "no-effect");
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "one").await;
    let report = fixture.turn(&mut chat, "two").await;
    assert_eq!(report.sum.model_calls, 2);
    assert!(first(&fixture).contains("summary"));
    assert_eq!(fixture.last_body().get("context_management"), None);
    fixture.check_from(2);
}

#[tokio::test]
async fn failed_compaction_is_not_retried_every_turn() {
    let replies = vec![full(), ScriptedReply::error(400), full(), full()];
    let fixture = Fixture::new(Wire::Messages, CODER, replies).await;
    let mut chat = fixture.chat().await;
    for said in ["one", "two", "three"] {
        assert_eq!(fixture.turn(&mut chat, said).await.text, "long");
    }
    assert_eq!(fixture.bodies().len(), 4);
    let warnings = fixture.reported.warnings();
    let about = warnings
        .iter()
        .filter(|warning| warning.contains("was not summarized"));
    assert_eq!(about.count(), 1, "{warnings:?}");
    fixture.check_from(2);
}

#[tokio::test]
async fn hook_can_supply_the_summary() {
    let replies = vec![ScriptedReply::text("1"), ScriptedReply::text("2")];
    let fixture = Fixture::new(Wire::Messages, CODER, replies).await;
    let summary = Output {
        summary: Some("mine".to_owned()),
        ..Output::default()
    };
    fixture.hook_recorder.say(Event::BeforeCompaction, summary);
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "one").await;
    assert!(chat.compact(&CancellationToken::default()).await.unwrap());
    assert_eq!(chat.total().model_calls, 1);
    fixture.turn(&mut chat, "two").await;
    assert!(first(&fixture).starts_with("<summary>\nmine\n</summary>"));
    fixture.check_from(1);
}

#[tokio::test]
async fn conversation_continues_unchanged_when_compaction_is_blocked_or_fails() {
    for event in [Some(Event::PreCompact), Some(Event::BeforeCompaction), None] {
        let mut replies = vec![ScriptedReply::text("1")];
        if event.is_none() {
            replies.push(ScriptedReply::error(400));
        }
        replies.push(ScriptedReply::text("2"));
        let fixture = Fixture::new(Wire::Chat, CODER, replies).await;
        if let Some(event) = event {
            fixture.hook_recorder.say(event, blocks("not now"));
        }
        let mut chat = fixture.chat().await;
        assert!(!chat.compact(&CancellationToken::default()).await.unwrap());
        fixture.turn(&mut chat, "one").await;
        assert!(!chat.compact(&CancellationToken::default()).await.unwrap());
        let warnings = fixture.reported.warnings();
        assert!(
            warnings[0].contains("the conversation is empty"),
            "{warnings:?}"
        );
        assert!(warnings[1].contains("was not summarized"), "{warnings:?}");
        fixture.turn(&mut chat, "two").await;
        assert_eq!(turns(&fixture.last_body()).len(), 3);
        match event {
            Some(_) => fixture.check(),
            // What was asked beside the conversation was no part of it.
            None => fixture.check_from(2),
        }
    }
}

#[tokio::test]
async fn pre_compact_context_is_added_to_the_summary_request() {
    let replies = vec![ScriptedReply::text("1"), ScriptedReply::text("summary")];
    let fixture = Fixture::new(Wire::Chat, CODER, replies).await;
    fixture
        .hook_recorder
        .say(Event::PreCompact, adds("Keep the names of files."));
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "one").await;
    chat.compact(&CancellationToken::default()).await.unwrap();
    let body = fixture.last_body();
    assert!(body.to_string().contains("Keep the names of files."));
    // The same tools, and everything that was sent before.
    assert_eq!(body["tools"], fixture.bodies()[0]["tools"]);
    fixture.check();
}

/// What hooks were told stands before two messages, between which there is this summary.
async fn prefixes(summary: &str) -> (cachalot_core::Digest, cachalot_core::Digest) {
    let replies = ["One.", summary, "Two."].map(ScriptedReply::text);
    let fixture = Fixture::new(Wire::Messages, CODER, replies.into()).await;
    fixture.hook_recorder.listen([Event::PreUserTurn]);
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "a").await;
    assert!(chat.compact(&CancellationToken::default()).await.unwrap());
    fixture.turn(&mut chat, "a").await;
    let recorded = fixture.hook_recorder.recorded();
    let reported = recorded.iter().map(|input| input.prompt.as_ref().unwrap());
    let reported: Vec<_> = reported.map(|prompt| prompt.prefix.unwrap()).collect();
    fixture.check_from(2);
    (reported[0], reported[1])
}

/// The response cache would otherwise confuse two conversations.
#[tokio::test]
async fn conversation_prefix_depends_on_its_summary() {
    let (begun, one) = prefixes("They said one.").await;
    let (begun_again, other) = prefixes("They said another.").await;
    assert_eq!(begun, begun_again);
    assert!(one != begun && other != begun && one != other);
}
