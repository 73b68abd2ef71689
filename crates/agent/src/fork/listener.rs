//! The listener of a fork.

use std::sync::Arc;

use cachalot_model::Usage;
use cachalot_tools::Gate;
use parking_lot::{Mutex, MutexGuard};

use crate::event::{Event, Listener};

/// Forwards the events of a fork, and records what its report needs.
pub(super) struct ForkListener {
    outer: Arc<dyn Listener>,
    /// The holder under which events are forwarded; `None` forwards them as the agent's own, as for a
    /// sub-agent.
    holder: Option<String>,
    record: Mutex<ForkRecord>,
}

/// Recorded facts for the report of a fork.
#[derive(Default)]
struct ForkRecord {
    /// Set when the fork starts.
    gate: Option<Gate>,
    /// Usage of the first request, once it was answered.
    first: Option<Option<Usage>>,
    denied: Vec<String>,
}

impl ForkListener {
    pub(super) fn new(outer: Arc<dyn Listener>, holder: Option<&str>) -> Self {
        Self {
            outer,
            holder: holder.map(str::to_owned),
            record: Mutex::default(),
        }
    }

    /// Records from now on the calls that this gate denies.
    pub(super) fn set_gate(&self, gate: Option<&Gate>) {
        self.record().gate = gate.cloned();
    }

    /// Usage of the first request.
    pub(super) fn first(&self) -> Option<Usage> {
        self.record().first.flatten()
    }

    /// The tools that were called and denied, without duplicates.
    pub(super) fn denied(&self) -> Vec<String> {
        self.record().denied.clone()
    }

    fn record(&self) -> MutexGuard<'_, ForkRecord> {
        self.record.lock()
    }

    fn note(&self, event: &Event<'_>) {
        match event {
            Event::ModelCallEnded { usage, .. } => {
                // Also without usage: a later call is not the first one.
                self.record().first.get_or_insert(usage.copied());
            }
            Event::ToolEnded { answer, .. } => {
                let name = &answer.call.name;
                let mut record = self.record();
                let is_denied = record.gate.as_ref().is_some_and(|gate| !gate.allows(name));
                let shown = Gate::shown(name);
                if is_denied && !record.denied.iter().any(|known| known == shown) {
                    record.denied.push(shown.to_owned());
                }
            }
            _ => {}
        }
    }
}

impl Listener for ForkListener {
    fn on_event(&self, event: &Event<'_>) {
        self.note(event);
        match &self.holder {
            Some(holder) => self.outer.on_event(&Event::Fork { holder, event }),
            None => self.outer.on_event(event),
        }
    }
}
