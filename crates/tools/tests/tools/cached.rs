//! The layer that serves results of read-only tools again.

mod accounts;
pub(crate) mod cache_fixture;
mod delivery;
mod documented;
mod eligibility;
mod flights;
mod keys;
mod scopes;
mod settings;
mod witnesses;
mod writes;
