//! Selects the hooks of an event and groups them into waves.

use super::{ReadyHook, Sessions, writes};
use crate::Event;
use crate::contract::{Contract, Order};
use crate::definition::ResultFilter;
use crate::input::{Input, ToolUse};

/// The hooks to run, in order. Of equal hooks, only the first; of hooks with `once`, only those that did
/// not run yet.
pub(super) fn select<'a>(
    ready: &'a [ReadyHook],
    input: &Input,
    sessions: &Sessions,
) -> Vec<&'a ReadyHook> {
    let mut told: Vec<(usize, &ReadyHook)> = Vec::with_capacity(ready.len());
    for (at, ready) in ready.iter().enumerate() {
        let is_said = || told.iter().any(|(_, other)| other.same_as == ready.same_as);
        // The matcher comes first: an equal hook that does not match must not hide this one.
        if is_for(ready, input) && !is_said() {
            told.push((at, ready));
        }
    }
    // Runs after the matcher: the same command for another tool is another hook.
    told.retain(|(at, ready)| {
        !ready.entry.definition.once || sessions.is_first(&input.session_id, input.event, *at)
    });
    // A stable sort: the other hooks stay in the order of the configuration.
    told.sort_by_key(|(_, ready)| ready.runs_last);
    told.into_iter().map(|(_, ready)| ready).collect()
}

/// Groups hooks that run concurrently. At sequential events, each hook is a wave of its own. At other
/// events, a `sequential` hook starts a new wave, and the hooks that run last form one.
pub(super) fn waves<'a, 'b>(
    contract: &Contract,
    told: &'b [&'a ReadyHook],
) -> impl Iterator<Item = &'b [&'a ReadyHook]> {
    let all_wait = contract.order == Order::Sequential;
    told.chunk_by(move |before, next| {
        !all_wait && !next.entry.definition.sequential && before.runs_last == next.runs_last
    })
}

fn is_for(ready: &ReadyHook, input: &Input) -> bool {
    let entry = &ready.entry;
    if !input.event.contract().tool_matched {
        return entry.matcher.pattern().is_empty() || is_of_kind(ready, input);
    }
    let failed = (input.tool_response.as_ref()).is_some_and(|response| response.is_error);
    let counts = match entry.only {
        None => true,
        Some(ResultFilter::Failures) => failed,
        Some(ResultFilter::Successes) => !failed,
    };
    let tool = input.tool.as_ref();
    counts && tool.is_none_or(|tool| !writes::views(entry, tool, input).is_empty())
}

/// Matches events without a tool. Files of other runtimes match the kind of event (the source of a
/// session, for example). An event without kinds ignores the matcher.
fn is_of_kind(ready: &ReadyHook, input: &Input) -> bool {
    let kind = match input.event {
        Event::SessionStart | Event::PreCompact => input.source.as_deref(),
        Event::SessionEnd => input.reason.as_deref(),
        Event::Notification => input.notification.as_ref().and_then(|told| told.kind),
        Event::SubagentStop => Some(input.agent_name.as_str()),
        _ => return true,
    };
    kind.is_some_and(|kind| ready.entry.matcher.matches(kind))
}

/// True if a hook may match a tool of which only our own name is known. Other names of MCP tools depend
/// on the server; our names of them start with `mcp_`.
pub(super) fn may_be_for(ready: &ReadyHook, tool: &str) -> bool {
    let entry = &ready.entry;
    if entry.matcher.pattern().is_empty() || tool.starts_with("mcp_") {
        return true;
    }
    let tool = ToolUse {
        name: tool.to_owned(),
        ..ToolUse::default()
    };
    entry.dialect.matches(&entry.matcher, &tool) || writes::may_guard(entry)
}
