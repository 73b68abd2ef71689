//! Tests of the gateway against the simulator.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod caching;
mod faults;
mod hardening;
mod sdks;
mod support;
mod transparency;
