//! Reviews, side questions, and tools that are taken over.

mod due;
pub(crate) mod reload;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cachalot_agent::definition::ReviewKind;
use cachalot_agent::{CancellationToken, Chat, ErrorKind, ReviewReport, Stop};
use cachalot_core::ManualClock;
use cachalot_model::Usage;
use cachalot_prompt::SESSIONS;
use cachalot_simulator::{Fault, ScriptedReply};
use cachalot_store::Store;
use cachalot_store::in_process::InProcessStore;
use cachalot_tools::{
    Arguments, CacheClass, Operation, OperationMetadata, Origin, ToolContext, ToolOutput,
};
use serde_json::{Value, json};

use crate::bodies::{Turn, turns};
use crate::event_recorder::Note;
use crate::fixture::{Fixture, NOW, WIRES, Wire};

/// An agent that is reviewed as `review` says, with an instruction that providers find worth keeping.
fn wait_for_review(review: &str) -> String {
    let instruction = "You know whales, and say how deep they dive. ".repeat(200);
    format!(
        "
agents:
  root:
    model: test
    instruction: '{instruction}'
    toolsets: [{{type: filesystem}}]
    review: {{{review}}}
"
    )
}

/// A tool that remembers how often it was entered.
pub(crate) struct Counting {
    metadata: OperationMetadata,
    entered: AtomicUsize,
}

impl Counting {
    pub(crate) fn new(name: &str) -> Arc<Self> {
        let parameters = json!({"type": "object", "properties": {"action": {"type": "string"}}});
        Arc::new(Self {
            metadata: OperationMetadata {
                name: name.to_owned().into(),
                aliases: &[],
                description: "Does something.".into(),
                parameters: parameters.into(),
                version: 1,
                origin: Origin::BuiltIn,
                read_only: false,
                exclusive: false,
                cache_class: CacheClass::Never,
            },
            entered: AtomicUsize::new(0),
        })
    }

    fn entered(&self) -> usize {
        self.entered.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Operation for Counting {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    async fn run(&self, _: Arguments, _: &ToolContext) -> ToolOutput {
        self.entered.fetch_add(1, Ordering::SeqCst);
        ToolOutput::text("done")
    }
}

fn store() -> ScriptedReply {
    ScriptedReply::call("memory", json!({"action": "store"}))
}

fn shell() -> ScriptedReply {
    ScriptedReply::call("shell", json!({"action": "rm"}))
}

fn text(text: &str) -> ScriptedReply {
    ScriptedReply::text(text)
}

/// Never ends by itself.
fn hanging() -> ScriptedReply {
    let long = Duration::from_secs(600);
    text("late").with_fault(Fault::slow(long, long))
}

/// A world with tools `memory` and `shell`, which count.
struct ReviewFixture {
    fixture: Fixture,
    memory: Arc<Counting>,
    shell: Arc<Counting>,
}

async fn review_fixture(wire: Wire, file: &str, replies: Vec<ScriptedReply>) -> ReviewFixture {
    let mut fixture = Fixture::new(wire, file, replies).await;
    let (memory, shell) = (Counting::new("memory"), Counting::new("shell"));
    fixture.tools = vec![Arc::clone(&memory) as _, Arc::clone(&shell) as _];
    ReviewFixture {
        fixture,
        memory,
        shell,
    }
}

impl ReviewFixture {
    /// The reviews that were told of.
    fn reviews(&self) -> Vec<ReviewReport> {
        let review = |note| match note {
            Note::Reviewed(report) => Some(*report),
            _ => None,
        };
        let notes = self.fixture.reported.notes();
        notes.into_iter().filter_map(review).collect()
    }

    /// The one review, once it has ended.
    async fn review(&self, chat: &mut Chat) -> ReviewReport {
        chat.wait_for_review().await;
        let mut reviews = self.reviews();
        assert_eq!(reviews.len(), 1, "{reviews:?}");
        reviews.remove(0)
    }
}

/// The cached tokens of a request, by the rules of its provider.
fn kept(wire: Wire, usage: Usage) -> u64 {
    if wire.is_anthropic() {
        usage.cache_read + usage.cache_write()
    } else {
        usage.total_input() / 128 * 128
    }
}

fn last_message(body: &Value) -> String {
    match turns(body).pop() {
        Some(Turn::User(said)) => said,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn review_reads_the_cached_chat_and_uses_its_listed_tools() {
    for wire in WIRES {
        let replies = vec![text("2 km."), shell(), store(), text("I kept one thing.")];
        let review_fixture = review_fixture(
            wire,
            &wait_for_review("every_turns: 1, tools: [memory, read_file, grep]"),
            replies,
        )
        .await;
        let fixture = &review_fixture.fixture;
        let mut chat = fixture.chat().await;
        let report = fixture
            .turn(&mut chat, "How deep? In metres, please.")
            .await;
        let review = review_fixture.review(&mut chat).await;

        let (first, parent) = (review.first.unwrap(), review.parent.unwrap());
        assert_eq!(first.cache_read, kept(wire, parent), "{wire:?}");
        assert!(first.cache_read > 1_000, "{wire:?}: {first:?}");
        assert_eq!(
            (review.result(), review.memories, review.skills),
            ("memory", 1, 0)
        );
        assert_eq!(review.kind, ReviewKind::Combined);
        assert_eq!(review.denied, ["shell"]);
        assert_eq!(
            (
                review_fixture.memory.entered(),
                review_fixture.shell.entered()
            ),
            (1, 0)
        );
        assert_eq!(
            (review.text.as_str(), review.failure),
            ("I kept one thing.", None)
        );

        // What it cost is its own, and part of what the chat cost.
        assert_eq!((report.sum.model_calls, review.sum.model_calls), (1, 3));
        assert!(review.sum.paid.cost.picodollars > 0);
        let mut both = report.sum;
        both += review.sum;
        assert_eq!(chat.total(), both);
        assert_ne!(review.session, chat.session());

        let asked = last_message(&fixture.bodies()[1]);
        assert!(asked.starts_with("Review this conversation."), "{asked}");
        assert!(asked.contains("`grep`, `memory`, `read_file`"), "{asked}");
        assert!(
            !asked.contains("skill_manage"),
            "it has no such tool: {asked}"
        );
        assert_eq!(
            fixture.reported.shown(),
            "2 km.",
            "nothing of it is an answer"
        );
        review_fixture.fixture.check();
    }
}

#[tokio::test]
async fn a_review_without_inheritance_gets_a_digest_and_reads_uncached() {
    for wire in WIRES {
        let replies = vec![text("2 km."), text("Nothing to keep.")];
        let file = wait_for_review("every_turns: 1, inherit: none");
        let review_fixture = review_fixture(wire, &file, replies).await;
        let fixture = &review_fixture.fixture;
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "How deep?").await;
        let review = review_fixture.review(&mut chat).await;
        let first = review.first.unwrap();
        assert!(
            first.cache_read == 0 && first.total_input() > 0,
            "{first:?}"
        );
        assert_eq!(review.result(), "none");
        let asked = last_message(&fixture.last_body());
        let said = "\nThe user:\n  | How deep?\n\nThe assistant:\n  | 2 km.\n\nReview this";
        assert!(asked.contains(said), "{asked}");
        review_fixture.fixture.check_from(1);
    }
}

#[tokio::test]
async fn another_model_inherits_nothing_and_gets_a_digest() {
    let replies = vec![text("2 km."), text("Nothing to keep.")];
    let file = wait_for_review("every_turns: 1, model: other");
    let mut review_fixture = review_fixture(Wire::Messages, &file, replies).await;
    let url = review_fixture.fixture.simulator.url();
    review_fixture.fixture.model_keys = format!(
        "}}\n  other: {{provider: openai, model: gpt-4o, base_url: '{url}/v1', token_key: TEST_KEY"
    );
    let mut chat = review_fixture.fixture.chat().await;
    review_fixture.fixture.turn(&mut chat, "How deep?").await;
    let review = review_fixture.review(&mut chat).await;
    assert_eq!((review.failure.clone(), review.sum.model_calls), (None, 1));
    assert_eq!(review.first.unwrap().cache_read, 0);
    let body = review_fixture.fixture.last_body();
    assert_eq!(body["model"], "gpt-4o");
    let asked = last_message(&body);
    assert!(
        asked.contains("  | How deep?\n") && asked.contains("Review this"),
        "{asked}"
    );
    review_fixture.fixture.check_from(1);
}

#[tokio::test]
async fn review_with_server_tools_warns_and_fails() {
    let mut review_fixture = review_fixture(
        Wire::Chat,
        &wait_for_review("every_turns: 1"),
        vec![text("2 km.")],
    )
    .await;
    review_fixture.fixture.model_keys = ", provider_opts: {web_search_options: {}}".to_owned();
    let mut chat = review_fixture.fixture.chat().await;
    let named = |text: &str| text.contains("the review") && text.contains("web_search_options");
    assert!(
        review_fixture
            .fixture
            .reported
            .warnings()
            .iter()
            .any(|text| named(text))
    );
    review_fixture.fixture.turn(&mut chat, "How deep?").await;
    let review = review_fixture.review(&mut chat).await;
    assert_eq!(review.result(), "error");
    assert!(named(&review.failure.unwrap()));
    review_fixture.fixture.check();
}

#[tokio::test]
async fn review_leaves_the_chat_session_unchanged() {
    let replies = vec![text("2 km."), store(), text("I kept one thing.")];
    let mut review_fixture = review_fixture(
        Wire::Messages,
        &wait_for_review("every_turns: 0, tools: [memory]"),
        replies,
    )
    .await;
    let memory = Arc::new(InProcessStore::new(Arc::new(ManualClock::at(NOW))));
    review_fixture.fixture.store_in(Arc::clone(&memory) as _);
    let mut chat = review_fixture.fixture.chat().await;
    review_fixture.fixture.turn(&mut chat, "How deep?").await;
    assert!(!chat.is_reviewing(), "none is due");
    let session = chat.session().to_owned();
    let record = || async {
        let patience = Duration::from_secs(5);
        memory
            .get(SESSIONS, &session, &[])
            .within(patience)
            .await
            .unwrap()
            .record
            .unwrap()
    };
    let before = record().await;
    chat.review(Some("the units")).unwrap();
    let review = review_fixture.review(&mut chat).await;
    assert_eq!(review.result(), "memory");
    let asked = last_message(&review_fixture.fixture.bodies()[1]);
    assert!(asked.contains("above all: the units"), "{asked}");
    assert_eq!(record().await, before);
    review_fixture.fixture.check();
}

#[tokio::test]
async fn review_runs_in_the_background_one_at_a_time() {
    let replies = vec![text("2 km."), hanging(), text("Welcome."), text("unused")];
    let review_fixture = review_fixture(
        Wire::Chat,
        &wait_for_review("every_turns: 1, tools: [memory]"),
        replies,
    )
    .await;
    let mut chat = review_fixture.fixture.chat().await;
    let began = Instant::now();
    assert_eq!(
        review_fixture
            .fixture
            .turn(&mut chat, "How deep?")
            .await
            .text,
        "2 km."
    );
    review_fixture
        .fixture
        .until("the review's request", |fixture| {
            fixture.bodies().len() == 2
        })
        .await;
    assert!(chat.is_reviewing());
    assert_eq!(
        review_fixture.fixture.turn(&mut chat, "Thanks.").await.text,
        "Welcome."
    );
    let skipped = "no review, although one is due: a review is running";
    let warnings = review_fixture.fixture.reported.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with(skipped), "{warnings:?}");
    assert_eq!(chat.review(None).unwrap_err().kind, ErrorKind::Input);

    // It ends with the chat, and is told of.
    chat.close().await;
    assert!(began.elapsed() < Duration::from_secs(120));
    let reviews = review_fixture.reviews();
    assert_eq!(reviews.len(), 1);
    assert_eq!(reviews[0].result(), "error");
    assert_eq!(reviews[0].failure.as_deref(), Some("it was cancelled"));
    review_fixture.fixture.check_from(2);
}

#[tokio::test]
async fn a_review_is_dropped_with_its_chat() {
    let replies = vec![text("2 km."), hanging()];
    let review_fixture =
        review_fixture(Wire::Chat, &wait_for_review("every_turns: 1"), replies).await;
    let mut chat = review_fixture.fixture.chat().await;
    review_fixture.fixture.turn(&mut chat, "How deep?").await;
    review_fixture
        .fixture
        .until("the review's request", |fixture| {
            fixture.bodies().len() == 2
        })
        .await;
    drop(chat);
    for _ in 0..12_000 {
        if !review_fixture.reviews().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(
        review_fixture.reviews()[0].failure.as_deref(),
        Some("it was cancelled")
    );
    review_fixture.fixture.check();
}

#[tokio::test]
async fn a_failed_review_is_always_reported() {
    let refused = ScriptedReply::error(400);
    let replies = vec![
        text("2 km."),
        refused,
        text("Welcome."),
        text("Nothing to keep."),
    ];
    let review_fixture = review_fixture(
        Wire::Chat,
        &wait_for_review("every_turns: 1, notify: off"),
        replies,
    )
    .await;
    let mut chat = review_fixture.fixture.chat().await;
    review_fixture.fixture.turn(&mut chat, "How deep?").await;
    let review = review_fixture.review(&mut chat).await;
    assert_eq!((review.result(), review.sum.model_calls), ("error", 0));
    review_fixture.fixture.turn(&mut chat, "Thanks.").await;
    chat.wait_for_review().await;
    assert_eq!(
        (
            review_fixture.reviews().len(),
            review_fixture.fixture.bodies().len()
        ),
        (1, 4)
    );
    review_fixture.fixture.check_between(&[2]);
}

#[tokio::test]
async fn turn_count_continues_in_a_resumed_session() {
    let replies = vec![
        text("one"),
        text("two"),
        text("Nothing to keep."),
        text("three"),
    ];
    let mut review_fixture =
        review_fixture(Wire::Messages, &wait_for_review("every_turns: 2"), replies).await;
    review_fixture.fixture = review_fixture.fixture.in_file();
    let mut chat = review_fixture.fixture.chat().await;
    review_fixture.fixture.turn(&mut chat, "1").await;
    assert!(!chat.is_reviewing());
    let session = chat.session().to_owned();
    chat.close().await;
    review_fixture.fixture.restart();
    let mut chat = review_fixture.fixture.resume(&session).await.unwrap();
    review_fixture.fixture.turn(&mut chat, "2").await;
    assert_eq!(review_fixture.review(&mut chat).await.result(), "none");
    review_fixture.fixture.turn(&mut chat, "3").await;
    assert!(!chat.is_reviewing());
    review_fixture.fixture.check_from(3);
}

#[tokio::test]
async fn review_settings_without_effect_are_warned_of_at_the_start() {
    let mut fixture =
        Fixture::new(Wire::Chat, &wait_for_review("tools: [grep, notes]"), vec![]).await;
    let chat = fixture.chat().await;
    let warnings = fixture.reported.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains("`notes`, which the agent does not have"),
        "{warnings:?}"
    );
    assert!(warnings[1].contains("could keep nothing"), "{warnings:?}");
    chat.close().await;
    // Of the usual tools, those that are not there are no slip.
    fixture.rewrite(&(wait_for_review("every_turns: 5") + "permissions: {allow: [memory]}\n"));
    fixture.tools = vec![Counting::new("memory") as _];
    fixture.chat().await.close().await;
    assert_eq!(fixture.reported.warnings().len(), 2);
    fixture.check();
}

#[tokio::test]
async fn an_empty_conversation_is_not_reviewed() {
    let review_fixture =
        review_fixture(Wire::Chat, &wait_for_review("every_turns: 1"), vec![]).await;
    let mut chat = review_fixture.fixture.chat().await;
    let error = chat.review(None).unwrap_err();
    assert!(
        error.message.contains("the conversation is empty"),
        "{error}"
    );
    review_fixture.fixture.check();
}

#[tokio::test]
async fn permission_rules_override_the_tools_of_a_review() {
    // What the review's definition lists, and without that what the agent may do without being asked.
    for (tools, rules, entered) in [
        (", tools: [memory]", "deny: [memory]", 0),
        (", tools: [memory]", "ask: [memory]", 0),
        (", tools: [memory]", "allow: [memory]", 1),
        (", tools: [memory]", "", 1),
        ("", "", 0),
        ("", "allow: ['memory:action=search']", 0),
        ("", "allow: ['memory:action=store']", 1),
        ("", "allow: [memory], ask: ['memory:action=store']", 0),
    ] {
        let replies = vec![text("2 km."), store(), text("done")];
        let file = format!(
            "{}permissions: {{{rules}}}\n",
            wait_for_review(&format!("every_turns: 1{tools}"))
        );
        let review_fixture = review_fixture(Wire::Chat, &file, replies).await;
        let mut chat = review_fixture.fixture.chat().await;
        review_fixture.fixture.turn(&mut chat, "How deep?").await;
        let review = review_fixture.review(&mut chat).await;
        assert_eq!(review_fixture.memory.entered(), entered, "{tools} {rules}");
        assert_eq!(review.memories as usize, entered, "{tools} {rules}");
        let warned = review_fixture.fixture.reported.warnings();
        let warns = tools.is_empty() && entered == 0;
        assert_eq!(
            warned
                .iter()
                .any(|text| text.contains("here that is nothing")),
            warns
        );
        assert_eq!(
            review_fixture.fixture.answers.asked(),
            [],
            "nobody is asked"
        );
        review_fixture.fixture.check();
    }
}

#[tokio::test]
async fn a_side_question_uses_the_conversation_and_does_not_change_it() {
    for wire in WIRES {
        let replies = vec![
            text("2 km."),
            store(),
            text("By the way: yes."),
            text("Welcome."),
        ];
        let review_fixture = review_fixture(
            wire,
            &wait_for_review("every_turns: 0, tools: [memory]"),
            replies,
        )
        .await;
        let fixture = &review_fixture.fixture;
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "How deep?").await;
        let messages = fixture.messages(chat.session()).await;
        let aside = chat
            .side_question("Really?", &CancellationToken::default())
            .await
            .unwrap();
        assert_eq!(
            (aside.text.as_str(), aside.stop),
            ("By the way: yes.", Stop::End)
        );
        assert_eq!(review_fixture.memory.entered(), 0, "no tool may be used");
        assert_eq!(aside.sum.model_calls, 2);
        assert_eq!(fixture.messages(chat.session()).await, messages);
        let asked = last_message(&fixture.bodies()[1]);
        assert!(
            asked.starts_with("Really?") && asked.contains("No tool may be used"),
            "{asked}"
        );
        assert_eq!(fixture.turn(&mut chat, "Thanks.").await.text, "Welcome.");
        assert_eq!(chat.total().model_calls, 4);
        assert_eq!(turns(&fixture.last_body()).len(), 3);
        review_fixture.fixture.check_from(3);
    }
}
