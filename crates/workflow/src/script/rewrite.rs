//! Rewrites constructs that the embedded interpreter would compute differently from Python into calls of
//! helpers in front of the block ([`super::shims`]). Every line keeps its number.

mod bindings;
mod calls;
mod errors;
mod formats;
mod items;
mod json;
mod lazy;
mod modules;
mod operators;

use std::collections::{BTreeSet, HashMap, HashSet};

use ruff_python_ast::token::{TokenKind, Tokens};
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    ExceptHandler, Expr, ExprContext, ExprDictComp, ExprListComp, InterpolatedStringElement, Stmt,
};
use ruff_text_size::Ranged;

use super::edits::{Edit, apply};
use super::unsupported::Unsupported;
use super::{nans, shims, whitespace};
use bindings::Bindings;
use operators::is_plain;

/// A rewritten block.
#[derive(Debug, Default)]
pub(super) struct Rewritten {
    /// The text, with the same number of lines as the block.
    pub(super) text: String,
    /// The required helpers.
    pub(super) helpers: BTreeSet<&'static str>,
    /// Names that the block binds anywhere.
    pub(super) bound: HashSet<String>,
    /// Names that the block deletes, which are not results.
    pub(super) deleted: HashSet<String>,
    /// The first construct that cannot be rewritten, and its byte offset.
    pub(super) refused: Option<(Unsupported, usize)>,
}

/// Rewrites a block.
pub(super) fn rewrite(source: &str, suite: &[Stmt], tokens: &Tokens) -> Rewritten {
    let mut bindings = Bindings::default();
    bindings.visit_body(suite);
    let searches_whitespace = whitespace::first_use(suite).is_some();
    let mut writer = Writer {
        source,
        tokens,
        bound: &bindings.bound,
        aliases: &bindings.aliases,
        uses_re: bindings.modules.contains("re"),
        uses_flags: bindings.modules.contains("re") && bindings.flags,
        uses_counter: source.contains("Counter"),
        reads_json: bindings.handles || searches_whitespace,
        searches_whitespace,
        errors: &bindings.errors,
        nans: nans::may_compare_nans(suite),
        loops: 0,
        depth: 0,
        debug: false,
        eager: HashSet::new(),
        edits: Vec::new(),
        temporaries: 0,
        out: Rewritten::default(),
    };
    writer.visit_body(suite);
    let edits = std::mem::take(&mut writer.edits);
    let mut out = std::mem::take(&mut writer.out);
    drop(writer);
    out.text = apply(source, 0, source.len(), edits);
    out.bound = bindings.bound;
    out
}

/// Collects the edits of a block. A concept of the language has its methods in a file of its own.
struct Writer<'a> {
    source: &'a str,
    tokens: &'a Tokens,
    bound: &'a HashSet<String>,
    aliases: &'a HashMap<String, String>,
    uses_re: bool,
    /// True if flags of `re` may occur as values.
    uses_flags: bool,
    /// True if a `Counter` may occur.
    uses_counter: bool,
    /// True if `json.loads` needs its helper: an error of it may be handled, or its text matters.
    reads_json: bool,
    /// True if the block looks for white space.
    searches_whitespace: bool,
    /// Names of caught errors.
    errors: &'a HashSet<String>,
    /// True if several NaNs in containers could be distinguished.
    nans: bool,
    /// The number of loops around the statement.
    loops: u32,
    /// The number of compound statements and definitions around the statement.
    depth: u32,
    /// True within `{expression=}`, whose source text is shown.
    debug: bool,
    /// Ranges of lazy expressions that the surrounding expression consumes completely.
    eager: HashSet<(usize, usize)>,
    edits: Vec<Edit>,
    temporaries: u32,
    out: Rewritten,
}

fn span(node: &impl Ranged) -> (usize, usize) {
    (node.start().to_usize(), node.end().to_usize())
}

impl<'a> Writer<'a> {
    fn refuse(&mut self, at: usize, what: impl Into<String>, instead: Option<&'static str>) {
        if self
            .out
            .refused
            .as_ref()
            .is_none_or(|(_, earlier)| at < *earlier)
        {
            self.out.refused = Some((Unsupported::new(what, instead), at));
        }
    }

    fn need(&mut self, helper: &'static str, at: usize) {
        if self.debug {
            self.refuse(
                at,
                "this expression in `{…=}` of an f-string",
                Some("write its name and its value"),
            );
        }
        self.out.helpers.insert(helper);
    }

    fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at, at, text);
    }

    /// Replaces a range; the line feeds in it are kept.
    fn replace(&mut self, start: usize, end: usize, text: impl Into<String>) {
        let lines = self.text(start, end).matches('\n').count();
        let mut text = text.into();
        text.push_str(&"\n".repeat(lines));
        self.edits.push(Edit { start, end, text });
    }

    fn text(&self, start: usize, end: usize) -> &'a str {
        self.source.get(start..end).unwrap_or_default()
    }

    /// Returns the range of the first token of a kind between two offsets.
    fn token(&self, kind: TokenKind, from: usize, to: usize) -> Option<(usize, usize)> {
        self.tokens
            .iter()
            .map(|token| (token.kind(), span(token)))
            .find(|(found, (start, end))| *found == kind && *start >= from && *end <= to)
            .map(|(_, range)| range)
    }

    /// Visits `expression` and returns its text with the resulting edits applied.
    fn rendered(&mut self, expression: &'a Expr) -> String {
        let before = std::mem::take(&mut self.edits);
        self.visit_expr(expression);
        let edits = std::mem::replace(&mut self.edits, before);
        let (start, end) = span(expression);
        apply(self.source, start, end, edits)
    }

    fn is_builtin(&self, name: &str) -> bool {
        !self.bound.contains(name)
    }

    /// Replaces a name by that of its helper.
    fn rename(&mut self, name: &impl Ranged, helper: &'static str) {
        let (start, end) = span(name);
        self.need(helper, start);
        self.replace(start, end, format!("__{helper}__"));
    }

    /// True if the name occurs after `offset`.
    fn used_later(&self, name: &str, offset: usize) -> bool {
        self.tokens.iter().any(|token| {
            let (start, end) = span(token);
            token.kind() == TokenKind::Name && start > offset && self.text(start, end) == name
        })
    }
}

impl<'a> Visitor<'a> for Writer<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Delete(it) => {
                let end = it.end().to_usize();
                let later = it.targets.iter().any(
                    |target| matches!(target, Expr::Name(name) if self.used_later(&name.id, end)),
                );
                self.delete(it, later);
            }
            Stmt::Assign(it) => self.assign(it),
            Stmt::AugAssign(it) => self.augmented(it),
            Stmt::Import(_) | Stmt::ImportFrom(_) => self.import(statement),
            Stmt::For(_) | Stmt::While(_) => {
                self.loops += 1;
                self.depth += 1;
                visitor::walk_stmt(self, statement);
                self.depth -= 1;
                self.loops -= 1;
            }
            Stmt::FunctionDef(_)
            | Stmt::ClassDef(_)
            | Stmt::If(_)
            | Stmt::With(_)
            | Stmt::Try(_) => {
                self.depth += 1;
                visitor::walk_stmt(self, statement);
                self.depth -= 1;
            }
            _ => visitor::walk_stmt(self, statement),
        }
    }

    /// Annotations are not evaluated.
    fn visit_annotation(&mut self, _: &'a Expr) {}

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(it) = handler;
        self.handler(it);
    }

    fn visit_interpolated_string_element(&mut self, element: &'a InterpolatedStringElement) {
        self.interpolation(element);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Attribute(it) = expression {
            self.part_of_module(it);
        }
        match expression {
            Expr::BinOp(it) => self.operation(expression, it),
            Expr::Compare(it) if self.nans && nans::compares_items(it) => self.compare(it),
            Expr::Subscript(it)
                if matches!(it.ctx, ExprContext::Store)
                    && is_plain(&it.value)
                    && !matches!(
                        *it.slice,
                        Expr::Slice(_) | Expr::StringLiteral(_) | Expr::FString(_)
                    ) =>
            {
                self.store(it);
            }
            Expr::Dict(it) => {
                self.display(it);
                visitor::walk_expr(self, expression);
            }
            Expr::Attribute(it) if self.nans && it.attr.as_str() == "nan" => {
                self.out.helpers.insert("nan_of_math");
                visitor::walk_expr(self, expression);
            }
            Expr::Generator(it) => self.generator(expression, it),
            Expr::Call(call) => self.call(expression, call),
            Expr::Attribute(it) if self.json(it) => {}
            Expr::Attribute(it)
                if matches!(it.ctx, ExprContext::Load) && shims::is_method(it.attr.as_str()) =>
            {
                self.bound_method(it);
            }
            Expr::Subscript(it)
                if self.uses_re
                    && matches!(it.ctx, ExprContext::Load)
                    && !matches!(*it.slice, Expr::Slice(_))
                    && !matches!(
                        *it.value,
                        Expr::List(_) | Expr::Dict(_) | Expr::StringLiteral(_)
                    ) =>
            {
                let (start, end) = span(it);
                self.need("item", start);
                self.insert(start, "__item__(");
                self.subscript(&it.value, &it.slice, end, ")");
            }
            Expr::Starred(it) => {
                self.consume(&it.value);
                self.visit_expr(&it.value);
            }
            Expr::Name(name)
                if matches!(name.ctx, ExprContext::Load) && self.is_builtin(&name.id) =>
            {
                self.builtin(name);
            }
            Expr::SetComp(it) => {
                it.generators.iter().for_each(|it| self.consume(&it.iter));
                self.set(expression);
            }
            Expr::Set(_) => self.set(expression),
            Expr::ListComp(ExprListComp { generators, .. })
            | Expr::DictComp(ExprDictComp { generators, .. }) => {
                generators.iter().for_each(|it| self.consume(&it.iter));
                visitor::walk_expr(self, expression);
            }
            _ => visitor::walk_expr(self, expression),
        }
    }
}
