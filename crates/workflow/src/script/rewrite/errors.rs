//! Exceptions: a limitation of the interpreter must not pass as an error that the block handles.

use cachalot_core::text::word_list;
use ruff_python_ast::token::TokenKind;
use ruff_python_ast::visitor::Visitor;
use ruff_python_ast::{ExceptHandlerExceptHandler, Expr, Stmt};
use ruff_text_size::Ranged;

use super::{Writer, span};

/// Errors that no limitation of the interpreter raises; a handler of only these needs no guard.
const HARMLESS: [&str; 9] = word_list(
    "KeyError IndexError ZeroDivisionError OverflowError StopIteration AssertionError \
     UnicodeDecodeError UnicodeEncodeError FloatingPointError",
);

impl<'a> Writer<'a> {
    pub(super) fn handler(&mut self, it: &'a ExceptHandlerExceptHandler) {
        let harmless = |expression: &Expr| match expression {
            Expr::Name(name) => HARMLESS.contains(&name.id.as_str()),
            Expr::Attribute(it) => matches!(
                it.attr.as_str(),
                "JSONDecodeError" | "error" | "PatternError"
            ),
            _ => false,
        };
        let guarded = match it.type_.as_deref() {
            None => true,
            Some(Expr::Tuple(tuple)) => !tuple.elts.iter().all(harmless),
            Some(kind) => !harmless(kind) && !is_import_error(kind),
        };
        // The interpreter keeps the key of a `KeyError` as text.
        let keyed = it.name.is_some()
            && match it.type_.as_deref() {
                Some(Expr::Tuple(tuple)) => tuple.elts.iter().any(catches_key_errors),
                kind => kind.is_some_and(catches_key_errors),
            };
        if (guarded || keyed)
            && let Some(first) = it.body.first()
        {
            self.out.helpers.insert("caught");
            let name = match (&it.name, &it.type_) {
                (Some(name), _) if keyed => {
                    self.out.helpers.insert("keyed");
                    format!("__keyed__({name})")
                }
                (Some(name), _) => name.to_string(),
                (None, Some(kind)) => {
                    let mut end = kind.end().to_usize();
                    if let Some((_, closed)) =
                        self.token(TokenKind::Rpar, end, first.start().to_usize())
                        && self.token(TokenKind::Colon, end, closed).is_none()
                    {
                        end = closed;
                    }
                    self.insert(end, " as __error__");
                    "__error__".to_owned()
                }
                (None, None) => {
                    let at = it.start().to_usize() + "except".len();
                    self.insert(at, " BaseException as __error__");
                    "__error__".to_owned()
                }
            };
            self.guard(first, &name);
        }
        if let Some(kind) = &it.type_ {
            self.visit_expr(kind);
        }
        self.visit_body(&it.body);
    }

    /// Inserts a check of the caught error before `first`, the first statement of its handler.
    fn guard(&mut self, first: &'a Stmt, name: &str) {
        let either = (format!("__caught__({name}) or ("), ")");
        let argument = (format!("__caught__({name}, ("), "))");
        let (expression, (begin, close)) = match first {
            Stmt::If(it) => (&*it.test, either),
            Stmt::While(it) => (&*it.test, either),
            Stmt::For(it) if !it.is_async => (&*it.iter, argument),
            Stmt::With(it) if !it.is_async => match it.items.first() {
                Some(item) => (&item.context_expr, argument),
                None => return,
            },
            Stmt::Try(it) => {
                if let Some(inner) = it.body.first() {
                    self.guard(inner, name);
                }
                return;
            }
            Stmt::FunctionDef(_)
            | Stmt::ClassDef(_)
            | Stmt::Match(_)
            | Stmt::For(_)
            | Stmt::With(_) => {
                self.refuse(
                    first.start().to_usize(),
                    "a definition at the beginning of an `except` block",
                    Some("move it out of the block"),
                );
                return;
            }
            // After a semicolon, the parser reads `match = …` as a `match` statement.
            Stmt::Assign(it)
                if ["match", "type", "case"].iter().any(|word| {
                    self.text(it.start().to_usize(), it.end().to_usize())
                        .starts_with(word)
                }) =>
            {
                let listed = (format!("[__caught__({name}), ("), ")][1]");
                (&*it.value, listed)
            }
            other => {
                let at = other.start().to_usize();
                self.insert(at, format!("__caught__({name}); "));
                return;
            }
        };
        // Parentheses around the expression belong to it.
        let (start, end) = span(expression);
        self.insert(start, begin);
        self.insert(end, close);
    }
}

fn is_import_error(kind: &Expr) -> bool {
    matches!(kind, Expr::Name(name) if matches!(name.id.as_str(), "ImportError" | "ModuleNotFoundError"))
}

fn catches_key_errors(kind: &Expr) -> bool {
    matches!(kind, Expr::Name(name) if ["KeyError", "LookupError", "Exception", "BaseException"].contains(&name.id.as_str()))
}
