//! Servers of Debian's packages, in temporary directories, for tests.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it was skipped"
)]

mod certificates;
mod fault_proxy;
mod firestore;
mod object_server;
mod pgbouncer;
mod postgres;
mod redis;
mod redis_cluster;
mod redis_sentinels;
mod server_process;
mod sqld;

pub use certificates::Certificates;
pub use fault_proxy::{Fault, FaultProxy};
pub use firestore::FirestoreEmulator;
pub use object_server::ObjectServer;
pub use pgbouncer::PgBouncer;
pub use postgres::PostgresServer;
pub use redis::RedisServer;
pub use redis_cluster::RedisCluster;
pub use redis_sentinels::RedisSentinels;
pub use sqld::LibsqlServer;

/// The password of the servers' users.
pub const PASSWORD: &str = "pg-secret-5531";
