//! Sessions of opencode: a SQLite database (`opencode.db`).
//!
//! The data of a message has the tokens of its answer: the input excludes what was read from and written to the
//! provider's cache, for a time that is not recorded, and the output excludes reasoning. A fork copies messages under
//! new IDs, with their times and counts. The requests for titles of sessions are in no row.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use cachalot_model::Usage;
use rusqlite::limits::Limit;
use rusqlite::{Connection, InterruptHandle, OpenFlags, params};
use serde::Deserialize;

use crate::spend::answer::{Client, PaidAnswer};
use crate::spend::titles::{Origin, Title};
use crate::spend::{FileError, SpendReader};
use crate::timestamp;

/// Maximum length of the data of a message, in bytes.
const MAX_DATA_BYTES: i32 = 16 << 20;

/// Maximum length of any other text, in bytes.
const MAX_TEXT_BYTES: i32 = 64 << 10;

/// Time for reading a database, after which it is given up: in a hostile one a statement may have no end.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The titles of sessions that have none yet begin like this.
const NO_TITLES: [&str; 2] = ["New session - ", "Child session - "];

#[derive(Deserialize)]
struct Message {
    #[serde(rename = "modelID")]
    model: Option<String>,
    #[serde(rename = "providerID")]
    provider: Option<String>,
    tokens: Option<Tokens>,
    time: Option<Time>,
}

#[derive(Deserialize)]
struct Time {
    created: Option<f64>,
}

/// A count is negative if a provider reports more cached input than input.
#[derive(Deserialize, Hash)]
struct Tokens {
    input: Option<i64>,
    output: Option<i64>,
    reasoning: Option<i64>,
    cache: Option<CacheTokens>,
}

#[derive(Deserialize, Hash)]
struct CacheTokens {
    read: Option<i64>,
    write: Option<i64>,
}

impl Tokens {
    fn usage(&self) -> Usage {
        let count = |tokens: Option<i64>| u64::try_from(tokens.unwrap_or(0)).unwrap_or(0);
        let cache = self.cache.as_ref();
        let reasoning = count(self.reasoning);
        Usage {
            uncached_input: count(self.input),
            cache_read: count(cache.and_then(|cache| cache.read)),
            cache_write_other: count(cache.and_then(|cache| cache.write)),
            output: count(self.output).saturating_add(reasoning),
            reasoning,
            ..Usage::default()
        }
    }
}

struct Session {
    directory: Arc<str>,
    is_fork: bool,
    /// True if a model was asked for its title.
    has_title: bool,
}

/// Reads a database, which must not change, or be private to the caller: see [`SpendReader::read_database`].
pub(in crate::spend) fn read(
    path: &Path,
    is_immutable: bool,
    reader: &mut SpendReader,
) -> Result<(), FileError> {
    let connection = open(path, is_immutable).map_err(unreadable)?;
    let interrupt = connection.get_interrupt_handle();
    let (done, ended) = mpsc::channel();
    thread::scope(|scope| {
        thread::Builder::new().spawn_scoped(scope, move || watch(&interrupt, &ended))?;
        let read = read_tables(&connection, reader);
        drop::<mpsc::Sender<()>>(done);
        read
    })
}

/// Interrupts the statements of a connection after the time limit, until the sender is dropped.
fn watch(interrupt: &InterruptHandle, ended: &mpsc::Receiver<()>) {
    let mut time = TIME_LIMIT;
    while ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
        interrupt.interrupt();
        time = Duration::from_millis(10);
    }
}

fn open(path: &Path, is_immutable: bool) -> rusqlite::Result<Connection> {
    let connection = if is_immutable {
        // Without this parameter, SQLite makes files beside a database with a write-ahead log.
        Connection::open_with_flags(
            format!("file:{}?immutable=1", escaped(path)),
            OpenFlags::SQLITE_OPEN_READ_ONLY
                | OpenFlags::SQLITE_OPEN_URI
                | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )
    } else {
        Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )
    }?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_DATA_BYTES)?;
    connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON")?;
    Ok(connection)
}

/// Returns a path for a URI.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                text.push(char::from(*byte));
            }
            byte => text += &format!("%{byte:02X}"),
        }
    }
    text
}

fn unreadable(error: rusqlite::Error) -> FileError {
    FileError::Unreadable(io::Error::other(error))
}

fn read_tables(connection: &Connection, reader: &mut SpendReader) -> Result<(), FileError> {
    // A view or a virtual table could make up rows without end.
    let tables: i64 = connection
        .query_row(
            "SELECT count(*) FROM sqlite_schema
             WHERE type = 'table' AND name IN ('session', 'message') AND rootpage > 0",
            [],
            |row| row.get(0),
        )
        .map_err(unreadable)?;
    if tables != 2 {
        return Err(FileError::Unknown);
    }
    let sessions = read_sessions(connection, reader).map_err(unreadable)?;
    let (malformed, answered) = read_messages(connection, &sessions, reader).map_err(unreadable)?;
    for id in answered {
        if sessions.get(&id).is_some_and(|session| session.has_title) {
            let what = "requests for titles of sessions";
            reader.count_untraced(Client::OpenCode, what, &id, 1);
        }
    }
    match malformed {
        Some((first, count)) => Err(FileError::Malformed { first, count }),
        None => Ok(()),
    }
}

fn read_sessions(
    connection: &Connection,
    reader: &mut SpendReader,
) -> rusqlite::Result<HashMap<Arc<str>, Session>> {
    let mut statement = connection.prepare(
        "SELECT id, directory, title, parent_id IS NOT NULL FROM session
         WHERE octet_length(id) <= ?1 AND octet_length(directory) <= ?1 AND octet_length(title) <= ?1",
    )?;
    let mut rows = statement.query(params![MAX_TEXT_BYTES])?;
    let mut sessions = HashMap::new();
    while let Some(row) = rows.next()? {
        let (Ok(id), Ok(directory), Ok(title)) = (
            row.get_ref(0)?.as_str(),
            row.get_ref(1)?.as_str(),
            row.get_ref(2)?.as_str(),
        ) else {
            continue;
        };
        let is_child: bool = row.get(3)?;
        let is_fork = title.ends_with(')') && title.contains(" (fork #");
        let is_named = !NO_TITLES.iter().any(|name| title.starts_with(name));
        let session = Session {
            directory: reader.name(directory),
            is_fork,
            has_title: is_named && !is_child && !is_fork,
        };
        let id = reader.name(id);
        if is_named {
            let mut named = Title::default();
            named.add(Origin::Generated, title);
            reader.titles.add(Client::OpenCode, Arc::clone(&id), named);
        }
        sessions.insert(id, session);
    }
    Ok(sessions)
}

/// The number of the first malformed row, and of all of them.
type Malformed = Option<(u64, u64)>;

/// Returns the malformed rows, and the sessions with answers.
fn read_messages(
    connection: &Connection,
    sessions: &HashMap<Arc<str>, Session>,
    reader: &mut SpendReader,
) -> rusqlite::Result<(Malformed, HashSet<Arc<str>>)> {
    let mut statement = connection.prepare(
        "SELECT iif(octet_length(session_id) <= ?1, session_id, NULL),
             iif(octet_length(data) <= ?2, data, NULL),
             octet_length(session_id) > ?1 OR octet_length(data) > ?2
         FROM message",
    )?;
    let mut rows = statement.query(params![MAX_TEXT_BYTES, MAX_DATA_BYTES / 2])?;
    let mut answered = HashSet::new();
    let (mut number, mut malformed) = (0, None);
    while let Some(row) = rows.next()? {
        number += 1;
        if row.get::<_, Option<bool>>(2)? == Some(true) {
            reader.unknown(Client::OpenCode, "a message that is too long");
            continue;
        }
        let (Ok(id), Ok(data)) = (row.get_ref(0)?.as_str(), row.get_ref(1)?.as_bytes()) else {
            malformed.get_or_insert((number, 0)).1 += 1;
            continue;
        };
        let Ok(message) = serde_json::from_slice::<Message>(data) else {
            malformed.get_or_insert((number, 0)).1 += 1;
            continue;
        };
        let Some(tokens) = &message.tokens else {
            continue;
        };
        let usage = tokens.usage();
        if usage == Usage::default() {
            continue;
        }
        let id = reader.name(id);
        let created = message.time.as_ref().and_then(|time| time.created);
        let session = sessions.get(&id);
        let is_fork = session.is_some_and(|session| session.is_fork);
        let project = match session {
            Some(session) => Arc::clone(&session.directory),
            None => reader.name(""),
        };
        let model = reader.name(message.model.as_deref().unwrap_or_default());
        let key = (
            "opencode",
            created.map(f64::to_bits),
            // Without a time, its row distinguishes an answer from others.
            created.is_none().then_some(number),
            &message.provider,
            &message.model,
            tokens,
        );
        let (answer, _) = reader.entry(key, || PaidAnswer {
            session: Arc::clone(&id),
            project: Arc::clone(&project),
            is_sidechain: is_fork,
            ..PaidAnswer::new(
                Client::OpenCode,
                model,
                created.and_then(timestamp::from_number),
                usage,
            )
        });
        // The original gives the session, not the fork.
        if answer.is_sidechain && !is_fork {
            answer.is_sidechain = false;
            answer.session = Arc::clone(&id);
            answer.project = project;
        }
        answered.insert(id);
    }
    Ok((malformed, answered))
}
