//! Comparison of a fork with its parent before the first request, to report the parts that it does not
//! inherit.

use std::collections::BTreeSet;
use std::fmt;

use bytes::Bytes;
use cachalot_core::text::{one_line, window};
use cachalot_model::Parameters;
use cachalot_prompt::{Level, Namespace, Prompt};
use serde_json::{Map, Value};

use crate::InheritedPart;
use crate::conversation::{Snapshot, tool_name};

/// Characters of each side that a [`ForkDifference`] shows.
const MAX_EXCERPT_CHARS: usize = 60;

/// Number of these characters before the first difference.
const EXCERPT_CONTEXT_CHARS: usize = 20;

/// A part that a fork did not inherit from its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkDifference {
    /// The part.
    pub part: InheritedPart,
    /// The parent's value, shortened.
    pub parent: String,
    /// The fork's value, shortened.
    pub fork: String,
}

/// Renders, for example, `reasoning (`high` became `low`)`.
impl fmt::Display for ForkDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, parent, fork } = self;
        write!(f, "{part} (`{parent}` became `{fork}`)")
    }
}

/// Returns the differences between a fork and its parent, in the order of [`InheritedPart`].
pub(super) fn differences(parent: &Snapshot, fork: &Snapshot) -> Vec<ForkDifference> {
    let mut found = Vec::new();
    // The identity of a piece covers all pieces before it: equal tips mean equal prompts.
    if parent.prompt.tip() != fork.prompt.tip() {
        found.extend(system(&parent.prompt, &fork.prompt));
        found.extend(tools(&parent.prompt, &fork.prompt));
        found.extend(history(parent, fork));
    }
    let (ours, theirs) = (parent.head.lineage(), fork.head.lineage());
    let created = [ours.created, theirs.created].map(|at| at.to_string());
    let routes = [&parent.head.base_url, &fork.head.base_url];
    let routes = routes.map(|url| url.clone().unwrap_or_default());
    let models = [&parent.head, &fork.head].map(|head| format!("{}/{}", head.provider, head.model));
    let plain = [
        (InheritedPart::SessionStart, created),
        (InheritedPart::SessionId, [ours.session, theirs.session]),
        (InheritedPart::ProviderPins, routes),
        (InheritedPart::Model, models),
    ];
    for (part, [parent, fork]) in plain {
        found.extend(difference(part, &parent, &fork));
    }
    found.extend(settings(parent, fork));
    found.sort_by_key(|difference| difference.part);
    found.dedup_by_key(|difference| difference.part);
    found
}

fn difference(part: InheritedPart, parent: &str, fork: &str) -> Option<ForkDifference> {
    if parent == fork {
        return None;
    }
    // Positions count characters: the excerpts start in the common part of both texts.
    let common = parent
        .chars()
        .zip(fork.chars())
        .take_while(|(one, other)| one == other)
        .count();
    let from = common.saturating_sub(EXCERPT_CONTEXT_CHARS);
    Some(ForkDifference {
        part,
        parent: shortened(parent, from),
        fork: shortened(fork, from),
    })
}

/// An excerpt of a text, in one line.
fn shortened(text: &str, from: usize) -> String {
    one_line(&window(text, from, MAX_EXCERPT_CHARS))
}

/// The pieces of a level.
fn pieces(prompt: &Prompt, level: Level) -> Vec<&Bytes> {
    let nodes = prompt.nodes().into_iter();
    nodes
        .filter(|node| node.level == level)
        .map(|node| &node.bytes)
        .collect()
}

fn system(parent: &Prompt, fork: &Prompt) -> Option<ForkDifference> {
    let text = |prompt| {
        let pieces = pieces(prompt, Level::System).into_iter();
        pieces
            .map(|piece| String::from_utf8_lossy(piece).into_owned())
            .collect::<Vec<_>>()
            .join(",")
    };
    difference(InheritedPart::System, &text(parent), &text(fork))
}

fn tools(parent: &Prompt, fork: &Prompt) -> Option<ForkDifference> {
    let (ours, theirs) = (pieces(parent, Level::Tool), pieces(fork, Level::Tool));
    if ours == theirs {
        return None;
    }
    let names = |pieces: Vec<&Bytes>| {
        let names: Vec<String> = pieces.into_iter().map(tool_name).collect();
        names.join(", ")
    };
    let (parent, fork) = (names(ours), names(theirs));
    // Tools with the same names may have other descriptions.
    Some(ForkDifference {
        part: InheritedPart::Tools,
        parent: shortened(&parent, 0),
        fork: shortened(&fork, 0),
    })
}

/// The history is inherited if the fork's messages start with the parent's. Later messages are the fork's
/// own.
fn history(parent: &Snapshot, fork: &Snapshot) -> Option<ForkDifference> {
    let continues = |fork: &Prompt, parent: &Prompt| {
        pieces(fork, Level::Message).starts_with(&pieces(parent, Level::Message))
    };
    if continues(&fork.prompt, &parent.prompt) {
        return None;
    }
    let part = if continues(&fork.without_changes(), &parent.without_changes()) {
        // Tools that changed within the conversation are at the beginning of the fork.
        InheritedPart::Tools
    } else {
        InheritedPart::History
    };
    let told = |snapshot: &Snapshot| format!("{} messages", snapshot.prompt.messages().len());
    Some(ForkDifference {
        part,
        parent: told(parent),
        fork: told(fork),
    })
}

/// Compares the parameters on which the provider's cache depends. For the parent, those of its last request
/// count.
fn settings(parent: &Snapshot, fork: &Snapshot) -> Vec<ForkDifference> {
    let [ours, theirs] = [parent.parameters(), fork.parameters()];
    let namespace =
        |tip: &Snapshot, parameters| Namespace::new(tip.model.wire().format(), parameters);
    let now = namespace(fork, &theirs);
    let would_be = namespace(parent, &ours);
    let before = parent.sent.as_ref().unwrap_or(&would_be);
    let (ours, theirs) = (to_json(&ours), to_json(&theirs));
    let both = before.fields().iter().chain(now.fields());
    let names: BTreeSet<&str> = both.map(|field| field.name.as_str()).collect();
    let digest = |namespace: &Namespace, name: &str| {
        let field = namespace.fields().iter().find(|field| field.name == name)?;
        Some(field.digest)
    };
    names
        .into_iter()
        .filter(|name| digest(before, name) != digest(&now, name))
        .map(|name| ForkDifference {
            part: inherited(name),
            parent: if digest(before, name) == digest(&would_be, name) {
                value(&ours, name)
            } else {
                // Only the digest is known of parameters that another process sent.
                format!("another {name}")
            },
            fork: value(&theirs, name),
        })
        .collect()
}

fn to_json(parameters: &Parameters) -> Map<String, Value> {
    match serde_json::to_value(parameters) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

fn value(parameters: &Map<String, Value>, name: &str) -> String {
    let value = match name.strip_prefix("extra.") {
        Some(name) => parameters.get("extra").and_then(|extra| extra.get(name)),
        None => parameters.get(name),
    };
    match value {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::String(text)) => shortened(text, 0),
        Some(value) => shortened(&value.to_string(), 0),
    }
}

/// The part to which a request field belongs. Unknown fields count as [`InheritedPart::Scope`].
fn inherited(field: &str) -> InheritedPart {
    match field {
        "model" | "format" => InheritedPart::Model,
        "reasoning" => InheritedPart::Reasoning,
        "output" => InheritedPart::Prefill,
        "tool_choice" | "parallel_tool_calls" => InheritedPart::Tools,
        _ if field.starts_with("extra.") => InheritedPart::ProviderPins,
        _ => InheritedPart::Scope,
    }
}
