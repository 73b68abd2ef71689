//! What the engine promises, tested through its public items only.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod bounds;
mod cassette;
mod coherence;
mod damage;
mod doubles;
mod erase;
mod erasure;
mod explain;
mod faults;
mod isolation;
mod ledger;
mod locked;
mod modes;
mod orphans;
mod payments;
mod processes;
mod retention;
mod round_trips;
mod secrets;
mod setting;
mod single_flight;
mod streams;
mod travel;
mod tree;
mod witnesses;
mod writes;
