//! Exit statuses, for users.

use std::process::ExitStatus;

/// Describes an exit status: `exit status 1`, `ended by signal 9`.
#[must_use]
pub fn describe_status(status: ExitStatus) -> String {
    match (status.code(), signal(status)) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended without an exit status".to_owned(),
    }
}

/// Returns the exit code; for a program that a signal ended, the negated number of the signal.
#[must_use]
pub fn exit_code(status: ExitStatus) -> i32 {
    status
        .code()
        .or_else(|| signal(status).map(|signal| -signal))
        .unwrap_or(-1)
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_status: ExitStatus) -> Option<i32> {
    None
}
