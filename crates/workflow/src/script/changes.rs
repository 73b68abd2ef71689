//! Static check that finds out if a block may change its state.
//!
//! The program of such a block also returns the state, which costs time in proportion to its size. The
//! check has no false negatives: a block that changes its state is never classified as one that does not.

use cachalot_core::text::word_list;
use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Expr, ExprContext, Operator, Stmt};

/// Names through which a block accesses its state.
const STATE_NAMES: [&str; 2] = ["state", "parallel_results"];

/// Methods that mutate the object that they are called on.
pub(super) const METHODS: [&str; 22] = word_list(
    "add append appendleft clear difference_update discard extend extendleft insert \
     intersection_update move_to_end pop popitem popleft remove reverse rotate setdefault sort \
     subtract symmetric_difference_update update",
);

/// Built-ins that access attributes by name, or execute text.
const BUILTINS: [&str; 7] = [
    "delattr", "eval", "exec", "getattr", "globals", "locals", "setattr",
];

/// Modules whose functions never mutate their arguments.
const PURE: [&str; 25] = word_list(
    "__future__ base64 binascii calendar collections copy csv dataclasses datetime decimal enum \
     fractions functools hashlib html itertools json math re statistics string textwrap time \
     typing uuid",
);

/// True if the block may change its state.
pub(super) fn may_change_state(suite: &[Stmt]) -> bool {
    let mut search = Search::default();
    search.visit_body(suite);
    search.sees_state && search.changes
}

#[derive(Default)]
struct Search {
    sees_state: bool,
    changes: bool,
}

impl Search {
    fn import(&mut self, module: &str) {
        let package = module.split('.').next().unwrap_or(module);
        self.changes |= !PURE.contains(&package);
    }
}

impl<'a> Visitor<'a> for Search {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            // `a += b` and `a |= b` mutate the list or mapping that `a` refers to, but not a number or a
            // text; `a *= 2` mutates a list.
            Stmt::AugAssign(it) => {
                let is_scalar = matches!(
                    &*it.value,
                    Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::FString(_)
                );
                self.changes |= match it.op {
                    Operator::Add | Operator::BitOr => !is_scalar,
                    operator => operator == Operator::Mult,
                };
            }
            Stmt::Import(it) => it.names.iter().for_each(|name| self.import(&name.name)),
            Stmt::ImportFrom(it) => {
                self.import(it.module.as_ref().map_or("", |module| module.as_str()));
            }
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Name(it) => {
                self.sees_state |= STATE_NAMES.contains(&it.id.as_str());
                self.changes |= BUILTINS.contains(&it.id.as_str());
            }
            Expr::Subscript(it) => self.changes |= it.ctx != ExprContext::Load,
            Expr::Attribute(it) => {
                let name = it.attr.as_str();
                self.changes |= it.ctx != ExprContext::Load
                    || METHODS.contains(&name)
                    || (name.starts_with("__") && name.ends_with("__"));
            }
            _ => {}
        }
        walk_expr(self, expression);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
#[path = "../../tests/unit/script/changes.rs"]
mod tests;
