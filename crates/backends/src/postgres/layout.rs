//! Creates the tables and functions, or upgrades them.

use cachalot_store::{Error, ErrorKind};
use tokio_postgres::{Client, Transaction};

use super::failure::failure;

/// The steps from an empty database to the tables of the current layout. New ones are only ever added at the end; a
/// change of the functions alone is an empty step.
const MIGRATIONS: [&str; 6] = [
    include_str!("layout_1.sql"),
    include_str!("layout_2.sql"),
    include_str!("layout_3.sql"),
    // Triggers that report changes, with the functions.
    "",
    include_str!("layout_5.sql"),
    // Erases that writers do not wait for, and copies of many records, in the functions.
    "",
];

/// Creates the functions of the current layout.
const FUNCTIONS: &str = include_str!("functions.sql");

/// Removes the functions of any layout, with their triggers.
const REMOVE_FUNCTIONS: &str = "DO $$ DECLARE f oid; BEGIN
    FOR f IN SELECT oid FROM pg_catalog.pg_proc WHERE pronamespace = current_schema()::regnamespace
        AND starts_with(proname, 'cachalot_') LOOP EXECUTE 'DROP FUNCTION ' || f::regprocedure || ' CASCADE'; END LOOP; END $$";

/// The advisory lock that the migrations of several processes take: `CACHALOT` in ASCII.
pub(super) const LOCK: i64 = 0x4341_4348_414C_4F54;

/// A condition for statements: it fails with a division by zero if a newer version has changed the layout. A statement
/// with it is executed under a lock of the version, and never after an upgrade that it does not know of.
pub(super) fn fence() -> String {
    let version = MIGRATIONS.len();
    format!("(SELECT 1 / (version <= {version})::int FROM cachalot_layout) = 1")
}

/// Makes the layout a newer one, or that of this version.
#[cfg(feature = "testing")]
pub(super) fn set_newer(is_newer: bool) -> String {
    let version = MIGRATIONS.len() + usize::from(is_newer);
    format!("UPDATE cachalot_layout SET version = {version}")
}

/// True if the database has the current layout.
pub(super) async fn is_current(client: &mut Client, location: &str) -> Result<bool, Error> {
    let failed = |error| failure(location, error);
    let transaction = client.transaction().await.map_err(failed)?;
    check_settings(&transaction, location).await?;
    let applied = applied(&transaction, location).await?;
    transaction.commit().await.map_err(failed)?;
    Ok(applied == MIGRATIONS.len())
}

/// Returns once the database has the current layout; waits for another process that upgrades it.
pub(super) async fn upgrade(client: &mut Client, location: &str) -> Result<(), Error> {
    let failed = |error| failure(location, error);
    let transaction = client.transaction().await.map_err(failed)?;
    let lock = format!("SELECT pg_advisory_xact_lock({LOCK})");
    transaction.batch_execute(&lock).await.map_err(failed)?;
    // Read under the lock: another process may have upgraded the tables since.
    let applied = applied(&transaction, location).await?;
    let note = format!(
        "CREATE TABLE IF NOT EXISTS cachalot_layout(version int NOT NULL);\
         DELETE FROM cachalot_layout; INSERT INTO cachalot_layout VALUES ({})",
        MIGRATIONS.len()
    );
    if applied < MIGRATIONS.len() {
        if applied > 0 {
            // Waits for the statements that have found the layout of before.
            let lock = "LOCK TABLE cachalot_layout IN ACCESS EXCLUSIVE MODE";
            transaction.batch_execute(lock).await.map_err(failed)?;
        }
        let steps = MIGRATIONS.iter().skip(applied).copied();
        for step in steps.chain([REMOVE_FUNCTIONS, FUNCTIONS, &note]) {
            transaction.batch_execute(step).await.map_err(failed)?;
        }
    }
    transaction.commit().await.map_err(failed)
}

/// Fails if the database's settings break what the functions rely on.
async fn check_settings(transaction: &Transaction<'_>, location: &str) -> Result<(), Error> {
    for (setting, expected, remedy) in [
        (
            "server_encoding",
            "UTF8",
            "create the database with ENCODING 'UTF8'",
        ),
        (
            "default_transaction_isolation",
            "read committed",
            "ALTER ROLE … SET default_transaction_isolation = 'read committed'",
        ),
    ] {
        let statement = format!("SELECT current_setting('{setting}') AS value");
        let rows = transaction.query_typed(&statement, &[]).await;
        let rows = rows.map_err(|error| failure(location, error))?;
        let found = match rows.first() {
            Some(row) => super::row::column::<String>(row, "value")?,
            None => String::new(),
        };
        if found != expected {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{location} has the setting `{setting} = {found}`, and Cachalot needs `{expected}`"
                ),
            )
            .with_remedy(remedy));
        }
    }
    Ok(())
}

/// Returns the number of completed migrations.
async fn applied(transaction: &Transaction<'_>, location: &str) -> Result<usize, Error> {
    let failed = |error| failure(location, error);
    // A query of the catalog: `to_regclass` may not notice a table that another process has just created.
    let exists = "SELECT 1 FROM pg_catalog.pg_tables \
                  WHERE schemaname = current_schema() AND tablename = 'cachalot_layout'";
    let exists = transaction.query_typed(exists, &[]).await.map_err(failed)?;
    if exists.is_empty() {
        return Ok(0);
    }
    let version = "SELECT version FROM cachalot_layout";
    let rows = transaction
        .query_typed(version, &[])
        .await
        .map_err(failed)?;
    let version = match rows.first() {
        Some(row) => super::row::column::<i32>(row, "version")?,
        None => 0,
    };
    let version = usize::try_from(version).unwrap_or(0);
    if version > MIGRATIONS.len() {
        return Err(Error::new(
            ErrorKind::TooNew,
            format!(
                "the tables on {location} were written by a newer version of Cachalot (layout {version}; this version \
                 knows up to {}): update Cachalot, or choose another database",
                MIGRATIONS.len()
            ),
        ));
    }
    Ok(version)
}
