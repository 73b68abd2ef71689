//! The arguments of a call: parsed from the text of the model, cast to the types of the tool's schema where
//! that is unambiguous and lossless, and checked.

mod cast;
mod complain;
mod given;
mod number;
mod schema;
mod types;

pub(crate) use schema::Schema;
