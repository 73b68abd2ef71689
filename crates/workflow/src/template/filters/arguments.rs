//! Arguments of filters, which Python takes by their places or by their names.

use minijinja::value::{Kwargs, Rest, ValueOrKwargs, from_args};
use minijinja::{Error, ErrorKind, Value};

use crate::template::error::invalid;

/// The arguments of a filter besides the value.
pub(super) type Given = Rest<ValueOrKwargs>;

/// Returns the arguments in the order of `names`.
///
/// # Errors
/// Returned for arguments beyond those.
pub(super) fn read<const N: usize>(
    given: Given,
    names: [&str; N],
) -> Result<[Option<Value>; N], Error> {
    let values = given.into_values();
    let (by_place, by_name): (&[Value], Kwargs) = from_args(&values)?;
    if by_place.len() > N {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let mut found = std::array::from_fn(|at| by_place.get(at).cloned());
    for (value, name) in found.iter_mut().zip(names) {
        if by_name.has(name) {
            *value = Some(by_name.get(name)?);
        }
    }
    by_name.assert_all_used()?;
    Ok(found)
}

/// Returns the arguments of a filter that has none.
pub(super) fn none() -> Kwargs {
    Kwargs::from_iter(std::iter::empty::<(&str, Value)>())
}

/// True if a flag is given and true.
pub(super) fn is_set(flag: Option<Value>) -> bool {
    flag.is_some_and(|flag| flag.is_true())
}

/// Returns a whole number that is not negative, `default` if it is not given.
pub(super) fn size(given: Option<Value>, default: usize) -> Result<usize, Error> {
    match given {
        None => Ok(default),
        Some(value) => value
            .as_usize()
            .ok_or_else(|| invalid(format!("{value} is no count"))),
    }
}
