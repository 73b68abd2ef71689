//! `json.loads`, whose errors have the attributes and positions of Python.

use ruff_python_ast::{Expr, ExprAttribute, ExprContext};
use ruff_text_size::Ranged;

use super::{Writer, span};

/// Attributes of a `JSONDecodeError`.
const JSON_ERROR: [&str; 5] = ["msg", "doc", "pos", "lineno", "colno"];

impl<'a> Writer<'a> {
    /// True if the expression is `json.loads`, and calls of it need the helper. Every block has `json`.
    pub(super) fn is_loads(&self, it: &ExprAttribute) -> bool {
        let Expr::Name(name) = &*it.value else {
            return false;
        };
        let is_json = match self.aliases.get(name.id.as_str()) {
            Some(module) => module == "json",
            None => name.id.as_str() == "json" && self.is_builtin(&name.id),
        };
        is_json && self.reads_json && it.attr.as_str() == "loads"
    }

    pub(super) fn need_loads(&mut self, at: usize) {
        self.need("loads", at);
        if self.searches_whitespace {
            self.out.helpers.insert("seeks_blanks");
        }
    }

    /// True if the expression is the name of a caught error, which may come from `json.loads`.
    pub(super) fn is_json_error(&self, it: &Expr) -> bool {
        self.source.contains("loads")
            && matches!(it, Expr::Name(name) if self.errors.contains(name.id.as_str()))
    }

    /// Rewrites `json.loads` and attributes of its errors; returns false for all other attributes.
    pub(super) fn json(&mut self, it: &'a ExprAttribute) -> bool {
        let (start, end) = span(it);
        if self.is_loads(it) {
            self.need_loads(start);
            self.replace(start, end, "__loads__");
            return true;
        }
        let is_part = JSON_ERROR.contains(&it.attr.as_str())
            && matches!(it.ctx, ExprContext::Load)
            && self.is_json_error(&it.value);
        if is_part {
            let name = self.text(start, it.value.end().to_usize());
            self.need("json_part", start);
            self.replace(start, end, format!("__json_part__({name}, '{}')", it.attr));
        }
        is_part
    }
}
