//! NaN in containers: the embedded interpreter has one NaN object, Python as many as are made.
//!
//! A container compares its items by identity first, so two NaNs are equal in it only if they are one
//! object. A block that makes NaNs (`float(text)`, `math.nan`) and compares through containers gets helpers
//! that count the NaNs and refuse such a comparison of several.

use ruff_python_ast::visitor::{Visitor, walk_expr};
use ruff_python_ast::{CmpOp, Expr, ExprCall, ExprCompare, Number, Stmt};

/// Functions that compare the items of their argument.
const FUNCTIONS: [&str; 3] = ["sorted", "set", "frozenset"];

/// Methods that compare the items of a list.
const METHODS: [&str; 4] = ["sort", "index", "count", "remove"];

/// Functions that never return a container.
const SCALARS: [&str; 6] = ["len", "type", "str", "int", "abs", "round"];

/// True if a block may make a NaN and compare items of containers.
pub(super) fn may_compare_nans(suite: &[Stmt]) -> bool {
    let mut search = Search::default();
    search.visit_body(suite);
    search.makes && search.compares
}

/// True if the call of `float` may return NaN.
pub(super) fn is_source(call: &ExprCall) -> bool {
    match call.arguments.args.first() {
        Some(Expr::NumberLiteral(_)) | None => false,
        Some(Expr::StringLiteral(it)) => it
            .value
            .to_str()
            .trim()
            .parse::<f64>()
            .is_ok_and(f64::is_nan),
        Some(_) => true,
    }
}

/// True if the comparison may compare items of containers.
pub(super) fn compares_items(it: &ExprCompare) -> bool {
    let [right] = &*it.comparators else {
        return false;
    };
    match &*it.ops {
        [CmpOp::Eq | CmpOp::NotEq] => !is_scalar(&it.left) && !is_scalar(right),
        [CmpOp::In | CmpOp::NotIn] => !is_scalar(&it.left) && !is_constant(right),
        _ => false,
    }
}

fn is_constant(expression: &Expr) -> bool {
    match expression {
        Expr::List(it) => it.elts.iter().all(is_scalar),
        Expr::Tuple(it) => it.elts.iter().all(is_scalar),
        Expr::Set(it) => it.elts.iter().all(is_scalar),
        _ => is_scalar(expression),
    }
}

/// True if the expression shows that its value is neither NaN nor a container.
fn is_scalar(expression: &Expr) -> bool {
    match expression {
        Expr::StringLiteral(_)
        | Expr::FString(_)
        | Expr::BytesLiteral(_)
        | Expr::BooleanLiteral(_)
        | Expr::NoneLiteral(_)
        | Expr::Compare(_) => true,
        Expr::NumberLiteral(it) => !matches!(it.value, Number::Complex { .. }),
        Expr::UnaryOp(it) => is_scalar(&it.operand),
        Expr::BinOp(it) => is_scalar(&it.left) || is_scalar(&it.right),
        Expr::Call(it) => {
            matches!(&*it.func, Expr::Name(name) if SCALARS.contains(&name.id.as_str()))
        }
        _ => false,
    }
}

#[derive(Default)]
struct Search {
    makes: bool,
    compares: bool,
}

impl<'a> Visitor<'a> for Search {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        if let Stmt::ImportFrom(it) = statement {
            self.makes |= it.names.iter().any(|alias| alias.name.as_str() == "nan");
        }
        ruff_python_ast::visitor::walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Attribute(it) => self.makes |= it.attr.as_str() == "nan",
            Expr::SetComp(_) => self.compares = true,
            Expr::Set(it) => self.compares |= !it.elts.iter().all(is_scalar),
            Expr::Compare(it) => self.compares |= compares_items(it),
            Expr::Call(call) => match &*call.func {
                Expr::Name(name) if name.id.as_str() == "float" => self.makes |= is_source(call),
                Expr::Name(name) => {
                    self.compares |= FUNCTIONS.contains(&name.id.as_str());
                    let maps = name.id.as_str() == "map";
                    self.makes |= maps && call.arguments.args.first().is_some_and(is_float_type);
                }
                Expr::Attribute(it) => self.compares |= METHODS.contains(&it.attr.as_str()),
                _ => {}
            },
            _ => {}
        }
        walk_expr(self, expression);
    }
}

/// True if the expression is the name `float`.
pub(super) fn is_float_type(expression: &Expr) -> bool {
    matches!(expression, Expr::Name(name) if name.id.as_str() == "float")
}
