//! Cache breakpoints: their positions, number and lifetimes.

use std::collections::HashMap;

use serde_json::Value;

use super::super::{ApiError, Object, present, refuse, text_of};
use super::message::{Message, SETTINGS};
use super::{check_keys, dictionary, list, unknown_tag};
use crate::accounting::anthropic::Ttl;

/// Maximum number of breakpoints in a request.
const MAX_BREAKPOINTS: usize = 4;

/// Refuses explicit markers that are too many or in a wrong order. Each is given with the place of its
/// block, in the order of the prompt.
pub(in crate::wire) fn check(marks: &[(String, Ttl)]) -> Result<(), ApiError> {
    count(marks.len())?;
    order(marks.iter().map(|(at, ttl)| (at.as_str(), *ttl)))
}

fn count(marks: usize) -> Result<(), ApiError> {
    if marks > MAX_BREAKPOINTS {
        return refuse(format!(
            "A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {marks}."
        ));
    }
    Ok(())
}

/// Place of a block in the request: level (0 tools, 1 system, 2 messages), message, block.
pub(super) type BlockPosition = (u8, usize, usize);

/// A block that may carry a breakpoint.
struct Candidate<'a> {
    place: BlockPosition,
    at: String,
    fields: &'a Object,
}

/// Returns the breakpoints, including automatic caching.
pub(super) fn read(
    request: &Object,
    system: &[Object],
    messages: &[Message],
) -> Result<HashMap<BlockPosition, Ttl>, ApiError> {
    let candidates = candidates(request, system, messages)?;
    let mut marks: Vec<(&Candidate<'_>, Ttl)> = Vec::new();
    for candidate in &candidates {
        if let Some(marker) = present(candidate.fields, "cache_control") {
            marks.push((candidate, ttl(&candidate.at, marker)?));
        }
    }
    count(marks.len())?;
    if let Some(marker) = present(request, "cache_control") {
        let ttl = ttl("", marker)?;
        automatic(&candidates, &mut marks, ttl)?;
    }
    let placed = marks.iter();
    order(placed.map(|(candidate, ttl)| (candidate.at.as_str(), *ttl)))?;
    let marks = marks.into_iter();
    Ok(marks
        .map(|(candidate, ttl)| (candidate.place, ttl))
        .collect())
}

fn candidates<'a>(
    request: &'a Object,
    system: &'a [Object],
    messages: &'a [Message],
) -> Result<Vec<Candidate<'a>>, ApiError> {
    let tools = list(request, "tools")?.iter().enumerate();
    let tools = tools.filter_map(|(at, tool)| {
        Some(Candidate {
            place: (0, 0, at),
            at: format!("tools.{at}"),
            fields: tool.as_object()?,
        })
    });
    let system = system.iter().enumerate().map(|(at, fields)| Candidate {
        place: (1, 0, at),
        at: format!("system.{at}"),
        fields,
    });
    let messages = messages.iter().enumerate().flat_map(|(at, message)| {
        let blocks = message.blocks.iter().enumerate();
        blocks.map(move |(index, fields)| Candidate {
            place: (2, at, index),
            at: format!("messages.{at}.content.{index}"),
            fields,
        })
    });
    Ok(tools.chain(system).chain(messages).collect())
}

/// Returns the lifetime in the `cache_control` of the block `at`.
pub(in crate::wire) fn ttl(at: &str, marker: &Value) -> Result<Ttl, ApiError> {
    let at = match at {
        "" => "cache_control".to_owned(),
        at => format!("{at}.cache_control"),
    };
    let marker = dictionary(&at, marker)?;
    let kind = text_of(marker, "type");
    if kind != "ephemeral" {
        return unknown_tag(&at, kind, "'ephemeral'");
    }
    check_keys(&format!("{at}.ephemeral"), marker, &["type", "ttl"])?;
    match marker.get("ttl").map(Value::as_str) {
        None | Some(Some("5m")) => Ok(Ttl::FiveMinutes),
        Some(Some("1h")) => Ok(Ttl::OneHour),
        Some(_) => refuse(format!("{at}.ephemeral.ttl: Input should be '5m' or '1h'")),
    }
}

/// Marks the last block that accepts a marker, for a marker on the request as a whole.
fn automatic<'a, 'b>(
    candidates: &'b [Candidate<'a>],
    marks: &mut Vec<(&'b Candidate<'a>, Ttl)>,
    ttl: Ttl,
) -> Result<(), ApiError> {
    let can_be_marked = |candidate: &&Candidate<'_>| match text_of(candidate.fields, "type") {
        "thinking" | "redacted_thinking" | SETTINGS => false,
        "text" => !text_of(candidate.fields, "text").is_empty(),
        _ => true,
    };
    let Some(target) = candidates.iter().rfind(can_be_marked) else {
        return Ok(());
    };
    match marks.last() {
        Some((last, explicit)) if last.place == target.place => {
            if *explicit == ttl {
                return Ok(());
            }
            return refuse(
                "cache_control: the last block has an explicit cache_control with a different ttl",
            );
        }
        _ => {}
    }
    if marks.len() == MAX_BREAKPOINTS {
        return refuse(format!(
            "A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {}: top-level \
             cache_control needs one of them.",
            MAX_BREAKPOINTS + 1
        ));
    }
    marks.push((target, ttl));
    Ok(())
}

fn order<'a>(marks: impl Iterator<Item = (&'a str, Ttl)>) -> Result<(), ApiError> {
    let mut has_short = false;
    for (at, ttl) in marks {
        if ttl == Ttl::OneHour && has_short {
            return refuse(format!(
                "{at}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' \
                 cache_control block. Note that blocks are processed in the following order: `tools`, \
                 `system`, `messages`."
            ));
        }
        has_short |= ttl == Ttl::FiveMinutes;
    }
    Ok(())
}
