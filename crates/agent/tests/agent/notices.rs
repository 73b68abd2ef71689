//! Notices about work that tools do in the background.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cachalot_agent::{AgentDefinition, Chat, Error, Team, Toolboxes};
use cachalot_simulator::ScriptedReply;
use cachalot_tools::{Tool, Toolbox};
use serde_json::json;

use crate::bodies::{Turn, turns};
use crate::fixture::{Fixture, WIRES, Wire};
use crate::turns::CODER;

/// Returns these notices, in the order of the calls.
struct NoticingToolboxes {
    inner: Arc<dyn Toolboxes>,
    notices: Mutex<VecDeque<Vec<String>>>,
    sessions: Mutex<Vec<String>>,
}

#[async_trait]
impl Toolboxes for NoticingToolboxes {
    async fn toolbox(
        &self,
        team: &Team,
        agent: &AgentDefinition,
        session: &str,
        own: Vec<Arc<dyn Tool>>,
        warn: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Arc<dyn Toolbox>, Error> {
        self.inner.toolbox(team, agent, session, own, warn).await
    }

    fn take_notices(&self, session: &str) -> Vec<String> {
        self.sessions.lock().unwrap().push(session.to_owned());
        let next = self.notices.lock().unwrap().pop_front();
        next.unwrap_or_default()
    }
}

async fn chat(fixture: &Fixture, notices: &[&[&str]]) -> (Chat, Arc<NoticingToolboxes>) {
    let mut dependencies = fixture.dependencies();
    let owned = |texts: &&[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let noticing = Arc::new(NoticingToolboxes {
        inner: Arc::clone(&dependencies.toolboxes),
        notices: Mutex::new(notices.iter().map(owned).collect()),
        sessions: Mutex::default(),
    });
    dependencies.toolboxes = Arc::clone(&noticing) as _;
    let chat = Chat::begin(dependencies, fixture.team(), None).await;
    (chat.unwrap(), noticing)
}

#[tokio::test]
async fn notices_follow_the_next_message_or_tool_result() {
    for wire in WIRES {
        let read = || ScriptedReply::call("read_file", json!({"path": "a.md"}));
        let both = read().and_call("read_file", json!({"path": "b.md"}));
        let replies = vec![
            both,
            read(),
            ScriptedReply::text("one"),
            ScriptedReply::text("two"),
        ];
        let fixture = Fixture::new(wire, CODER, replies).await;
        fixture.write("a.md", "the first file");
        fixture.write("b.md", "the second file");
        let notices: &[&[&str]] = &[&["job one"], &["job two", "job three"], &[], &[]];
        let (mut chat, noticing) = chat(&fixture, notices).await;
        fixture.turn(&mut chat, "go").await;
        fixture.turn(&mut chat, "on").await;
        let all = turns(&fixture.last_body());
        let Turn::User(first) = &all[0] else {
            panic!("{all:?}")
        };
        assert!(first.starts_with("go") && first.contains("<context>\njob one\n</context>"));
        let results: Vec<&Vec<(String, String)>> = all
            .iter()
            .filter_map(|turn| match turn {
                Turn::Results(results) => Some(results),
                _ => None,
            })
            .collect();
        // It follows the last result, and the others are as they were.
        assert!(!results[0][0].1.contains("job"), "{results:?}");
        let last = &results[0][1].1;
        assert!(last.contains("the second file"), "{last}");
        assert!(
            last.contains("<context>\njob two\njob three\n</context>"),
            "{last}"
        );
        assert!(!results[1][0].1.contains("job"), "{results:?}");
        assert!(
            matches!(&all[all.len() - 1], Turn::User(text) if text == "on"),
            "{all:?}"
        );
        let sessions = noticing.sessions.lock().unwrap().clone();
        assert!(sessions.iter().all(|session| session == chat.session()));
        fixture.check();
    }
}

/// A fork of the chat has a session of its own.
#[tokio::test]
async fn side_questions_take_no_notices_of_the_chat() {
    let replies = vec![ScriptedReply::text("one"), ScriptedReply::text("aside")];
    let fixture = Fixture::new(Wire::Messages, CODER, replies).await;
    let (mut chat, noticing) = chat(&fixture, &[]).await;
    fixture.turn(&mut chat, "go").await;
    let cancel = cachalot_agent::CancellationToken::default();
    chat.side_question("why?", &cancel).await.unwrap();
    let sessions = noticing.sessions.lock().unwrap().clone();
    let of_chat = sessions.iter().filter(|session| *session == chat.session());
    assert_eq!((of_chat.count(), sessions.len()), (1, 2));
    fixture.check();
}
