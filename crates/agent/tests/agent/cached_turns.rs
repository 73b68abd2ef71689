//! Answers of turns that are given again, for as long as what they were made from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_agent::{CancellationToken, Provenance};
use cachalot_cache::{Cache, CacheBounds, CacheMode, CacheOptions, Ledger};
use cachalot_core::{Clock, ManualClock, SecretSet};
use cachalot_hooks::builtin::cache_response::{CacheResponse, ResponseStore, StoreOpener};
use cachalot_hooks::{Dialect, Event};
use cachalot_simulator::{Fault, ScriptedReply};
use cachalot_store::in_process::InProcessStore;
use cachalot_tools::{
    Arguments, CacheClass, Operation, OperationMetadata, ToolContext, ToolOutput,
};
use serde_json::json;

use crate::fixture::{Fixture, NOW, Wire};
use crate::hook_recorder::{HookReply, blocks, entry};

const SECOND: Duration = Duration::from_secs(1);

const KEEPER: &str = "
agents:
  root:
    model: test
    instruction: You talk.
    cache: {enabled: true, ttl: 1h}
tools: {cacheToolResults: true}
";

/// A tool whose results last for a second.
struct NewsTool(OperationMetadata);

impl NewsTool {
    fn new() -> Self {
        let parameters = json!({"type": "object", "properties": {}});
        let mut metadata =
            OperationMetadata::with_side_effects("news", "What is new.".to_owned(), parameters);
        metadata.read_only = true;
        metadata.cache_class = CacheClass::Ttl(SECOND);
        Self(metadata)
    }
}

#[async_trait]
impl Operation for NewsTool {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.0
    }

    async fn run(&self, _: Arguments, _: &ToolContext) -> ToolOutput {
        ToolOutput::text("nothing")
    }
}

async fn fixture(replies: Vec<ScriptedReply>) -> (Fixture, Arc<ManualClock>) {
    fixture_of(KEEPER, replies).await
}

pub(crate) async fn fixture_of(
    file: &str,
    replies: Vec<ScriptedReply>,
) -> (Fixture, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(NOW));
    let mut fixture = Fixture::new(Wire::Chat, file, replies).await;
    fixture.clock = Arc::clone(&clock) as Arc<dyn Clock>;
    fixture.tools = vec![Arc::new(NewsTool::new())];
    let memory = Arc::new(InProcessStore::new(Arc::clone(&fixture.clock)));
    let secret_set = Arc::new(SecretSet::empty());
    let cache = Cache::new(CacheOptions {
        local: None,
        store: Some(memory),
        ledger: Ledger::disabled(),
        clock: Arc::clone(&fixture.clock),
        secret_set: Arc::clone(&secret_set),
        bounds: CacheBounds::default(),
        warn: Arc::new(|line| panic!("{line}")),
    });
    let opener: StoreOpener = Arc::new(move |_| {
        Ok(ResponseStore {
            cache: cache.clone(),
            mode: CacheMode::On,
            user: "somebody".to_owned(),
            announced: Vec::new(),
            flat: None,
        })
    });
    let builtin = CacheResponse::new(
        fixture.agent_directory.clone(),
        opener,
        fixture.clock.clone(),
        secret_set,
    );
    fixture.builtins = vec![Arc::new(builtin)];
    (fixture, clock)
}

/// Asks in a new chat; whether no model was asked.
async fn is_given_again(fixture: &Fixture, said: &str) -> bool {
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, said).await;
    let provenance: Option<Provenance> = report.synthetic;
    assert_eq!(provenance.is_some(), report.sum.model_calls == 0);
    provenance.is_some()
}

#[tokio::test]
async fn cached_turn_expires_with_its_tool_results() {
    let replies = vec![
        ScriptedReply::text("2"),
        ScriptedReply::call("news", json!({})),
        ScriptedReply::text("nothing new"),
        ScriptedReply::call("news", json!({})),
        ScriptedReply::text("still nothing"),
    ];
    let (fixture, clock) = fixture(replies).await;
    for said in ["One and one?", "What is new?"] {
        assert!(!is_given_again(&fixture, said).await);
        assert!(is_given_again(&fixture, said).await);
    }
    clock.advance(2 * SECOND);
    // It has called no tool, and lasts for its hour.
    assert!(is_given_again(&fixture, "One and one?").await);
    assert!(!is_given_again(&fixture, "What is new?").await);
    fixture.check();
}

/// The provider may have searched the web for the answer.
#[tokio::test]
async fn answers_of_models_with_tools_of_the_provider_need_a_ttl() {
    for (ttl, option, is_kept) in [
        ("", "web_search_options: {}", false),
        (", ttl: 1h", "web_search_options: {}", true),
        ("", "user: ada", true),
    ] {
        let file = KEEPER.replace(", ttl: 1h", ttl);
        let replies = vec![ScriptedReply::text("2"), ScriptedReply::text("2")];
        let (mut fixture, _) = fixture_of(&file, replies).await;
        fixture.model_keys = format!(", provider_opts: {{{option}}}");
        assert!(!is_given_again(&fixture, "One and one?").await);
        let again = is_given_again(&fixture, "One and one?").await;
        assert_eq!(again, is_kept, "{ttl} {option}");
        fixture.check();
    }
}

/// A world in which a stop hook of another runtime rejects answers while `is_strict` holds.
async fn judged(replies: Vec<ScriptedReply>) -> (Fixture, Arc<AtomicBool>) {
    let (mut fixture, _) = fixture(replies).await;
    fixture.hooks = vec![entry(Event::Stop, Dialect::Claude)];
    let is_strict = Arc::new(AtomicBool::new(false));
    let strict = Arc::clone(&is_strict);
    fixture.hook_recorder.on(Event::Stop, move |_| {
        let rejects = strict.load(Ordering::SeqCst);
        rejects.then(|| HookReply::This(blocks("Not like this.")))
    });
    (fixture, is_strict)
}

fn fails() -> ScriptedReply {
    ScriptedReply::default().with_fault(Fault::status(400))
}

#[tokio::test]
async fn rejected_answer_is_not_replayed_after_a_failed_turn() {
    let replies = vec![
        ScriptedReply::text("half"),
        fails(),
        ScriptedReply::text("whole"),
    ];
    let (fixture, is_strict) = judged(replies).await;
    is_strict.store(true, Ordering::SeqCst);
    let mut chat = fixture.chat().await;
    chat.turn("Go.", &CancellationToken::default())
        .await
        .unwrap_err();
    is_strict.store(false, Ordering::SeqCst);
    assert!(!is_given_again(&fixture, "Go.").await);
    assert!(is_given_again(&fixture, "Go.").await);
    fixture.check();
}

#[tokio::test]
async fn rejected_replay_is_not_replayed_after_a_failed_turn() {
    let replies = vec![
        ScriptedReply::text("old"),
        fails(),
        ScriptedReply::text("new"),
    ];
    let (fixture, is_strict) = judged(replies).await;
    assert!(!is_given_again(&fixture, "Go.").await);
    assert!(is_given_again(&fixture, "Go.").await);
    is_strict.store(true, Ordering::SeqCst);
    let mut chat = fixture.chat().await;
    chat.turn("Go.", &CancellationToken::default())
        .await
        .unwrap_err();
    is_strict.store(false, Ordering::SeqCst);
    assert!(!is_given_again(&fixture, "Go.").await);
    fixture.check();
}
