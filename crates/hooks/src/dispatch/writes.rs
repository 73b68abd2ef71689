//! Presents tool calls that write files in the form that write guards of other runtimes know: one call
//! per file, with the path in `file_path`.
//!
//! Claude Code and Gemini CLI write files with tools that take one path (`Edit`, `Write`, `replace`,
//! `write_file`). Calls of `apply_patch`, of the skill tools and of MCP tools that declare the files
//! they write are presented as such calls, one per file. Codex has `apply_patch` itself; other writes
//! are presented to it as a patch of one file.

use std::borrow::Cow;
use std::path::Path;

use cachalot_operation::ResourceAccess;
use serde_json::{Map, Value};

use crate::definition::HookEntry;
use crate::input::{Input, ToolUse};
use crate::output::{Decision, Fault, Output, append_line};
use crate::{Dialect, Matcher};

/// The tool that writes several files at once.
const PATCH_TOOL: &str = "apply_patch";

/// Our tools for a single file, which each dialect has under its own name.
const SINGLE_FILE_TOOLS: [&str; 2] = ["edit_file", "write_file"];

/// Returns the calls to pass to a hook instead of `tool`: the call itself, or one write per file. Empty
/// if the hook does not apply.
pub(super) fn views<'a>(
    entry: &HookEntry,
    tool: &'a ToolUse,
    input: &Input,
) -> Vec<Cow<'a, ToolUse>> {
    let condition = entry.definition.condition.as_ref();
    let fits = |tool: &ToolUse| {
        entry.dialect.matches(&entry.matcher, tool)
            && condition.is_none_or(|rule| rule.applies(entry.dialect, tool, input))
    };
    let of_files = of_files(entry, tool, &fits);
    let is_for_all = entry.matcher == Matcher::ALL;
    // The dialect has no such tool: hooks for all tools see only the writes.
    let is_hidden = is_for_all && is_patch(tool) && !of_files.is_empty();
    let mut views = Vec::with_capacity(1);
    if !is_hidden && fits(tool) {
        views.push(Cow::Borrowed(tool));
    }
    // Hooks for all tools see MCP calls as they are.
    if !(is_for_all && tool.mcp.is_some()) {
        views.extend(of_files.into_iter().map(Cow::Owned));
    }
    if views.is_empty() && is_patch(tool) && tool.resource_access.writes.is_empty() {
        // An invalid patch names no files. Write guards run nevertheless.
        let is_guarded = SINGLE_FILE_TOOLS.iter().any(|name| fits(&named(name)));
        views.extend(is_guarded.then_some(Cow::Borrowed(tool)));
    }
    views
}

/// True if a hook may apply to files that a tool of this name writes.
pub(super) fn may_guard(entry: &HookEntry) -> bool {
    let is_one = |name: &str| entry.dialect.matches(&entry.matcher, &named(name));
    entry.dialect != Dialect::DockerAgent
        && SINGLE_FILE_TOOLS
            .iter()
            .chain([&PATCH_TOOL])
            .any(|name| is_one(name))
}

/// One write for each file that the hook applies to.
fn of_files(entry: &HookEntry, tool: &ToolUse, fits: &impl Fn(&ToolUse) -> bool) -> Vec<ToolUse> {
    let is_plain = tool.mcp.is_none() && SINGLE_FILE_TOOLS.contains(&tool.name.as_str());
    let own = match entry.dialect {
        Dialect::DockerAgent => true,
        Dialect::Codex => is_patch(tool),
        Dialect::Claude | Dialect::Gemini => false,
    };
    if own || is_plain {
        return Vec::new();
    }
    let written = written(tool);
    let paths = tool.resource_access.writes.iter();
    let write = |path: &std::path::PathBuf| {
        // Only the first that fits: the hook must see each write once.
        let mut candidates = candidates(entry.dialect, tool, path, &written).into_iter();
        candidates.find(|candidate| fits(candidate))
    };
    paths.filter_map(write).collect()
}

/// The write of one file, as a call of each tool that could make it.
fn candidates(dialect: Dialect, tool: &ToolUse, path: &Path, written: &str) -> Vec<ToolUse> {
    let path_text = path.to_string_lossy();
    let write = |name: &str, arguments: &[(&str, &str)]| {
        let arguments = arguments.iter();
        let input = arguments.map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        ToolUse {
            name: name.to_owned(),
            id: tool.id.clone(),
            category: tool.category.clone(),
            mcp: None,
            read_only: false,
            input: input.collect(),
            resource_access: ResourceAccess::writing([path]),
        }
    };
    if dialect == Dialect::Codex {
        let patch = format!("*** Begin Patch\n*** Update File: {path_text}\n*** End Patch");
        return vec![write(
            PATCH_TOOL,
            &[("patch", &patch), ("file_path", &path_text)],
        )];
    }
    let edit = write(
        "edit_file",
        &[
            ("path", &path_text),
            ("old_text", ""),
            ("new_text", written),
        ],
    );
    let whole = write("write_file", &[("path", &path_text), ("content", written)]);
    if is_patch(tool) {
        vec![edit, whole]
    } else {
        vec![whole, edit]
    }
}

/// The text that a call writes, for guards that inspect it; for a patch, the whole patch.
fn written(tool: &ToolUse) -> String {
    let text = |key: &str| tool.input.get(key).and_then(Value::as_str);
    let known = ["patch", "content", "text"].into_iter().find_map(text);
    known.map_or_else(
        || Value::Object(tool.input.clone()).to_string(),
        str::to_owned,
    )
}

fn is_patch(tool: &ToolUse) -> bool {
    tool.mcp.is_none() && tool.name == PATCH_TOOL
}

fn named(name: &str) -> ToolUse {
    ToolUse {
        name: name.to_owned(),
        input: Map::new(),
        ..ToolUse::default()
    }
}

/// Combines the outputs of a hook for several writes: one denial denies the call.
///
/// # Errors
/// The hook failed for one write and denied none.
pub(super) fn combine(
    said: impl IntoIterator<Item = (bool, Result<Output, Fault>)>,
) -> Result<Output, Fault> {
    let mut all = Output::default();
    let mut failed: Option<Fault> = None;
    let mut allows_all = true;
    for (is_of_file, said) in said {
        match said {
            Ok(output) => {
                // A hook that has no opinion about one write has not allowed the whole call.
                allows_all &= output.permission.is_some();
                add(&mut all, output, is_of_file);
            }
            Err(fault) => {
                allows_all = false;
                all.spent += fault.spent;
                // A failure that may be a denial must not be hidden by one that is none.
                match &failed {
                    Some(known) if known.may_deny || !fault.may_deny => {}
                    _ => failed = Some(fault),
                }
            }
        }
    }
    // The call is allowed only if each write is.
    all.permission = (all.permission).filter(|(is, _)| allows_all || *is > Decision::Allow);
    let denies = all.block.is_some() || matches!(all.permission, Some((Decision::Deny, _)));
    match failed {
        Some(fault) if denies => {
            join(&mut all.system_message, Some(fault.message));
            Ok(all)
        }
        Some(fault) => Err(Fault {
            spent: all.spent,
            ..fault
        }),
        None => Ok(all),
    }
}

fn add(all: &mut Output, output: Output, is_of_file: bool) {
    let rewrites = output.updated_input.is_some() || !output.removed_input.is_empty();
    let block = if is_of_file && rewrites {
        output.block.or(Some(
        "a hook rewrote one write of a call that writes several files or writes them in another way, which cannot be done here; the call is denied".to_owned(),
    ))
    } else {
        output.block
    };
    all.block = all.block.take().or(block);
    all.ends_turn = all.ends_turn.take().or(output.ends_turn);
    let strength = |said: &Option<(Decision, Option<String>)>| said.as_ref().map(|(is, _)| *is);
    if strength(&output.permission) > strength(&all.permission) {
        all.permission = output.permission;
    }
    join(&mut all.system_message, output.system_message);
    join(&mut all.additional_context, output.additional_context);
    // Arguments of the presented call are not those of the real one, so that they are not taken over.
    if !is_of_file {
        all.updated_input = output.updated_input;
        all.removed_input = output.removed_input;
    }
    all.updated_tool_response = output
        .updated_tool_response
        .or(all.updated_tool_response.take());
    all.metadata.extend(output.metadata);
    all.spent += output.spent;
}

/// Appends a line unless it is already present.
fn join(to: &mut Option<String>, line: Option<String>) {
    let is_known = |line: &String| {
        to.iter()
            .any(|text| text.lines().any(|known| known == line))
    };
    if let Some(line) = line.filter(|line| !is_known(line)) {
        append_line(to, &line);
    }
}
