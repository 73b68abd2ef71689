//! Inline code, end to end. The test binary is also the worker: called with `__script-worker` it
//! serves blocks, which the usual harness could not do, as it prints to standard output.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod agreement;
mod blocks;
mod checks;
mod differential;
mod escapes;
mod faults;
mod harness;
mod lua;
mod programs;
mod python3;
mod reference;
mod state;
mod supported;
mod values;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("__script-worker") {
        return cachalot_workflow::script::worker::serve();
    }
    harness::run_all(&[
        blocks::TESTS,
        agreement::TESTS,
        checks::TESTS,
        differential::TESTS,
        escapes::TESTS,
        faults::TESTS,
        lua::TESTS,
        programs::TESTS,
        python3::TESTS,
        reference::TESTS,
        state::TESTS,
        supported::TESTS,
        values::TESTS,
    ])
}
