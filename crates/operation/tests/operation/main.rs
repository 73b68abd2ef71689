//! Permission rules over what calls touch.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod attacks;
mod docker_agent_rules;
mod ineffective_rules;
mod properties;
mod remembered_rules;
mod rules;
mod touched_paths;
mod written_paths;
