//! One file per command.

pub(crate) mod cache;
pub(crate) mod chat;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod hash;
pub(crate) mod hooks;
pub(crate) mod init;
pub(crate) mod ledger;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod overview;
pub(crate) mod prefix;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod simulate;
pub(crate) mod spend;
pub(crate) mod validate;
pub(crate) mod why;
