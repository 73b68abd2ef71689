//! Who is told of an event, in what order, and what comes of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cachalot_core::{Clock, Digest, Problem};
use cachalot_model::Models;
use cachalot_storage::HttpClient;
use futures_util::future::{BoxFuture, join_all};

use crate::Event;
use crate::builtin::Builtins;
use crate::definition::Entry;
use crate::event::EVENTS;
use crate::handler::Handler;
use crate::handler::exports;
use crate::input::Input;
use crate::lookup::AgentView;
use crate::verdict::Verdict;

mod assemble;
mod hear;
mod rewrite;
mod select;
mod sessions;
mod tally;
mod writes;

pub(crate) use sessions::{Left, Sessions};
use tally::Tally;

/// What handlers need of the world.
#[derive(Clone)]
pub struct Surroundings {
    /// The builtins.
    pub builtins: Arc<Builtins>,
    /// The models that hooks may ask.
    pub models: Models,
    /// For requests to addresses that files name.
    pub http: HttpClient,
    /// The environment variables.
    pub environment: Arc<BTreeMap<String, String>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The directory that tools work in: `cwd`, and where commands run.
    pub directory: PathBuf,
}

/// The hooks of an agent, ready to be told. Cheap to clone; clones are the same.
#[derive(Clone, Default)]
pub struct Hooks(Arc<Assembled>);

#[derive(Default)]
struct Assembled {
    /// Those that are ready, by event.
    ready: [Vec<Ready>; EVENTS],
    /// Whether anybody is to be told, by event.
    wanted: [bool; EVENTS],
    sessions: Arc<Sessions>,
    /// The environment variables, and where commands run.
    environment: Arc<BTreeMap<String, String>>,
    directory: PathBuf,
}

/// A hook that can be told.
struct Ready {
    entry: Entry,
    handler: Arc<dyn Handler>,
    /// The number of the first hook of the event that runs the same in the same words: of those, one
    /// is told.
    same_as: usize,
    /// Whether its failure is only warned of, unless the event or its definition says otherwise: hooks
    /// of other runtimes, and builtins that guard nothing.
    fails_open: bool,
    /// Whether it runs after all others of the event ([`crate::Builtin::runs_last`]).
    runs_last: bool,
}

impl Hooks {
    /// The hooks that files and flags name for an agent, in this order, and behind them those that
    /// builtins add for themselves, in the order in which they are registered.
    ///
    /// # Errors
    /// All hooks that cannot be made ready: a builtin that is not there, a model that cannot be
    /// found; `on_error: block` where nothing can be blocked; a builtin that adds itself to an event
    /// that it makes no sense for.
    pub fn assemble(
        entries: Vec<Entry>,
        agent: &dyn AgentView,
        surroundings: &Surroundings,
    ) -> Result<Self, Vec<Problem>> {
        assemble::assemble(entries, agent, surroundings).map(|all| Self(Arc::new(all)))
    }

    /// A digest of who is told of what, in which order: what hooks say may be different where it is.
    #[must_use]
    pub fn identity(&self) -> Digest {
        let ready = self.0.ready.iter().flatten();
        let told: Vec<String> = ready
            .map(|Ready { entry, .. }| {
                let Entry {
                    event,
                    spoken,
                    matcher,
                    only,
                    definition,
                    dialect,
                    source: _,
                    place: _,
                } = entry;
                let matcher = matcher.pattern();
                format!("{event} {spoken} {matcher:?} {only:?} {dialect} {definition:?}")
            })
            .collect();
        let told: Vec<&[u8]> = told.iter().map(String::as_bytes).collect();
        Digest::of_parts(&told)
    }

    /// Whether anybody is to be told of an event: to be asked before an [`Input`] is put together.
    #[must_use]
    #[inline]
    pub fn want(&self, event: Event) -> bool {
        self.0.wanted[event as usize]
    }

    /// Whether anybody may be to be told of an event of this tool. In doubt yes: dialects have names
    /// of their own for tools, and of a tool of a server more than its name counts.
    #[must_use]
    pub fn want_tool(&self, event: Event, tool: &str) -> bool {
        self.0.ready[event as usize]
            .iter()
            .any(|ready| select::may_be_for(ready, tool))
    }

    /// Tells everybody who is to be told, and gives what they say together. Nothing that a handler
    /// does makes this fail: errors, panics and handlers that take too long are part of the verdict.
    /// Dropping the future ends the handlers.
    #[inline]
    pub fn fire(&self, input: Input) -> impl Future<Output = Verdict> + Send {
        // An input that nobody wants is moved nowhere.
        let telling = match self.want(input.event) {
            true => Some(self.telling(input)),
            false => None,
        };
        async move {
            match telling {
                Some(telling) => telling.await,
                None => Verdict::default(),
            }
        }
    }

    /// Boxed, so that callers do not have to make room for it wherever they might fire.
    #[inline(never)]
    fn telling(&self, input: Input) -> BoxFuture<'_, Verdict> {
        Box::pin(self.tell(input))
    }

    /// Each wave is told together, and is told what those before it rewrote. What they say counts in
    /// the order of the configuration, whoever was done first.
    async fn tell(&self, mut input: Input) -> Verdict {
        let sessions = &self.0.sessions;
        let told = select::told(&self.0.ready[input.event as usize], &input, sessions);
        let mut tally = Tally::new(&input, told.len());
        if input.event == Event::TurnStart {
            for left in sessions.take_left(&input.session_id) {
                // It is too late to forbid anything.
                tally.add(&left.entry, true, left.report, &mut input);
            }
        }
        for wave in select::waves(input.event.contract(), &told) {
            let heard = wave.iter().map(|ready| hear::hear(ready, &input, sessions));
            let reports = join_all(heard).await;
            for (ready, report) in wave.iter().zip(reports) {
                tally.add(&ready.entry, ready.fails_open, report, &mut input);
            }
        }
        match input.event {
            Event::SessionStart => self.take_exports(&input.session_id, &mut tally).await,
            Event::SessionEnd => sessions.forget(&input.session_id),
            _ => {}
        }
        tally.verdict()
    }

    /// Hooks may have set environment variables.
    async fn take_exports(&self, session: &str, tally: &mut Tally) {
        let Some(file) = self.0.sessions.exported(session) else {
            return;
        };
        match exports::read(&file, &self.0.environment, &self.0.directory).await {
            Ok(environment) => {
                self.0.sessions.set(session, &environment);
                tally.set(environment);
            }
            Err(fault) => tally.tell(Some(&fault.message)),
        }
    }
}
