//! JMESPath with exact whole numbers.
//!
//! The interpreter compares and computes in floats: 9007199254740993 and 9007199254740992 are the same
//! number, and a `sum` of whole numbers is a float. This module replaces comparisons and the functions
//! that order or compute by exact ones: it rewrites the syntax tree so that a comparison is a call of a
//! custom function.

mod functions;
mod number;

use std::rc::Rc;

use jmespath::ast::Ast;
use jmespath::{Context, JmespathError, Variable, interpret};
use serde_json::Value;

/// Failure of a search.
#[derive(Debug, thiserror::Error)]
pub(super) enum QueryError {
    /// The text is not a valid expression.
    #[error("{0}")]
    Expression(String),
    /// The expression cannot be evaluated on this data.
    #[error("{0}")]
    Evaluation(String),
}

/// Checks that the text is an expression.
///
/// # Errors
/// Its syntax error.
pub(super) fn check(expression: &str) -> Result<(), QueryError> {
    parse(expression).map(drop)
}

fn parse(expression: &str) -> Result<Ast, QueryError> {
    jmespath::parse(expression).map_err(|error| QueryError::Expression(describe_error(&error)))
}

/// Evaluates an expression.
///
/// # Errors
/// Its syntax error or its evaluation error.
pub(super) fn search(data: &Value, expression: &str) -> Result<Value, QueryError> {
    let mut ast = parse(expression)?;
    let runtime = functions::runtime();
    make_exact(&mut ast);
    let evaluate = |error: JmespathError| QueryError::Evaluation(describe_error(&error));
    let data = Rc::new(Variable::try_from(data).map_err(evaluate)?);
    let mut context = Context::new(expression, &runtime);
    let result = interpret(&data, &ast, &mut context).map_err(evaluate)?;
    value(&result)
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

fn value(variable: &Variable) -> Result<Value, QueryError> {
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
                .collect::<Result<_, QueryError>>()?,
        ),
        Variable::Expref(_) => {
            return Err(QueryError::Evaluation(
                "the result is an expression (`&…`), which is no data".to_owned(),
            ));
        }
    })
}

/// Replaces every comparison in the tree by a call of an exact one.
fn make_exact(ast: &mut Ast) {
    match ast {
        Ast::Comparison { lhs, rhs, .. }
        | Ast::Projection { lhs, rhs, .. }
        | Ast::And { lhs, rhs, .. }
        | Ast::Or { lhs, rhs, .. }
        | Ast::Subexpr { lhs, rhs, .. }
        | Ast::Condition {
            predicate: lhs,
            then: rhs,
            ..
        } => {
            make_exact(lhs);
            make_exact(rhs);
        }
        Ast::Expref { ast: node, .. }
        | Ast::Flatten { node, .. }
        | Ast::Not { node, .. }
        | Ast::ObjectValues { node, .. } => make_exact(node),
        Ast::Function { args: parts, .. }
        | Ast::MultiList {
            elements: parts, ..
        } => parts.iter_mut().for_each(make_exact),
        Ast::MultiHash { elements, .. } => {
            for pair in elements {
                make_exact(&mut pair.value);
            }
        }
        Ast::Identity { .. }
        | Ast::Field { .. }
        | Ast::Index { .. }
        | Ast::Literal { .. }
        | Ast::Slice { .. } => {}
    }
    if let Ast::Comparison {
        offset,
        comparator,
        lhs,
        rhs,
    } = ast
    {
        *ast = Ast::Function {
            offset: *offset,
            name: functions::comparison(comparator),
            args: vec![(**lhs).clone(), (**rhs).clone()],
        };
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/actions/json/jmespath.rs"]
mod tests;
