//! B12, B13 and B15: appending a message to a conversation of 200 and making a body of it, and forking it,
//! against copying the body's bytes in the same run; beside that, what is done of each request: planning
//! its markers, and comparing it with the one before. Medians over interleaved rounds.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cachalot_core::{SecretSet, SystemClock};
use cachalot_model::wire::{self, Rendered};
use cachalot_model::{
    Extra, Format, MarkerRules, Message, Parameters, Reply, Role, StopReason, ToolDefinition, Usage,
};
use cachalot_prefix::{PrefixMonitor, SentRequest, diagnosis};
use cachalot_prompt::{
    Namespace, Plan, PlanContext, Prompt, Rules, Session, SessionHead, Sessions, contiguous, plan,
    segments,
};
use cachalot_store::sqlite::{SqliteOptions, SqliteStore};
use cachalot_store::{Label, Record, Store};
use serde_json::json;

const MESSAGES: usize = 200;

/// How often what is saved is measured.
const SAVES: usize = 501;

const RULES: Rules = Rules {
    max_markers: 4,
    lookback: 20,
    runs_count_once: true,
    one_hour: true,
    twelve_hours: false,
    minimum: 1_024,
};

/// A little more than a kilobyte, with what has to be escaped.
fn message(number: usize) -> Arc<Message> {
    let text = format!("{number} é \"quoted\": a line of a conversation\n").repeat(24);
    Arc::new(match number % 2 {
        0 => Message::user(text),
        _ => Message::assistant(text),
    })
}

fn pieces(message: &Message) -> Vec<Rendered> {
    wire::MESSAGES.message(message).unwrap()
}

fn frozen() -> Prompt {
    let tool = wire::MESSAGES.tool(&ToolDefinition {
        name: "grep".to_owned(),
        description: "Searches.".to_owned(),
        parameters: json!({"type": "object"}),
    });
    let system = ["stable", "context"].map(|text| wire::MESSAGES.system(&text.repeat(100)));
    Prompt::begin(&[tool], &system)
}

fn conversation(messages: usize) -> Prompt {
    (0..messages)
        .map(message)
        .fold(frozen(), |prompt, message| {
            prompt.append(&pieces(&message), message)
        })
}

/// Where the request before ended, which had all but the last two messages.
fn following(prompt: &Prompt) -> PlanContext {
    let end = prompt.len().checked_sub(3);
    PlanContext {
        previous_end: end.and_then(|end| end.try_into().ok()),
        ..PlanContext::default()
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The median time of one of `each` operations, of several kinds measured in turns.
fn in_turns<const KINDS: usize>(
    rounds: usize,
    each: u32,
    mut kinds: [&mut dyn FnMut(); KINDS],
) -> [Duration; KINDS] {
    let mut times: [Vec<Duration>; KINDS] = std::array::from_fn(|_| Vec::new());
    for _ in 0..rounds {
        for (kind, times) in kinds.iter_mut().zip(&mut times) {
            let began = Instant::now();
            for _ in 0..each {
                kind();
            }
            times.push(began.elapsed() / each);
        }
    }
    times.map(median)
}

fn report(what: &str, time: Duration, reference: Duration, goal: &str) {
    let ratio = time.as_secs_f64() / reference.as_secs_f64();
    println!("{what:<62} {time:>10.2?}   {ratio:>6.2}x   goal {goal}");
}

/// B12.
fn bodies(prompt: &Prompt, tail: &Bytes) {
    let next = message(MESSAGES);
    let rendered = pieces(&next);
    let longer = || prompt.append(&rendered, Arc::clone(&next));
    let plan_context = following(prompt);
    let plan_of = |prompt: &Prompt| plan(prompt, &RULES, &plan_context).plan;
    let body = contiguous(&longer(), &*wire::MESSAGES, &plan_of(&longer()), tail);
    let plain = contiguous(&longer(), &*wire::MESSAGES, &Plan::none(), tail);
    let value: serde_json::Value = serde_json::from_slice(&plain).unwrap();
    println!("{} pieces, a body of {} bytes", longer().len(), body.len());
    let [copy, whole, parts, append, render, again] = in_turns(
        2_001,
        5,
        [
            &mut || drop(black_box(body.to_vec())),
            &mut || {
                let prompt = longer();
                let plan = plan_of(&prompt);
                drop(black_box(contiguous(
                    &prompt,
                    &*wire::MESSAGES,
                    &plan,
                    tail,
                )));
            },
            &mut || {
                let prompt = longer();
                let plan = plan_of(&prompt);
                drop(black_box(segments(&prompt, &*wire::MESSAGES, &plan, tail)));
            },
            &mut || drop(black_box(longer())),
            &mut || drop(black_box(pieces(&next))),
            &mut || drop(black_box(serde_json::to_vec(&value).unwrap())),
        ],
    );
    report("reference: copying the body's bytes", copy, copy, "-");
    report("B12 append, plan, contiguous body", whole, copy, "<= 3x");
    report("B12 append, plan, segments", parts, copy, "<= 1.2x");
    report(
        "    of that: append (the digest of one message)",
        append,
        copy,
        "-",
    );
    report("rendering the new message", render, copy, "-");
    report("serializing the whole body anew", again, copy, "-");
}

/// B13.
fn forks(prompt: &Prompt) {
    let [fork] = in_turns(2_001, 100, [&mut || drop(black_box(prompt.clone()))]);
    println!("B13 fork, made and dropped: {fork:.2?}   goal <= 100 ns");
}

/// What planning a request and watching over it cost, of so many messages.
fn watched(messages: usize) {
    let parameters = Parameters {
        model: "claude-sonnet-4-5".to_owned(),
        ..Parameters::default()
    };
    let prompt = conversation(messages);
    let namespace = Namespace::new(Format::Messages, &parameters);
    let asked = |prompt: &Prompt| SentRequest {
        prompt: prompt.clone(),
        namespace: namespace.clone(),
        plan: plan(prompt, &RULES, &following(prompt)).plan,
        format: Format::Messages,
        tail: wire::MESSAGES.tail(&parameters, true),
        at: Some(0),
    };
    let marker_rules = MarkerRules::find("anthropic", &parameters.model, Format::Messages);
    let (rules, secret_set) = (
        diagnosis::Rules::new(marker_rules, None),
        SecretSet::empty(),
    );
    let usage = |read| Reply {
        message: Message::assistant(""),
        stop: StopReason::End,
        usage: Some(Usage {
            cache_read: read,
            ..Usage::default()
        }),
        model: String::new(),
        id: None,
        extra: Extra::new(),
    };
    let mut before = PrefixMonitor::default();
    before.ask(asked(&prompt.without_last(2)));
    before.answer(&usage(0), &rules, &secret_set);
    let (plan_context, next) = (following(&prompt), asked(&prompt));
    let after = |read: u64| {
        let mut watch = before.clone();
        watch.ask(next.clone());
        watch.answer(&usage(read), &rules, &secret_set)
    };
    let [planning, copying, read, lost] = in_turns(
        2_001,
        20,
        [
            &mut || drop(black_box(plan(&prompt, &RULES, &plan_context))),
            &mut || drop(black_box((before.clone(), next.clone()))),
            &mut || drop(black_box(after(u64::MAX))),
            &mut || drop(black_box(after(0))),
        ],
    );
    let watch = |time: Duration| time.saturating_sub(copying);
    println!(
        "{messages} messages: plan {planning:.2?}; watch, all was read {:.2?}, nothing was {:.2?}",
        watch(read),
        watch(lost)
    );
}

/// B15: what it costs that a message is durable before it is sent.
fn saved(prompt: &Prompt) {
    let home = tempfile::tempdir().unwrap();
    let clock = Arc::new(SystemClock);
    let options = SqliteOptions::new(clock.clone());
    let memory = SqliteStore::open(&home.path().join("memory.db"), options).unwrap();
    let memory: Arc<dyn Store> = Arc::new(memory);
    let sessions = Sessions::new(Arc::clone(&memory), clock, Arc::new(SecretSet::empty()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let head = |id: &str| SessionHead::new(id, "root", "anthropic", "m", Format::Messages);
    let create = |id: &str| {
        let created = sessions.create_from(head(id), prompt.clone());
        runtime.block_on(created).unwrap()
    };
    let open = |id: &str| runtime.block_on(sessions.open(id)).unwrap().unwrap();
    let mut session: Session = create("bench");
    let mut opened: Vec<Session> = (0..SAVES)
        .map(|number| {
            let id = format!("opened-{number}");
            create(&id);
            open(&id)
        })
        .collect();
    let next = Arc::new(Message::new(Role::User, message(MESSAGES).content.clone()));
    let rendered = pieces(&next);
    let one = Record {
        key: "one".to_owned(),
        value: rendered[0].bytes.clone(),
        labels: Vec::new(),
        expires: None,
        revision: 0,
        updated: 0,
    };
    // As large as what is stored of the message, under a new key each time, and found by a label.
    let stored = [&rendered[0].bytes[..], &serde_json::to_vec(&*next).unwrap()].concat();
    let new = |number: usize| {
        let digest = cachalot_core::Digest::sha256(&number.to_le_bytes());
        Record {
            key: digest.to_hex(),
            value: stored.clone().into(),
            labels: vec![Label::new("parent", digest.to_hex())],
            ..one.clone()
        }
    };
    let mut number = 0;
    // Dropping a conversation takes time, too.
    let mut done = Vec::new();
    let [put, put_new, append, first, opening] = in_turns(
        SAVES,
        1,
        [
            &mut || {
                let put = memory.put("bench", one.clone(), None, &[]);
                runtime.block_on(put.settle()).unwrap();
            },
            &mut || {
                number += 1;
                let put = memory.put("bench", new(number), None, &[]);
                runtime.block_on(put.settle()).unwrap();
            },
            &mut || {
                let appended = session.append(Arc::clone(&next), &rendered);
                runtime.block_on(appended).unwrap();
            },
            &mut || {
                let next = message(MESSAGES + opened.len());
                let mut session = opened.pop().unwrap();
                let rendered = pieces(&next);
                runtime.block_on(session.append(next, &rendered)).unwrap();
                done.push(session);
            },
            &mut || drop(open("bench")),
        ],
    );
    report(
        "reference: storing one record in a SQLite file",
        put,
        put,
        "-",
    );
    report(
        "B15 append to a session in a SQLite file, durably",
        append,
        put,
        "<= 1.5x",
    );
    report(
        "the first one after the session was opened",
        first,
        put,
        "-",
    );
    report(
        "reference: storing a new record as large, with a label",
        put_new,
        put_new,
        "-",
    );
    report("B15 against that", append, put_new, "-");
    println!(
        "open a session of {} pieces: {opening:.2?}",
        session.prompt.len()
    );
}

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let parameters = Parameters {
        model: "claude".to_owned(),
        ..Parameters::default()
    };
    let (prompt, tail) = (
        conversation(MESSAGES),
        wire::MESSAGES.tail(&parameters, true),
    );
    bodies(&prompt, &tail);
    forks(&prompt);
    watched(MESSAGES);
    watched(10 * MESSAGES);
    saved(&prompt);
}
