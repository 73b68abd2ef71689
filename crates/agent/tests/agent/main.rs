//! Agents over real HTTP, real tools and real sessions, against the provider simulator.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bodies;
mod ear;
mod slow_memory;
mod told;
mod world;

mod budget;
mod cancelling;
mod compaction;
mod concerns;
mod context;
mod definitions;
mod delegation;
mod faults;
mod fork;
mod held_back;
mod hooks;
mod kept;
mod lasting;
mod law;
mod limits;
mod media;
mod odd_answers;
mod overflow;
mod permissions;
mod prefix;
mod resuming;
mod retract;
mod review;
mod seam;
mod sharing;
mod storms;
mod synthetic;
mod tool_phases;
mod turns;
