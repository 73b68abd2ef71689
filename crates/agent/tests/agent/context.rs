//! Volatile context is added to the newest message.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_agent::{AgentDefinition, ContextSource};
use cachalot_core::ManualClock;
use cachalot_simulator::ScriptedReply;
use serde_json::json;

use crate::bodies::{self, Turn, turns};
use crate::fixture::{Fixture, NOW, WIRES};
use crate::turns::CODER;

/// Returns a new text for each call, and none if `recall` is not set.
#[derive(Default)]
struct RecallSource(AtomicUsize);

#[async_trait]
impl ContextSource for RecallSource {
    async fn paragraph(&self, agent: &AgentDefinition, message: &str) -> Option<String> {
        let times = self.0.fetch_add(1, Ordering::SeqCst);
        (agent.recall > 0 && message.contains("remember"))
            .then(|| format!("Remembered the {times}th time."))
    }
}

#[tokio::test]
async fn context_is_added_to_the_newest_message_only_and_kept() {
    for wire in WIRES {
        let file = CODER.replace("toolsets:", "add_date: true\n    recall: 3\n    toolsets:");
        let replies = vec![
            ScriptedReply::call("list_dir", json!({})),
            ScriptedReply::text("one"),
            ScriptedReply::text("two"),
            ScriptedReply::text("three"),
        ];
        let mut fixture = Fixture::new(wire, &file, replies).await;
        let clock = Arc::new(ManualClock::at(NOW));
        fixture.clock = Arc::clone(&clock) as _;
        fixture.sources = vec![Arc::new(RecallSource::default())];
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "Do you remember?").await;
        clock.advance(Duration::from_secs(86_400));
        fixture.turn(&mut chat, "And now?").await;
        clock.advance(Duration::from_secs(1));
        fixture.turn(&mut chat, "Do you still remember?").await;
        let said: Vec<String> = turns(&fixture.last_body())
            .into_iter()
            .filter_map(|turn| match turn {
                Turn::User(text) => Some(text.replace('\n', "|")),
                _ => None,
            })
            .collect();
        let joint = if wire == crate::fixture::Wire::Chat {
            "||"
        } else {
            ""
        };
        assert_eq!(
            said,
            [
                format!(
                    "Do you remember?{joint}<context>|The time is 2026-11-21T02:42:00.000Z.|Remembered the 0th time.|</context>"
                ),
                format!(
                    "And now?{joint}<context>|The time is 2026-11-22T02:42:00.000Z.|</context>"
                ),
                format!(
                    "Do you still remember?{joint}<context>|The time is 2026-11-22T02:42:01.000Z.|Remembered the 2th time.|</context>"
                ),
            ]
        );
        assert_eq!(bodies::frozen_parts(&fixture.simulator.received()).len(), 1);
        // The title is what the user said.
        let kept = fixture.session(chat.session()).await;
        assert_eq!(kept.head.title.as_deref(), Some("Do you remember?"));
        fixture.check();
    }
}

#[tokio::test]
async fn agent_without_context_keys_adds_nothing() {
    let mut fixture = Fixture::new(WIRES[0], CODER, vec![ScriptedReply::text("one")]).await;
    fixture.sources = vec![Arc::new(RecallSource::default())];
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "Do you remember?").await;
    assert_eq!(
        fixture.last_body()["messages"][1]["content"],
        "Do you remember?"
    );
    fixture.check();
}
