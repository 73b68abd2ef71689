//! Recall of long-term memory that matches the user's message, for agents with `recall: N`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cachalot_agent::{AgentDefinition, ContextSource};
use cachalot_core::Clock;
use cachalot_store::{Record, Store};
use serde_json::Value;

use crate::render::cut;

/// Timeout of the whole search: a turn does not depend on it.
const SEARCH_TIMEOUT: Duration = Duration::from_millis(500);
/// The maximum number of words of the message that are searched for.
const MAX_WORDS: usize = 12;
/// The minimum length of such a word, in characters. Shorter words occur in too many messages.
const MIN_WORD_CHARS: usize = 4;
/// The maximum number of characters of an entry; the agent can look up the rest.
const MAX_ENTRY_CHARS: usize = 1_000;

/// Searches long-term memory for the words of the user's message.
pub(crate) struct MemoryRecall {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// An entry that was found, and the number of the message's words in it.
struct FoundEntry {
    record: Record,
    words: u32,
}

#[async_trait]
impl ContextSource for MemoryRecall {
    async fn paragraph(&self, agent: &AgentDefinition, message: &str) -> Option<String> {
        if agent.recall == 0 {
            return None;
        }
        let found = self.find(message, agent.recall).await;
        let lines: Vec<String> = found
            .iter()
            .filter_map(|found| format_record(&found.record))
            .take(agent.recall as usize)
            .collect();
        (!lines.is_empty())
            .then(|| format!("Remembered, and possibly of use:\n{}", lines.join("\n")))
    }
}

impl MemoryRecall {
    /// Returns entries that contain words of the message, those with the most words first.
    async fn find(&self, message: &str, maximum: u32) -> Vec<FoundEntry> {
        let Some(recall) = self.store.recall() else {
            return Vec::new();
        };
        let (began, now) = (Instant::now(), self.clock.now());
        let mut found: Vec<FoundEntry> = Vec::new();
        // A search returns records with all of its words, so each word is searched separately.
        for word in words(message) {
            let patience = SEARCH_TIMEOUT.saturating_sub(began.elapsed());
            let answer = recall.search(&word, &[], maximum).within(patience).await;
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
                    None => found.push(FoundEntry { record, words: 1 }),
                }
            }
        }
        found.sort_by_key(|found| std::cmp::Reverse(found.words));
        found
    }
}

/// Formats an entry: `- whale: it dived 1,200 m in May`. Returns `None` for a record that is not a user's
/// entry.
fn format_record(record: &Record) -> Option<String> {
    let entry: Value = serde_json::from_slice(&record.value).ok()?;
    let value = match entry.get("value")? {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Some(format!(
        "- {}: {}",
        record.key,
        cut(value.trim(), MAX_ENTRY_CHARS)
    ))
}

/// Returns the longer words of a message, without duplicates.
fn words(message: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in message.split(|character: char| !character.is_alphanumeric()) {
        let word = word.to_lowercase();
        if word.chars().count() >= MIN_WORD_CHARS
            && !words.contains(&word)
            && words.len() < MAX_WORDS
        {
            words.push(word);
        }
    }
    words
}
