//! What is remembered of what the user says, for agents with `recall: N`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_agent::{AgentDefinition, ContextSource};
use cachalot_memory::Memory;

/// How long is waited for the memory.
const PATIENCE: Duration = Duration::from_millis(500);
/// Words of the message that are searched for at most.
const WORDS: usize = 12;

/// Searches long-term memory for the words of the user's message.
pub(crate) struct Recollection {
    pub(crate) memory: Arc<dyn Memory>,
}

#[async_trait]
impl ContextSource for Recollection {
    async fn paragraph(&self, agent: &AgentDefinition, message: &str) -> Option<String> {
        if agent.recall == 0 {
            return None;
        }
        let recall = self.memory.recall()?;
        let mut found: Vec<(String, String)> = Vec::new();
        // A search finds records with all of its words: a message is asked for word by word.
        for word in words(message) {
            let answer = recall
                .search(&word, &[], agent.recall)
                .within(PATIENCE)
                .await;
            for recalled in answer.unwrap_or_default() {
                let record = recalled.record;
                let text = String::from_utf8_lossy(&record.value).into_owned();
                if !found.iter().any(|(key, _)| *key == *record.key) {
                    found.push((record.key.to_string(), text));
                }
            }
        }
        found.truncate(agent.recall as usize);
        if found.is_empty() {
            return None;
        }
        let lines: Vec<String> = found
            .iter()
            .map(|(key, text)| format!("- {key}: {text}"))
            .collect();
        Some(format!(
            "Remembered, and possibly of use:\n{}",
            lines.join("\n")
        ))
    }
}

/// The longer words of a message, each once.
fn words(message: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in message.split(|sign: char| !sign.is_alphanumeric()) {
        let word = word.to_lowercase();
        if word.chars().count() >= 4 && !words.contains(&word) && words.len() < WORDS {
            words.push(word);
        }
    }
    words
}
