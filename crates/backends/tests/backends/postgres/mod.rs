//! Tests against a Postgres server that the test process starts.

mod conforming;
mod server;
