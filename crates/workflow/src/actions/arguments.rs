//! Declarations of parameters, and arguments read by name.

mod checked;

use cachalot_operation::arguments::expected;
pub(super) use cachalot_operation::arguments::{excerpt, kind_name};

use crate::{Parameter, ParameterKind};

pub(super) use checked::CheckedArguments;

/// Declares a required parameter.
pub(super) const fn required(
    name: &'static str,
    kind: ParameterKind,
    doc: &'static str,
) -> Parameter {
    Parameter::required(name, kind, doc)
}

/// Declares an optional parameter.
pub(super) const fn optional(
    name: &'static str,
    kind: ParameterKind,
    doc: &'static str,
) -> Parameter {
    Parameter::optional(name, kind, doc)
}

/// Joins two lists of parameters, whose lengths must add up to `N`.
pub(super) const fn concatenated<const N: usize>(
    first: &[Parameter],
    second: &[Parameter],
) -> [Parameter; N] {
    assert!(first.len() + second.len() == N);
    let mut all = [Parameter::optional("", ParameterKind::Any, ""); N];
    let mut at = 0;
    while at < N {
        all[at] = match at < first.len() {
            true => first[at],
            false => second[at - first.len()],
        };
        at += 1;
    }
    all
}
