//! Tools that changed since a session began, without a change of the bytes that were sent: a message of the user
//! brings each change ([`SettingChanges`]).
//!
//! A note of the session holds the difference between its tools and those that it began with. The messages hold the
//! part that the model was shown. The next message brings what is missing, also after messages were removed or
//! summarized.

use bytes::Bytes;
use cachalot_model::wire::{Rendered, Wire};
use cachalot_model::{Block, SettingChanges, ToolDefinition};
use cachalot_prompt::{Level, Prompt};
use serde_json::{Map, Value};

use super::tool_name;

/// The session note that holds the difference to the tools that the session began with.
const TOOLS_NOTE: &str = "tools";

/// A tool with its name, as it was rendered.
struct Offered {
    name: String,
    piece: Rendered,
}

/// Returns the noted difference; `None` if there is none.
pub(super) fn noted(notes: &Map<String, Value>) -> Option<SettingChanges> {
    let note = notes.get(TOOLS_NOTE)?;
    serde_json::from_value(note.clone()).ok()
}

/// Notes a difference. No difference is noted, too: the messages may have changed tools before.
pub(super) fn set_note(notes: &mut Map<String, Value>, difference: &SettingChanges) {
    if let Ok(note) = serde_json::to_value(difference) {
        notes.insert(TOOLS_NOTE.to_owned(), note);
    }
}

/// Removes the note, because the tools are rendered anew.
pub(super) fn clear_note(notes: &mut Map<String, Value>) {
    notes.shift_remove(TOOLS_NOTE);
}

/// The tools of a session with these notes, as they are rendered.
pub(super) fn current(
    prompt: &Prompt,
    wire: &dyn Wire,
    notes: &Map<String, Value>,
) -> Vec<Rendered> {
    let mut tools = first(prompt);
    if let Some(difference) = noted(notes) {
        apply(&mut tools, &difference, wire);
    }
    tools.into_iter().map(|tool| tool.piece).collect()
}

/// Returns the difference between `tools` and those that the prompt begins with.
pub(super) fn difference(
    prompt: &Prompt,
    wire: &dyn Wire,
    tools: &[ToolDefinition],
) -> SettingChanges {
    let (first, offered) = (first(prompt), offered(prompt, wire));
    let is_unchanged = |tool: &ToolDefinition| {
        let bytes = wire.tool(tool).bytes;
        // A tool that was changed and is as it was at first is a part of the difference: a message has to bring it.
        [&first, &offered]
            .iter()
            .all(|known| bytes_of(known, &tool.name) == Some(&bytes))
    };
    let is_gone = |known: &&Offered| !tools.iter().any(|tool| tool.name == known.name);
    SettingChanges {
        added: tools
            .iter()
            .filter(|tool| !is_unchanged(tool))
            .cloned()
            .collect(),
        removed: first
            .iter()
            .filter(is_gone)
            .map(|known| known.name.clone())
            .collect(),
        effort: None,
    }
}

/// Returns the changes that the next message brings, so that the model is offered the tools of `difference`.
pub(super) fn pending(
    prompt: &Prompt,
    wire: &dyn Wire,
    difference: &SettingChanges,
) -> SettingChanges {
    let offered = offered(prompt, wire);
    let mut wanted = first(prompt);
    apply(&mut wanted, difference, wire);
    let is_new =
        |tool: &&ToolDefinition| bytes_of(&offered, &tool.name) != Some(&wire.tool(tool).bytes);
    let is_gone = |known: &&Offered| !wanted.iter().any(|tool| tool.name == known.name);
    SettingChanges {
        added: difference.added.iter().filter(is_new).cloned().collect(),
        removed: offered
            .iter()
            .filter(is_gone)
            .map(|known| known.name.clone())
            .collect(),
        effort: None,
    }
}

/// The names of the tools that the model is offered at the end of a prompt.
pub(super) fn offered_names(prompt: &Prompt, wire: &dyn Wire) -> Vec<String> {
    let offered = offered(prompt, wire).into_iter();
    offered.map(|tool| tool.name).collect()
}

/// The tools that a prompt begins with.
fn first(prompt: &Prompt) -> Vec<Offered> {
    let nodes = prompt.nodes().into_iter();
    let tools = nodes.take_while(|node| node.level == Level::Tool);
    tools
        .map(|node| Offered {
            name: tool_name::name(&node.bytes),
            piece: Rendered {
                bytes: node.bytes.clone(),
                mark_at: node.mark_at,
            },
        })
        .collect()
}

/// True for a summary by the provider that does not say which tools had changed before it.
fn drops_tool_changes(block: &Block) -> bool {
    let Block::Other { verbatim, .. } = block else {
        return false;
    };
    block.is_compaction() && verbatim.get("tool_changes").is_none_or(Value::is_null)
}

/// The tools that the model is offered at the end of a prompt.
fn offered(prompt: &Prompt, wire: &dyn Wire) -> Vec<Offered> {
    let mut tools = first(prompt);
    for message in prompt.messages() {
        // The provider drops what was said before its summary; a message has to bring it again.
        if message.content.iter().any(drops_tool_changes) {
            tools = first(prompt);
        }
        if let Some(changes) = SettingChanges::noted(&message) {
            apply(&mut tools, &changes, wire);
        }
    }
    tools
}

fn apply(tools: &mut Vec<Offered>, changes: &SettingChanges, wire: &dyn Wire) {
    tools.retain(|tool| !changes.removed.contains(&tool.name));
    for added in &changes.added {
        let piece = wire.tool(added);
        match tools.iter_mut().find(|tool| tool.name == added.name) {
            Some(tool) => tool.piece = piece,
            None => tools.push(Offered {
                name: added.name.clone(),
                piece,
            }),
        }
    }
}

fn bytes_of<'a>(tools: &'a [Offered], name: &str) -> Option<&'a Bytes> {
    let tool = tools.iter().find(|tool| tool.name == name)?;
    Some(&tool.piece.bytes)
}
