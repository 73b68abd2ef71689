//! The arguments of a call: read from the text that a model wrote, cast to the types of the tool's
//! schema where that is unambiguous and loses nothing, and checked.

mod cast;
mod complain;
mod given;
mod number;
mod schema;
mod types;

pub(crate) use schema::Schema;
