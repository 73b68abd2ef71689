//! Parser of patches.

use cachalot_core::text::head;

use super::{Action, Hunk, Mark, Patch, PatchError, Section};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

pub(super) fn patch(text: &str) -> Result<Patch, PatchError> {
    let mut reader = PatchParser {
        lines: text
            .split('\n')
            .map(|line| line.strip_suffix('\r').unwrap_or(line))
            .collect(),
        at: 0,
    };
    reader.begin()?;
    let mut sections = Vec::new();
    loop {
        reader.skip_blank();
        match reader.peek() {
            Some(line) if is(line, END) => break,
            Some(line) => sections.push(reader.section(line)?),
            None => {
                return Err(reader.wrong(format!(
                    "the patch ends without `{END}`; it may have been cut off"
                )));
            }
        }
    }
    if sections.is_empty() {
        return Err(reader.wrong("the patch changes no file"));
    }
    reader.at += 1;
    reader.skip_wrapping();
    match reader.peek() {
        Some(_) => Err(reader.wrong(format!("there is text behind `{END}`"))),
        None => Ok(Patch { sections }),
    }
}

struct PatchParser<'a> {
    lines: Vec<&'a str>,
    /// Index of the next line, from 0.
    at: usize,
}

/// True if a line is a directive without operand.
fn is(line: &str, directive: &str) -> bool {
    line.trim_end() == directive
}

fn is_directive(line: &str) -> bool {
    line.starts_with("*** ")
}

impl<'a> PatchParser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn wrong(&self, reason: impl Into<String>) -> PatchError {
        PatchError {
            line: (self.at + 1).min(self.lines.len()),
            reason: reason.into(),
        }
    }

    fn begin(&mut self) -> Result<(), PatchError> {
        self.skip_wrapping();
        match self.peek() {
            Some(line) if is(line.trim_start(), BEGIN) => {
                self.at += 1;
                Ok(())
            }
            Some(line) if line.starts_with("--- ") || line.starts_with("diff ") => {
                Err(self.wrong(format!(
                    "this is a unified diff; write `{BEGIN}`, then sections such as `{UPDATE} path` \
                     with `@@` and lines that begin with ` `, `-` or `+`"
                )))
            }
            _ => Err(self.wrong(format!("a patch begins with `{BEGIN}`"))),
        }
    }

    fn skip_blank(&mut self) {
        while self.peek().is_some_and(|line| line.trim().is_empty()) {
            self.at += 1;
        }
    }

    /// Skips blank lines and code fences around the patch.
    fn skip_wrapping(&mut self) {
        while self
            .peek()
            .is_some_and(|line| line.trim().is_empty() || line.starts_with("```"))
        {
            self.at += 1;
        }
    }

    fn section(&mut self, line: &'a str) -> Result<Section, PatchError> {
        let begin = self.at + 1;
        let operand = |directive: &str| line.strip_prefix(directive).map(str::trim);
        let (path, directive) = if let Some(path) = operand(ADD) {
            (path, ADD)
        } else if let Some(path) = operand(DELETE) {
            (path, DELETE)
        } else if let Some(path) = operand(UPDATE) {
            (path, UPDATE)
        } else {
            return Err(self.wrong(format!(
                "expected `{ADD} path`, `{UPDATE} path`, `{DELETE} path` or `{END}`, found `{}`",
                shorten(line)
            )));
        };
        if path.is_empty() {
            return Err(self.wrong(format!("`{directive}` needs a path")));
        }
        self.at += 1;
        let action = match directive {
            ADD => Action::Add(self.added()?),
            DELETE => Action::Delete,
            _ => self.update(begin)?,
        };
        Ok(Section {
            line: begin,
            path: path.to_owned(),
            action,
        })
    }

    fn added(&mut self) -> Result<Vec<String>, PatchError> {
        let mut lines = Vec::new();
        while let Some(line) = self.peek() {
            if is_directive(line) || self.only_blank_before_directive() {
                break;
            }
            match line.strip_prefix('+') {
                Some(line) => lines.push(line.to_owned()),
                None => {
                    return Err(self.wrong(format!(
                        "every line of an added file begins with `+`, found `{}`",
                        shorten(line)
                    )));
                }
            }
            self.at += 1;
        }
        Ok(lines)
    }

    /// True if only empty lines precede the next directive or the end.
    fn only_blank_before_directive(&self) -> bool {
        self.lines[self.at..]
            .iter()
            .find(|line| !line.trim_end().is_empty() || line.starts_with(' '))
            .is_none_or(|line| is_directive(line) || line.starts_with("@@"))
    }

    fn update(&mut self, begin: usize) -> Result<Action, PatchError> {
        let mut move_to = None;
        if let Some(path) = self.peek().and_then(|line| line.strip_prefix(MOVE)) {
            if path.trim().is_empty() {
                return Err(self.wrong(format!("`{MOVE}` needs a path")));
            }
            move_to = Some(path.trim().to_owned());
            self.at += 1;
        }
        let mut hunks = Vec::new();
        loop {
            self.skip_empty();
            match self.peek() {
                Some(line) if !is_directive(line) => hunks.push(self.hunk()?),
                _ => break,
            }
        }
        let changes = hunks
            .iter()
            .any(|hunk: &Hunk| hunk.lines.iter().any(|(mark, _)| *mark != Mark::Context));
        if !changes && move_to.is_none() {
            return Err(PatchError {
                line: begin,
                reason: "this section changes nothing: it has no line that begins with `+` or `-`"
                    .to_owned(),
            });
        }
        Ok(Action::Update { move_to, hunks })
    }

    /// Skips empty lines before a directive or a header, which are not blank lines of a file.
    fn skip_empty(&mut self) {
        if self.only_blank_before_directive() {
            while self.peek().is_some_and(str::is_empty) {
                self.at += 1;
            }
        }
    }

    fn hunk(&mut self) -> Result<Hunk, PatchError> {
        let mut hunk = Hunk {
            line: self.at + 1,
            anchors: Vec::new(),
            near: None,
            lines: Vec::new(),
            at_end: false,
        };
        while let Some(header) = self.peek().and_then(|line| line.strip_prefix("@@")) {
            // Models also write headers of unified diffs. Their line number only decides between several places, or
            // where lines without context are inserted.
            match diff_header_line(header) {
                Some(near) => hunk.near = Some(near),
                None => {
                    let anchor = header.strip_prefix(' ').unwrap_or(header);
                    let anchor = anchor.strip_suffix("@@").unwrap_or(anchor).trim_end();
                    if !anchor.trim().is_empty() {
                        hunk.anchors.push(anchor.to_owned());
                    }
                }
            }
            self.at += 1;
        }
        while let Some(line) = self.peek() {
            if is(line, END_OF_FILE) {
                hunk.at_end = true;
                self.at += 1;
                break;
            }
            if is_directive(line) || line.starts_with("@@") || self.only_blank_before_directive() {
                break;
            }
            hunk.lines.push(self.line(line)?);
            self.at += 1;
        }
        if hunk.lines.is_empty() {
            return Err(self.wrong("a hunk needs lines that begin with ` `, `-` or `+`"));
        }
        Ok(hunk)
    }

    fn line(&self, line: &str) -> Result<(Mark, String), PatchError> {
        let mut characters = line.chars();
        let mark = match characters.next() {
            Some('+') => Mark::Added,
            Some('-') => Mark::Removed,
            // An empty context line whose leading space was trimmed.
            Some(' ') | None => Mark::Context,
            Some('\\') => {
                return Err(self.wrong(
                    "leave out `\\ No newline at end of file`: whether a file ends with a newline \
                     stays as it is",
                ));
            }
            Some(_) => {
                return Err(self.wrong(format!(
                    "a line of a hunk begins with ` `, `-` or `+`, found `{}`",
                    shorten(line)
                )));
            }
        };
        Ok((mark, characters.as_str().to_owned()))
    }
}

/// Returns the line of the old file from a unified diff header: ` -10,4 +10,5 @@ …`.
fn diff_header_line(header: &str) -> Option<usize> {
    let rest = header.trim_start().strip_prefix('-')?;
    let (old, rest) = rest.split_once(" +")?;
    let new = rest.split([' ', '@']).next()?;
    let first = |range: &str| -> Option<usize> {
        let (first, count) = range.split_once(',').unwrap_or((range, "1"));
        count.parse::<usize>().ok()?;
        first.parse().ok()
    };
    first(new)?;
    first(old)
}

fn shorten(line: &str) -> &str {
    head(line, 60)
}
