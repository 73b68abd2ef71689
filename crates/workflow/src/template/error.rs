//! Errors of filters, tests and operators.

use minijinja::{Error, ErrorKind, Value};

/// Returns an error that names the undefined expression if `value` is undefined.
pub(super) fn defined(value: &Value) -> Result<(), Error> {
    if value.is_undefined() {
        value.get_attr("").map(drop)
    } else {
        Ok(())
    }
}

pub(super) fn invalid(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}
