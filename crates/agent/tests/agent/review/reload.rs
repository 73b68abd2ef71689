//! Tools that came, went or changed since a session began.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cachalot_agent::{AgentDefinition, Approval, Chat, Error, Team, Toolboxes};
use cachalot_simulator::ScriptedReply;
use cachalot_tools::{Tool, Toolbox};
use serde_json::json;

use super::{Counting, text, wait_for_review};
use crate::bodies::{Turn, turns};
use crate::world::{WIRES, World};

/// Tools that can become more.
pub(crate) struct Growing {
    pub(crate) inner: Arc<dyn Toolboxes>,
    pub(crate) later: Mutex<VecDeque<Arc<dyn Tool>>>,
}

#[async_trait]
impl Toolboxes for Growing {
    async fn toolbox(
        &self,
        team: &Team,
        agent: &AgentDefinition,
        session: &str,
        mut own: Vec<Arc<dyn Tool>>,
        warn: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Arc<dyn Toolbox>, Error> {
        own.extend(self.later.lock().unwrap().iter().cloned());
        self.inner.toolbox(team, agent, session, own, warn).await
    }
}

#[tokio::test]
async fn tools_that_came_later_are_taken_over_when_the_user_wants_it() {
    for wire in WIRES {
        let call = ScriptedReply::call("late", json!({}));
        let replies = vec![text("2 km."), call, text("It is done."), text("Yes.")];
        let world = World::new(
            wire,
            &wait_for_review("every_turns: 0, tools: [grep]"),
            replies,
        )
        .await;
        let mut house = world.house();
        let growing = Arc::new(Growing {
            inner: Arc::clone(&house.toolboxes),
            later: Mutex::default(),
        });
        house.toolboxes = Arc::clone(&growing) as _;
        let mut chat = Chat::begin(house, world.team(), None).await.unwrap();
        let before = world.turn(&mut chat, "How deep?").await;
        assert_eq!(chat.reload().await.unwrap(), None, "they are the same");

        let late = Counting::new("late");
        growing
            .later
            .lock()
            .unwrap()
            .push_back(Arc::clone(&late) as _);
        let reloaded = chat.reload().await.unwrap().unwrap();
        assert_eq!(reloaded.changes, "`late` is new");
        assert_eq!(reloaded.tokens, before.sum.usage.total_input());
        assert_eq!(chat.reload().await.unwrap(), None);

        world.answers.give([Approval::Yes]);
        let report = world.turn(&mut chat, "Now?").await;
        assert_eq!((report.text.as_str(), late.entered()), ("It is done.", 1));
        let said: Vec<_> = turns(&world.bodies()[1]).into_iter().take(2).collect();
        assert_eq!(said[0], Turn::User("How deep?".to_owned()));
        assert!(
            matches!(&said[1], Turn::Model { text, .. } if text == "2 km."),
            "{said:?}"
        );
        // What was taken over stays.
        world.turn(&mut chat, "Sure?").await;
        world.check_from(1);
    }
}
