//! The connection on which the database reports changes (`LISTEN`).

use std::sync::Arc;

use cachalot_store::{Error, ErrorKind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Notification, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connections::{Connections, MARK};
use crate::changes::{self, Changes};

/// The mark of the session, see [`MARK`].
const LISTENS: &str = "listens";

/// A subscription. The task of its connection ends with it.
pub struct Subscription {
    client: Client,
    connections: Arc<Connections>,
}

impl Subscription {
    /// Opens a connection to the database, whose tables exist, and listens.
    pub(super) async fn open(
        connections: &Arc<Connections>,
        changes: &Arc<Changes>,
    ) -> Result<Self, Error> {
        let config = connections.config(Some(LISTENS))?;
        let failed = |error| connections.failure(error);
        let client = if config.get_ssl_mode() == SslMode::Disable {
            let (client, connection) = config.connect(NoTls).await.map_err(failed)?;
            tokio::spawn(read(connection, Arc::clone(changes)));
            client
        } else {
            let tls = MakeRustlsConnect::new(cachalot_storage::tls_config());
            let (client, connection) = config.connect(tls).await.map_err(failed)?;
            tokio::spawn(read(connection, Arc::clone(changes)));
            client
        };
        let listen = "DO $$ BEGIN EXECUTE 'LISTEN cachalot_' || md5(current_schema()); END $$";
        client.batch_execute(listen).await.map_err(failed)?;
        let connections = Arc::clone(connections);
        let mut subscription = Self {
            client,
            connections,
        };
        // Fails at once if this connection does not report changes.
        changes::Subscription::ping(&mut subscription).await?;
        Ok(subscription)
    }
}

impl changes::Subscription for Subscription {
    /// The server sends notifications of transactions that have ended before it answers a statement. It has to be the
    /// one that records are read from.
    async fn ping(&mut self) -> Result<(), Error> {
        let question = format!(
            "SELECT pg_is_in_recovery() AS standby, extract(epoch FROM pg_postmaster_start_time())::text AS started, \
             current_setting('{MARK}', true) = '{LISTENS}' AND EXISTS (SELECT 1 FROM pg_listening_channels() c \
             WHERE c = 'cachalot_' || md5(current_schema())) AS listens"
        );
        let answer = self.client.simple_query(&question).await;
        let answer = answer.map_err(|error| self.connections.failure(error))?;
        let row = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let column = |name| row.and_then(|row| row.try_get(name).ok().flatten());
        let location = self.connections.location();
        if column("listens") != Some("t") {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{location} does not report changes on this connection: there is a pooler in front of the database"
                ),
            ));
        }
        if column("standby") != Some("f") {
            return Err(self.connections.is_standby());
        }
        if column("started") != Some(&*self.connections.started()) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "{location} reports the changes of another server than that of the records"
                ),
            ));
        }
        Ok(())
    }
}

/// Reads a connection until its client ends.
async fn read<S, T>(mut connection: Connection<S, T>, changes: Arc<Changes>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) =
        std::future::poll_fn(|context| connection.poll_message(context)).await
    {
        if let AsyncMessage::Notification(notification) = message {
            note(&notification, &changes);
        }
    }
}

/// Notes the change that a notification reports: a name in hexadecimal, or everything.
fn note(notification: &Notification, changes: &Changes) {
    let name = hex::decode(notification.payload()).ok();
    match name.and_then(|name| String::from_utf8(name).ok()) {
        Some(name) if !name.is_empty() => changes.note(&name),
        _ => changes.note_all(),
    }
}
