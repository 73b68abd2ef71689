//! Tests of the gateway against the simulator.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod admin;
mod ask;
mod caching;
mod cancellation;
mod conversions;
mod credentials;
mod fake_upstream;
mod faults;
mod formats;
mod forms;
mod hardening;
mod keys;
mod kills;
mod members;
mod prefix;
mod probes;
mod runs;
mod sdks;
mod server_tools;
mod support;
mod telemetry;
mod tenants;
mod transparency;
mod upstream_faults;
mod upstreams;
