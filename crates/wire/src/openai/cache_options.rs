//! OpenAI's cache markers and options.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{MarkerStyle, MarkerTime, Parameters};

/// Adds the option that only marked prefixes are cached, if there are markers of OpenAI. The user's own options take
/// precedence.
pub(crate) fn with_cache_options(
    parameters: &Parameters,
    style: MarkerStyle,
) -> Cow<'_, Parameters> {
    match style {
        MarkerStyle::Breakpoints => Cow::Owned(explicit(parameters)),
        _ => Cow::Borrowed(parameters),
    }
}

/// Returns OpenAI's marker, with its leading comma. The usual lifetime is in the tail, once per request.
pub(crate) fn marker(style: MarkerStyle, time: MarkerTime) -> Option<Bytes> {
    let marker: &[u8] = match time {
        MarkerTime::FiveMinutes | MarkerTime::OneHour => {
            br#","prompt_cache_breakpoint":{"mode":"explicit"}"#
        }
        MarkerTime::TwelveHours => br#","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}"#,
    };
    (style == MarkerStyle::Breakpoints).then(|| Bytes::from_static(marker))
}

fn explicit(parameters: &Parameters) -> Parameters {
    const OPTIONS: &str = "prompt_cache_options";
    let mut parameters = parameters.clone();
    let mut options = json!({"mode": "explicit", "ttl": "30m"});
    match (parameters.extra.shift_remove(OPTIONS), &mut options) {
        (None, _) => {}
        (Some(Value::Object(theirs)), Value::Object(parameter_members)) => {
            parameter_members.extend(theirs)
        }
        // `null`: the user disables the options.
        (Some(Value::Null), _) => return parameters,
        (Some(other), options) => *options = other,
    }
    parameters.extra.insert(OPTIONS.to_owned(), options);
    parameters
}
