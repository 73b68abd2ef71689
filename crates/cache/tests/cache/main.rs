//! Guarantees of the engine, tested through public items only.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod adopted_witnesses;
mod bounds;
mod cassette;
mod coherence;
mod damage;
mod erase;
mod erasure;
mod explain;
mod faults;
mod faulty_store;
mod forms;
mod isolation;
mod ledger;
mod local;
mod locked;
mod modes;
mod orphans;
mod payments;
mod pipes;
mod processes;
mod retention;
mod round_trips;
mod secrets;
mod single_flight;
mod stale;
mod streams;
mod test_engine;
mod tree;
mod witnesses;
mod writes;
