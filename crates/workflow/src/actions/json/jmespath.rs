//! JMESPath with exact whole numbers.
//!
//! The interpreter compares and computes in floats: 9007199254740993 and 9007199254740992 are the same
//! number, and a `sum` of whole numbers is a float. This module replaces comparisons and the functions
//! that order or compute by exact ones: it rewrites the syntax tree so that a comparison is a call of a
//! custom function.

mod functions;
mod number;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use jmespath::ast::{Ast, KeyValuePair};
use jmespath::{Context, Expression, JmespathError, Variable, interpret};
use serde_json::Value;

/// Failure of a search.
pub(super) enum QueryError {
    /// The text is not a valid expression.
    Expression(String),
    /// The expression cannot be evaluated on this data.
    Evaluation(String),
}

/// Checks that the text is an expression.
///
/// # Errors
/// Its syntax error.
pub(super) fn check(expression: &str) -> Result<(), String> {
    jmespath::parse(expression)
        .map(drop)
        .map_err(|error| describe_error(&error))
}

/// Evaluates an expression.
///
/// # Errors
/// Its syntax error or its evaluation error.
pub(super) fn search(data: &Value, expression: &str) -> Result<Value, QueryError> {
    let ast = jmespath::parse(expression)
        .map_err(|error| QueryError::Expression(describe_error(&error)))?;
    let runtime = functions::runtime();
    let compiled = Expression::new(expression, exact(ast), &runtime);
    let data = Rc::new(variable(data));
    let evaluate = |error: JmespathError| QueryError::Evaluation(describe_error(&error));
    let mut context = Context::new(expression, &runtime);
    let result = interpret(&data, compiled.as_ast(), &mut context).map_err(evaluate)?;
    value(&result).map_err(QueryError::Evaluation)
}

/// Formats an error on one line; lines and columns count from 1.
fn describe_error(error: &JmespathError) -> String {
    format!(
        "{} at line {}, column {}",
        error.reason,
        error.line + 1,
        error.column + 1
    )
}

fn variable(value: &Value) -> Variable {
    match value {
        Value::Null => Variable::Null,
        Value::Bool(flag) => Variable::Bool(*flag),
        Value::Number(number) => Variable::Number(number.clone()),
        Value::String(text) => Variable::String(text.clone()),
        Value::Array(items) => {
            Variable::Array(items.iter().map(|item| Rc::new(variable(item))).collect())
        }
        Value::Object(fields) => Variable::Object(
            fields
                .iter()
                .map(|(name, field)| (name.clone(), Rc::new(variable(field))))
                .collect(),
        ),
    }
}

fn value(variable: &Variable) -> Result<Value, String> {
    Ok(match variable {
        Variable::Null => Value::Null,
        Variable::Bool(flag) => Value::Bool(*flag),
        Variable::Number(number) => Value::Number(number.clone()),
        Variable::String(text) => Value::String(text.clone()),
        Variable::Array(items) => items
            .iter()
            .map(|item| value(item))
            .collect::<Result<_, _>>()?,
        Variable::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(name, field)| Ok((name.clone(), value(field)?)))
                .collect::<Result<_, String>>()?,
        ),
        Variable::Expref(_) => {
            return Err("the result is an expression (`&…`), which is no data".to_owned());
        }
    })
}

/// Replaces every comparison in the tree by a call of an exact one.
fn exact(ast: Ast) -> Ast {
    let boxed = |ast: Box<Ast>| Box::new(exact(*ast));
    match ast {
        Ast::Comparison {
            offset,
            comparator,
            lhs,
            rhs,
        } => Ast::Function {
            offset,
            name: functions::comparison(&comparator).to_owned(),
            args: vec![exact(*lhs), exact(*rhs)],
        },
        Ast::Condition {
            offset,
            predicate,
            then,
        } => Ast::Condition {
            offset,
            predicate: boxed(predicate),
            then: boxed(then),
        },
        Ast::Expref { offset, ast } => Ast::Expref {
            offset,
            ast: boxed(ast),
        },
        Ast::Flatten { offset, node } => Ast::Flatten {
            offset,
            node: boxed(node),
        },
        Ast::Function { offset, name, args } => Ast::Function {
            offset,
            name,
            args: args.into_iter().map(exact).collect(),
        },
        Ast::MultiList { offset, elements } => Ast::MultiList {
            offset,
            elements: elements.into_iter().map(exact).collect(),
        },
        Ast::MultiHash { offset, elements } => {
            let each = |pair: KeyValuePair| KeyValuePair {
                key: pair.key,
                value: exact(pair.value),
            };
            Ast::MultiHash {
                offset,
                elements: elements.into_iter().map(each).collect(),
            }
        }
        Ast::Not { offset, node } => Ast::Not {
            offset,
            node: boxed(node),
        },
        Ast::Projection { offset, lhs, rhs } => Ast::Projection {
            offset,
            lhs: boxed(lhs),
            rhs: boxed(rhs),
        },
        Ast::ObjectValues { offset, node } => Ast::ObjectValues {
            offset,
            node: boxed(node),
        },
        Ast::And { offset, lhs, rhs } => Ast::And {
            offset,
            lhs: boxed(lhs),
            rhs: boxed(rhs),
        },
        Ast::Or { offset, lhs, rhs } => Ast::Or {
            offset,
            lhs: boxed(lhs),
            rhs: boxed(rhs),
        },
        Ast::Subexpr { offset, lhs, rhs } => Ast::Subexpr {
            offset,
            lhs: boxed(lhs),
            rhs: boxed(rhs),
        },
        leaf @ (Ast::Identity { .. }
        | Ast::Field { .. }
        | Ast::Index { .. }
        | Ast::Literal { .. }
        | Ast::Slice { .. }) => leaf,
    }
}
