//! The surroundings of a turn, which its phases share.

use std::sync::Arc;

use cachalot_hooks::{Event as When, Input, Verdict};

use super::cancellation::TurnCancellation;
use crate::chat_state::ChatState;
use crate::definition::AgentDefinition;
use crate::event::Event;
use crate::hook_emitter::HookEmitter;
use crate::report::Stop;

/// The parts of a turn that are the same from its beginning to its end.
pub(super) struct TurnContext<'a> {
    pub(super) shared: &'a ChatState,
    pub(super) agent: &'a AgentDefinition,
    pub(super) hook_emitter: Arc<HookEmitter>,
    pub(super) cancellation: TurnCancellation,
}

impl TurnContext<'_> {
    /// Reports an event to the listener.
    pub(super) fn report(&self, event: &Event<'_>) {
        self.shared.dependencies.listener.on_event(event);
    }

    /// Takes the notices about background work of a session.
    pub(super) fn take_notices(&self, session: &str) -> Vec<String> {
        self.shared.dependencies.toolboxes.take_notices(session)
    }

    /// Emits a hook event, unless the turn must end before.
    pub(super) async fn emit(
        &self,
        when: When,
        fill: impl FnOnce(&mut Input),
    ) -> Result<Verdict, Stop> {
        if self.hook_emitter.wants(when) {
            self.cancellation
                .run_until_cancelled(self.hook_emitter.emit(when, fill))
                .await
        } else {
            Ok(Verdict::default())
        }
    }

    /// Warns the user, and notifies hooks of the warning, unless the turn must end before.
    pub(super) async fn warn(&self, message: &str) {
        self.shared.warn(&self.agent.name, message);
        let _ = self
            .cancellation
            .run_until_cancelled(self.hook_emitter.notify("warning", None, message))
            .await;
    }

    /// Warns that hooks were cancelled before they completed, although the answer is complete.
    pub(super) fn warn_of_cut_off_hooks(&self, when: When, stop: &Stop) {
        let notice = stop.notice().unwrap_or_default();
        let event = when.name();
        // No hook event is emitted: the turn no longer waits for hooks.
        self.shared.warn(
            &self.agent.name,
            &format!(
                "hooks of `{event}` were cut off and may have left something undone: {notice}"
            ),
        );
    }
}
