//! Returns pages that erasures have left free to the file system.
//!
//! New files are created with `auto_vacuum`: their free pages are moved to the end and cut off, a few at a
//! time, so that other writers wait for milliseconds only. A file of an older version has to be rewritten for
//! that. This is done when few pages are in use, as after an erasure of everything, when it is just as fast;
//! until then, the free pages are reused for new records.

use rusqlite::Connection;

/// Number of free pages that are kept for new records: four megabytes.
const KEPT_FREE_PAGES: i64 = 1024;

/// Maximum number of used pages of a file that is rewritten: sixteen megabytes, some tens of milliseconds.
const MIN_FREE_PAGES: i64 = 4096;

/// The next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Rewrite,
    Cut,
}

/// True if at least a quarter of the file is free and can be returned.
pub(super) fn is_due(connection: &Connection) -> bool {
    matches!(next(connection), Ok(Some(_)))
}

/// Returns a part of the free pages; false if there were none, or it failed. Does not wait for locks of other
/// processes: the next attempt returns the rest.
pub(super) fn step(connection: &Connection) -> bool {
    let run = || -> rusqlite::Result<bool> {
        connection.busy_timeout(std::time::Duration::ZERO)?;
        match next(connection)? {
            None => return Ok(false),
            Some(Step::Rewrite) => {
                connection.execute_batch("PRAGMA auto_vacuum=INCREMENTAL; VACUUM")?;
            }
            Some(Step::Cut) => cut(connection, 500)?,
        }
        Ok(true)
    };
    run().unwrap_or(false)
}

/// Cuts free pages off, if the file was created with `auto_vacuum`.
pub(super) fn cut(connection: &Connection, maximum: u32) -> rusqlite::Result<()> {
    let mut cut = connection.prepare(&format!("PRAGMA incremental_vacuum({maximum})"))?;
    let mut pages = cut.query([])?;
    while pages.next()?.is_some() {}
    Ok(())
}

fn next(connection: &Connection) -> rusqlite::Result<Option<Step>> {
    let number = |pragma: &str| -> rusqlite::Result<i64> {
        let mut statement = connection.prepare_cached(&format!("PRAGMA {pragma}"))?;
        statement.query_row([], |row| row.get(0))
    };
    let (pages, free) = (number("page_count")?, number("freelist_count")?);
    if free < KEPT_FREE_PAGES || free * 4 < pages {
        return Ok(None);
    }
    if pages - free <= MIN_FREE_PAGES {
        return Ok(Some(Step::Rewrite));
    }
    let incremental = number("auto_vacuum")? == 2;
    Ok(incremental.then_some(Step::Cut))
}
