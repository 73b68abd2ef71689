//! The tool `edit_file`.

use cachalot_core::Effects;
use cachalot_core::config::CallArguments;
use cachalot_core::text::head;
use cachalot_operation::{OperationMetadata, ResourceAccess, ToolContext, ToolOutput};
use memchr::memmem;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::commit::{FileChange, commit};
use super::content_kind::ContentKind;
use super::file_call::{FileCall, RunningCall};
use super::numbered_lines::line;
use super::open_path::ensure_file;
use super::text::{LineEndings, line_at, lines, to_crlf, to_lf};
use super::{NON_EMPTY, format_count, grouped, near_match, snapshot, writer, writing};

/// Number of lines shown before and after a change.
const CONTEXT_LINES: usize = 2;

/// Maximum number of changed places, and of lines of each, that are shown.
const MAX_SHOWN_PLACES: usize = 5;
const MAX_SHOWN_LINES: usize = 40;

#[derive(CallArguments, Deserialize)]
pub(super) struct EditFile {
    /// The file, relative to the workspace.
    #[setting(kind = NON_EMPTY)]
    path: String,
    /// What is to be replaced.
    #[setting(kind = NON_EMPTY)]
    old_text: String,
    /// What takes its place; empty to delete.
    new_text: String,
    /// Whether to replace it wherever it occurs.
    replace_all: Option<bool>,
}

impl FileCall for EditFile {
    fn metadata() -> OperationMetadata {
        let description = "Replaces a text in a file. old_text must be in the file exactly as given, \
            whitespace included and without line numbers, and only once unless replace_all is set: add \
            lines around it to make it unique. Line endings are kept.";
        writer("edit_file", description, Self::PARAMETERS)
    }

    fn effects(&self, context: &ToolContext) -> Effects {
        writing([context.workspace.resolved(&self.path).as_ref()])
    }

    fn resource_access(&self) -> ResourceAccess {
        ResourceAccess::writing([&self.path])
    }

    fn run(&self, running: RunningCall<'_>) -> Result<ToolOutput, ToolOutput> {
        edit(self, running.context, running.abandoned)
    }
}

fn edit(
    requested: &EditFile,
    context: &ToolContext,
    abandoned: &CancellationToken,
) -> Result<ToolOutput, ToolOutput> {
    let path = &requested.path;
    if requested.old_text.is_empty() {
        return Err(ToolOutput::error(
            "old_text is empty; to write a new file use write_file",
        ));
    }
    if requested.old_text == requested.new_text {
        return Err(ToolOutput::error(
            "old_text and new_text are the same: nothing would change",
        ));
    }
    let resolved = context.workspace.resolved(path)?;
    ensure_file(&context.workspace, &resolved, path)?;
    let before = snapshot::read(&resolved, path)?;
    if let ContentKind::Utf16(_) | ContentKind::Binary(_) | ContentKind::Image(_) =
        ContentKind::detect(&before.bytes)
    {
        return Err(ToolOutput::error(format!(
            "`{path}` is no text in UTF-8; change it with a program that knows it"
        )));
    }
    let edit = Edit::find(&before.bytes, requested)?;
    let (after, places) = edit.apply(&before.bytes);
    let change = FileChange {
        resolved: &resolved,
        before: Some(&before),
        after: Some(&after),
        mode: None,
    };
    commit(&context.workspace, &[change], abandoned)?;
    Ok(ToolOutput::text(report(
        path,
        &after,
        &places,
        edit.new.len(),
    )))
}

/// A replacement and its places.
struct Edit {
    old_length: usize,
    new: Vec<u8>,
    /// Offsets of the replaced texts, which do not overlap.
    at: Vec<usize>,
}

impl Edit {
    fn find(bytes: &[u8], requested: &EditFile) -> Result<Self, ToolOutput> {
        let endings = LineEndings::detect(bytes);
        // A model that gets lines writes `\n`, regardless of the line endings of the file.
        let mut spellings = vec![requested.old_text.clone()];
        if endings.crlf > 0 && requested.old_text.contains('\n') {
            spellings.push(to_crlf(&requested.old_text));
        } else if requested.old_text.contains("\r\n") {
            spellings.push(to_lf(&requested.old_text));
        }
        let found = spellings
            .iter()
            .map(|old| (old, occurrences(bytes, old.as_bytes())))
            .find(|(_, at)| !at.is_empty());
        let Some((old, at)) = found else {
            return Err(not_found(bytes, requested));
        };
        let at = match (requested.replace_all.unwrap_or(false), at.len()) {
            // Replacements must not overlap; `occurrences` also returns those that do.
            (true, _) => memmem::find_iter(bytes, old.as_bytes()).collect(),
            (false, 1) => at,
            (false, _) => return Err(ambiguous(bytes, &at, requested)),
        };
        let adapted = *old != requested.old_text;
        let new = if endings.are_all_crlf() {
            to_crlf(&requested.new_text)
        } else if adapted && endings.crlf == 0 {
            to_lf(&requested.new_text)
        } else if adapted {
            to_crlf(&requested.new_text)
        } else {
            requested.new_text.clone()
        };
        Ok(Self {
            old_length: old.len(),
            new: new.into_bytes(),
            at,
        })
    }

    /// Returns the new content, and the offsets of the replacements in it.
    fn apply(&self, bytes: &[u8]) -> (Vec<u8>, Vec<usize>) {
        let mut after = Vec::with_capacity(bytes.len() + self.new.len());
        let mut places = Vec::with_capacity(self.at.len());
        let mut copied = 0;
        for at in &self.at {
            after.extend_from_slice(&bytes[copied..*at]);
            places.push(after.len());
            after.extend_from_slice(&self.new);
            copied = at + self.old_length;
        }
        after.extend_from_slice(&bytes[copied..]);
        (after, places)
    }
}

/// Returns the offsets of `needle`, including overlapping occurrences: each could be the intended one.
fn occurrences(bytes: &[u8], needle: &[u8]) -> Vec<usize> {
    const MAX_OCCURRENCES: usize = 1_000;
    let finder = memmem::Finder::new(needle);
    let mut all = Vec::new();
    let mut from = 0;
    while let Some(at) = bytes.get(from..).and_then(|rest| finder.find(rest)) {
        all.push(from + at);
        from += at + 1;
        if all.len() == MAX_OCCURRENCES {
            break;
        }
    }
    all
}

fn ambiguous(bytes: &[u8], at: &[usize], requested: &EditFile) -> ToolOutput {
    const MAX_SHOWN: usize = 10;
    let mut places: Vec<String> = at
        .iter()
        .take(MAX_SHOWN)
        .map(|at| line_at(bytes, *at).to_string())
        .collect();
    if at.len() > MAX_SHOWN {
        places.push("…".to_owned());
    }
    ToolOutput::error(format!(
        "old_text occurs {} times in `{}`, in lines {}; add lines around it to make it unique, or set \
         replace_all",
        grouped(at.len() as u64),
        requested.path,
        places.join(", ")
    ))
}

fn not_found(bytes: &[u8], requested: &EditFile) -> ToolOutput {
    let path = &requested.path;
    let old = requested.old_text.as_bytes();
    let wanted: Vec<&[u8]> = lines(old).iter().map(|line| line.body).collect();
    let remedy = if has_line_numbers(&wanted) {
        "it seems to hold the line numbers that read_file shows: leave out the number and the tab"
            .to_owned()
    } else {
        match near_match::describe_near_match(&lines(bytes), &wanted) {
            Some(near) => near,
            None => "nothing in it comes near; read the file again".to_owned(),
        }
    };
    ToolOutput::error(format!("old_text is not in `{path}`: {remedy}"))
}

fn has_line_numbers(lines: &[&[u8]]) -> bool {
    lines.iter().all(|line| {
        let line = line.trim_ascii_start();
        let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
        digits > 0 && line.get(digits) == Some(&b'\t')
    })
}

/// Reports the replacements, with the lines around them after the change.
fn report(path: &str, after: &[u8], places: &[usize], length: usize) -> String {
    let mut said = format!(
        "edited `{path}` ({})\n",
        format_count(places.len(), "replacement")
    );
    let all = lines(after);
    let mut shown_to = 0;
    for at in places.iter().take(MAX_SHOWN_PLACES) {
        let first = line_at(after, *at);
        let last = line_at(after, at + length.saturating_sub(1));
        let from = first.saturating_sub(CONTEXT_LINES).max(1).max(shown_to + 1);
        let to = (last + CONTEXT_LINES).min(all.len());
        if shown_to > 0 && from > shown_to + 1 {
            said.push_str("…\n");
        }
        for number in from..=to.min(from + MAX_SHOWN_LINES) {
            let text = String::from_utf8_lossy(all[number - 1].body);
            said.push_str(&line(number, head(&text, 400)));
        }
        if to > from + MAX_SHOWN_LINES {
            said.push_str("…\n");
        }
        shown_to = shown_to.max(to);
    }
    if places.len() > MAX_SHOWN_PLACES {
        said.push_str(&format!(
            "[and {} more]\n",
            format_count(places.len() - MAX_SHOWN_PLACES, "place")
        ));
    }
    said
}
