//! Operators and comparisons that become calls of helpers.

use ruff_python_ast::token::TokenKind;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{CmpOp, Expr, ExprBinOp, ExprCompare, Number, Operator, StmtAugAssign};
use ruff_text_size::Ranged;

use super::{Writer, span};

impl<'a> Writer<'a> {
    /// Rewrites `left OPERATOR right` as a call of a helper.
    fn binary(
        &mut self,
        whole: (usize, usize),
        left: &'a Expr,
        right: &'a Expr,
        kind: TokenKind,
        helper: &'static str,
    ) {
        let Some((start, end)) = self.operator(kind, left, right) else {
            return;
        };
        self.need(helper, whole.0);
        self.insert(whole.0, format!("__{helper}__("));
        self.visit_expr(left);
        self.replace(start, end, ",");
        self.visit_expr(right);
        self.insert(whole.1, ")");
    }

    fn operator(&self, kind: TokenKind, left: &Expr, right: &Expr) -> Option<(usize, usize)> {
        self.token(kind, left.end().to_usize(), right.start().to_usize())
    }

    /// Rewrites a comparison that may compare items of containers.
    pub(super) fn compare(&mut self, it: &'a ExprCompare) {
        let (Some(operator), Some(right)) = (it.ops.first(), it.comparators.first()) else {
            return;
        };
        let (kind, helper) = match operator {
            CmpOp::Eq => (TokenKind::EqEqual, "nan_eq"),
            CmpOp::NotEq => (TokenKind::NotEqual, "nan_ne"),
            CmpOp::In => (TokenKind::In, "nan_in"),
            _ => (TokenKind::In, "nan_not_in"),
        };
        if matches!(operator, CmpOp::NotIn)
            && let Some((start, end)) = self.operator(TokenKind::Not, &it.left, right)
        {
            self.replace(start, end, "");
        }
        self.binary(span(it), &it.left, right, kind, helper);
    }

    pub(super) fn augmented(&mut self, it: &'a StmtAugAssign) {
        let (token, helper) = match it.op {
            Operator::Mod => (TokenKind::PercentEqual, "mod"),
            Operator::Div if !is_number(&it.value, true) => (TokenKind::SlashEqual, "div"),
            Operator::Pow if !is_number(&it.value, false) => (TokenKind::DoubleStarEqual, "pow"),
            Operator::BitOr if self.uses_flags => (TokenKind::VbarEqual, "flagior"),
            Operator::BitOr if !is_number(&it.value, false) => (TokenKind::VbarEqual, "ior"),
            Operator::FloorDiv => (TokenKind::DoubleSlashEqual, "floordiv"),
            // A `Counter` changes in place.
            Operator::Add
                if self.uses_counter
                    && is_plain(&it.target)
                    && !matches!(&*it.value, Expr::NumberLiteral(_) | Expr::StringLiteral(_)) =>
            {
                (TokenKind::PlusEqual, "iadd")
            }
            // Lists and sets change in place.
            Operator::Mult if !is_float(&it.value) => (TokenKind::StarEqual, "imul"),
            Operator::Sub if !is_number(&it.value, true) => (TokenKind::MinusEqual, "isub"),
            Operator::BitAnd if !is_number(&it.value, false) => (TokenKind::AmperEqual, "iand"),
            Operator::BitXor if !is_number(&it.value, false) => {
                (TokenKind::CircumflexEqual, "ixor")
            }
            _ => {
                self.visit_expr(&it.target);
                self.visit_expr(&it.value);
                return;
            }
        };
        let (start, end) = span(it);
        let (target_start, target_end) = span(&*it.target);
        if !is_plain(&it.target)
            || matches!(&*it.target, Expr::Subscript(s) if matches!(*s.slice, Expr::Slice(_)))
        {
            self.refuse(
                start,
                "this assignment with an operator",
                Some("write `x = x % y` in place of `x %= y`"),
            );
            return;
        }
        let Some((from, to)) = self.token(token, target_end, it.value.start().to_usize()) else {
            return;
        };
        self.need(helper, start);
        let target = self.text(target_start, target_end);
        self.visit_expr(&it.target);
        self.replace(from, to, format!("= __{helper}__({target}, ("));
        self.visit_expr(&it.value);
        self.insert(end, "))");
    }

    /// Rewrites an operation that the interpreter computes differently or lacks.
    pub(super) fn operation(&mut self, expression: &'a Expr, it: &'a ExprBinOp) {
        let whole = span(it);
        let (left, right) = (&*it.left, &*it.right);
        match it.op {
            Operator::Mod if !is_number(left, true) => {
                self.binary(whole, left, right, TokenKind::Percent, "mod");
            }
            Operator::Div if !is_float(left) && !is_float(right) => {
                self.binary(whole, left, right, TokenKind::Slash, "div");
            }
            Operator::Pow if !is_number(right, false) => {
                self.binary(whole, left, right, TokenKind::DoubleStar, "pow");
            }
            Operator::BitOr if !is_set(left) && !is_set(right) => {
                let helper = if self.uses_flags { "flagor" } else { "or" };
                self.binary(whole, left, right, TokenKind::Vbar, helper);
            }
            Operator::BitAnd if self.uses_flags => {
                self.binary(whole, left, right, TokenKind::Amper, "flagand");
            }
            Operator::FloorDiv if !is_number(left, false) || !is_number(right, false) => {
                self.binary(whole, left, right, TokenKind::DoubleSlash, "floordiv");
            }
            _ => visitor::walk_expr(self, expression),
        }
    }
}

/// True if the expression is a number literal; floats count only if `floats`.
fn is_number(expression: &Expr, floats: bool) -> bool {
    match expression {
        Expr::NumberLiteral(it) => floats || matches!(it.value, Number::Int(_)),
        _ => false,
    }
}

pub(super) fn is_float(expression: &Expr) -> bool {
    matches!(expression, Expr::NumberLiteral(it) if matches!(it.value, Number::Float(_)))
}

fn is_set(expression: &Expr) -> bool {
    matches!(
        expression,
        Expr::Set(_) | Expr::SetComp(_) | Expr::NumberLiteral(_)
    )
}

/// True if evaluating the expression twice is equivalent to once, and nothing in it is rewritten.
pub(super) fn is_plain(expression: &Expr) -> bool {
    match expression {
        Expr::Name(_) | Expr::StringLiteral(_) | Expr::NumberLiteral(_) => true,
        Expr::Attribute(it) => is_plain(&it.value),
        Expr::Subscript(it) => is_plain(&it.value) && is_plain(&it.slice),
        _ => false,
    }
}
