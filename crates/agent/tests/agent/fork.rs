//! Forks of a chat: what they inherit, what they may do, and whose they are.

mod differences;
mod gate;
mod isolation;
mod limits;
mod options;
mod own;
mod sub_agents;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cachalot_agent::{CancellationToken, Chat, ForkReport, ForkSpec, Inherit, ReviewReport};
use cachalot_core::{EffectTargets, Effects};
use cachalot_simulator::ScriptedReply;
use cachalot_tools::{
    Arguments, CacheClass, Operation, OperationMetadata, Origin, ToolContext, ToolOutput,
};
use serde_json::{Value, json};

use crate::event_recorder::Note;
use crate::fixture::{Fixture, WIRES, Wire};

/// A text that is long enough for providers to cache.
pub(super) fn long() -> String {
    "You know whales, and say how deep they dive. ".repeat(300)
}

/// An agent with files, and more keys.
pub(super) fn whale_agent(keys: &str) -> String {
    format!(
        "
agents:
  root:
    model: test
    instruction: '{}'
    toolsets: [{{type: filesystem}}]
permissions: {{allow: [safe, danger]}}
{keys}",
        long()
    )
}

pub(super) fn spec(tools: &[&str], inherit: Inherit) -> ForkSpec {
    ForkSpec {
        holder: "the review".to_owned(),
        tools: Some(tools.iter().map(|&tool| tool.to_owned()).collect()),
        approved: true,
        inherit,
        max_iterations: 10,
        max_input_tokens: None,
        max_output_tokens: None,
    }
}

pub(super) async fn forked(chat: &Chat, spec: ForkSpec, message: &str) -> ForkReport {
    let fork = chat.fork(spec).unwrap();
    fork.run(message, &CancellationToken::default())
        .await
        .unwrap()
}

/// The first review that was told of.
pub(super) fn review(fixture: &Fixture) -> ReviewReport {
    let review = |note| match note {
        Note::Reviewed(report) => Some(*report),
        _ => None,
    };
    let mut notes = fixture.reported.notes().into_iter();
    notes.find_map(review).expect("a review")
}

/// A tool that remembers with what it was entered.
pub(super) struct Recording {
    metadata: OperationMetadata,
    entered: Mutex<Vec<Value>>,
    times: AtomicUsize,
}

impl Recording {
    pub(super) fn new(name: &str) -> Arc<Self> {
        Self::with(name, |_| {})
    }

    pub(super) fn with(name: &str, change: impl FnOnce(&mut OperationMetadata)) -> Arc<Self> {
        let mut metadata = OperationMetadata {
            name: name.to_owned().into(),
            aliases: &[],
            description: "Does something.".into(),
            parameters: json!({"type": "object", "properties": {"what": {"type": "string"}}})
                .into(),
            version: 1,
            origin: Origin::BuiltIn,
            read_only: false,
            exclusive: true,
            cache_class: CacheClass::Never,
        };
        change(&mut metadata);
        Arc::new(Self {
            metadata,
            entered: Mutex::default(),
            times: AtomicUsize::new(0),
        })
    }

    pub(super) fn times(&self) -> usize {
        self.times.load(Ordering::SeqCst)
    }

    pub(super) fn entered(&self) -> Vec<Value> {
        self.entered.lock().unwrap().clone()
    }
}

#[async_trait]
impl Operation for Recording {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, _: &Arguments, _: &ToolContext) -> Effects {
        if self.metadata.read_only {
            Effects {
                reads: EffectTargets::NOTHING,
                writes: EffectTargets::NOTHING,
            }
        } else {
            Effects::UNKNOWN
        }
    }

    async fn run(&self, arguments: Arguments, _: &ToolContext) -> ToolOutput {
        self.times.fetch_add(1, Ordering::SeqCst);
        self.entered.lock().unwrap().push(arguments.into());
        ToolOutput::text("done")
    }
}

/// The cached tokens of the parent's last request that can be read again.
fn kept(wire: Wire, report: &ForkReport) -> u64 {
    let parent = report.parent.unwrap();
    match wire {
        // Everything up to the marker in the newest message.
        Wire::Messages => parent.cache_read + parent.cache_write(),
        // What was thought while tools were called is left out once somebody says something else: so
        // it is in the chat itself.
        Wire::Thinking => report.first.unwrap().cache_read,
        // Whole steps of it.
        Wire::Chat | Wire::Responses => parent.total_input() / 128 * 128,
    }
}

fn replies() -> Vec<ScriptedReply> {
    vec![
        ScriptedReply::call("read_file", json!({"path": "depths"})),
        ScriptedReply::text("1,200 m."),
        ScriptedReply::text("Nothing to keep."),
    ]
}

async fn after_a_turn(wire: Wire, replies: Vec<ScriptedReply>) -> (Fixture, Chat) {
    let fixture = Fixture::new(wire, &whale_agent(""), replies).await;
    fixture.write("depths", "The cachalot dived 1,200 m.");
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "How deep?").await;
    (fixture, chat)
}

/// What is said is the only thing in which a fork's first request differs from what the chat itself
/// would have sent: said in the chat, it makes the same request, byte for byte.
#[tokio::test]
async fn fork_request_extends_the_parents_last_one_and_reads_its_cache() {
    for wire in WIRES {
        let (fixture, chat) = after_a_turn(wire, replies()).await;
        let report = forked(&chat, spec(&["read_file"], Inherit::Full), "Look back.").await;
        assert_eq!(report.text, "Nothing to keep.");
        assert_eq!(report.differences, []);
        let first = report.first.unwrap();
        assert!(first.cache_read > 0, "{wire:?}");
        assert_eq!(first.cache_read, kept(wire, &report), "{wire:?}");
        assert!(first.cache_read * 10 > first.total_input() * 9, "{first:?}");

        let (control, mut same) = after_a_turn(wire, replies()).await;
        let said = "Look back.\n\nOnly these tools may be used here: `read_file`.";
        let turn = control.turn(&mut same, said).await;
        assert_eq!(turn.sum.usage, first);
        let body = |fixture: &Fixture| fixture.simulator.received().pop().unwrap().body;
        let address = |fixture: &Fixture| fixture.simulator.url();
        let text = |fixture: &Fixture| String::from_utf8(body(fixture).to_vec()).unwrap();
        assert_eq!(
            text(&fixture).replace(&address(&fixture), ""),
            text(&control).replace(&address(&control), "")
        );
        control.check();
        fixture.check();
    }
}

/// The options of the source, beside each other.
#[tokio::test]
async fn fork_with_partial_inheritance_reads_nothing_from_the_cache() {
    for wire in WIRES {
        for inherit in [Inherit::Prompt, Inherit::Session, Inherit::None] {
            let (fixture, chat) = after_a_turn(wire, replies()).await;
            let report = forked(&chat, spec(&["read_file"], inherit), "Look back.").await;
            assert_eq!(report.text, "Nothing to keep.");
            let first = report.first.unwrap();
            assert_eq!(first.cache_read, 0, "{wire:?} {inherit:?}");
            assert!(report.parent.unwrap().cache_read > 0);
            let body = fixture.last_body();
            let tools = body["tools"].as_array().unwrap();
            assert_eq!(tools.len(), 1, "{wire:?} {inherit:?}");
            let said = crate::bodies::turns(&body).len();
            assert_eq!(said, if inherit == Inherit::None { 1 } else { 5 });
            fixture.check_between(&[2]);
        }
    }
}

#[tokio::test]
async fn parent_continues_unaffected_by_its_forks() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::text("1,200 m."),
            ScriptedReply::call("read_file", json!({"path": "depths"})),
            ScriptedReply::text("Nothing to keep."),
            ScriptedReply::text("You are welcome."),
        ];
        let fixture = Fixture::new(wire, &whale_agent(""), replies).await;
        fixture.write("depths", "The cachalot dived 1,200 m.");
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "How deep?").await;
        let before = fixture.session(chat.session()).await;
        let recorded = fixture.reported.shown();
        let report = forked(&chat, spec(&["read_file"], Inherit::Full), "Look back.").await;
        let after = fixture.session(chat.session()).await;
        assert_eq!(before, after);
        // No text of it is shown as an answer.
        assert_eq!(fixture.reported.shown(), recorded);

        let own = fixture.session(&report.session).await;
        assert_eq!(own.head.parent.as_deref(), Some(chat.session()));
        assert_eq!(
            own.head.title.as_deref().map(|title| &title[..10]),
            Some("Look back.")
        );
        assert_eq!((own.totals.answers, own.messages), (2, 6));
        assert_eq!(
            fixture.turn(&mut chat, "Thanks.").await.text,
            "You are welcome."
        );
        let received = fixture.simulator.received();
        // The parent's second request continues its first.
        crate::bodies::check(&[received[0].clone(), received[3].clone()]);
        fixture.check_between(&[3]);
    }
}

/// A fork does not borrow the chat: it is made in no time, and both go on.
#[tokio::test]
async fn fork_and_chat_run_concurrently() {
    let script =
        "rules:\n  - user: '^Look back'\n    steps: [{text: looked}]\notherwise: {text: said}\n";
    let script = cachalot_simulator::Script::parse("script.yaml", script).unwrap();
    let fixture = Fixture::scripted(Wire::Messages, &whale_agent(""), script).await;
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "How deep?").await;
    let forks: Vec<_> = (0..3)
        .map(|_| chat.fork(spec(&[], Inherit::Full)).unwrap())
        .map(|fork| {
            tokio::spawn(async move { fork.run("Look back.", &CancellationToken::default()).await })
        })
        .collect();
    assert_eq!(fixture.turn(&mut chat, "And then?").await.text, "said");
    let mut sessions = BTreeSet::new();
    for fork in forks {
        let report = fork.await.unwrap().unwrap();
        assert_eq!(report.text, "looked");
        assert!(report.first.unwrap().cache_read > 0);
        sessions.insert(report.session);
    }
    assert_eq!(sessions.len(), 3);
    let received = fixture.simulator.received();
    let each: Vec<usize> = (1..received.len()).collect();
    fixture.check_between(&each);
}
