//! The tool `edit_file`.

use async_trait::async_trait;
use cachalot_core::Effects;
use cachalot_operation::Touches;
use memchr::memmem;
use serde::Deserialize;
use serde_json::json;

use super::commit::{Change, commit};
use super::media::Media;
use super::numbered::line;
use super::opening::is_file;
use super::text::{Endings, line_at, lines, with_returns, without_returns};
use super::{counted, grouped, near, original, path_of, typed, writer, writing};
use crate::blocking::{Abandoned, blocking};
use crate::tool::{About, Arguments, Context, Output, Tool};

/// Number of lines shown before and after a change.
const AROUND: usize = 2;

/// Maximum number of changed places, and of lines of each, that are shown.
const PLACES: usize = 5;
const LINES: usize = 40;

pub(super) struct EditFile {
    about: About,
}

#[derive(Deserialize)]
struct Asked {
    path: String,
    old_text: String,
    new_text: String,
    replace_all: Option<bool>,
}

impl EditFile {
    pub(super) fn new() -> Self {
        let description = "Replaces a text in a file. old_text must be in the file exactly as given, \
            whitespace included and without line numbers, and only once unless replace_all is set: add \
            lines around it to make it unique. Line endings are kept.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The file, relative to the workspace.",
                },
                "old_text": {
                    "type": "string",
                    "minLength": 1,
                    "description": "What is to be replaced.",
                },
                "new_text": {
                    "type": "string",
                    "description": "What takes its place; empty to delete.",
                },
                "replace_all": {
                    "type": "boolean",
                    "description": "Whether to replace it wherever it occurs.",
                },
            },
            "required": ["path", "old_text", "new_text"],
            "additionalProperties": false,
        });
        Self {
            about: writer("edit_file", description, parameters),
        }
    }
}

#[async_trait]
impl Tool for EditFile {
    fn about(&self) -> &About {
        &self.about
    }

    fn effects(&self, arguments: &Arguments, context: &Context) -> Effects {
        let path = arguments.get("path").and_then(|path| path.as_str());
        let place = context.workspace.place(path.unwrap_or_default());
        writing([place.as_ref()])
    }

    fn touches(&self, arguments: &Arguments) -> Touches {
        Touches::writing([path_of(arguments, "")])
    }

    async fn run(&self, arguments: Arguments, context: &Context) -> Output {
        let asked: Asked = match typed(arguments) {
            Ok(asked) => asked,
            Err(wrong) => return wrong,
        };
        let context = context.clone();
        blocking(move |abandoned| edit(&asked, &context, abandoned).unwrap_or_else(|failed| failed))
            .await
    }
}

fn edit(asked: &Asked, context: &Context, abandoned: &Abandoned) -> Result<Output, Output> {
    let path = &asked.path;
    if asked.old_text.is_empty() {
        return Err(Output::error(
            "old_text is empty; to write a new file use write_file",
        ));
    }
    if asked.old_text == asked.new_text {
        return Err(Output::error(
            "old_text and new_text are the same: nothing would change",
        ));
    }
    let place = context.workspace.place(path)?;
    is_file(&context.workspace, &place, path)?;
    let before = original::read(&place, path)?;
    if let Media::Utf16(_) | Media::Binary(_) | Media::Picture(_) = Media::of(&before.bytes) {
        return Err(Output::error(format!(
            "`{path}` is no text in UTF-8; change it with a program that knows it"
        )));
    }
    let edit = Edit::find(&before.bytes, asked)?;
    let (after, places) = edit.apply(&before.bytes);
    let change = Change {
        place: &place,
        before: Some(&before),
        after: Some(&after),
        mode: None,
    };
    commit(&context.workspace, &[change], abandoned).map_err(Output::error)?;
    Ok(Output::text(report(path, &after, &places, edit.new.len())))
}

/// A replacement and its places.
struct Edit {
    old_length: usize,
    new: Vec<u8>,
    /// Offsets of the replaced texts, which do not overlap.
    at: Vec<usize>,
}

impl Edit {
    fn find(bytes: &[u8], asked: &Asked) -> Result<Self, Output> {
        let endings = Endings::of(bytes);
        // A model that gets lines writes `\n`, regardless of the line endings of the file.
        let mut spellings = vec![asked.old_text.clone()];
        if endings.both > 0 && asked.old_text.contains('\n') {
            spellings.push(with_returns(&asked.old_text));
        } else if asked.old_text.contains("\r\n") {
            spellings.push(without_returns(&asked.old_text));
        }
        let found = spellings
            .iter()
            .map(|old| (old, occurrences(bytes, old.as_bytes())))
            .find(|(_, at)| !at.is_empty());
        let Some((old, at)) = found else {
            return Err(not_found(bytes, asked));
        };
        let at = match (asked.replace_all.unwrap_or(false), at.len()) {
            (true, _) => memmem::find_iter(bytes, old.as_bytes()).collect(),
            (false, 1) => at,
            (false, _) => return Err(ambiguous(bytes, &at, asked)),
        };
        let adapted = *old != asked.old_text;
        let new = if endings.are_all_both() {
            with_returns(&asked.new_text)
        } else if adapted && endings.both == 0 {
            without_returns(&asked.new_text)
        } else if adapted {
            with_returns(&asked.new_text)
        } else {
            asked.new_text.clone()
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
    const ENOUGH: usize = 1_000;
    let finder = memmem::Finder::new(needle);
    let mut all = Vec::new();
    let mut from = 0;
    while let Some(at) = bytes.get(from..).and_then(|rest| finder.find(rest)) {
        all.push(from + at);
        from += at + 1;
        if all.len() == ENOUGH {
            break;
        }
    }
    all
}

fn ambiguous(bytes: &[u8], at: &[usize], asked: &Asked) -> Output {
    const SHOWN: usize = 10;
    let mut places: Vec<String> = at
        .iter()
        .take(SHOWN)
        .map(|at| line_at(bytes, *at).to_string())
        .collect();
    if at.len() > SHOWN {
        places.push("…".to_owned());
    }
    Output::error(format!(
        "old_text occurs {} times in `{}`, in lines {}; add lines around it to make it unique, or set \
         replace_all",
        grouped(at.len() as u64),
        asked.path,
        places.join(", ")
    ))
}

fn not_found(bytes: &[u8], asked: &Asked) -> Output {
    let path = &asked.path;
    let old = asked.old_text.as_bytes();
    let wanted: Vec<&[u8]> = lines(old).iter().map(|line| line.body).collect();
    let remedy = if has_line_numbers(&wanted) {
        "it seems to hold the line numbers that read_file shows: leave out the number and the tab"
            .to_owned()
    } else {
        match near::explain(&lines(bytes), &wanted) {
            Some(near) => near,
            None => "nothing in it comes near; read the file again".to_owned(),
        }
    };
    Output::error(format!("old_text is not in `{path}`: {remedy}"))
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
        counted(places.len(), "replacement")
    );
    let all = lines(after);
    let mut shown_to = 0;
    for at in places.iter().take(PLACES) {
        let first = line_at(after, *at);
        let last = line_at(after, at + length.saturating_sub(1));
        let from = first.saturating_sub(AROUND).max(1).max(shown_to + 1);
        let to = (last + AROUND).min(all.len());
        if shown_to > 0 && from > shown_to + 1 {
            said.push_str("…\n");
        }
        for number in from..=to.min(from + LINES) {
            let text = String::from_utf8_lossy(all[number - 1].body);
            said.push_str(&line(number, &text.chars().take(400).collect::<String>()));
        }
        if to > from + LINES {
            said.push_str("…\n");
        }
        shown_to = shown_to.max(to);
    }
    if places.len() > PLACES {
        said.push_str(&format!(
            "[and {} more]\n",
            counted(places.len() - PLACES, "place")
        ));
    }
    said
}
