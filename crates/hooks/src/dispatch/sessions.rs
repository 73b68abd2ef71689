//! What hooks leave behind in a session: that they have run, what they said when nobody waited any
//! more, and environment variables.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tempfile::NamedTempFile;

use crate::Event;
use crate::definition::{Background, Entry, OnError};
use crate::output::{Fault, Output};
use crate::verdict::Report;

/// What hooks of an agent leave behind, by session. Gone with the agent's hooks.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Session>>);

#[derive(Default)]
struct Session {
    /// The hooks that run once, and have.
    ran: BTreeSet<(Event, usize)>,
    /// What hooks said in the background.
    left: Vec<Left>,
    /// Where hooks write environment variables.
    exports: Option<NamedTempFile>,
    /// What they have written.
    environment: BTreeMap<String, String>,
}

/// A hook that ran in the background, and what it said.
pub(crate) struct Left {
    pub(super) entry: Entry,
    pub(super) report: Report,
}

impl Left {
    /// Makes of what a hook said in the background what can still be told when the next turn starts: its
    /// messages and context, and what it blocks with if the hook is to be heard.
    pub(crate) fn of(entry: &Entry, began: Instant, said: Result<Output, Fault>) -> Self {
        let mut entry = entry.clone();
        let is_heard = entry.definition.background == Some(Background::Heard);
        let said = said.map(|output| {
            let block = output.block.filter(|_| is_heard);
            // Claude Code tells the model, whoever a message was for.
            let told = [output.additional_context, output.system_message, block];
            let told: Vec<String> = told.into_iter().flatten().collect();
            Output {
                additional_context: Some(told.join("\n")).filter(|told| !told.is_empty()),
                spent: output.spent,
                ..Output::default()
            }
        });
        // It is too late to forbid anything by failing.
        entry.definition.on_error = entry.definition.on_error.filter(|on| *on != OnError::Block);
        let report = Report::new(&entry, began, said);
        Self { entry, report }
    }
}

impl Sessions {
    /// Whether a hook runs for the first time.
    pub(super) fn is_first(&self, session: &str, event: Event, hook: usize) -> bool {
        self.with(session, |session| session.ran.insert((event, hook)))
    }

    /// What a hook has said that nobody waited for. Of a session that is over, nobody wants to know.
    pub(crate) fn leave(&self, session: &str, left: Left) {
        if let Some(session) = self.lock().get_mut(session) {
            session.left.push(left);
        }
    }

    /// A hook begins for which nobody waits.
    pub(crate) fn begin(&self, session: &str) {
        self.with(session, |_| ());
    }

    /// What was left since this was asked last.
    pub(super) fn take_left(&self, session: &str) -> Vec<Left> {
        let mut sessions = self.lock();
        let session = sessions.get_mut(session);
        session
            .map(|session| std::mem::take(&mut session.left))
            .unwrap_or_default()
    }

    /// A file that hooks add environment variables to, readable by its owner only.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn exports(&self, session: &str) -> io::Result<PathBuf> {
        self.with(session, |session| {
            let file = match session.exports.take() {
                Some(file) => file,
                None => tempfile::Builder::new()
                    .prefix("cachalot-environment-")
                    .suffix(".sh")
                    .tempfile()?,
            };
            Ok(session.exports.insert(file).path().to_owned())
        })
    }

    /// That file, if there is one.
    pub(super) fn exported(&self, session: &str) -> Option<PathBuf> {
        let sessions = self.lock();
        let file = sessions.get(session)?.exports.as_ref()?;
        Some(Path::to_owned(file.path()))
    }

    /// The environment variables are these from now on.
    pub(super) fn set(&self, session: &str, environment: &BTreeMap<String, String>) {
        self.with(session, |session| {
            session.environment.clone_from(environment)
        });
    }

    /// The environment variables that hooks have set.
    pub(crate) fn environment(&self, session: &str) -> BTreeMap<String, String> {
        let sessions = self.lock();
        let session = sessions.get(session);
        session
            .map(|session| session.environment.clone())
            .unwrap_or_default()
    }

    /// The session is over.
    pub(super) fn forget(&self, session: &str) {
        self.lock().remove(session);
    }

    fn with<T>(&self, session: &str, act: impl FnOnce(&mut Session) -> T) -> T {
        act(self.lock().entry(session.to_owned()).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
