//! A turn that is answered without a model, from the message to the answer, behind 200 messages.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use cachalot_cache::{Bounds, Cache, Ledger, Mode, Options};
use cachalot_core::tree::{self, Node};
use cachalot_core::{Digest, Seals, Spend, SystemClock};
use cachalot_hooks::builtin::cache_response::{CacheResponse, ResponseStore};
use cachalot_hooks::input::{Answer, Prompt};
use cachalot_hooks::{AgentLookup, AgentView, Builtin as _, Event, Input};
use cachalot_memory::Memory;
use cachalot_memory::in_process::InProcessMemory;
use cachalot_memory::sqlite::{self, SqliteMemory};
use cachalot_model::{Message, Model, StopReason};
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
        Some(Digest::of(b"instruction, tools, model"))
    }

    fn section(&self, name: &str) -> Option<&Node> {
        self.0.get(name)
    }
}

fn builtin(memory: Arc<dyn Memory>, home: &Path) -> CacheResponse {
    let clock = Arc::new(SystemClock);
    let seals = Arc::new(Seals::none());
    let cache = Cache::new(Options {
        memory: Some(memory),
        ledger: Ledger::at(&home.join("ledger"), "bench", Arc::new(|_| {})),
        clock: clock.clone(),
        seals: Arc::clone(&seals),
        bounds: Bounds::default(),
        warn: Arc::new(|line| panic!("{line}")),
    });
    let section = tree::parse("agent.yaml", "cache: {enabled: true, ttl: 1h}").unwrap();
    let opener = Arc::new(move |_: &_| {
        Ok(ResponseStore {
            cache: cache.clone(),
            mode: Mode::On,
            user: "user".to_owned(),
            flat: None,
        })
    });
    CacheResponse::new(Arc::new(Agent(Arc::new(section))), opener, clock, seals)
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
            prefix: Some(Digest::of(b"200 messages")),
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
    let options = sqlite::Options::new(clock.clone());
    let memories: [(&str, Arc<dyn Memory>); 2] = [
        ("in-process", Arc::new(InProcessMemory::new(clock))),
        (
            "sqlite",
            Arc::new(SqliteMemory::open(&home.path().join("memory"), options).unwrap()),
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
