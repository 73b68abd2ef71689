//! Tests of child processes. Unix only, like the shell commands in them.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod group;
mod run;

use cachalot_test_support::program_file;
