//! Turns a block's text into the program that the interpreter runs.
//!
//! A block with a `return` becomes the body of a function; a block without one becomes a module whose new
//! names are its result. Lines keep their order, so a line of the program is a line of the block shifted
//! by a constant.

use std::collections::HashSet;
use std::fmt::Write;

use ruff_python_ast::helpers::ReturnStatementVisitor;
use ruff_python_ast::token::{TokenKind, Tokens};
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprContext, ModModule, Stmt};
use ruff_python_parser::{Parsed, parse_module};
use ruff_text_size::Ranged;

use super::edits::apply;
use super::unsupported::Unsupported;
use super::{branches, changes, guards, supported};

/// The maximum length of a block, in bytes. Bounds the depth of the syntax tree and thereby the stack
/// that it needs.
pub(super) const MAX_BYTES: usize = 128 * 1024;

/// Returns the stack size, in bytes, for parsing a block of `bytes` bytes. The tree of a chain such as
/// `a.b.c` is as deep as the chain is long; measured without optimization, a level takes less than a
/// quarter of this.
pub(super) fn stack_for(bytes: usize) -> usize {
    4 * 1024 * 1024 + bytes.min(MAX_BYTES) * 2 * 1024
}

/// Predefined names in a block; an assignment to one of them is not a result.
const PREDEFINED_NAMES: [&str; 4] = ["state", "variables", "json", "print"];

/// Text in front of every block; the guards that the block uses follow.
const PRELUDE: &str = "import json\n";

/// The variable in which the program collects the names that a block without `return` assigned.
const NAMES: &str = "__names__";

/// The program that the interpreter runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// The program's text.
    pub(super) text: String,
    /// The number of lines before the block's first line.
    pub(super) lines_before: u32,
    /// The number of lines of the block.
    pub(super) lines: u32,
    /// True if the program's value is a dict of names, false if it is the value that the block returned.
    pub(super) names: bool,
    /// True if the program's value is a tuple: the block's value, and the state after the block.
    pub(super) changes: bool,
}

impl Program {
    /// Returns the line of the block, from 1, for `line` of the program; `None` if the line does not
    /// belong to the block.
    pub(super) fn line_of_block(&self, line: u32) -> Option<u32> {
        line.checked_sub(self.lines_before)
            .filter(|line| (1..=self.lines).contains(line))
    }

    /// Returns the text of a line of the block, from 1.
    pub(super) fn line(&self, line: u32) -> &str {
        let index = usize::try_from(self.lines_before + line - 1).unwrap_or(usize::MAX);
        self.text.lines().nth(index).unwrap_or_default()
    }
}

/// Reason why a block cannot become a program. Lines count from 1 in the block.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BlockError {
    /// The block is not Python.
    Syntax { message: String, line: u32 },
    /// The block uses something that is not on the allow-list.
    Unsupported { what: Unsupported, line: u32 },
    /// The block is longer than [`MAX_BYTES`].
    TooLong { bytes: usize },
}

/// Checks that a block is at most [`MAX_BYTES`] long.
pub(super) fn check_length(source: &str) -> Result<(), BlockError> {
    let bytes = source.len();
    if bytes > MAX_BYTES {
        Err(BlockError::TooLong { bytes })
    } else {
        Ok(())
    }
}

/// Parses a block without checking that the interpreter supports it.
pub(super) fn parse(source: &str) -> Result<Parsed<ModModule>, BlockError> {
    check_length(source)?;
    parse_module(source).map_err(|error| BlockError::Syntax {
        message: error.error.to_string(),
        line: line_at(source, error.location.start().to_usize()),
    })
}

/// Creates the program of a block. `has_results` is true if its state has results of branches.
pub(super) fn prepare(source: &str, has_results: bool) -> Result<Program, BlockError> {
    let source = unix_lines(source);
    let parsed = parse(&source)?;
    let guards = supported::check(&source, parsed.suite()).map_err(|(what, at)| {
        BlockError::Unsupported {
            what,
            line: line_at(&source, at),
        }
    })?;
    let changes = changes::may_change_state(parsed.suite());
    let has_results = has_results || branches::mentioned(parsed.suite());
    let mut text = apply(&source, 0, source.len(), guards.edits);
    if has_results {
        // Parsed again, because the edits of the guards have moved all places.
        text = branches::with_attributes_as_calls(&text, parse(&text)?.suite());
    }
    let prelude = format!("{PRELUDE}{}", guards::text(&guards.used));
    let (before, lines) = (count_lines(&prelude), count_lines(&source));
    let function = has_return(parsed.suite());
    let (text, lines_before) = if function {
        let parsed = parse(&text)?;
        (as_function(&prelude, &text, parsed.tokens()), before + 1)
    } else {
        let names = assigned_names(parsed.suite()).into_iter();
        (as_module(&prelude, &text, names), before)
    };
    let program = Program {
        text,
        lines_before,
        lines,
        names: !function,
        changes,
    };
    let head = has_results.then(branches::head);
    Ok(with_state(program, prelude.len(), head))
}

/// Adds the state after the block to the program's value, and inserts `results` (the text that makes the
/// results of branches readable) behind the prelude, which ends at `prelude`.
fn with_state(mut program: Program, prelude: usize, results: Option<String>) -> Program {
    // The last line is the value of the program.
    let last = program.text.trim_end().rfind('\n').map_or(0, |at| at + 1);
    let mut value = program.text.split_off(last).trim_end().to_owned();
    if program.changes {
        value = format!("({value}, __state__)");
    }
    let mut head = String::new();
    if program.changes {
        // The block may rebind the name `state`.
        head.push_str("__state__ = state\n");
    }
    if let Some(results) = results {
        head.push_str(&results);
        value = format!("__unview__({value}, 200)");
    }
    program.text.push_str(&value);
    program.text.push('\n');
    program.text.insert_str(prelude, &head);
    program.lines_before += count_lines(&head);
    program
}

fn count_lines(text: &str) -> u32 {
    u32::try_from(text.lines().count()).unwrap_or(u32::MAX)
}

/// Converts line ends. Python treats `\r\n` and `\r` as the end of a line, inside strings too.
pub(super) fn unix_lines(source: &str) -> String {
    if source.contains('\r') {
        source.replace("\r\n", "\n").replace('\r', "\n")
    } else {
        source.to_owned()
    }
}

/// Returns the line, from 1, of a byte offset; the last line for the end of the text.
pub(super) fn line_at(source: &str, offset: usize) -> u32 {
    let text = source.trim_end_matches('\n').as_bytes();
    let before = text.get(..offset).unwrap_or(text);
    let line = before.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(line).unwrap_or(u32::MAX).saturating_add(1)
}

/// True if the block itself contains a `return`; functions that it defines do not count.
fn has_return(suite: &[Stmt]) -> bool {
    let mut search = ReturnStatementVisitor::default();
    search.visit_body(suite);
    !search.returns.is_empty()
}

/// Returns the block as the body of a function that is called once.
fn as_function(prelude: &str, source: &str, tokens: &Tokens) -> String {
    let inside_strings = string_ranges(tokens);
    let mut text = String::with_capacity(source.len() + source.len() / 16 + 128);
    text.push_str(prelude);
    text.push_str("def __block__(state, variables, json):\n");
    let mut start = 0;
    let mut strings = inside_strings.iter().peekable();
    for line in source.split_inclusive('\n') {
        while strings.peek().is_some_and(|(_, end)| *end <= start) {
            strings.next();
        }
        // Indenting a line that begins inside a string would change the string.
        let inside = strings.peek().is_some_and(|(begin, _)| *begin < start);
        if !inside && !line.trim().is_empty() {
            text.push(' ');
        }
        text.push_str(line);
        start += line.len();
    }
    text.push_str("\n\n__block__(state, variables, json)\n");
    text
}

/// Returns the byte ranges of the outermost strings, in order; f-strings from their first quote to their
/// last.
fn string_ranges(tokens: &Tokens) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    let mut open = Vec::new();
    for token in tokens {
        let (start, end) = (token.start().to_usize(), token.end().to_usize());
        match token.kind() {
            TokenKind::FStringStart | TokenKind::TStringStart => open.push(start),
            TokenKind::FStringEnd | TokenKind::TStringEnd => {
                if let (Some(start), true) = (open.pop(), open.is_empty()) {
                    ranges.push((start, end));
                }
            }
            TokenKind::String if open.is_empty() => ranges.push((start, end)),
            _ => {}
        }
    }
    ranges
}

/// Returns the block as a module, followed by code that collects the names that it assigned.
fn as_module<'a>(prelude: &str, source: &str, names: impl Iterator<Item = &'a str>) -> String {
    let mut text = format!("{prelude}{source}\n\n{NAMES} = {{}}\n");
    for name in names {
        // The name may be unbound: assigned only on a path that was not taken, or only inside a function.
        let _ = writeln!(
            text,
            "try:\n    {NAMES}['{name}'] = {name}\nexcept NameError:\n    pass"
        );
    }
    text.push_str(NAMES);
    text.push('\n');
    text
}

/// Returns every name that the block assigns anywhere and may return, in the order of their first
/// assignment.
fn assigned_names(suite: &[Stmt]) -> Vec<&str> {
    #[derive(Default)]
    struct Search<'a> {
        names: Vec<&'a str>,
        seen: HashSet<&'a str>,
    }
    impl<'a> Visitor<'a> for Search<'a> {
        fn visit_expr(&mut self, expression: &'a Expr) {
            if let Expr::Name(name) = expression
                && matches!(name.ctx, ExprContext::Store)
            {
                let name = name.id.as_str();
                if !name.starts_with('_')
                    && !PREDEFINED_NAMES.contains(&name)
                    && self.seen.insert(name)
                {
                    self.names.push(name);
                }
            }
            visitor::walk_expr(self, expression);
        }
    }
    let mut search = Search::default();
    search.visit_body(suite);
    search.names
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
#[path = "../../tests/unit/script/block.rs"]
mod tests;
