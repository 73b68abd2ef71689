//! Conversion of Postgres's errors to [`Error`]. No message contains a password.

use cachalot_store::{Error, ErrorKind};
use tokio_postgres::error::SqlState;

/// Converts an error; `location` is the server's, without a password.
pub(super) fn failure(location: &str, error: tokio_postgres::Error) -> Error {
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    let kind = match error.code() {
        Some(code) => kind(code),
        // The client has no kind for a server that demands a password and gets none.
        None if cause.as_deref() == Some("password missing") => ErrorKind::Denied,
        None => ErrorKind::Unavailable,
    };
    // The text of the cause: the error itself says `db error`.
    let cause = match (error.as_db_error(), cause) {
        (Some(cause), _) => cause.message().to_owned(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    };
    let message = match kind {
        ErrorKind::Denied => format!(
            "{location} refused access ({cause}); check the user, the password and the permissions"
        ),
        ErrorKind::Full => format!("no space left on {location} ({cause})"),
        ErrorKind::Busy => {
            format!("another process kept a lock on {location} for too long ({cause}); try again")
        }
        ErrorKind::Corrupt => format!("the database {location} is damaged ({cause})"),
        _ => format!("{location} failed: {cause}"),
    };
    Error::new(kind, message).with_source(error)
}

fn kind(code: &SqlState) -> ErrorKind {
    let class = code.code().get(..2).unwrap_or_default();
    match class {
        _ if *code == SqlState::DISK_FULL => ErrorKind::Full,
        _ if *code == SqlState::INSUFFICIENT_PRIVILEGE
            || *code == SqlState::READ_ONLY_SQL_TRANSACTION =>
        {
            ErrorKind::Denied
        }
        // Invalid authorization.
        "28" => ErrorKind::Denied,
        "3D" => ErrorKind::Unsupported,
        // Deadlocks and lock timeouts.
        "40" | "55" => ErrorKind::Busy,
        "XX" => ErrorKind::Corrupt,
        "54" => ErrorKind::TooLarge,
        "08" | "25" | "53" | "57" | "58" => ErrorKind::Unavailable,
        _ => ErrorKind::Unsupported,
    }
}
