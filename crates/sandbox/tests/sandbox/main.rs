//! Sandboxes around real programs. Without namespaces (in some containers, and on other systems than Linux), they are
//! skipped, with a notice.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "test code")]

mod files;
mod fixture;
mod lifetime;
mod limited;
mod network;
mod placeholders;
mod spellings;
