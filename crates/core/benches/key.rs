//! B1: the key of a call, from a value and from text, against reading the same bytes with
//! `serde_json` and hashing them as they are.
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;

use cachalot_core::{Canonical, Digest};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};

const PROSE: &str =
    "The sperm whale dives deeper than any other \"toothed\" whale, and stays below for an hour.\n";

/// Arguments of an action: some nesting, numbers, a few texts.
fn arguments() -> Value {
    let fields: Vec<Value> = (0..12)
        .map(|n| json!({"name": format!("field_{n}"), "type": "string", "required": n % 3 == 0, "weight": n as f64 / 8.0}))
        .collect();
    json!({
        "url": "https://example.org/documents/2024/annual-report.pdf?part=1",
        "schema": {"type": "object", "fields": fields},
        "limits": {"pages": 120, "timeout": 30.5, "retries": 3, "budget": null},
        "prompt": PROSE.repeat(9),
    })
}

/// A request of a conversation: 22 messages.
fn conversation() -> Value {
    let messages: Vec<Value> = (0..22)
        .map(|n| json!({"role": if n % 2 == 0 { "user" } else { "assistant" }, "content": PROSE.repeat(13)}))
        .collect();
    json!({"model": "large", "temperature": 0.7, "max_tokens": 4096, "messages": messages, "stream": true})
}

fn keys(criterion: &mut Criterion) {
    for (name, value) in [("2 KiB", arguments()), ("28 KiB", conversation())] {
        let text = serde_json::to_vec(&value).unwrap();
        let mut group = criterion.benchmark_group(format!("key of {name}"));
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function("reference", |bencher| {
            bencher.iter(|| {
                let parsed: Value = serde_json::from_slice(black_box(&text)).unwrap();
                (parsed, Digest::sha256(black_box(&text)))
            });
        });
        group.bench_function("from a value", |bencher| {
            bencher.iter(|| Canonical::value(black_box(&value)).digest());
        });
        group.bench_function("from text", |bencher| {
            bencher.iter(|| Canonical::json(black_box(&text)).unwrap().digest());
        });
        group.bench_function("canonical bytes from a value", |bencher| {
            bencher.iter(|| Canonical::value(black_box(&value)));
        });
        group.bench_function("canonical bytes from text", |bencher| {
            bencher.iter(|| Canonical::json(black_box(&text)).unwrap());
        });
        group.bench_function("SHA-256 alone", |bencher| {
            bencher.iter(|| Digest::sha256(black_box(&text)));
        });
        group.finish();
    }
}

criterion_group!(benches, keys);
criterion_main!(benches);
