//! What changes from turn to turn goes into the newest message.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_agent::{AgentDefinition, ContextSource};
use cachalot_core::ManualClock;
use cachalot_simulator::ScriptedReply;
use serde_json::json;

use crate::bodies::{self, Turn, turns};
use crate::turns::CODER;
use crate::world::{NOW, WIRES, World};

/// Remembers something else each time, and nothing when nobody asks for it.
#[derive(Default)]
struct Recollection(AtomicUsize);

#[async_trait]
impl ContextSource for Recollection {
    async fn paragraph(&self, agent: &AgentDefinition, message: &str) -> Option<String> {
        let times = self.0.fetch_add(1, Ordering::SeqCst);
        (agent.recall > 0 && message.contains("remember"))
            .then(|| format!("Remembered the {times}th time."))
    }
}

#[tokio::test]
async fn it_goes_into_the_newest_message_only_and_stays_there() {
    for wire in WIRES {
        let file = CODER.replace("toolsets:", "add_date: true\n    recall: 3\n    toolsets:");
        let replies = vec![
            ScriptedReply::call("list_dir", json!({})),
            ScriptedReply::text("one"),
            ScriptedReply::text("two"),
            ScriptedReply::text("three"),
        ];
        let mut world = World::new(wire, &file, replies).await;
        let clock = Arc::new(ManualClock::at(NOW));
        world.clock = Arc::clone(&clock) as _;
        world.sources = vec![Arc::new(Recollection::default())];
        let mut chat = world.chat().await;
        world.turn(&mut chat, "Do you remember?").await;
        clock.advance(Duration::from_secs(86_400));
        world.turn(&mut chat, "And now?").await;
        clock.advance(Duration::from_secs(1));
        world.turn(&mut chat, "Do you still remember?").await;
        let said: Vec<String> = turns(&world.last_body())
            .into_iter()
            .filter_map(|turn| match turn {
                Turn::User(text) => Some(text.replace('\n', "|")),
                _ => None,
            })
            .collect();
        let joint = if wire == crate::world::Wire::Chat {
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
        assert_eq!(bodies::frozen_parts(&world.simulator.received()).len(), 1);
        // The title is what the user said.
        let kept = world.session(chat.session()).await;
        assert_eq!(kept.head.title.as_deref(), Some("Do you remember?"));
        world.check();
    }
}

#[tokio::test]
async fn without_it_nothing_is_added() {
    let mut world = World::new(WIRES[0], CODER, vec![ScriptedReply::text("one")]).await;
    world.sources = vec![Arc::new(Recollection::default())];
    let mut chat = world.chat().await;
    world.turn(&mut chat, "Do you remember?").await;
    assert_eq!(
        world.last_body()["messages"][1]["content"],
        "Do you remember?"
    );
    world.check();
}
