//! An agent as `cache_response` sees it, without a runtime: written by hand, turn by turn.

mod fixture_builder;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cachalot_cache::{Cache, EntryFilter as Entries, EntryInfo, LedgerRow, Witness};
use cachalot_core::tree::{self, Node};
use cachalot_core::{Cost, Digest, ManualClock, Millis, Problem, Spend, Witnesses};
use cachalot_hooks::builtin::cache_response::CacheResponse;
use cachalot_hooks::input::{Answer, Prompt, TurnCall};
use cachalot_hooks::{AgentLookup, AgentView, Builtin as _, Event, Input, Output, Synthetic};
use cachalot_model::{Model, OutputFormat, StopReason};

pub(crate) use fixture_builder::{FixtureBuilder, SERVER, fixture, fixture_builder, knowing};

/// The worth of every turn.
pub(crate) const WORTH: Spend = Spend {
    calls: 1,
    time: Duration::from_secs(3),
    input_tokens: 1_200,
    output_tokens: 34,
    cost: Cost {
        picodollars: 3_500_000_000,
        unpriced: 0,
    },
};

/// Sections and current fingerprint of an agent.
pub(crate) struct Agent {
    name: String,
    sections: Node,
    fingerprint: Mutex<Option<Digest>>,
}

impl Agent {
    pub(crate) fn becomes(&self, fingerprint: Option<&str>) {
        let digest = fingerprint.map(|text| Digest::sha256(text.as_bytes()));
        *self.fingerprint.lock().unwrap() = digest;
    }
}

impl AgentView for Agent {
    fn name(&self) -> &str {
        &self.name
    }

    fn models(&self) -> Vec<Model> {
        Vec::new()
    }

    fn fingerprint(&self, _: &str) -> Option<Digest> {
        *self.fingerprint.lock().unwrap()
    }

    fn section(&self, name: &str) -> Option<&Node> {
        self.sections.get(name)
    }
}

/// Agents with the same sections.
#[derive(Clone)]
pub(crate) struct Team(Vec<Arc<Agent>>);

impl AgentLookup for Team {
    fn agent(&self, name: &str) -> Option<Arc<dyn AgentView>> {
        let found = self.0.iter().find(|agent| agent.name == name)?;
        Some(Arc::clone(found) as Arc<dyn AgentView>)
    }
}

/// The builtin with its dependencies.
pub(crate) struct Fixture {
    pub(crate) builtin: CacheResponse,
    pub(crate) team: Team,
    pub(crate) cache: Cache,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) home: Arc<tempfile::TempDir>,
    pub(crate) opened: Arc<AtomicUsize>,
    turns: AtomicUsize,
}

/// A turn: the user's message, and its result.
#[derive(Clone)]
pub(crate) struct Turn {
    pub(crate) session: String,
    pub(crate) id: String,
    pub(crate) agent: String,
    pub(crate) directory: PathBuf,
    pub(crate) prompt: Prompt,
    pub(crate) answer: Answer,
}

impl Turn {
    /// The first message of a session `s`.
    pub(crate) fn saying(text: &str) -> Self {
        Self {
            session: "s".to_owned(),
            id: String::new(),
            agent: "root".to_owned(),
            directory: PathBuf::from("/work"),
            prompt: Prompt {
                text: text.to_owned(),
                prefix: Some(Digest::sha256(b"a new session")),
                ..Prompt::default()
            },
            answer: Answer {
                finish: Some(StopReason::End),
                worth: WORTH,
                ..Answer::default()
            },
        }
    }

    pub(crate) fn in_session(mut self, session: &str) -> Self {
        session.clone_into(&mut self.session);
        self
    }

    pub(crate) fn to(mut self, agent: &str) -> Self {
        agent.clone_into(&mut self.agent);
        self
    }

    pub(crate) fn behind(mut self, conversation: &str) -> Self {
        self.prompt.prefix = Some(Digest::sha256(conversation.as_bytes()));
        self
    }

    pub(crate) fn prompted(mut self, change: impl FnOnce(&mut Prompt)) -> Self {
        change(&mut self.prompt);
        self
    }

    pub(crate) fn answered(mut self, change: impl FnOnce(&mut Answer)) -> Self {
        change(&mut self.answer);
        self
    }

    /// With a call of a read-only tool.
    pub(crate) fn calling(self, name: &str, witnesses: Witnesses) -> Self {
        let call = TurnCall {
            name: name.to_owned(),
            read_only: true,
            is_error: false,
            witnesses,
            expires: None,
        };
        self.answered(|answer| answer.calls.push(call))
    }

    /// Whose last call has a result that lasts until then.
    pub(crate) fn until(self, expires: Millis) -> Self {
        self.answered(|answer| answer.calls.last_mut().unwrap().expires = Some(expires))
    }

    /// With the answer that has the form of this schema.
    pub(crate) fn formed(self, schema: serde_json::Value) -> Self {
        self.prompted(|prompt| {
            prompt.form = Some(OutputFormat {
                name: "answer".to_owned(),
                schema,
                strict: true,
            });
        })
    }

    pub(crate) fn input(&self, event: Event) -> Input {
        Input {
            event,
            session_id: self.session.clone(),
            turn_id: self.id.clone(),
            cwd: self.directory.clone(),
            agent_name: self.agent.clone(),
            model_id: "openai/gpt-4o".to_owned(),
            last_user_message: Some(self.prompt.text.clone()),
            prompt: Some(self.prompt.clone()),
            ..Input::default()
        }
    }
}

/// The result of a turn.
#[derive(Debug)]
pub(crate) enum TurnResult {
    /// It was answered without a model.
    Replayed(Synthetic),
    /// A model answered.
    Ran,
    /// It must not happen, and why.
    Blocked(String),
}

impl TurnResult {
    #[track_caller]
    pub(crate) fn replayed(self) -> Synthetic {
        match self {
            Self::Replayed(synthetic) => synthetic,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn is_replay(&self) -> bool {
        matches!(self, Self::Replayed(_))
    }
}

impl Fixture {
    pub(crate) fn agent(&self, name: &str) -> Arc<Agent> {
        let mut agents = self.team.0.iter();
        Arc::clone(agents.find(|agent| agent.name == name).unwrap())
    }

    pub(crate) async fn hear(&self, input: &Input) -> Output {
        self.builtin.run(&[], input).await.unwrap()
    }

    /// The turn with an id of its own.
    pub(crate) fn numbered(&self, turn: Turn) -> Turn {
        let number = self.turns.fetch_add(1, Ordering::SeqCst);
        Turn {
            id: format!("turn-{number}"),
            ..turn
        }
    }

    pub(crate) async fn begin(&self, turn: &Turn) -> Output {
        self.hear(&turn.input(Event::PreUserTurn)).await
    }

    pub(crate) async fn stop(&self, turn: &Turn, text: &str) -> Output {
        let answer = Answer {
            text: text.to_owned(),
            ..turn.answer.clone()
        };
        self.hear(&Input {
            answer: Some(answer),
            ..turn.input(Event::Stop)
        })
        .await
    }

    pub(crate) async fn end(&self, turn: &Turn) {
        self.hear(&turn.input(Event::TurnEnd)).await;
    }

    /// A whole turn; if a model must answer, it says `text`.
    pub(crate) async fn ask(&self, turn: Turn, text: &str) -> TurnResult {
        let turn = self.numbered(turn);
        let begun = self.begin(&turn).await;
        let came = match (begun.block, begun.synthetic) {
            (Some(why), _) => TurnResult::Blocked(why),
            (None, Some(synthetic)) => {
                let replayed = turn.clone().answered(|answer| {
                    answer.synthetic = true;
                    answer.finish = None;
                    answer.worth = Spend::default();
                });
                self.stop(&replayed, &synthetic.content).await;
                TurnResult::Replayed(synthetic)
            }
            (None, None) => {
                self.stop(&turn, text).await;
                TurnResult::Ran
            }
        };
        self.end(&turn).await;
        came
    }

    /// Returns whether the answer is stored and replayed for the same turn.
    pub(crate) async fn keeps(&self, turn: Turn, text: &str) -> bool {
        assert!(!self.ask(turn.clone(), text).await.is_replay());
        self.ask(turn, "something else").await.is_replay()
    }

    /// The reason why the answer of a turn is not stored.
    pub(crate) async fn refusal(&self, turn: Turn, text: &str) -> String {
        assert!(!self.ask(turn, text).await.is_replay());
        let row = self.row().await;
        assert_eq!(row.kind, "turn");
        row.not_stored.expect("it was kept")
    }

    /// The newest row of the ledger.
    pub(crate) async fn row(&self) -> LedgerRow {
        self.rows().await.remove(0)
    }

    /// The rows of the ledger, the newest first.
    pub(crate) async fn rows(&self) -> Vec<LedgerRow> {
        self.cache.ledger().flush().await;
        self.cache.ledger().recent(100).unwrap()
    }

    /// The entries of turns.
    pub(crate) async fn entries(&self) -> Vec<EntryInfo> {
        let mut found = Vec::new();
        let listed = self
            .cache
            .each(&Entries::default(), |stored| found.push(stored))
            .await;
        listed.unwrap();
        found
    }

    pub(crate) fn after(&self, time: Duration) {
        self.clock.advance(time);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// The witnesses of a tool that reads a file.
    pub(crate) fn read(&self, name: &str) -> Witnesses {
        let witness = Witness::default();
        witness.read(&self.path(name)).unwrap();
        witness.witnesses()
    }
}

/// Problems of a section.
pub(crate) fn problems(section: &str) -> Vec<Problem> {
    let fixture = fixture("{enabled: true}");
    let node = tree::parse("agent.yaml", &format!("cache: {section}")).unwrap();
    let mut problems = Vec::new();
    let section = node.get("cache").unwrap();
    fixture
        .builtin
        .check_section("cache", section, &mut problems);
    problems
}
