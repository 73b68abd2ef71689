//! The listener of a fork.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cachalot_model::Usage;
use cachalot_tools::Gate;

use crate::event::{Event, Listener};

/// Forwards the events of a fork, and records what its report needs.
pub(super) struct Overheard {
    outer: Arc<dyn Listener>,
    /// The holder under which events are forwarded; `None` forwards them as the agent's own, as for a
    /// sub-agent.
    holder: Option<String>,
    noted: Mutex<Noted>,
}

/// Recorded facts for the report of a fork.
#[derive(Default)]
struct Noted {
    /// Set when the fork starts.
    gate: Option<Gate>,
    /// Usage of the first request, once it was answered.
    first: Option<Option<Usage>>,
    denied: Vec<String>,
}

impl Overheard {
    pub(super) fn new(outer: Arc<dyn Listener>, holder: Option<&str>) -> Self {
        Self {
            outer,
            holder: holder.map(str::to_owned),
            noted: Mutex::default(),
        }
    }

    /// Records from now on the calls that this gate denies.
    pub(super) fn watch(&self, gate: Option<&Gate>) {
        self.noted().gate = gate.cloned();
    }

    /// Usage of the first request.
    pub(super) fn first(&self) -> Option<Usage> {
        self.noted().first.flatten()
    }

    /// The tools that were called and denied, without duplicates.
    pub(super) fn denied(&self) -> Vec<String> {
        self.noted().denied.clone()
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, event: &Event<'_>) {
        match event {
            Event::Answered { usage, .. } => {
                self.noted().first.get_or_insert(usage.copied());
            }
            Event::ToolEnded { answer, .. } => {
                let name = &answer.call.name;
                let mut noted = self.noted();
                let is_denied = noted.gate.as_ref().is_some_and(|gate| !gate.allows(name));
                let shown = Gate::shown(name);
                if is_denied && !noted.denied.iter().any(|known| known == shown) {
                    noted.denied.push(shown.to_owned());
                }
            }
            _ => {}
        }
    }
}

impl Listener for Overheard {
    fn tell(&self, event: &Event<'_>) {
        self.note(event);
        match &self.holder {
            Some(holder) => self.outer.tell(&Event::Fork { holder, event }),
            None => self.outer.tell(event),
        }
    }
}
