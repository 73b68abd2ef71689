//! The separators U+001C to U+001F: white space of text in Python, not in the embedded interpreter.
//!
//! A block that looks for white space without naming it (`split()`, `strip()`, `isspace()`) is refused if
//! one of these characters is in its state, its variables or its literals. Helpers check the other sources
//! of text in such a block: `chr`, `decode`, `json.loads`.

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_interpolated_string_element};
use ruff_python_ast::{Expr, ExprContext, InterpolatedStringElement, Stmt};
use ruff_text_size::Ranged;
use serde_json::{Map, Value};

use super::unsupported::Unsupported;

/// Methods that look for white space if their first argument is missing or `None`.
const DEFAULTS: [&str; 5] = ["split", "rsplit", "strip", "lstrip", "rstrip"];

/// Functions and methods that always look for white space.
const ALWAYS: [&str; 2] = ["isspace", "capwords"];

/// Returns the byte offset of the first place where a block looks for white space.
pub(super) fn first_use(suite: &[Stmt]) -> Option<usize> {
    let mut search = Search::default();
    search.visit_body(suite);
    search.used
}

/// Returns the limitation and its byte offset if a literal contains one of the separators, for a block that
/// looks for white space.
pub(super) fn in_literal(suite: &[Stmt]) -> Option<(Unsupported, usize)> {
    let mut search = Search::default();
    search.visit_body(suite);
    search.used?;
    search.literal.map(|at| (limitation(), at))
}

/// True if a text within the map contains one of the separators.
pub(super) fn in_map(map: &Map<String, Value>) -> bool {
    map.iter()
        .any(|(key, value)| has_separator(key) || in_value(value))
}

/// The limitation, for messages.
pub(super) fn limitation() -> Unsupported {
    Unsupported::new(
        "one of the characters U+001C to U+001F where the block looks for white space",
        Some("`split` and `strip` with an argument name what they look for"),
    )
}

fn in_value(value: &Value) -> bool {
    match value {
        Value::String(text) => has_separator(text),
        Value::Array(items) => items.iter().any(in_value),
        Value::Object(map) => in_map(map),
        _ => false,
    }
}

fn has_separator(text: &str) -> bool {
    text.bytes().any(|byte| is_separator(&byte))
}

fn is_separator(byte: &u8) -> bool {
    (0x1c..=0x1f).contains(byte)
}

#[derive(Default)]
struct Search {
    used: Option<usize>,
    literal: Option<usize>,
    /// The offset of an attribute that is called with an argument that is text.
    harmless: Option<usize>,
}

impl Search {
    fn literal(&mut self, at: &impl Ranged, found: bool) {
        if found && self.literal.is_none() {
            self.literal = Some(at.start().to_usize());
        }
    }
}

impl<'a> Visitor<'a> for Search {
    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Call(call) => {
                if let (Expr::Attribute(it), Some(Expr::StringLiteral(_) | Expr::BytesLiteral(_))) =
                    (&*call.func, call.arguments.args.first())
                {
                    self.harmless = Some(it.attr.start().to_usize());
                }
            }
            Expr::Attribute(it) if matches!(it.ctx, ExprContext::Load) => {
                let at = it.attr.start().to_usize();
                let name = it.attr.as_str();
                if ALWAYS.contains(&name) || DEFAULTS.contains(&name) && self.harmless != Some(at) {
                    self.used = Some(self.used.map_or(at, |earlier| earlier.min(at)));
                }
            }
            Expr::StringLiteral(it) => {
                let text = it.value.to_str();
                self.literal(it, has_separator(text) || text.contains(":c}"));
            }
            Expr::BytesLiteral(it) => {
                let found = it.value.bytes().any(|byte| is_separator(&byte));
                self.literal(it, found);
            }
            _ => {}
        }
        walk_expr(self, expression);
    }

    fn visit_interpolated_string_element(&mut self, element: &'a InterpolatedStringElement) {
        match element {
            InterpolatedStringElement::Literal(it) => self.literal(it, has_separator(&it.value)),
            InterpolatedStringElement::Interpolation(it) => {
                let last = it
                    .format_spec
                    .as_ref()
                    .and_then(|spec| spec.elements.last());
                // The format `c` makes a character of a number.
                let makes_character = matches!(last,
                    Some(InterpolatedStringElement::Literal(it)) if it.value.ends_with('c'));
                self.literal(it, makes_character);
            }
        }
        walk_interpolated_string_element(self, element);
    }
}
