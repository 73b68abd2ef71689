//! The layer that serves results of read-only tools again.

mod accounts;
mod delivery;
mod documented;
mod eligibility;
mod flights;
mod keys;
mod scopes;
mod settings;
mod witnesses;
mod writes;

pub(crate) use cachalot_test_support::cache_fixture;
