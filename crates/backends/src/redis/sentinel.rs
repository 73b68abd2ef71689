//! Sentinels: servers that watch a primary server and its replicas, and name another primary when it fails
//! (<https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/>).

use std::time::Duration;

use cachalot_store::{Error, ErrorKind};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use redis::{ConnectionAddr, ConnectionInfo, RedisError, Value};

use super::record::{array, integer, text};
use super::server::{Server, connect};

/// Maximum time of a sentinel's answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the address of the primary server that most of the sentinels name. An isolated sentinel may name an old one.
///
/// # Errors
/// If most of them do not answer, or do not agree.
pub(super) async fn primary(server: &Server, name: &str) -> Result<ConnectionAddr, Error> {
    let asked: FuturesUnordered<_> = server
        .addresses
        .iter()
        .map(|sentinel| async move {
            let asked = tokio::time::timeout(TIMEOUT, ask(server, sentinel, name)).await;
            asked.unwrap_or_else(|_| Err(failure(sentinel, "does not answer")))
        })
        .collect();
    let mut asked = asked;
    let mut votes: Vec<(ConnectionAddr, usize)> = Vec::new();
    let mut faults = Vec::new();
    while let Some(answer) = asked.next().await {
        match answer {
            Ok(address) => {
                let position = votes.iter().position(|(named, _)| *named == address);
                let position = position.unwrap_or(votes.len());
                if position == votes.len() {
                    votes.push((address, 0));
                }
                votes[position].1 += 1;
                if votes[position].1 * 2 > server.addresses.len() {
                    return Ok(votes.swap_remove(position).0);
                }
            }
            Err(fault) => faults.push(fault.message),
        }
    }
    let votes = votes
        .iter()
        .map(|(named, votes)| format!("{votes} for {named}"));
    faults.extend(votes);
    Err(Error::new(
        ErrorKind::Unavailable,
        format!(
            "most sentinels of {} do not agree on a primary `{name}`: {}",
            server.location,
            faults.join("; ")
        ),
    ))
}

fn failure(sentinel: &ConnectionAddr, what: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{sentinel} {what}"))
}

async fn ask(
    server: &Server,
    sentinel: &ConnectionAddr,
    name: &str,
) -> Result<ConnectionAddr, Error> {
    let fault = |error: RedisError| failure(sentinel, &format!("failed: {error}"));
    let anonymous = server.anonymous_connection_info(sentinel.clone());
    let mut answer = ask_with(anonymous, name).await;
    if matches!(&answer, Err(error) if error.code() == Some("NOAUTH")) {
        answer = ask_with(server.connection_info(sentinel.clone()), name).await;
    }
    let damaged = |_| failure(sentinel, "returned no address");
    match answer.map_err(fault)? {
        Value::Nil => Err(failure(sentinel, "does not know it")),
        named => {
            let mut parts = array(named).map_err(damaged)?.into_iter();
            let mut next = || parts.next().unwrap_or(Value::Nil);
            let host = text(next()).map_err(damaged)?;
            let port = integer(next()).map_err(damaged)?;
            let port = u16::try_from(port).map_err(|_| failure(sentinel, "returned no port"))?;
            Ok(server.address(&host, port))
        }
    }
}

async fn ask_with(info: ConnectionInfo, name: &str) -> Result<Value, RedisError> {
    let mut connection = connect(info, TIMEOUT).await?;
    let mut command = redis::cmd("SENTINEL");
    command.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    let answer = connection.send_packed_command(&command).await?;
    answer.extract_error()
}
