//! The frozen prompt and its sessions, from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod bodies;
mod chain;
mod continuation;
mod damage;
mod documentation;
mod failures;
mod interleavings;
mod model;
mod plan;
mod processes;
mod rerender;
mod restart;
mod sessions;
mod slow_store;
mod small_wire;
mod tail;
mod tree;

use cachalot_test_support::conversation;
use std::path::Path;
use std::sync::Arc;

use cachalot_core::{ManualClock, SecretSet, SystemClock};
use cachalot_model::wire::{Rendered, Wire};
use cachalot_model::{Format, Message};
use cachalot_prompt::{
    Plan, PlanContext, Prompt, Rules, Session, SessionHead, Sessions, plan as plan_of,
};
use cachalot_store::Store;
use cachalot_store::in_process::InProcessStore;
use cachalot_store::sqlite::{SqliteOptions, SqliteStore};

/// Every wire: a small one of ours with and without an array for the system, and the real ones.
fn wires() -> [&'static dyn Wire; 7] {
    use cachalot_model::wire::{CHAT, CONVERSE, FormatWire, INTERACTIONS, MESSAGES, RESPONSES};
    static REAL: [FormatWire; 5] = [CHAT, RESPONSES, MESSAGES, CONVERSE, INTERACTIONS];
    let [chat, responses, messages, converse, interactions] = &REAL;
    [
        &small_wire::SmallWire { apart: true },
        &small_wire::SmallWire { apart: false },
        &**chat,
        &**responses,
        &**messages,
        &**converse,
        &**interactions,
    ]
}

/// Anthropic's rules, but that nothing is too short.
const RULES: Rules = Rules {
    max_markers: 4,
    lookback: 20,
    runs_count_once: true,
    one_hour: true,
    twelve_hours: false,
    minimum: 0,
};

/// The markers of a first request.
fn marks(prompt: &Prompt) -> Plan {
    plan_of(prompt, &RULES, &PlanContext::default()).plan
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}

/// The same, in a time that passes only while everybody waits for it.
fn run_paused<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(work)
}

/// Sessions in a memory of this process, whose time stands still.
fn in_process() -> (Sessions, Arc<dyn Store>) {
    let clock = Arc::new(ManualClock::at(1_000));
    let memory: Arc<dyn Store> = Arc::new(InProcessStore::new(clock.clone()));
    let sessions = Sessions::new(Arc::clone(&memory), clock, Arc::new(SecretSet::empty()));
    (sessions, memory)
}

fn in_file(path: &Path) -> Sessions {
    let clock = Arc::new(SystemClock);
    let memory = SqliteStore::open(path, SqliteOptions::new(clock.clone())).unwrap();
    Sessions::new(Arc::new(memory), clock, Arc::new(SecretSet::empty()))
}

fn head(id: &str) -> SessionHead {
    SessionHead::new(id, "root", "provider", "model", Format::Messages)
}

/// A frozen part of two tools and two pieces of system text.
fn frozen(wire: &dyn Wire) -> Prompt {
    let tools: Vec<Rendered> = ["grep", "read_file"]
        .map(|name| wire.tool(&conversation::tool(name)))
        .into();
    let system = ["You help.", "Today is a day."].map(|text| wire.system(text));
    Prompt::begin(&tools, &system)
}

fn said(prompt: &Prompt, wire: &dyn Wire, message: Message) -> Prompt {
    let message = Arc::new(message);
    prompt.append(&wire.message(&message).unwrap(), message)
}

async fn say(session: &mut Session, message: Message) {
    try_say(session, message).await.unwrap();
}

async fn try_say(session: &mut Session, message: Message) -> Result<(), cachalot_prompt::Error> {
    let message = Arc::new(message);
    let pieces = cachalot_model::wire::MESSAGES.message(&message).unwrap();
    session.append(message, &pieces).await
}

fn ids(prompt: &Prompt) -> Vec<cachalot_prompt::NodeId> {
    prompt.nodes().iter().map(|node| node.id).collect()
}
