//! The monitor of a session that another process has begun.

use std::sync::Arc;

use bytes::Bytes;
use cachalot_model::{Block, Message, Role};
use cachalot_prefix::{PrefixMonitor, SentRequest};
use cachalot_prompt::{Plan, Session};

use super::breakpoints::BreakpointPlanner;

/// A monitor for a session whose last request was sent by another process; that request ends before the last
/// answer.
pub(super) fn resumed_monitor(session: &Session, planner: &BreakpointPlanner) -> PrefixMonitor {
    let messages = session.prompt.messages();
    let is_answer = |message: &Arc<Message>| message.role == Role::Assistant;
    let answer = messages.iter().rposition(is_answer);
    let (Some(last), Some(namespace)) = (answer, session.namespace.clone()) else {
        return PrefixMonitor::default();
    };
    if messages[last].content.iter().any(Block::is_compaction) {
        return PrefixMonitor::default();
    }
    let prompt = session.prompt.without_last(messages.len() - last);
    let request = SentRequest {
        // A single-turn session may have set no breakpoint; then there is nothing to read.
        plan: if session.totals.provider_keeps_prefix() {
            planner.last_sent(&prompt, &session.totals.usage)
        } else {
            Plan::none()
        },
        prompt,
        namespace,
        format: session.head.format,
        tail: Bytes::from_static(b"}"),
        // The session was saved after its answer arrived; the lifetime of the provider's cache starts
        // slightly earlier.
        at: Some(session.saved_at()),
    };
    PrefixMonitor::resumed(request, session.last_usage)
}
