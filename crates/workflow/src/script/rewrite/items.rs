//! Items and slices: assignment, deletion, unpacking, and the keys of dicts.

use ruff_python_ast::token::TokenKind;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprDict, ExprSubscript, Number, StmtAssign, StmtDelete};
use ruff_text_size::Ranged;

use super::operators::is_float;
use super::{Writer, span};

impl<'a> Writer<'a> {
    /// Rewrites `[key]` after `value` as `, key)`.
    pub(super) fn subscript(
        &mut self,
        value: &'a Expr,
        slice: &'a Expr,
        end: usize,
        closing: &str,
    ) {
        let Some((open, after)) = self.token(
            TokenKind::Lsqb,
            value.end().to_usize(),
            slice.start().to_usize().max(value.end().to_usize() + 1),
        ) else {
            return;
        };
        self.visit_expr(value);
        let is_slice = slice.is_slice_expr();
        self.replace(open, after, if is_slice { ", slice(" } else { ", (" });
        if let Expr::Slice(it) = slice {
            let mut at = after;
            for (n, part) in [&it.lower, &it.upper, &it.step].into_iter().enumerate() {
                if n > 0 {
                    let Some((colon, after)) = self.token(TokenKind::Colon, at, end) else {
                        break;
                    };
                    self.replace(colon, after, ",");
                    at = after;
                }
                match part {
                    Some(part) => {
                        self.visit_expr(part);
                        at = part.end().to_usize();
                    }
                    None => self.insert(at, "None"),
                }
            }
        } else {
            self.visit_expr(slice);
        }
        self.replace(end - 1, end, format!("){closing}"));
    }

    pub(super) fn delete(&mut self, it: &'a StmtDelete, later: bool) {
        let (start, _) = span(it);
        let mut previous: Option<usize> = None;
        let first = it
            .targets
            .first()
            .map_or(start + 3, |it| it.start().to_usize());
        self.replace(start, first, "");
        for target in &it.targets {
            let (from, to) = span(target);
            if let Some(previous) = previous
                && let Some((comma, after)) = self.token(TokenKind::Comma, previous, from)
            {
                self.replace(comma, after, ";");
            }
            previous = Some(to);
            match target {
                Expr::Subscript(item) => {
                    self.need("delitem", from);
                    self.insert(from, "__delitem__(");
                    self.subscript(&item.value, &item.slice, to, ")");
                }
                Expr::Name(name) if !later && self.loops == 0 && self.depth == 0 => {
                    self.out.deleted.insert(name.id.to_string());
                    self.replace(from, to, "None");
                }
                _ => self.refuse(
                    start,
                    "this `del` statement",
                    Some("`x = None` forgets a value"),
                ),
            }
        }
    }

    /// Rewrites `x[a:b] = v`, and unpacking into items and attributes.
    pub(super) fn assign(&mut self, it: &'a StmtAssign) {
        let (start, end) = span(it);
        if let [Expr::Subscript(target)] = it.targets.as_slice()
            && matches!(*target.slice, Expr::Slice(_))
        {
            self.need("setslice", start);
            let (from, to) = span(target);
            let Some((equals, after)) =
                self.token(TokenKind::Equal, to, it.value.start().to_usize())
            else {
                return;
            };
            self.insert(from, "__setslice__(");
            self.subscript(&target.value, &target.slice, to, "");
            self.replace(equals, after, ", (");
            self.visit_expr(&it.value);
            self.insert(end, "))");
            return;
        }
        let mut after = String::new();
        for target in &it.targets {
            if matches!(target, Expr::Tuple(_) | Expr::List(_)) {
                self.unpack(target, &mut after);
            } else {
                self.visit_expr(target);
            }
        }
        self.visit_expr(&it.value);
        if !after.is_empty() {
            if it.targets.len() > 1 {
                self.refuse(start, "unpacking into an attribute or an item", None);
            }
            self.insert(end, after);
        }
    }

    fn unpack(&mut self, target: &'a Expr, after: &mut String) {
        match target {
            Expr::Tuple(it) => it.elts.iter().for_each(|it| self.unpack(it, after)),
            Expr::List(it) => it.elts.iter().for_each(|it| self.unpack(it, after)),
            Expr::Starred(it) => self.unpack(&it.value, after),
            Expr::Attribute(_) | Expr::Subscript(_) => {
                let (from, to) = span(target);
                let slice =
                    matches!(target, Expr::Subscript(s) if matches!(*s.slice, Expr::Slice(_)));
                if slice || self.text(from, to).contains('\n') {
                    self.refuse(
                        from,
                        "unpacking into an attribute or an item",
                        Some("unpack into names and assign those"),
                    );
                    return;
                }
                let text = self.rendered(target);
                let name = format!("__part{}__", self.temporaries);
                self.temporaries += 1;
                self.replace(from, to, name.clone());
                after.push_str(&format!("; {text} = {name}"));
            }
            _ => self.visit_expr(target),
        }
    }

    /// Rewrites `owner[key] = …`, so that a dict keeps the first of several equal keys.
    pub(super) fn store(&mut self, it: &'a ExprSubscript) {
        let (start, end) = span(&*it.slice);
        let owner = self.text(span(&*it.value).0, span(&*it.value).1);
        self.need("dict_key", start);
        self.visit_expr(&it.value);
        self.insert(start, format!("__dict_key__({owner}, ("));
        self.visit_expr(&it.slice);
        self.insert(end, "))");
    }

    /// Checks a set for several NaNs if there may be some.
    pub(super) fn set(&mut self, expression: &'a Expr) {
        let (start, end) = span(expression);
        if self.nans {
            self.need("set", start);
            self.insert(start, "__set__(");
        }
        visitor::walk_expr(self, expression);
        if self.nans {
            self.insert(end, ")");
        }
    }

    /// Refuses a dict display with equal keys of several types, such as `1` and `True`.
    pub(super) fn display(&mut self, it: &'a ExprDict) {
        let mut known: Vec<(f64, &Expr)> = Vec::new();
        for key in it.items.iter().filter_map(|item| item.key.as_ref()) {
            if matches!(key, Expr::BooleanLiteral(_)) {
                self.out.helpers.insert("dict_key_bool");
            }
            let Some(number) = number(key) else { continue };
            if known.iter().any(|(other, earlier)| {
                other.total_cmp(&number).is_eq() && kind(earlier) != kind(key)
            }) {
                self.refuse(
                    key.start().to_usize(),
                    "equal keys of several types in a dict",
                    Some("keep one of them"),
                );
            }
            known.push((number, key));
        }
    }
}

/// Returns the value of a literal key that is a number.
pub(super) fn number(key: &Expr) -> Option<f64> {
    match key {
        Expr::BooleanLiteral(it) => Some(f64::from(u8::from(it.value))),
        Expr::NumberLiteral(it) => match &it.value {
            Number::Int(it) => it.as_i32().map(f64::from),
            Number::Float(it) => Some(*it + 0.0),
            Number::Complex { .. } => None,
        },
        _ => None,
    }
}

/// Returns the type of a literal key that is a number.
pub(super) fn kind(key: &Expr) -> &'static str {
    match key {
        Expr::BooleanLiteral(_) => "bool",
        other if is_float(other) => "float",
        _ => "int",
    }
}
