//! Generator expressions and lazy built-in functions, which the interpreter evaluates eagerly.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprGenerator};

use super::{Writer, span};

/// Built-in functions that the interpreter evaluates eagerly and Python lazily.
pub(super) const LAZY: [&str; 5] = ["map", "filter", "zip", "enumerate", "reversed"];

impl<'a> Writer<'a> {
    /// Marks those of the expressions that are lazy as safe to evaluate eagerly.
    pub(super) fn consume_all(&mut self, expressions: &'a [Expr]) {
        expressions.iter().for_each(|it| self.consume(it));
    }

    /// Marks a lazy expression as safe to evaluate eagerly.
    pub(super) fn consume(&mut self, expression: &'a Expr) {
        let lazy = match expression {
            Expr::Generator(_) => true,
            Expr::Call(call) => {
                matches!(&*call.func, Expr::Name(name) if LAZY.contains(&name.id.as_str()))
            }
            _ => false,
        };
        if lazy {
            self.eager.insert(span(expression));
        }
    }

    pub(super) fn generator(&mut self, expression: &'a Expr, it: &'a ExprGenerator) {
        let whole = span(it);
        let has_named = contains_named(expression);
        if self.eager.contains(&whole) {
            visitor::walk_expr(self, expression);
            return;
        }
        let Some(first) = it.generators.first() else {
            return;
        };
        let (start, end) = span(&first.iter);
        // The step of a generator runs all inner loops for one item of the first.
        let is_nested = it.generators.len() > 1;
        if has_named || is_nested || self.text(start, end).contains('\n') || first.is_async {
            self.refuse(
                whole.0,
                "this generator expression",
                Some("a list (`[… for …]`) does the same where all of it is used"),
            );
            return;
        }
        self.need("gen", whole.0);
        let (begin, finish) = if it.parenthesized {
            (whole.0 + 1, whole.1 - 1)
        } else {
            whole
        };
        self.insert(begin, "__gen__(lambda __it__: [");
        self.visit_expr(&it.elt);
        self.visit_expr(&first.target);
        let source = self.rendered(&first.iter);
        self.replace(start, end, "(__it__,)");
        for condition in &first.ifs {
            self.visit_expr(condition);
        }
        self.insert(finish, format!("], ({source}))"));
    }
}

fn contains_named(generator: &Expr) -> bool {
    #[derive(Default)]
    struct Search {
        found: bool,
    }
    impl<'a> Visitor<'a> for Search {
        fn visit_expr(&mut self, expression: &'a Expr) {
            self.found |= matches!(expression, Expr::Named(_));
            visitor::walk_expr(self, expression);
        }
    }
    let mut search = Search::default();
    visitor::walk_expr(&mut search, generator);
    search.found
}
