//! The layer that serves results of read-only tools again.

mod accounts;
mod delivery;
mod documented;
mod flights;
mod grounds;
mod keys;
mod scopes;
mod settings;
mod witnesses;
pub(crate) mod world;
mod writes;
