//! Who is told of an event, and who waits for whom.

use super::{Ready, Sessions, writes};
use crate::Event;
use crate::contract::{Contract, Order};
use crate::definition::Only;
use crate::input::{Input, ToolUse};

/// The hooks that are to be told, in order; of those that run the same in the same words, the first,
/// and of those that run once, those that have not.
pub(super) fn told<'a>(ready: &'a [Ready], input: &Input, sessions: &Sessions) -> Vec<&'a Ready> {
    let mut told: Vec<(usize, &Ready)> = Vec::with_capacity(ready.len());
    for (at, ready) in ready.iter().enumerate() {
        let is_said = || told.iter().any(|(_, other)| other.same_as == ready.same_as);
        if is_for(ready, input) && !is_said() {
            told.push((at, ready));
        }
    }
    // The same command for another tool is another hook.
    told.retain(|(at, ready)| {
        !ready.entry.definition.once || sessions.is_first(&input.session_id, input.event, *at)
    });
    // A stable sort: the others stay in the order of the configuration.
    told.sort_by_key(|(_, ready)| ready.runs_last);
    told.into_iter().map(|(_, ready)| ready).collect()
}

/// The hooks that are told together: where an event goes from one to the next, each by itself;
/// otherwise all, but those that wait for the ones before them begin a wave, and those that run last are
/// one.
pub(super) fn waves<'a, 'b>(
    contract: &Contract,
    told: &'b [&'a Ready],
) -> impl Iterator<Item = &'b [&'a Ready]> {
    let all_wait = contract.order == Order::Sequential;
    told.chunk_by(move |before, next| {
        !all_wait && !next.entry.definition.sequential && before.runs_last == next.runs_last
    })
}

fn is_for(ready: &Ready, input: &Input) -> bool {
    let entry = &ready.entry;
    if !input.event.contract().tool_matched {
        return entry.matcher.pattern().is_empty() || is_of_kind(ready, input);
    }
    let failed = (input.tool_response.as_ref()).is_some_and(|response| response.is_error);
    let counts = match entry.only {
        None => true,
        Some(Only::Failures) => failed,
        Some(Only::Successes) => !failed,
    };
    let tool = input.tool.as_ref();
    counts && tool.is_none_or(|tool| !writes::views(entry, tool, input).is_empty())
}

/// Where there is no tool, files of other runtimes match what kind of event it is; where an event is
/// of no kind, they match nothing, and the hook is for all.
fn is_of_kind(ready: &Ready, input: &Input) -> bool {
    let kind = match input.event {
        Event::SessionStart | Event::PreCompact => input.source.as_deref(),
        Event::SessionEnd => input.reason.as_deref(),
        Event::Notification => input.notification.as_ref().and_then(|told| told.kind),
        Event::SubagentStop => Some(input.agent_name.as_str()),
        _ => return true,
    };
    kind.is_some_and(|kind| ready.entry.matcher.matches(kind))
}

/// Whether a hook may be for a tool of which only our own name is known. Other names of tools of
/// servers depend on the server, and our own names of them begin with `mcp_`.
pub(super) fn may_be_for(ready: &Ready, tool: &str) -> bool {
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
