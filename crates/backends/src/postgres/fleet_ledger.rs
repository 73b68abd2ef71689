//! A database to which machines copy the calls of their ledgers, to be read together.
//!
//! Calls and sums travel as lists of JSON, whose members are the columns of the tables. The primary key of a
//! call is its number in its ledger, so that a call that is sent twice is there once; sums replace those of
//! before.

use std::time::Duration;

use cachalot_store::{Error, ErrorKind, Millis};
use tokio::sync::Mutex;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::connections::connect;
use super::failure::failure;
use super::layout::LOCK;
use super::row::{self, Parameter};
use super::server::Server;
use crate::url::{StoreUrl, StoreUrlError};

/// The version of the tables.
const VERSION: i32 = 1;

/// Creates the tables of version 1.
const TABLES: &str = include_str!("fleet_ledger.sql");

/// Maximum time to connect, and of each statement.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A condition of statements: it fails with a division by zero if a newer version has changed the tables.
const FENCE: &str = "(SELECT 1 / (version <= 1)::int FROM cachalot_ledger_layout) = 1";

/// The columns of sums that later ones replace.
const REPLACED: &str = "host hits coalesced misses bypasses failures failed paid paid_input paid_output paid_cost \
                        paid_unpriced saved saved_input saved_output saved_cost saved_unpriced";

/// The number and the time of a call, and its ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallPosition {
    /// The time, which the order begins with.
    pub at: Millis,
    /// The ledger.
    pub ledger: String,
    /// The number in the ledger.
    pub id: i64,
}

/// A database with the calls of several ledgers. It connects with the first call, and again after a fault.
pub struct FleetLedger {
    server: Server,
    client: Mutex<Option<Client>>,
}

impl FleetLedger {
    /// Creates the ledger of a URL `postgres://USER@HOST/DATABASE`; `password` is used if the URL has none.
    ///
    /// # Errors
    /// The URL is none of Postgres, or is invalid.
    pub fn new(url: &StoreUrl, password: Option<&str>) -> Result<Self, StoreUrlError> {
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            let message =
                "a ledger of several machines is in Postgres: postgres://USER@HOST/DATABASE";
            return Err(StoreUrlError::Invalid(message.to_owned()));
        }
        Ok(Self {
            server: Server::new(url, password)?,
            client: Mutex::default(),
        })
    }

    /// The URL without the password and the parameters.
    #[must_use]
    pub fn location(&self) -> &str {
        self.server.location()
    }

    /// Returns the largest number of a call of a ledger; `None` if there is none.
    ///
    /// # Errors
    /// The server does not answer, or has newer tables.
    pub async fn last_id(&self, ledger: &str) -> Result<Option<i64>, Error> {
        let statement = format!(
            "SELECT max(id) AS id FROM cachalot_ledger_calls WHERE ledger = $1 AND {FENCE}"
        );
        let rows = self.rows(&statement, &[(&ledger, Type::TEXT)]).await?;
        rows.first().map_or(Ok(None), |row| row::column(row, "id"))
    }

    /// Adds calls: a list of JSON. Those that are there already stay as they are.
    ///
    /// # Errors
    /// The server does not answer, has newer tables, or refuses a call.
    pub async fn add_calls(&self, calls: &str) -> Result<(), Error> {
        let statement = format!(
            "INSERT INTO cachalot_ledger_calls \
             SELECT * FROM jsonb_populate_recordset(NULL::cachalot_ledger_calls, $1::text::jsonb) \
             WHERE {FENCE} ON CONFLICT DO NOTHING"
        );
        self.rows(&statement, &[(&calls, Type::TEXT)])
            .await
            .map(drop)
    }

    /// Replaces the sums of ledgers, kinds and names: a list of JSON.
    ///
    /// # Errors
    /// Those of [`FleetLedger::add_calls`].
    pub async fn set_totals(&self, totals: &str) -> Result<(), Error> {
        let replaced: Vec<String> = REPLACED
            .split_whitespace()
            .map(|column| format!("{column} = excluded.{column}"))
            .collect();
        let statement = format!(
            "INSERT INTO cachalot_ledger_totals \
             SELECT * FROM jsonb_populate_recordset(NULL::cachalot_ledger_totals, $1::text::jsonb) \
             WHERE {FENCE} ON CONFLICT (ledger, kind, name) DO UPDATE SET {}",
            replaced.join(", ")
        );
        self.rows(&statement, &[(&totals, Type::TEXT)])
            .await
            .map(drop)
    }

    /// Returns up to `limit` calls of all ledgers that follow a position, in the order of their times, each as
    /// JSON.
    ///
    /// # Errors
    /// The server does not answer, or has newer tables.
    pub async fn calls_after(
        &self,
        position: Option<&CallPosition>,
        limit: u32,
    ) -> Result<Vec<String>, Error> {
        let statement = format!(
            "SELECT to_jsonb(c)::text AS value FROM cachalot_ledger_calls c \
             WHERE (at, ledger, id) > ($1, $2, $3) AND {FENCE} ORDER BY at, ledger, id LIMIT $4"
        );
        let (at, ledger, id) = match position {
            Some(CallPosition { at, ledger, id }) => (*at, ledger.as_str(), *id),
            None => (i64::MIN, "", i64::MIN),
        };
        let limit = i64::from(limit);
        let parameters: [Parameter<'_>; 4] = [
            (&at, Type::INT8),
            (&ledger, Type::TEXT),
            (&id, Type::INT8),
            (&limit, Type::INT8),
        ];
        values(&self.rows(&statement, &parameters).await?)
    }

    /// Returns the sums of all ledgers, each as JSON.
    ///
    /// # Errors
    /// The server does not answer, or has newer tables.
    pub async fn totals(&self) -> Result<Vec<String>, Error> {
        let statement = format!(
            "SELECT to_jsonb(t)::text AS value FROM cachalot_ledger_totals t WHERE {FENCE}"
        );
        values(&self.rows(&statement, &[]).await?)
    }

    async fn rows(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<tokio_postgres::Row>, Error> {
        let location = self.location();
        let mut current = self.client.lock().await;
        let executed = async {
            // Taken out: a client whose call is given up, or has failed, is not used again.
            let client = match current.take().filter(|client| !client.is_closed()) {
                Some(client) => client,
                None => self.connect().await?,
            };
            let rows = client.query_typed(statement, parameters).await;
            let rows = rows.map_err(|error| failure(location, error))?;
            *current = Some(client);
            Ok(rows)
        };
        let executed = tokio::time::timeout(TIMEOUT, executed).await;
        executed.unwrap_or_else(|_| {
            let message = format!("{location} did not answer within {TIMEOUT:?}");
            Err(Error::new(ErrorKind::TimedOut, message))
        })
    }

    /// Connects, and creates the tables if they are not there.
    async fn connect(&self) -> Result<Client, Error> {
        let location = self.location();
        let failed = |error| failure(location, error);
        let invalid = |error: StoreUrlError| Error::new(ErrorKind::Unsupported, error.to_string());
        let config = self.server.config().map_err(invalid)?;
        let mut client = connect(&config).await.map_err(failed)?;
        let transaction = client.transaction().await.map_err(failed)?;
        let exists = "SELECT 1 FROM pg_catalog.pg_tables \
                      WHERE schemaname = current_schema() AND tablename = 'cachalot_ledger_layout'";
        let exists = transaction.query_typed(exists, &[]).await.map_err(failed)?;
        if exists.is_empty() {
            // Two processes may create them at the same time.
            let lock = format!("SELECT pg_advisory_xact_lock({LOCK})");
            transaction.batch_execute(&lock).await.map_err(failed)?;
            transaction.batch_execute(TABLES).await.map_err(failed)?;
        }
        let version = "SELECT version FROM cachalot_ledger_layout";
        let rows = transaction.query_typed(version, &[]).await;
        let rows = rows.map_err(failed)?;
        let version: i32 = match rows.first() {
            Some(row) => row::column(row, "version")?,
            None => VERSION,
        };
        if version > VERSION {
            return Err(Error::new(
                ErrorKind::TooNew,
                format!(
                    "the ledger on {location} was written by a newer version of Cachalot (layout {version}; this \
                     version knows up to {VERSION}): update Cachalot, or choose another database"
                ),
            ));
        }
        transaction.commit().await.map_err(failed)?;
        Ok(client)
    }
}

fn values(rows: &[tokio_postgres::Row]) -> Result<Vec<String>, Error> {
    let values = rows.iter().map(|row| row::column(row, "value"));
    values.collect()
}
