//! Builtins for tests: one that hears everything and says what a test wants, and one that tells the
//! time.

use std::sync::{Arc, LazyLock, Mutex};

use async_trait::async_trait;
use cachalot_core::clock::iso8601;
use cachalot_core::tree::Node;
use cachalot_core::{Clock, Problem};
use cachalot_hooks::definition::{Action, Definition};

use cachalot_hooks::{
    AgentView, Builtin, Dialect, Event, Fault, HookEntry, Injection, Input, Matcher, Output,
};

static ALL: LazyLock<Vec<Event>> = LazyLock::new(|| Event::all().collect());

type HookAction = Box<dyn Fn(&Input) -> Option<HookReply> + Send + Sync>;

/// Output of a recorded hook.
#[expect(clippy::large_enum_variant, reason = "there are few of them")]
pub(crate) enum HookReply {
    /// Returns an output.
    This(Output),
    /// Never completes.
    Nothing,
    /// Panics.
    Fails,
}

/// Records the inputs of its events, and returns scripted outputs.
#[derive(Default)]
pub(crate) struct HookRecorder {
    listens: Mutex<Vec<Event>>,
    acts: Mutex<Vec<(Event, HookAction)>>,
    recorded: Mutex<Vec<Input>>,
}

impl HookRecorder {
    /// Adds events, from the next chat on.
    pub(crate) fn listen(&self, events: impl IntoIterator<Item = Event>) {
        let mut listens = self.listens.lock().unwrap();
        for event in events {
            if !listens.contains(&event) {
                listens.push(event);
            }
        }
    }

    pub(crate) fn listen_to_all(&self) {
        self.listen(ALL.iter().copied());
    }

    /// Adds an action for an event. The first one that returns an output wins.
    pub(crate) fn on(
        &self,
        event: Event,
        act: impl Fn(&Input) -> Option<HookReply> + Send + Sync + 'static,
    ) {
        self.listen([event]);
        self.acts.lock().unwrap().push((event, Box::new(act)));
    }

    /// Always returns the same output for an event.
    pub(crate) fn say(&self, event: Event, output: Output) {
        self.on(event, move |_| Some(HookReply::This(output.clone())));
    }

    /// All recorded inputs.
    pub(crate) fn recorded(&self) -> Vec<Input> {
        self.recorded.lock().unwrap().clone()
    }

    pub(crate) fn recorded_of(&self, event: Event) -> Vec<Input> {
        let recorded = self.recorded();
        recorded
            .into_iter()
            .filter(|input| input.event == event)
            .collect()
    }

    pub(crate) fn events(&self) -> Vec<&'static str> {
        self.recorded()
            .iter()
            .map(|input| input.event.name())
            .collect()
    }

    pub(crate) fn forget(&self) {
        self.recorded.lock().unwrap().clear();
        self.acts.lock().unwrap().clear();
    }
}

/// The recorder as a builtin.
pub(crate) struct RecorderBuiltin(pub(crate) Arc<HookRecorder>);

#[async_trait]
impl Builtin for RecorderBuiltin {
    fn name(&self) -> &'static str {
        "ear"
    }

    fn about(&self) -> &'static str {
        "Hears."
    }

    fn events(&self) -> &'static [Event] {
        &ALL
    }

    fn inject(&self, _: &dyn AgentView) -> Vec<Injection> {
        let listens = self.0.listens.lock().unwrap();
        listens.iter().copied().map(Injection::for_event).collect()
    }

    async fn run(&self, _: &[String], input: &Input) -> Result<Output, Fault> {
        self.0.recorded.lock().unwrap().push(input.clone());
        let says = {
            let acts = self.0.acts.lock().unwrap();
            let mut acts = acts.iter().filter(|(event, _)| *event == input.event);
            acts.find_map(|(_, act)| act(input))
        };
        match says {
            None => Ok(Output::default()),
            Some(HookReply::This(output)) => Ok(output),
            Some(HookReply::Nothing) => std::future::pending().await,
            Some(HookReply::Fails) => Err(Fault::new("the ear is deaf")),
        }
    }
}

/// Adds the time for agents with `add_date: true`.
pub(crate) struct DateBuiltin(pub(crate) Arc<dyn Clock>);

#[async_trait]
impl Builtin for DateBuiltin {
    fn name(&self) -> &'static str {
        "add_date"
    }

    fn about(&self) -> &'static str {
        "Tells the time."
    }

    fn events(&self) -> &'static [Event] {
        &[Event::TurnStart]
    }

    fn sections(&self) -> &'static [&'static str] {
        &["add_date"]
    }

    fn check_section(&self, name: &str, section: &Node, problems: &mut Vec<Problem>) {
        if section.as_boolean().is_none() {
            problems.push(section.wrong_type(&format!("`{name}`"), "`true` or `false`"));
        }
    }

    fn inject(&self, agent: &dyn AgentView) -> Vec<Injection> {
        let wish = agent.section("add_date").and_then(Node::as_boolean);
        match wish {
            Some(true) => vec![Injection::for_event(Event::TurnStart)],
            _ => Vec::new(),
        }
    }

    async fn run(&self, _: &[String], _: &Input) -> Result<Output, Fault> {
        Ok(adds(&format!("The time is {}.", iso8601(self.0.now()))))
    }
}

/// A hook that a file names, in these words.
pub(crate) fn entry(event: Event, dialect: Dialect) -> HookEntry {
    HookEntry {
        event,
        event_name: event.name().into(),
        matcher: Matcher::ALL,
        only: None,
        definition: Definition::new(Action::Builtin {
            name: "ear".to_owned(),
            arguments: Vec::new(),
        }),
        dialect,
        source: "test".into(),
        place: None,
    }
}

pub(crate) fn adds(text: &str) -> Output {
    Output {
        additional_context: Some(text.to_owned()),
        ..Output::default()
    }
}

pub(crate) fn blocks(why: &str) -> Output {
    Output {
        block: Some(why.to_owned()),
        ..Output::default()
    }
}
