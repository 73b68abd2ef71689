//! Declarations of parameters, and arguments read by name.

mod checked;

use std::time::Duration;

use cachalot_core::duration::Range;
use cachalot_operation::arguments::expected;
pub(super) use cachalot_operation::arguments::{excerpt, kind_name};

use crate::{Parameter, ParameterKind};

pub(super) use checked::CheckedArguments;

/// Declares an optional parameter that takes a text.
pub(super) const fn text(name: &'static str, doc: &'static str) -> Parameter {
    Parameter::optional(name, ParameterKind::Text, doc)
}

/// Declares an optional parameter that takes a whole number.
pub(super) const fn integer(name: &'static str, doc: &'static str) -> Parameter {
    Parameter::optional(name, ParameterKind::Integer, doc)
}

/// Declares an optional parameter that takes a whole number from `minimum` to `maximum`.
pub(super) const fn count(
    name: &'static str,
    (minimum, maximum): (u64, u64),
    doc: &'static str,
) -> Parameter {
    Parameter::optional(name, ParameterKind::IntegerIn(minimum, maximum), doc)
}

/// Declares an optional parameter that takes one of these words.
pub(super) const fn word(
    name: &'static str,
    words: &'static [&'static str],
    doc: &'static str,
) -> Parameter {
    Parameter::optional(name, ParameterKind::Word(words), doc)
}

/// Declares an optional parameter that takes a number.
pub(super) const fn number(name: &'static str, doc: &'static str) -> Parameter {
    Parameter::optional(name, ParameterKind::Number, doc)
}

/// Declares an optional parameter that takes a duration above zero and up to a week.
pub(super) const fn duration(name: &'static str, doc: &'static str) -> Parameter {
    Parameter::optional(name, ParameterKind::Duration(UP_TO_A_WEEK), doc)
}

/// The durations of actions.
const UP_TO_A_WEEK: Range = Range::POSITIVE.at_most(Duration::from_secs(7 * 86_400));

/// Declares an optional parameter that takes `true` or `false`.
pub(super) const fn boolean(name: &'static str, doc: &'static str) -> Parameter {
    Parameter::optional(name, ParameterKind::Boolean, doc)
}

/// Declares an optional parameter that takes a mapping.
pub(super) const fn object(name: &'static str, doc: &'static str) -> Parameter {
    Parameter::optional(name, ParameterKind::Object, doc)
}

/// Declares an optional parameter that takes a list.
pub(super) const fn list(name: &'static str, doc: &'static str) -> Parameter {
    Parameter::optional(name, ParameterKind::List, doc)
}

/// Declares an optional parameter that takes any value.
pub(super) const fn any(name: &'static str, doc: &'static str) -> Parameter {
    Parameter::optional(name, ParameterKind::Any, doc)
}

/// Makes a declared parameter a required one.
pub(super) const fn required(parameter: Parameter) -> Parameter {
    Parameter {
        required: true,
        ..parameter
    }
}

/// Implements the items of [`Operation`](crate::Operation) that all actions with a static declaration share.
macro_rules! declared_by {
    ($about:ident) => {
        declared_by!(@self $about);
    };
    ($self:ident.$field:tt) => {
        declared_by!(@$self $self.$field);
    };
    (@$self:ident $about:expr) => {
        type Context = crate::Runtime;
        type Output = Result<Value, Failure>;

        fn metadata(&$self) -> &OperationMetadata {
            &$about
        }
    };
}
pub(super) use declared_by;

/// Joins two lists of parameters, whose lengths must add up to `N`.
pub(super) const fn concatenated<const N: usize>(
    first: &[Parameter],
    second: &[Parameter],
) -> [Parameter; N] {
    assert!(first.len() + second.len() == N);
    let mut all = [any("", ""); N];
    let mut at = 0;
    while at < N {
        all[at] = if at < first.len() {
            first[at]
        } else {
            second[at - first.len()]
        };
        at += 1;
    }
    all
}
