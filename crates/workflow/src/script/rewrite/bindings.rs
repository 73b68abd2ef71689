//! Names that a block binds, and facts about the whole block that the rewriting of its parts depends on.

use std::collections::{HashMap, HashSet};

use cachalot_core::text::word_list;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{ExceptHandler, Expr, ExprContext, Parameter, Stmt};

/// Flags of `re`.
const FLAGS: [&str; 12] =
    word_list("A ASCII I IGNORECASE M MULTILINE S DOTALL U UNICODE X VERBOSE");

/// Names that the block binds, and modules that it imports.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    pub(super) bound: HashSet<String>,
    pub(super) modules: HashSet<String>,
    /// Names of imported modules that have a replacement, and those modules.
    pub(super) aliases: HashMap<String, String>,
    /// True if a flag of `re` is mentioned.
    pub(super) flags: bool,
    /// True if an error is handled.
    pub(super) handles: bool,
    /// Names of caught errors.
    pub(super) errors: HashSet<String>,
}

impl<'a> Visitor<'a> for Bindings {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(it) => {
                self.bound.insert(it.name.to_string());
            }
            Stmt::ClassDef(it) => {
                self.bound.insert(it.name.to_string());
            }
            Stmt::Import(it) => {
                for alias in &it.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name);
                    let first = name.split('.').next().unwrap_or_default();
                    self.bound.insert(first.to_owned());
                    self.modules.insert(alias.name.to_string());
                    let (bound, module) = match (&alias.asname, alias.name.as_str()) {
                        (Some(name), module) => (name.as_str(), module),
                        (None, "os.path") => ("os", "os"),
                        (None, module) => (module, module),
                    };
                    self.aliases.insert(bound.to_owned(), module.to_owned());
                }
            }
            Stmt::ImportFrom(it) => {
                for alias in &it.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name);
                    self.bound.insert(name.to_string());
                    self.flags |= FLAGS.contains(&alias.name.as_str());
                }
                self.modules
                    .extend(it.module.as_ref().map(ToString::to_string));
            }
            _ => {}
        }
        visitor::walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Name(name) = expression
            && matches!(name.ctx, ExprContext::Store)
        {
            self.bound.insert(name.id.to_string());
        }
        if let Expr::Attribute(it) = expression {
            self.flags |= FLAGS.contains(&it.attr.as_str());
        }
        visitor::walk_expr(self, expression);
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        self.bound.insert(parameter.name.to_string());
        visitor::walk_parameter(self, parameter);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(it) = handler;
        self.handles = true;
        if let Some(name) = &it.name {
            self.bound.insert(name.to_string());
            self.errors.insert(name.to_string());
        }
        visitor::walk_except_handler(self, handler);
    }
}
