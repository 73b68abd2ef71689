//! Tokens that are lost are counted by what the provider reports.

use std::sync::Arc;

use cachalot_core::SecretSet;
use cachalot_model::Catalog;
use cachalot_prefix::diagnosis::Reason;
use cachalot_prefix::log::{Analysis, Analyzer};
use serde_json::{Value, json};

fn analyzed(lines: &[Value]) -> Analysis {
    let log: Vec<String> = lines.iter().map(Value::to_string).collect();
    let mut analyzer = Analyzer::new(Catalog::built_in(), Arc::new(SecretSet::empty()));
    analyzer.read(log.join("\n").as_bytes()).unwrap();
    analyzer.finish()
}

fn said(role: &str, bytes: usize, word: &str) -> Value {
    json!({"role": role, "content": word.repeat(bytes / word.len())})
}

fn claude(at: u64, messages: &[Value], read: u64, written: u64) -> Value {
    json!({"at": 1_795_250_000 + at, "session": "s",
        "request": {"model": "claude-sonnet-4-6", "max_tokens": 9,
            "cache_control": {"type": "ephemeral"}, "system": "s".repeat(4_000),
            "messages": messages},
        "response": {"usage": {"input_tokens": 3, "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written, "output_tokens": 5}}})
}

#[test]
fn small_loss_of_a_long_prefix_is_reported() {
    let mut messages = vec![said("user", 400_000, "whale ")];
    let first = claude(0, &messages, 0, 100_000);
    messages.extend([said("assistant", 60, "dive "), said("user", 60, "deep ")]);
    let lost = analyzed(&[first.clone(), claude(30, &messages, 98_000, 2_040)]);
    assert_eq!(lost.breaks.len(), 1, "{:?}", lost.breaks);
    assert_eq!(lost.breaks[0].reason, Reason::EvictedOrUnknown);
    assert_eq!(lost.lost().0, 2_000);
    let all = analyzed(&[first, claude(30, &messages, 100_000, 40)]);
    assert!(all.breaks.is_empty(), "{:?}", all.breaks);
}

fn chat(at: u64, messages: &[Value], total: u64, read: u64) -> Value {
    json!({"at": 1_795_250_000 + at, "session": "s",
        "request": {"model": "gpt-4.1", "messages": messages},
        "response": {"usage": {"prompt_tokens": total, "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": read}}}})
}

#[test]
fn rounding_of_the_provider_is_no_loss() {
    let mut messages = vec![said("system", 200_000, "whale "), said("user", 60, "deep ")];
    let first = chat(0, &messages, 50_060, 0);
    messages.extend([said("assistant", 60, "dive "), said("user", 60, "deep ")]);
    let second = |read| chat(30, &messages, 50_100, read);
    let rounded = analyzed(&[first.clone(), second(50_060 / 128 * 128)]);
    assert!(rounded.breaks.is_empty(), "{:?}", rounded.breaks);
    let lost = analyzed(&[first, second(48_000)]);
    assert_eq!(lost.lost().0, 2_060);
}

#[test]
fn token_density_is_computed_per_level() {
    // 2 bytes a token in the system text, 5 in the messages.
    let system = json!({"role": "system", "content": "{}[]".repeat(10_000)});
    let mut messages = vec![system, said("user", 5_000, "whale ")];
    let mut lines = Vec::new();
    let tokens = |messages: &[Value]| {
        let size = |message: &Value| message["content"].as_str().unwrap().len() as u64;
        let said: u64 = messages[1..].iter().map(size).sum();
        20_000 + said / 5
    };
    let mut read = 0;
    for at in 0..3 {
        let total = tokens(&messages);
        lines.push(chat(at * 30, &messages, total, read));
        read = total / 128 * 128;
        messages.extend([
            said("assistant", 5_000, "dive "),
            said("user", 5_000, "deep "),
        ]);
    }
    // The second answer is another one: everything behind it is paid for anew.
    messages[4] =
        json!({"role": "assistant", "content": "Sperm whales dive for squid, and for long."});
    let body = json!({"model": "gpt-4.1", "messages": messages});
    lines.push(json!({"at": 1_795_250_100, "session": "s", "request": body}));
    let found = analyzed(&lines);
    assert_eq!(found.breaks.len(), 1, "{:?}", found.breaks);
    // The answer and the question behind it: 10,000 bytes, 2,000 tokens; by the density of the whole,
    // it would be 3,000.
    let lost = found.lost().0;
    assert!((1_900..2_200).contains(&lost), "{lost}");
}

#[test]
fn model_with_a_longer_minimum_loses_the_cache_of_the_other() {
    let messages = vec![said("user", 8_000, "whale ")];
    let mut later = messages.clone();
    later.extend([said("assistant", 60, "dive "), said("user", 60, "deep ")]);
    let first = claude(0, &messages, 0, 3_000);
    let mut second = claude(30, &later, 0, 0);
    // It caches from 4,096 tokens on.
    second["request"]["model"] = json!("claude-haiku-4-5");
    let found = analyzed(&[first, second]);
    assert_eq!(found.breaks.len(), 1, "{:?}", found.breaks);
    assert_eq!(found.breaks[0].reason, Reason::ModelChanged);
    assert_eq!(found.lost().0, 3_000);
}
