//! The version of the server and its settings, for people.

use cachalot_store::{Error, Finding};
use tokio_postgres::Row;

use super::row;

/// The statement whose row has them.
pub(super) const QUESTION: &str = "\
SELECT current_setting('server_version') AS version, current_setting('synchronous_commit') AS commit, \
    current_setting('fsync') AS fsync, current_setting('max_connections') AS connections, \
    coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS tls, \
    pg_size_pretty(pg_total_relation_size('cachalot_records')) AS size, \
    (SELECT count(*) FROM pg_stat_replication) AS standbys, \
    (SELECT count(*) FROM pg_stat_replication WHERE sync_state IS NULL OR sync_state IN ('async', 'potential')) \
        AS asynchronous, \
    current_setting('synchronous_standby_names') AS synchronous";

/// Returns the findings of the row of [`QUESTION`].
pub(super) fn findings(row: &Row) -> Result<Vec<Finding>, Error> {
    let text = |name| row::column::<String>(row, name);
    let persistence = match (&*text("commit")?, &*text("fsync")?) {
        ("off", _) | (_, "off") => Finding::degraded(
            "persistence",
            format!(
                "synchronous_commit {}, fsync {}",
                text("commit")?,
                text("fsync")?
            ),
            "a crash of the server may lose the last writes, invalidations among them: set both to on",
        ),
        (commit, _) => Finding::good("persistence", format!("synchronous_commit {commit}")),
    };
    let count = |name| row::column::<i64>(row, name);
    let (standbys, asynchronous) = (count("standbys")?, count("asynchronous")?);
    // Roles without pg_read_all_stats see how many there are, and nothing else.
    let waits = !text("synchronous")?.is_empty() && !matches!(&*text("commit")?, "off" | "local");
    let is_safe = standbys == 0 || waits;
    let standbys = match (standbys, is_safe) {
        (0, _) => Finding::good("standbys", "none connected"),
        (_, true) => Finding::good(
            "standbys",
            format!("{standbys}, commits wait for {}", text("synchronous")?),
        ),
        (_, false) => Finding::degraded(
            "standbys",
            format!("{standbys}, of which {asynchronous} asynchronous"),
            "a failover may lose the last writes, and the cache begins anew after it: for long-term memory, \
             sessions and budgets set synchronous_standby_names",
        ),
    };
    let budgets = if is_safe && persistence.remedy.is_none() {
        Finding::good("budgets", "nothing that was counted is lost")
    } else {
        Finding::degraded(
            "budgets",
            "a crash or a failover may lose what was counted last",
            "after a loss, only what the running gateways know of is counted again: see `persistence` and \
         `standbys`",
        )
    };
    Ok(vec![
        Finding::good("version", format!("Postgres {}", text("version")?)),
        Finding::good("records", text("size")?),
        Finding::good("connections", format!("at most {}", text("connections")?)),
        Finding::good(
            "TLS",
            if row::column::<bool>(row, "tls")? {
                "yes"
            } else {
                "no"
            },
        ),
        persistence,
        standbys,
        budgets,
    ])
}
