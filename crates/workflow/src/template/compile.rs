//! Compilation of templates, with the operators of Python.
//!
//! The engine has no hook for operators, and folds constants with its own. So the tree of a template is rebuilt with a
//! filter ([`super::operators`]) in place of each operator that differs from Python's, and then compiled. The nodes keep
//! their spans, so that errors have their places.

use std::collections::BTreeMap;

use minijinja::machinery::ast::{self, BinOpKind, CompareOpKind, Expr, Spanned, Stmt};
use minijinja::machinery::{
    CodeGenerator, Instructions, Span, eval, make_string_output, parse, parse_expr,
};
use minijinja::{AutoEscape, Environment, Error, Value};

use super::{bounds, operators};

/// A compiled expression or text.
pub(super) struct Compiled<'s> {
    instructions: Instructions<'s>,
    blocks: BTreeMap<&'s str, Instructions<'s>>,
    is_expression: bool,
}

impl<'s> Compiled<'s> {
    /// Compiles an expression, with this filter for comparisons.
    pub(super) fn expression(source: &'s str, comparison: &'static str) -> Result<Self, Error> {
        let rebuild = Rebuild {
            is_bounded: false,
            comparison,
        };
        let tree = rebuild.expr(&parse_expr(source)?);
        let mut generator = CodeGenerator::new("<expression>", source);
        generator.compile_expr(&tree);
        Ok(Self::new(generator, true))
    }

    /// Compiles a text with templates.
    pub(super) fn text(source: &'s str, environment: &Environment<'static>) -> Result<Self, Error> {
        let tree = parse(source, "<string>", environment.syntax().clone())?;
        // Only statements carry a value from one expression to the next, and only they repeat a text.
        let rebuild = Rebuild {
            is_bounded: source.contains("{%"),
            comparison: operators::COMPARE,
        };
        let mut generator = CodeGenerator::new("<string>", source);
        generator.compile_stmt(&rebuild.stmt(&tree));
        Ok(Self::new(generator, false))
    }

    fn new(generator: CodeGenerator<'s>, is_expression: bool) -> Self {
        let (instructions, blocks) = generator.finish();
        Self {
            instructions,
            blocks,
            is_expression,
        }
    }

    /// Returns the value of an expression, or the text.
    pub(super) fn evaluate(
        &self,
        environment: &Environment<'static>,
        root: Value,
    ) -> Result<Value, Error> {
        let mut text = String::new();
        let mut output = make_string_output(&mut text);
        let (value, _) = eval(
            environment,
            &self.instructions,
            root,
            &self.blocks,
            &mut output,
            AutoEscape::None,
        )?;
        drop(output);
        Ok(if self.is_expression {
            value.unwrap_or_default()
        } else {
            Value::from(text)
        })
    }
}

/// Makes a node of a tree from its fields.
macro_rules! node {
    ($tree:ident::$kind:ident at $span:expr, { $($field:ident: $value:expr),* }) => {
        $tree::$kind(Spanned::new(ast::$kind { $($field: $value),* }, $span))
    };
}

/// Copies a tree, and replaces operators.
struct Rebuild {
    /// Set when the sizes of operands, of variables and of literal text are checked.
    is_bounded: bool,
    /// The filter for comparisons.
    comparison: &'static str,
}

impl Rebuild {
    #[rustfmt::skip]
    fn expr<'s>(&self, expr: &Expr<'s>) -> Expr<'s> {
        let span = expr.span();
        match expr {
            Expr::Var(it) => node!(Expr::Var at span, { id: it.id }),
            Expr::Const(it) => constant(it.value.clone(), span),
            Expr::Slice(it) => {
                let parts = [&it.start, &it.stop, &it.step].into_iter();
                let none = || constant(Value::from(()), span);
                let parts = parts.map(|part| self.optional(part.as_ref()).unwrap_or_else(none));
                filter(operators::SLICE, self.expr(&it.expr), parts.collect(), span)
            }
            Expr::UnaryOp(it) => {
                // It is not `Copy`.
                let kind = if matches!(it.op, ast::UnaryOpKind::Not) {
                    ast::UnaryOpKind::Not
                } else {
                    ast::UnaryOpKind::Neg
                };
                node!(Expr::UnaryOp at span, { op: kind, expr: self.expr(&it.expr) })
            }
            Expr::BinOp(it) => self.binary(it, span),
            Expr::Compare(it) => {
                let pairs = it.ops.iter().map(|operand| (operand.op, &operand.expr));
                self.comparison(&it.expr, pairs, span)
            }
            Expr::IfExpr(it) => node!(Expr::IfExpr at span, {
                test_expr: self.expr(&it.test_expr),
                true_expr: self.expr(&it.true_expr),
                false_expr: self.optional(it.false_expr.as_ref())
            }),
            Expr::Filter(it) => node!(Expr::Filter at span, {
                name: it.name,
                expr: self.optional(it.expr.as_ref()),
                args: self.arguments(&it.args)
            }),
            Expr::Test(it) => node!(Expr::Test at span, {
                name: it.name,
                expr: self.expr(&it.expr),
                args: self.arguments(&it.args)
            }),
            Expr::GetAttr(it) => {
                node!(Expr::GetAttr at span, { expr: self.expr(&it.expr), name: it.name })
            }
            Expr::GetItem(it) => node!(Expr::GetItem at span, {
                expr: self.expr(&it.expr),
                subscript_expr: self.expr(&it.subscript_expr)
            }),
            Expr::Call(it) => Expr::Call(self.call(it)),
            Expr::List(it) => node!(Expr::List at span, { items: self.exprs(&it.items) }),
            Expr::Tuple(it) => node!(Expr::Tuple at span, { items: self.exprs(&it.items) }),
            Expr::Map(it) => node!(Expr::Map at span, {
                keys: self.exprs(&it.keys),
                values: self.exprs(&it.values)
            }),
        }
    }

    fn binary<'s>(&self, it: &ast::BinOp<'s>, span: Span) -> Expr<'s> {
        let comparison = match it.op {
            BinOpKind::Eq => Some(CompareOpKind::Eq),
            BinOpKind::Ne => Some(CompareOpKind::Ne),
            BinOpKind::Lt => Some(CompareOpKind::Lt),
            BinOpKind::Lte => Some(CompareOpKind::Lte),
            BinOpKind::Gt => Some(CompareOpKind::Gt),
            BinOpKind::Gte => Some(CompareOpKind::Gte),
            BinOpKind::In => Some(CompareOpKind::In),
            _ => None,
        };
        if let Some(op) = comparison {
            return self.comparison(&it.left, [(op, &it.right)].into_iter(), span);
        }
        let operand = self.expr(&it.left);
        let operand = match it.op {
            BinOpKind::Concat => {
                let arguments = vec![self.expr(&it.right)];
                return filter(operators::CONCAT, operand, arguments, span);
            }
            // The text of `%` is nearly always written out; any other left operand has to be a number.
            BinOpKind::Rem if is_text(&it.left) => {
                let arguments = match &it.right {
                    Expr::Tuple(values) => self.exprs(&values.items),
                    value => vec![self.expr(value)],
                };
                return filter("format", operand, arguments, span);
            }
            BinOpKind::Add | BinOpKind::Mul => self.checked(operand),
            _ => operand,
        };
        node!(Expr::BinOp at span, { op: it.op, left: operand, right: self.expr(&it.right) })
    }

    fn comparison<'a, 's: 'a>(
        &self,
        first: &Expr<'s>,
        pairs: impl Iterator<Item = (CompareOpKind, &'a Expr<'s>)>,
        span: Span,
    ) -> Expr<'s> {
        let arguments = pairs.flat_map(|(op, operand)| {
            let op = constant(Value::from(sign(op)), operand.span());
            [op, self.expr(operand)]
        });
        filter(self.comparison, self.expr(first), arguments.collect(), span)
    }

    /// Checks the size of a value.
    fn checked<'s>(&self, value: Expr<'s>) -> Expr<'s> {
        if self.is_bounded {
            let span = value.span();
            filter(bounds::OPERAND, value, Vec::new(), span)
        } else {
            value
        }
    }

    /// Checks the size of a value that is set, unless it is another value without change: to measure it would read
    /// all of it.
    fn assigned<'s>(&self, value: &Expr<'s>) -> Expr<'s> {
        let copy = self.expr(value);
        match value {
            Expr::Var(_) | Expr::Const(_) | Expr::GetAttr(_) | Expr::GetItem(_) => copy,
            _ => self.checked(copy),
        }
    }

    fn optional<'s>(&self, expr: Option<&Expr<'s>>) -> Option<Expr<'s>> {
        expr.map(|expr| self.expr(expr))
    }

    fn exprs<'s>(&self, exprs: &[Expr<'s>]) -> Vec<Expr<'s>> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    fn arguments<'s>(&self, arguments: &[ast::CallArg<'s>]) -> Vec<ast::CallArg<'s>> {
        let copy = |argument: &ast::CallArg<'s>| match argument {
            ast::CallArg::Pos(value) => ast::CallArg::Pos(self.expr(value)),
            ast::CallArg::Kwarg(name, value) => ast::CallArg::Kwarg(name, self.expr(value)),
            ast::CallArg::PosSplat(values) => ast::CallArg::PosSplat(self.expr(values)),
            ast::CallArg::KwargSplat(values) => ast::CallArg::KwargSplat(self.expr(values)),
        };
        arguments.iter().map(copy).collect()
    }

    fn call<'s>(&self, call: &Spanned<ast::Call<'s>>) -> Spanned<ast::Call<'s>> {
        let copy = ast::Call {
            expr: self.expr(&call.expr),
            args: self.arguments(&call.args),
        };
        Spanned::new(copy, call.span())
    }

    fn macro_declaration<'s>(&self, it: &Spanned<ast::Macro<'s>>) -> Spanned<ast::Macro<'s>> {
        let copy = ast::Macro {
            name: it.name,
            args: self.exprs(&it.args),
            defaults: self.exprs(&it.defaults),
            body: self.stmts(&it.body),
        };
        Spanned::new(copy, it.span())
    }

    fn stmts<'s>(&self, stmts: &[Stmt<'s>]) -> Vec<Stmt<'s>> {
        stmts.iter().map(|stmt| self.stmt(stmt)).collect()
    }

    #[rustfmt::skip]
    fn stmt<'s>(&self, stmt: &Stmt<'s>) -> Stmt<'s> {
        match stmt {
            Stmt::Template(it) => {
                node!(Stmt::Template at it.span(), { children: self.stmts(&it.children) })
            }
            Stmt::EmitExpr(it) => node!(Stmt::EmitExpr at it.span(), { expr: self.expr(&it.expr) }),
            // Literal text counts for the size of what is printed like that of an expression.
            Stmt::EmitRaw(it) if self.is_bounded => {
                let text = constant(Value::from(it.raw), it.span());
                node!(Stmt::EmitExpr at it.span(), { expr: text })
            }
            Stmt::EmitRaw(it) => node!(Stmt::EmitRaw at it.span(), { raw: it.raw }),
            Stmt::ForLoop(it) => node!(Stmt::ForLoop at it.span(), {
                target: self.expr(&it.target),
                iter: self.expr(&it.iter),
                filter_expr: self.optional(it.filter_expr.as_ref()),
                recursive: it.recursive,
                body: self.stmts(&it.body),
                else_body: self.stmts(&it.else_body)
            }),
            Stmt::IfCond(it) => node!(Stmt::IfCond at it.span(), {
                expr: self.expr(&it.expr),
                true_body: self.stmts(&it.true_body),
                false_body: self.stmts(&it.false_body)
            }),
            Stmt::WithBlock(it) => {
                let copy = |(target, value): &(Expr<'s>, Expr<'s>)| (self.expr(target), self.expr(value));
                node!(Stmt::WithBlock at it.span(), {
                    assignments: it.assignments.iter().map(copy).collect(),
                    body: self.stmts(&it.body)
                })
            }
            Stmt::Set(it) => node!(Stmt::Set at it.span(), {
                target: self.expr(&it.target),
                expr: self.assigned(&it.expr)
            }),
            Stmt::SetBlock(it) => node!(Stmt::SetBlock at it.span(), {
                target: self.expr(&it.target),
                filter: self.optional(it.filter.as_ref()),
                body: self.stmts(&it.body)
            }),
            Stmt::AutoEscape(it) => node!(Stmt::AutoEscape at it.span(), {
                enabled: self.expr(&it.enabled),
                body: self.stmts(&it.body)
            }),
            Stmt::FilterBlock(it) => node!(Stmt::FilterBlock at it.span(), {
                filter: self.expr(&it.filter),
                body: self.stmts(&it.body)
            }),
            Stmt::Block(it) => node!(Stmt::Block at it.span(), {
                name: it.name,
                required: it.required,
                body: self.stmts(&it.body)
            }),
            Stmt::Import(it) => node!(Stmt::Import at it.span(), {
                expr: self.expr(&it.expr),
                name: self.expr(&it.name)
            }),
            Stmt::FromImport(it) => {
                let copy = |(name, alias): &(Expr<'s>, Option<Expr<'s>>)| {
                    (self.expr(name), self.optional(alias.as_ref()))
                };
                node!(Stmt::FromImport at it.span(), {
                    expr: self.expr(&it.expr),
                    names: it.names.iter().map(copy).collect()
                })
            }
            Stmt::Extends(it) => node!(Stmt::Extends at it.span(), { name: self.expr(&it.name) }),
            Stmt::Include(it) => node!(Stmt::Include at it.span(), {
                name: self.expr(&it.name),
                ignore_missing: it.ignore_missing
            }),
            Stmt::Macro(it) => Stmt::Macro(self.macro_declaration(it)),
            Stmt::CallBlock(it) => node!(Stmt::CallBlock at it.span(), {
                call: self.call(&it.call),
                macro_decl: self.macro_declaration(&it.macro_decl)
            }),
            Stmt::Continue(it) => node!(Stmt::Continue at it.span(), {}),
            Stmt::Break(it) => node!(Stmt::Break at it.span(), {}),
            Stmt::Do(it) => node!(Stmt::Do at it.span(), { call: self.call(&it.call) }),
        }
    }
}

fn constant<'s>(constant: Value, span: Span) -> Expr<'s> {
    node!(Expr::Const at span, { value: constant })
}

fn filter<'s>(
    filter: &'static str,
    value: Expr<'s>,
    arguments: Vec<Expr<'s>>,
    span: Span,
) -> Expr<'s> {
    let arguments = arguments.into_iter().map(ast::CallArg::Pos).collect();
    node!(Expr::Filter at span, { name: filter, expr: Some(value), args: arguments })
}

/// True for a text that is written out.
fn is_text(expr: &Expr<'_>) -> bool {
    matches!(expr, Expr::Const(it) if it.value.as_str().is_some())
}

/// Returns the operator as [`operators::COMPARE`] reads it.
fn sign(op: CompareOpKind) -> &'static str {
    match op {
        CompareOpKind::Eq => "==",
        CompareOpKind::Ne => "!=",
        CompareOpKind::Lt => "<",
        CompareOpKind::Lte => "<=",
        CompareOpKind::Gt => ">",
        CompareOpKind::Gte => ">=",
        CompareOpKind::In => "in",
        CompareOpKind::NotIn => "not in",
    }
}
