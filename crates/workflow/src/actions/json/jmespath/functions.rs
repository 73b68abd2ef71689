//! Exact versions of the functions that order, compare or compute whole numbers.

use std::cmp::Ordering;
use std::rc::Rc;

use jmespath::ast::Comparator;
use jmespath::functions::{ArgumentType, CustomFunction, Signature};
use jmespath::{
    Context, ErrorReason, JmespathError, Rcvar, Runtime, RuntimeError, SearchResult, Variable,
    interpret,
};
use serde_json::{Number, Value};

use super::number;
use crate::exact_json;

/// Returns the function that replaces a comparison. No expression can contain its name.
pub(super) fn comparison(comparator: &Comparator) -> String {
    format!("exactly {comparator:?}")
}

/// Returns the functions of the specification, with exact versions of those that order, compare or
/// compute.
pub(super) fn runtime() -> Runtime {
    let mut runtime = Runtime::new();
    runtime.register_builtin_functions();
    register_comparisons(&mut runtime);
    register_arithmetic(&mut runtime);
    register_orders(&mut runtime);
    runtime
}

fn register_comparisons(runtime: &mut Runtime) {
    use ArgumentType::{Any, Array, String, Union};
    for comparator in [
        Comparator::Equal,
        Comparator::NotEqual,
        Comparator::LessThan,
        Comparator::LessThanEqual,
        Comparator::GreaterThan,
        Comparator::GreaterThanEqual,
    ] {
        let name = comparison(&comparator);
        define(runtime, &name, vec![Any, Any], move |args, _| {
            Ok(compare(&comparator, &args[0], &args[1]))
        });
    }
    define(
        runtime,
        "contains",
        vec![Union(vec![String, Array]), Any],
        |args, _| {
            Ok(Rc::new(Variable::Bool(match (&*args[0], &*args[1]) {
                (Variable::String(text), Variable::String(part)) => text.contains(part.as_str()),
                (Variable::Array(items), wanted) => items.iter().any(|item| equal(item, wanted)),
                _ => false,
            })))
        },
    );
}

fn register_arithmetic(runtime: &mut Runtime) {
    use ArgumentType::{Any, Number as One, TypedArray};
    define(runtime, "abs", vec![One], |args, ctx| {
        mapped(args, ctx, number::abs)
    });
    define(runtime, "ceil", vec![One], |args, ctx| {
        mapped(args, ctx, |n| number::rounded(n, f64::ceil))
    });
    define(runtime, "floor", vec![One], |args, ctx| {
        mapped(args, ctx, |n| number::rounded(n, f64::floor))
    });
    define(
        runtime,
        "sum",
        vec![TypedArray(Box::new(One))],
        |args, ctx| {
            let numbers: Vec<&Number> = items(&args[0])
                .iter()
                .filter_map(|item| as_number(item))
                .collect();
            number::sum(&numbers)
                .map(number_variable)
                .ok_or_else(|| out_of_range(ctx))
        },
    );
    define(runtime, "to_number", vec![Any], |args, _| {
        Ok(match &*args[0] {
            Variable::Number(_) => Rc::clone(&args[0]),
            Variable::String(text) => match exact_json::parse(text) {
                Ok(Value::Number(number)) => number_variable(number),
                _ => Rc::new(Variable::Null),
            },
            _ => Rc::new(Variable::Null),
        })
    });
}

fn register_orders(runtime: &mut Runtime) {
    use ArgumentType::{Array, Expref, Number, String, TypedArray, Union};
    let orderable = || {
        Union(vec![
            TypedArray(Box::new(String)),
            TypedArray(Box::new(Number)),
        ])
    };
    for (name, wanted) in [("max", Ordering::Greater), ("min", Ordering::Less)] {
        define(runtime, name, vec![orderable()], move |args, _| {
            let items = items(&args[0]).iter();
            let keyed = items.map(|item| (Rc::clone(item), Rc::clone(item)));
            Ok(extreme(keyed, wanted))
        });
        let name = format!("{name}_by");
        define(runtime, &name, vec![Array, Expref], move |args, ctx| {
            Ok(extreme(keyed(args, ctx)?.into_iter(), wanted))
        });
    }
    define(runtime, "sort", vec![orderable()], |args, _| {
        let mut sorted = items(&args[0]).to_vec();
        sorted.sort_by(|one, other| order(one, other));
        Ok(Rc::new(Variable::Array(sorted)))
    });
    define(runtime, "sort_by", vec![Array, Expref], |args, ctx| {
        let mut keyed = keyed(args, ctx)?;
        keyed.sort_by(|(one, _), (other, _)| order(one, other));
        Ok(Rc::new(Variable::Array(
            keyed.into_iter().map(|(_, item)| item).collect(),
        )))
    });
}

fn define(
    runtime: &mut Runtime,
    name: &str,
    inputs: Vec<ArgumentType>,
    work: impl Fn(&[Rcvar], &mut Context<'_>) -> SearchResult + Send + Sync + 'static,
) {
    let function = CustomFunction::new(Signature::new(inputs, None), Box::new(work));
    runtime.register_function(name, Box::new(function));
}

fn items(variable: &Variable) -> &[Rcvar] {
    variable.as_array().map_or(&[], Vec::as_slice)
}

fn as_number(variable: &Variable) -> Option<&Number> {
    match variable {
        Variable::Number(number) => Some(number),
        _ => None,
    }
}

fn number_variable(number: Number) -> Rcvar {
    Rc::new(Variable::Number(number))
}

fn mapped(
    args: &[Rcvar],
    ctx: &Context<'_>,
    work: impl Fn(&Number) -> Option<Number>,
) -> SearchResult {
    as_number(&args[0])
        .and_then(work)
        .map(number_variable)
        .ok_or_else(|| out_of_range(ctx))
}

fn out_of_range(ctx: &Context<'_>) -> JmespathError {
    JmespathError::from_ctx(
        ctx,
        ErrorReason::Parse("the result is beyond 64 bits".to_owned()),
    )
}

/// Compares as the specification requires: equality of any values, order of numbers, else null.
fn compare(comparator: &Comparator, one: &Variable, other: &Variable) -> Rcvar {
    let ordered = || {
        as_number(one)
            .zip(as_number(other))
            .map(|(one, other)| number::order(one, other))
    };
    let holds = match comparator {
        Comparator::Equal => Some(equal(one, other)),
        Comparator::NotEqual => Some(!equal(one, other)),
        Comparator::LessThan => ordered().map(Ordering::is_lt),
        Comparator::LessThanEqual => ordered().map(Ordering::is_le),
        Comparator::GreaterThan => ordered().map(Ordering::is_gt),
        Comparator::GreaterThanEqual => ordered().map(Ordering::is_ge),
    };
    Rc::new(holds.map_or(Variable::Null, Variable::Bool))
}

fn equal(one: &Variable, other: &Variable) -> bool {
    match (one, other) {
        (Variable::Number(one), Variable::Number(other)) => number::order(one, other).is_eq(),
        (Variable::Array(one), Variable::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Variable::Object(one), Variable::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|((one_name, one), (other_name, other))| {
                        one_name == other_name && equal(one, other)
                    })
        }
        (Variable::Null, Variable::Null) => true,
        (Variable::Bool(one), Variable::Bool(other)) => one == other,
        (Variable::String(one), Variable::String(other)) => one == other,
        _ => false,
    }
}

/// Orders two texts or two numbers; signatures exclude all other values.
fn order(one: &Variable, other: &Variable) -> Ordering {
    match (one, other) {
        (Variable::Number(one), Variable::Number(other)) => number::order(one, other),
        (Variable::String(one), Variable::String(other)) => one.cmp(other),
        _ => Ordering::Equal,
    }
}

/// Returns the first of the items whose key is extreme in the direction `wanted`; null if there are no items.
fn extreme(keyed: impl Iterator<Item = (Rcvar, Rcvar)>, wanted: Ordering) -> Rcvar {
    let best = keyed.reduce(|best, next| {
        if order(&next.0, &best.0) == wanted {
            next
        } else {
            best
        }
    });
    best.map_or_else(|| Rc::new(Variable::Null), |(_, item)| item)
}

/// Returns the items of the first argument, each with its key from the expression; all keys are texts or
/// all are numbers.
fn keyed(args: &[Rcvar], ctx: &mut Context<'_>) -> Result<Vec<(Rcvar, Rcvar)>, JmespathError> {
    let Variable::Expref(expression) = &*args[1] else {
        return Ok(Vec::new());
    };
    let mut keyed: Vec<(Rcvar, Rcvar)> = Vec::new();
    for (invocation, item) in items(&args[0]).iter().enumerate() {
        let key = interpret(item, expression, ctx)?;
        let fits = match keyed.first() {
            None => key.is_number() || key.is_string(),
            Some((first, _)) => key.get_type() == first.get_type(),
        };
        if !fits {
            let reason = RuntimeError::InvalidReturnType {
                expected: "all numbers or all strings".to_owned(),
                actual: key.get_type().to_string(),
                position: 1,
                invocation,
            };
            return Err(JmespathError::from_ctx(ctx, ErrorReason::Runtime(reason)));
        }
        keyed.push((key, Rc::clone(item)));
    }
    Ok(keyed)
}
