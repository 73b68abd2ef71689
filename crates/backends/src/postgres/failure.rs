//! Conversion of Postgres's errors to [`Error`]. No message contains a password.

use cachalot_store::implementation::too_new;
use cachalot_store::{Error, ErrorKind};
use tokio_postgres::error::SqlState;

use crate::repetition::Progress;
use crate::trust::trust_remedy;

/// Converts an error; `location` is the server's, without a password.
pub(super) fn failure(location: &str, error: tokio_postgres::Error) -> Error {
    if error.code() == Some(&SqlState::DIVISION_BY_ZERO) {
        // Only the fence of the layout divides.
        return too_new(location);
    }
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
    let remedy = match error.code() {
        Some(code) => remedy(code),
        None => trust_remedy(&cause),
    };
    let message = match kind {
        _ if remedy.is_some() && error.code().is_some() => {
            format!("{location} refused a connection or a call ({cause})")
        }
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
    let failed = Error::new(kind, message).with_source(error);
    match remedy {
        Some(remedy) => failed.with_remedy(remedy),
        None => failed,
    }
}

/// Returns the change of the server without which no call succeeds.
fn remedy(code: &SqlState) -> Option<&'static str> {
    Some(match code.code() {
        // There is no such database.
        "3D000" => "create that database (createdb NAME), or name another one in the URL",
        // The user lacks a privilege.
        "42501" => {
            "as an administrator, GRANT the user of the URL CONNECT on the database and USAGE, CREATE on its schema, and \
             if the tables `cachalot_*` belong to another user, connect as that one"
        }
        // The transaction is read-only.
        "25006" => "name the primary server, and a user whose default_transaction_read_only is off",
        // There is no such schema.
        "3F000" => {
            "create the schema of the user's search_path, or GRANT the user USAGE and CREATE on it"
        }
        _ => return None,
    })
}

/// True if a statement does not fit the tables and functions: it was not executed.
pub(super) fn is_of_other_layout(error: &tokio_postgres::Error) -> bool {
    let codes = [
        SqlState::UNDEFINED_FUNCTION,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
    ];
    error.code().is_some_and(|code| codes.contains(code))
}

/// Returns the progress of a statement on a connection that was open. Its error does not tell whether the client has
/// sent it before the connection ended.
pub(super) fn progress(error: &tokio_postgres::Error) -> Progress {
    let is_io = || {
        let cause = std::error::Error::source(error);
        cause.is_some_and(|cause| cause.is::<std::io::Error>())
    };
    match error.code().map(SqlState::code) {
        None if error.is_closed() || is_io() => Progress::Lost,
        // The server ends the connection: it stops, it was asked to, or the connection was idle for too long.
        Some("57P01" | "57P02" | "57P05") => Progress::Lost,
        // The connection of a pooler to the server.
        Some(code) if code.starts_with("08") => Progress::Lost,
        _ => Progress::Answered,
    }
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
        // The server has become a standby.
        _ if *code == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE => ErrorKind::Unavailable,
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
