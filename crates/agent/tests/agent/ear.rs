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

type Act = Box<dyn Fn(&Input) -> Option<Says> + Send + Sync>;

/// What a handler does.
#[expect(clippy::large_enum_variant, reason = "there are few of them")]
pub(crate) enum Says {
    /// It says something.
    This(Output),
    /// It never comes back.
    Nothing,
    /// It breaks down.
    Fails,
}

/// Hears what it listens for, and says what it was told to. Without a wish it hears nothing.
#[derive(Default)]
pub(crate) struct Ear {
    listens: Mutex<Vec<Event>>,
    acts: Mutex<Vec<(Event, Act)>>,
    heard: Mutex<Vec<Input>>,
}

impl Ear {
    /// From the next chat on, hears of these events, too.
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

    /// Listens for an event, and does this about it. The first that does anything counts.
    pub(crate) fn on(
        &self,
        event: Event,
        act: impl Fn(&Input) -> Option<Says> + Send + Sync + 'static,
    ) {
        self.listen([event]);
        self.acts.lock().unwrap().push((event, Box::new(act)));
    }

    /// Always says the same about an event.
    pub(crate) fn say(&self, event: Event, output: Output) {
        self.on(event, move |_| Some(Says::This(output.clone())));
    }

    /// What it heard.
    pub(crate) fn heard(&self) -> Vec<Input> {
        self.heard.lock().unwrap().clone()
    }

    pub(crate) fn heard_of(&self, event: Event) -> Vec<Input> {
        let heard = self.heard();
        heard
            .into_iter()
            .filter(|input| input.event == event)
            .collect()
    }

    pub(crate) fn events(&self) -> Vec<&'static str> {
        self.heard()
            .iter()
            .map(|input| input.event.name())
            .collect()
    }

    pub(crate) fn forget(&self) {
        self.heard.lock().unwrap().clear();
        self.acts.lock().unwrap().clear();
    }
}

/// An ear as a builtin.
pub(crate) struct Hearing(pub(crate) Arc<Ear>);

#[async_trait]
impl Builtin for Hearing {
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
        self.0.heard.lock().unwrap().push(input.clone());
        let says = {
            let acts = self.0.acts.lock().unwrap();
            let mut acts = acts.iter().filter(|(event, _)| *event == input.event);
            acts.find_map(|(_, act)| act(input))
        };
        match says {
            None => Ok(Output::default()),
            Some(Says::This(output)) => Ok(output),
            Some(Says::Nothing) => std::future::pending().await,
            Some(Says::Fails) => Err(Fault::new("the ear is deaf")),
        }
    }
}

/// Tells agents with `add_date: true` the time.
pub(crate) struct SpeakingClock(pub(crate) Arc<dyn Clock>);

#[async_trait]
impl Builtin for SpeakingClock {
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
