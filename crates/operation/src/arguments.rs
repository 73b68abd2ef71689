//! The arguments of a call: parsed from the text of the model, cast to the types of the tool's schema where
//! that is unambiguous and lossless, and checked.

mod cast;
mod lossless_value;
mod number;
mod schema;
mod table;
#[cfg(test)]
#[path = "../tests/unit/arguments.rs"]
mod tests;
mod types;
mod violations;

pub(crate) use schema::compile;
pub use schema::{ArgumentsError, Schema, SchemaError};
pub use table::{duplicate_argument, excerpt, expected, kind_name};
