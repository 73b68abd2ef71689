//! The connection on which the database reports changes (`LISTEN`).

use std::sync::Arc;

use cachalot_store::{Error, ErrorKind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Notification, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connections::Connections;
use crate::changes::{self, Changes};

/// A setting of the session, given when the connection is opened: a pooler in between refuses or drops it.
const MARK: &str = "cachalot.listens";

/// A subscription. The task of its connection ends with it.
pub struct Subscription {
    client: Client,
    location: String,
}

impl Subscription {
    /// Opens a connection to the database, whose tables exist, and listens.
    pub(super) async fn open(
        connections: &Connections,
        changes: &Arc<Changes>,
    ) -> Result<Self, Error> {
        let invalid = |message| Error::new(ErrorKind::Unsupported, message);
        let mut config = connections.server().config().map_err(invalid)?;
        let options = config.get_options().unwrap_or_default();
        let options = format!("{options} -c {MARK}=yes");
        config.options(options.trim_start());
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
        let location = connections.server().location().to_owned();
        let mut subscription = Self { client, location };
        changes::Subscription::ping(&mut subscription).await?;
        Ok(subscription)
    }
}

impl changes::Subscription for Subscription {
    /// The server sends notifications of transactions that have ended before it answers a statement.
    async fn ping(&mut self) -> Result<(), Error> {
        let question = format!(
            "SELECT 1 FROM pg_listening_channels() c WHERE c = 'cachalot_' || md5(current_schema()) \
             AND current_setting('{MARK}', true) = 'yes'"
        );
        let answer = self.client.simple_query(&question).await;
        let answer = answer.map_err(|error| super::failure::failure(&self.location, error))?;
        let is_row = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(_));
        match answer.iter().any(is_row) {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{} does not report changes on this connection: there is a pooler in front of the database",
                    self.location
                ),
            )),
        }
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
