//! What is remembered of what the user says, for agents with `recall: N`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cachalot_agent::{AgentDefinition, ContextSource};
use cachalot_core::Clock;
use cachalot_memory::{Memory, Record};
use serde_json::Value;

use crate::chat::words::cut;

/// How long is waited for the memory, all in all: a turn does not depend on it.
const PATIENCE: Duration = Duration::from_millis(500);
/// Words of the message that are searched for at most.
const WORDS: usize = 12;
/// Shorter words are in too many messages to mean anything.
const SHORTEST: usize = 4;
/// So many characters of an entry are told at most: the agent can look it up.
const LONGEST: usize = 1_000;

/// Searches long-term memory for the words of the user's message.
pub(crate) struct Recollection {
    pub(crate) memory: Arc<dyn Memory>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// An entry that was found, and how many words of the message are in it.
struct Found {
    record: Record,
    words: u32,
}

#[async_trait]
impl ContextSource for Recollection {
    async fn paragraph(&self, agent: &AgentDefinition, message: &str) -> Option<String> {
        if agent.recall == 0 {
            return None;
        }
        let found = self.find(message, agent.recall).await;
        let lines: Vec<String> = found
            .iter()
            .filter_map(|found| told(&found.record))
            .take(agent.recall as usize)
            .collect();
        (!lines.is_empty())
            .then(|| format!("Remembered, and possibly of use:\n{}", lines.join("\n")))
    }
}

impl Recollection {
    /// Entries with words of the message in them, those with the most of them first.
    async fn find(&self, message: &str, most: u32) -> Vec<Found> {
        let Some(recall) = self.memory.recall() else {
            return Vec::new();
        };
        let (began, now) = (Instant::now(), self.clock.now());
        let mut found: Vec<Found> = Vec::new();
        // A search finds records with all of its words: a message is asked for word by word.
        for word in words(message) {
            let patience = PATIENCE.saturating_sub(began.elapsed());
            let answer = recall.search(&word, &[], most).within(patience).await;
            for recalled in answer.unwrap_or_default() {
                let record = recalled.record;
                if record.expires.is_some_and(|expires| expires <= now) {
                    continue;
                }
                match found
                    .iter_mut()
                    .find(|known| known.record.key == record.key)
                {
                    Some(known) => known.words += 1,
                    None => found.push(Found { record, words: 1 }),
                }
            }
        }
        found.sort_by_key(|found| std::cmp::Reverse(found.words));
        found
    }
}

/// An entry as it is told: `- whale: it dived 1,200 m in May`. What is no entry of the user's is not.
fn told(record: &Record) -> Option<String> {
    let entry: Value = serde_json::from_slice(&record.value).ok()?;
    let value = match entry.get("value")? {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Some(format!("- {}: {}", record.key, cut(value.trim(), LONGEST)))
}

/// The longer words of a message, each once.
fn words(message: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in message.split(|sign: char| !sign.is_alphanumeric()) {
        let word = word.to_lowercase();
        if word.chars().count() >= SHORTEST && !words.contains(&word) && words.len() < WORDS {
            words.push(word);
        }
    }
    words
}
