//! The causes of an error.

use std::error::Error;
use std::iter::successors;

/// Returns an error and its causes, from the outermost to the innermost.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |&error| error.source())
}

/// Returns the text of the innermost cause. Outer ones often report only that something failed.
#[must_use]
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    causes(error).last().unwrap_or(error).to_string()
}

/// Returns the outermost cause of this type; the error itself counts.
#[must_use]
pub fn cause_in<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    causes(error).find_map(|error| error.downcast_ref())
}
