//! Built-in functions and methods that become calls of helpers.

use cachalot_core::text::word_list;
use ruff_python_ast::token::TokenKind;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprAttribute, ExprCall, ExprName, Keyword};
use ruff_text_size::Ranged;

use super::super::python_builtins::{is_type, lacks_builtin};
use super::super::unsupported::NO_ACCESS;
use super::super::{nans, shims};
use super::lazy::LAZY;
use super::{Writer, span};

/// Built-in functions that are replaced by a helper wherever they are used.
const BUILTINS: [&str; 9] =
    word_list("round sum hasattr getattr callable issubclass format ascii divmod");

/// Functions and methods that consume their whole argument before they do anything else.
const CONSUMERS: [&str; 9] = word_list("list tuple set frozenset dict sorted sum min max");

const CONSUMING_METHODS: [&str; 3] = ["join", "extend", "fromkeys"];

/// Methods of built-in types that are called on the type itself.
const OF_THE_TYPE: [&str; 4] = ["fromkeys", "maketrans", "fromhex", "from_bytes"];

impl<'a> Writer<'a> {
    pub(super) fn call(&mut self, expression: &'a Expr, call: &'a ExprCall) {
        let whole = span(call);
        match &*call.func {
            Expr::Name(name) if self.is_builtin(&name.id) => {
                let first = call.arguments.args.first();
                let to_file = |it: &Keyword| it.arg.as_ref().is_some_and(|arg| arg == "file");
                let helper = match name.id.as_str() {
                    "repr" if first.is_some_and(|it| self.is_json_error(it)) => Some("error_repr"),
                    "print" if call.arguments.keywords.iter().any(to_file) => Some("print"),
                    _ => None,
                };
                if let Some(helper) = helper {
                    self.rename(name, helper);
                    self.visit_arguments(&call.arguments);
                    return;
                }
                if self.nans {
                    match (name.id.as_str(), first) {
                        ("float", Some(_)) if nans::is_source(call) => {
                            self.rename(name, "float");
                        }
                        ("set", Some(_)) => self.rename(name, "set"),
                        ("frozenset", Some(_)) => self.rename(name, "frozenset"),
                        ("map", Some(it)) if nans::is_float_type(it) => self.rename(it, "float"),
                        _ => {}
                    }
                }
                if CONSUMERS.contains(&name.id.as_str()) {
                    self.consume_all(&call.arguments.args);
                }
                // The input of a lazy helper may stay lazy.
                if LAZY.contains(&name.id.as_str()) && self.eager.contains(&whole) {
                    let skip = usize::from(matches!(name.id.as_str(), "map" | "filter"));
                    self.consume_all(call.arguments.args.get(skip..).unwrap_or_default());
                    self.visit_arguments(&call.arguments);
                    return;
                }
            }
            Expr::Attribute(attribute) if self.is_loads(attribute) => {}
            Expr::Attribute(attribute) => {
                let name = attribute.attr.as_str();
                self.part_of_module(attribute);
                if CONSUMING_METHODS.contains(&name) {
                    self.consume_all(&call.arguments.args);
                }
                let of_a_module = matches!(&*attribute.value, Expr::Name(owner)
                    if self.aliases.get(owner.id.as_str()).is_some_and(|it| shims::module(it).is_some()));
                if let Some(helper) = self.method_helper(name, call).filter(|_| !of_a_module) {
                    self.method_call(whole, attribute, call, helper);
                    return;
                }
                let on_a_type = matches!(&*attribute.value, Expr::Name(owner)
                    if is_type(&owner.id) && self.is_builtin(&owner.id));
                if on_a_type && !OF_THE_TYPE.contains(&name) {
                    self.bound_method(attribute);
                } else {
                    self.visit_expr(&attribute.value);
                }
                self.visit_arguments(&call.arguments);
                return;
            }
            _ => {}
        }
        visitor::walk_expr(self, expression);
    }

    /// Returns the helper for a method of this name with these arguments.
    fn method_helper(&self, name: &str, call: &ExprCall) -> Option<&'static str> {
        let helper = shims::method(name)?;
        let arguments = &call.arguments;
        let several = arguments.args.len() > 1 || arguments.args.iter().any(Expr::is_starred_expr);
        let looks_for_text = matches!(arguments.args.first(),
            Some(Expr::StringLiteral(it)) if !it.value.is_empty());
        let needed = match name {
            "decode" => self.searches_whitespace,
            "sort" | "remove" => self.nans,
            "index" | "count" if self.nans => true,
            "find" | "rfind" | "index" | "rindex" | "count" | "startswith" | "endswith" => {
                several && !looks_for_text
            }
            "update" | "union" | "intersection" | "difference" => several,
            "dumps" => arguments
                .keywords
                .iter()
                .any(|it| it.arg.as_ref().is_none_or(|arg| arg == "default")),
            "isoformat" => !arguments.args.is_empty() || !arguments.keywords.is_empty(),
            _ => true,
        };
        needed.then_some(helper)
    }

    /// Returns the offset of the dot before the name.
    fn dot(&self, attribute: &ExprAttribute) -> Option<usize> {
        let (value, name) = (attribute.value.end(), attribute.attr.start());
        let dot = self.token(TokenKind::Dot, value.to_usize(), name.to_usize());
        dot.map(|(start, _)| start)
    }

    /// Rewrites `value.name(arguments)` as `__m_name__(value, arguments)`.
    fn method_call(
        &mut self,
        whole: (usize, usize),
        attribute: &'a ExprAttribute,
        call: &'a ExprCall,
        helper: &'static str,
    ) {
        let Some(dot) = self.dot(attribute) else {
            return;
        };
        self.need(helper, whole.0);
        self.insert(whole.0, format!("__{helper}__("));
        self.visit_expr(&attribute.value);
        let empty = call.arguments.args.is_empty() && call.arguments.keywords.is_empty();
        let open = call.arguments.start().to_usize() + 1;
        self.replace(dot, open, if empty { "" } else { ", " });
        self.visit_arguments(&call.arguments);
    }

    /// Rewrites `value.name` for a method that is not called here.
    pub(super) fn bound_method(&mut self, attribute: &'a ExprAttribute) {
        let (start, end) = span(attribute);
        let name = attribute.attr.as_str();
        let Some(dot) = self.dot(attribute) else {
            return;
        };
        self.need("bound", start);
        let method = match shims::method(name) {
            Some(helper) => {
                self.out.helpers.insert(helper);
                format!("__{helper}__(__o__, *__a__, **__k__)")
            }
            // Some methods of the interpreter do not accept an empty `**`.
            None => format!("__o__.{name}(*__a__, **__k__) if __k__ else __o__.{name}(*__a__)"),
        };
        self.insert(start, "__bound__(");
        self.visit_expr(&attribute.value);
        self.replace(
            dot,
            end,
            format!(", lambda __o__: __o__.{name}, lambda __o__, *__a__, **__k__: {method})"),
        );
    }

    /// Rewrites the name of a built-in function, and refuses those that the interpreter lacks.
    pub(super) fn builtin(&mut self, name: &'a ExprName) {
        let start = name.start().to_usize();
        if name.id.as_str() == "open" {
            self.refuse(start, format!("{NO_ACCESS} files (`open`)"), None);
        } else if lacks_builtin(&name.id) && !BUILTINS.contains(&name.id.as_str()) {
            self.refuse(start, format!("the built-in `{}`", name.id), None);
        }
        let known = BUILTINS
            .iter()
            .chain(&LAZY)
            .find(|it| **it == name.id.as_str())
            .copied();
        let known = known.or(match name.id.as_str() {
            "chr" if self.searches_whitespace => Some("chr"),
            "isinstance" if self.uses_flags => Some("isinstance"),
            "sorted" if self.nans => Some("sorted"),
            _ => None,
        });
        if let Some(helper) = known {
            self.rename(name, helper);
        }
    }
}
