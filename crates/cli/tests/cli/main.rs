//! The `cachalot` command as a person at a terminal meets it: real processes, a home of its own for
//! every test, real files and loopback servers.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod cache_commands;
mod cassette;
mod digest_key;
mod faults;
mod hash;
mod home;
mod inline_code;
mod input;
mod memory;
mod names;
mod processes;
mod run;
mod secrets;
mod story;
mod support;
mod validate;
mod why;

#[allow(unused_imports, reason = "other tests use the others")]
#[path = "../../../workflow/tests/stand_ins/mod.rs"]
mod stand_ins;
