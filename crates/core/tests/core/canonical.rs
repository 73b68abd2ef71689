//! Canonical bytes against an oracle that knows nothing of them.

mod mutation;
mod oracle;
mod readable;
mod refused;
mod sealed;
mod shown;
mod texts;
pub(crate) mod values;
