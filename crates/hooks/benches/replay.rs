//! A turn that is answered without a model, from the message to the answer, behind 200 messages.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use cachalot_cache::{Cache, CacheBounds, CacheMode, CacheOptions, Ledger};
use cachalot_core::tree::{self, Node};
use cachalot_core::{Digest, SecretSet, Spend, SystemClock};
use cachalot_hooks::builtin::cache_response::{CacheResponse, ResponseStore};
use cachalot_hooks::input::{Answer, Prompt};
use cachalot_hooks::{AgentLookup, AgentView, Builtin as _, Event, Input};
use cachalot_model::{Message, Model, StopReason};
use cachalot_store::Store;
use cachalot_store::in_process::InProcessStore;
use cachalot_store::sqlite::{self, SqliteStore};
use criterion::{Criterion, criterion_group, criterion_main};
use tokio::runtime::Runtime;

#[derive(Clone)]
struct Agent(Arc<Node>);

impl AgentLookup for Agent {
    fn agent(&self, _: &str) -> Option<Arc<dyn AgentView>> {
        Some(Arc::new(self.clone()))
    }
}

impl AgentView for Agent {
    fn name(&self) -> &'static str {
        "root"
    }

    fn models(&self) -> Vec<Model> {
        Vec::new()
    }

    fn fingerprint(&self, _: &str) -> Option<Digest> {
        Some(Digest::sha256(b"instruction, tools, model"))
    }

    fn section(&self, name: &str) -> Option<&Node> {
        self.0.get(name)
    }
}

fn builtin(memory: Arc<dyn Store>, home: &Path) -> CacheResponse {
    let clock = Arc::new(SystemClock);
    let secret_set = Arc::new(SecretSet::empty());
    let cache = Cache::new(CacheOptions {
        local: None,
        store: Some(memory),
        ledger: Ledger::at(&home.join("ledger"), "bench", Arc::new(|_| {})),
        clock: clock.clone(),
        secret_set: Arc::clone(&secret_set),
        bounds: CacheBounds::default(),
        warn: Arc::new(|line| panic!("{line}")),
    });
    let section = tree::parse("agent.yaml", "cache: {enabled: true, ttl: 1h}").unwrap();
    let opener = Arc::new(move |_: &_| {
        Ok(ResponseStore {
            cache: cache.clone(),
            mode: CacheMode::On,
            user: "user".to_owned(),
            announced: Vec::new(),
            flat: None,
        })
    });
    CacheResponse::new(
        Arc::new(Agent(Arc::new(section))),
        opener,
        clock,
        secret_set,
    )
}

fn input(event: Event) -> Input {
    let message = |number: usize| Arc::new(Message::user(format!("message {number}")));
    Input {
        event,
        session_id: "session".to_owned(),
        turn_id: "turn".to_owned(),
        cwd: "/work".into(),
        agent_name: "root".to_owned(),
        model_id: "openai/gpt-4o".to_owned(),
        prompt: Some(Prompt {
            text: "How deep can a sperm whale dive?".to_owned(),
            prefix: Some(Digest::sha256(b"200 messages")),
            ..Prompt::default()
        }),
        messages: (0..200).map(message).collect(),
        answer: Some(Answer {
            text: "About two kilometres. ".repeat(40),
            finish: Some(StopReason::End),
            worth: Spend::default(),
            ..Answer::default()
        }),
        ..Input::default()
    }
}

fn replays(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let home = tempfile::tempdir().unwrap();
    let clock = Arc::new(SystemClock);
    let options = sqlite::SqliteOptions::new(clock.clone());
    let memories: [(&str, Arc<dyn Store>); 2] = [
        ("in-process", Arc::new(InProcessStore::new(clock))),
        (
            "sqlite",
            Arc::new(SqliteStore::open(&home.path().join("memory"), options).unwrap()),
        ),
    ];
    for (name, memory) in memories {
        let builtin = builtin(memory, home.path());
        let (begin, stop) = (input(Event::PreUserTurn), input(Event::Stop));
        runtime.block_on(async {
            builtin.run(&[], &begin).await.unwrap();
            builtin.run(&[], &stop).await.unwrap();
        });
        criterion.bench_function(&format!("a replayed turn, {name}"), |bencher| {
            bencher.iter(|| {
                let begun = runtime.block_on(builtin.run(&[], black_box(&begin)));
                assert!(begun.unwrap().synthetic.is_some());
            });
        });
    }
}

criterion_group!(benches, replays);
criterion_main!(benches);
