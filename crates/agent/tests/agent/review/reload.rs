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
use crate::fixture::{Fixture, WIRES};

/// Tools that can become more.
pub(crate) struct ExtensibleToolboxes {
    pub(crate) inner: Arc<dyn Toolboxes>,
    pub(crate) later: Mutex<VecDeque<Arc<dyn Tool>>>,
}

#[async_trait]
impl Toolboxes for ExtensibleToolboxes {
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
async fn new_tools_are_added_on_reload_only() {
    for wire in WIRES {
        let call = ScriptedReply::call("late", json!({}));
        let replies = vec![text("2 km."), call, text("It is done."), text("Yes.")];
        let fixture = Fixture::new(
            wire,
            &wait_for_review("every_turns: 0, tools: [grep]"),
            replies,
        )
        .await;
        let mut dependencies = fixture.dependencies();
        let growing = Arc::new(ExtensibleToolboxes {
            inner: Arc::clone(&dependencies.toolboxes),
            later: Mutex::default(),
        });
        dependencies.toolboxes = Arc::clone(&growing) as _;
        let mut chat = Chat::begin(dependencies, fixture.team(), None)
            .await
            .unwrap();
        let before = fixture.turn(&mut chat, "How deep?").await;
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

        fixture.answers.give([Approval::Yes]);
        let report = fixture.turn(&mut chat, "Now?").await;
        assert_eq!((report.text.as_str(), late.entered()), ("It is done.", 1));
        let said: Vec<_> = turns(&fixture.bodies()[1]).into_iter().take(2).collect();
        assert_eq!(said[0], Turn::User("How deep?".to_owned()));
        assert!(
            matches!(&said[1], Turn::Model { text, .. } if text == "2 km."),
            "{said:?}"
        );
        // What was taken over stays.
        fixture.turn(&mut chat, "Sure?").await;
        fixture.check_from(1);
    }
}
