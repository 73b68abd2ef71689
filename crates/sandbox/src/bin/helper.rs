//! The helper of a sandbox, without the rest of Cachalot.

use std::process::ExitCode;

fn main() -> ExitCode {
    cachalot_sandbox::run_if_helper();
    ExitCode::from(2)
}
