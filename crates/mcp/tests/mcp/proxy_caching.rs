//! The cache of the proxy, in front of a server in this process that records what it is asked.

mod accounting;
mod coalescing;
pub(crate) mod fake;
mod files;
mod hints;
mod invalidation;
mod isolation;
mod storing;
