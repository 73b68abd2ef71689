//! Tests of the gateway against the simulator.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod admin;
mod caching;
mod faults;
mod forms;
mod hardening;
mod keys;
mod sdks;
mod support;
mod transparency;
mod upstreams;
