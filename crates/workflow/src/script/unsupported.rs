//! Constructs that the embedded interpreter does not support, under the names that Python users know.

use cachalot_core::text::word_list;
use ruff_python_ast::visitor::{Visitor, walk_comprehension, walk_expr, walk_stmt};
use ruff_python_ast::{Comprehension, Expr, Number, Operator, Stmt, StmtClassDef};
use ruff_text_size::Ranged;

use super::shims;

/// Prefix of an exception's message if a block tried to access the system.
pub(super) const NO_ACCESS: &str = "inline code has no access to";

/// The workaround that is always available.
pub(super) const WORKAROUND: &str = "`language: python3` on the step or `settings.python.runner: python3` runs it in your own Python";

/// Modules that the embedded interpreter has, although not every function of each.
const MODULES: [&str; 17] = word_list(
    "__future__ asyncio base64 binascii collections dataclasses datetime functools itertools \
     json math os pathlib re sys typing unicodedata",
);

/// Special methods that the interpreter calls; it ignores all others.
const METHODS: [&str; 11] = word_list(
    "__init__ __repr__ __str__ __eq__ __hash__ __contains__ __iter__ __next__ __index__ \
     __enter__ __exit__",
);

/// An unsupported construct, with a short replacement if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unsupported {
    /// The construct, in Python's terms.
    pub(super) what: String,
    /// A supported equivalent.
    pub(super) instead: Option<&'static str>,
}

impl Unsupported {
    pub(super) fn new(what: impl Into<String>, instead: Option<&'static str>) -> Self {
        Self {
            what: what.into(),
            instead,
        }
    }
}

/// Returns the first construct, in the order of the text, that the interpreter does not support, and its
/// byte offset.
pub(super) fn first(suite: &[Stmt]) -> Option<(Unsupported, usize)> {
    let mut search = Search {
        found: None,
        guarded: 0,
    };
    search.visit_body(suite);
    search.found
}

struct Search {
    found: Option<(Unsupported, usize)>,
    /// The number of enclosing `try` bodies: an import there may be expected to fail.
    guarded: u32,
}

impl Search {
    fn record(&mut self, at: &impl Ranged, what: impl Into<String>, instead: Option<&'static str>) {
        let at = at.start().to_usize();
        if self.found.as_ref().is_none_or(|(_, earlier)| at < *earlier) {
            self.found = Some((Unsupported::new(what, instead), at));
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Match(it) => self.record(it, "`match`", Some("`if` and `elif` do the same")),
            Stmt::TypeAlias(it) => self.record(it, "a type alias", None),
            Stmt::Try(it) if it.is_star => self.record(it, "`except*`", None),
            Stmt::For(it) if it.is_async => self.record(it, "`async for`", None),
            Stmt::For(it) => self.names_only(std::slice::from_ref(&it.target)),
            Stmt::With(it) if it.is_async => self.record(it, "`async with`", None),
            Stmt::ClassDef(it) => self.class(it),
            Stmt::FunctionDef(it)
                if !it.parameters.posonlyargs.is_empty() && it.parameters.kwarg.is_some() =>
            {
                self.record(
                    &*it.parameters,
                    "positional-only parameters beside `**`",
                    None,
                );
            }
            Stmt::AugAssign(it) => self.operator(it, it.op),
            Stmt::Import(it) => {
                for alias in &it.names {
                    self.module(it, alias.name.as_str());
                }
            }
            Stmt::ImportFrom(it) => {
                if it.names.iter().any(|alias| alias.name.as_str() == "*") {
                    self.record(it, "`from … import *`", Some("name what you import"));
                } else if let Some(module) = &it.module {
                    self.module(it, module.as_str());
                }
            }
            _ => {}
        }
    }

    fn class(&mut self, class: &StmtClassDef) {
        if class
            .arguments
            .as_ref()
            .is_some_and(|it| !it.args.is_empty() || !it.keywords.is_empty())
        {
            self.record(class, "class inheritance", None);
        }
        for statement in &class.body {
            match statement {
                Stmt::FunctionDef(method) if !method.decorator_list.is_empty() => {
                    self.record(method, "a decorated method", None);
                }
                Stmt::FunctionDef(method) if is_ignored(method.name.as_str()) => {
                    let what = format!("the method `{}` of a class", method.name);
                    self.record(method, what, Some("call a method of another name"));
                }
                _ => {}
            }
        }
    }

    /// Rejects unpacking into anything but names.
    fn names_only(&mut self, targets: &[Expr]) {
        for target in targets {
            match target {
                Expr::Attribute(_) | Expr::Subscript(_) => self.record(
                    target,
                    "unpacking into an attribute or an item",
                    Some("unpack into names and assign those"),
                ),
                Expr::Tuple(it) => self.names_only(&it.elts),
                Expr::List(it) => self.names_only(&it.elts),
                Expr::Starred(it) => self.names_only(std::slice::from_ref(&it.value)),
                _ => {}
            }
        }
    }

    fn operator(&mut self, at: &impl Ranged, operator: Operator) {
        if operator == Operator::MatMult {
            self.record(at, "matrix multiplication (`@`)", None);
        }
    }

    fn module(&mut self, at: &impl Ranged, module: &str) {
        if self.guarded == 0 && !is_module(module) {
            self.record(at, format!("the module `{module}`"), None);
        }
    }
}

impl<'a> Visitor<'a> for Search {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        self.statement(statement);
        if let Stmt::Try(it) = statement {
            self.guarded += 1;
            self.visit_body(&it.body);
            self.guarded -= 1;
            for handler in &it.handlers {
                self.visit_except_handler(handler);
            }
            self.visit_body(&it.orelse);
            self.visit_body(&it.finalbody);
        } else {
            walk_stmt(self, statement);
        }
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Yield(it) => {
                self.record(
                    it,
                    "a generator (`yield`)",
                    Some("collect into a list and return it"),
                );
            }
            Expr::YieldFrom(it) => {
                self.record(
                    it,
                    "a generator (`yield from`)",
                    Some("extend a list and return it"),
                );
            }
            Expr::TString(it) => self.record(it, "a t-string", Some("use an f-string")),
            Expr::NumberLiteral(it) if matches!(it.value, Number::Complex { .. }) => {
                self.record(it, "a complex number", None);
            }
            Expr::BinOp(it) => self.operator(it, it.op),
            Expr::Compare(it) if it.comparators.iter().any(is_error) && is_type_call(&it.left) => {
                self.record(
                    it,
                    "comparing the type of an exception",
                    Some("`isinstance(e, ValueError)` asks for it"),
                );
            }
            _ => {}
        }
        walk_expr(self, expression);
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        if comprehension.is_async {
            self.record(comprehension, "an async comprehension", None);
        }
        self.names_only(std::slice::from_ref(&comprehension.target));
        walk_comprehension(self, comprehension);
    }
}

fn is_type_call(expression: &Expr) -> bool {
    matches!(expression, Expr::Call(call)
        if matches!(&*call.func, Expr::Name(name) if name.id.as_str() == "type"))
}

fn is_error(expression: &Expr) -> bool {
    matches!(expression, Expr::Name(name) if name.id.ends_with("Error") || name.id.as_str() == "Exception")
}

/// True if the method has a special meaning in Python that the interpreter ignores.
fn is_ignored(method: &str) -> bool {
    method.starts_with("__") && method.ends_with("__") && !METHODS.contains(&method)
}

/// True if the interpreter has the module, at least in part.
pub(super) fn is_module(name: &str) -> bool {
    MODULES.contains(&name) || shims::module(name).is_some()
}
