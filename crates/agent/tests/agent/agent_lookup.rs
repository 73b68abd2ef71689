//! The view of agents that builtins have, and its problems at load.

use std::sync::{Arc, Mutex};

use cachalot_agent::AgentDirectory;
use cachalot_core::Digest;
use cachalot_core::tree::Node;
use cachalot_hooks::{AgentLookup, AgentView, Builtin, Event, Fault, Injection, Input, Output};
use cachalot_simulator::ScriptedReply;

use crate::fixture::{Fixture, Wire, load};
use crate::turns::{CODER, TALKER};

/// A fingerprint, the models, and the section.
type Seen = (Option<Digest>, Vec<String>, Option<String>);

/// Looks its agent up at each turn, as builtins do that are handed the roster.
struct FingerprintBuiltin {
    agent_directory: Arc<AgentDirectory>,
    seen: Mutex<Vec<Seen>>,
}

impl FingerprintBuiltin {
    fn new(fixture: &Fixture) -> Arc<Self> {
        Arc::new(Self {
            agent_directory: Arc::clone(&fixture.agent_directory),
            seen: Mutex::default(),
        })
    }

    fn fingerprint(&self) -> Digest {
        self.seen.lock().unwrap().last().unwrap().0.unwrap()
    }
}

#[async_trait::async_trait]
impl Builtin for FingerprintBuiltin {
    fn name(&self) -> &'static str {
        "looking"
    }

    fn about(&self) -> &'static str {
        "Looks."
    }

    fn events(&self) -> &'static [Event] {
        &[Event::PreUserTurn]
    }

    fn sections(&self) -> &'static [&'static str] {
        &["looking"]
    }

    fn inject(&self, agent: &dyn AgentView) -> Vec<Injection> {
        let section = agent.section("looking").and_then(Node::as_text);
        section
            .map(|_| Injection::for_event(Event::PreUserTurn))
            .into_iter()
            .collect()
    }

    async fn run(&self, _: &[String], input: &Input) -> Result<Output, Fault> {
        let view = self.agent_directory.agent(&input.agent_name).unwrap();
        assert_eq!(view.name(), input.agent_name);
        let models = view
            .models()
            .iter()
            .map(|model| format!("{}/{}", model.provider(), model.name()))
            .collect();
        let section = view
            .section("looking")
            .and_then(Node::as_text)
            .map(str::to_owned);
        self.seen
            .lock()
            .unwrap()
            .push((view.fingerprint(&input.session_id), models, section));
        Ok(Output::default())
    }
}

fn looked_at(file: &str) -> String {
    file.replace("model: test,", "model: test, looking: closely,")
        .replace(
            "    model: test\n",
            "    model: test\n    looking: closely\n",
        )
}

async fn of(wire: Wire, file: &str, keys: &str) -> Digest {
    let mut fixture = Fixture::new(wire, &looked_at(file), vec![ScriptedReply::text("a")]).await;
    fixture.model_keys = keys.to_owned();
    // Base URLs are part of what a model is: ports differ.
    let looking = FingerprintBuiltin::new(&fixture);
    fixture.builtins = vec![Arc::clone(&looking) as _];
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "go").await;
    fixture.check();
    looking.fingerprint()
}

#[tokio::test]
async fn a_builtin_sees_models_sections_and_a_fingerprint() {
    let replies = vec![
        ScriptedReply::text("a"),
        ScriptedReply::text("b"),
        ScriptedReply::text("c"),
    ];
    let mut fixture = Fixture::new(Wire::Messages, &looked_at(TALKER), replies).await;
    let looking = FingerprintBuiltin::new(&fixture);
    fixture.builtins = vec![Arc::clone(&looking) as _];
    let mut chat = fixture.chat().await;
    let session = chat.session().to_owned();
    fixture.turn(&mut chat, "go").await;
    let (first, models, section) = looking.seen.lock().unwrap()[0].clone();
    assert_eq!(models, ["anthropic/claude-sonnet-4-5"]);
    assert_eq!(section.as_deref(), Some("closely"));
    let first = first.unwrap();
    chat.close().await;
    let view = fixture.agent_directory.agent("root").unwrap();
    assert_eq!(view.fingerprint(&session), None);
    assert!(fixture.agent_directory.agent("nobody").is_none());
    // The session goes on with what it began with, also if the file says something else now.
    fixture.rewrite(&looked_at(&TALKER.replace("You talk.", "You sing.")));
    let mut chat = fixture.resume(&session).await.unwrap();
    fixture.turn(&mut chat, "go").await;
    assert_eq!(looking.fingerprint(), first);
    // A new one does not.
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "go").await;
    assert_ne!(looking.fingerprint(), first);
    fixture.check();
}

#[tokio::test]
async fn fingerprint_covers_every_setting_that_changes_the_answer() {
    let mut fixture = Fixture::new(Wire::Chat, "", Vec::new()).await;
    let looking = FingerprintBuiltin::new(&fixture);
    fixture.builtins = vec![Arc::clone(&looking) as _];
    let mut found = Vec::new();
    let variants = [
        (TALKER.to_owned(), ""),
        (TALKER.replace("You talk.", "You sing."), ""),
        (TALKER.to_owned(), ", temperature: 0.5"),
        (TALKER.to_owned(), ", max_tokens: 5000"),
        (CODER.replace("You work on files.", "You talk."), ""),
        (format!("{TALKER}permissions: {{deny: [read_file]}}\n"), ""),
        (format!("{TALKER}mcps: {{db: {{command: a}}}}\n"), ""),
        (format!("{TALKER}mcps: {{db: {{command: b}}}}\n"), ""),
        (
            TALKER.replace(
                "You talk.",
                "You talk., hooks: {turn_start: [{type: command, command: date}]}",
            ),
            "",
        ),
    ];
    for (file, keys) in variants {
        fixture.rewrite(&looked_at(&file));
        fixture.model_keys = keys.to_owned();
        let chat = fixture.chat().await;
        let view = fixture.agent_directory.agent("root").unwrap();
        found.push(view.fingerprint(chat.session()).unwrap());
        let again = fixture.chat().await;
        assert_eq!(view.fingerprint(again.session()), found.last().copied());
    }
    fixture.check();
    for (at, digest) in found.iter().enumerate() {
        assert!(!found[..at].contains(digest), "{at}");
    }
    assert_ne!(
        of(Wire::Chat, TALKER, "").await,
        of(Wire::Messages, TALKER, "").await
    );
}

#[test]
fn an_unclaimed_key_is_unknown() {
    let file = "agents: {root: {model: gpt-4o, ad_date: true}}";
    let problems = load(file, std::path::Path::new(".")).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].code, "unknown-key");
    assert_eq!(
        problems[0].help.as_deref(),
        Some("did you mean `add_date`?")
    );
    let file = "agents: {root: {model: gpt-4o, instrction: x}}";
    let problems = load(file, std::path::Path::new(".")).unwrap_err();
    assert_eq!(
        problems[0].help.as_deref(),
        Some("did you mean `instruction`?")
    );
}

#[test]
fn invalid_hooks_are_problems_with_a_place() {
    for hooks in [
        "{no_such_event: [{type: builtin, command: ear}]}",
        "{stop: [{type: builtin, command: nobody}]}",
        "{stop: 5}",
    ] {
        let file = format!("agents: {{root: {{model: gpt-4o, hooks: {hooks}}}}}");
        let problems = load(&file, std::path::Path::new(".")).unwrap_err();
        assert!(problems[0].place.is_some(), "{problems:?}");
    }
}
