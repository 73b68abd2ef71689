//! Agents over real HTTP, real tools and real sessions, against the provider simulator.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bodies;
mod slow_memory;
mod told;
mod world;

mod budget;
mod cancelling;
mod context;
mod definitions;
mod delegation;
mod faults;
mod kept;
mod law;
mod limits;
mod odd_answers;
mod permissions;
mod resuming;
mod sharing;
mod storms;
mod turns;
