//! Bytes behind URIs: open, stat, streaming hash, write, delete; and the HTTP client.
//!
//! [`Storage`] reads plain paths, `file://`, `http(s)://`, `s3://`, `gs://`, `az://` and `abfs(s)://` through
//! one set of functions with one error type. Connections and clients are created when the first URI needs
//! them.
//!
//! [`HttpClient`] is for URLs that the user chose (on the command line, in a file, in settings).
//! [`HttpClient::guarded`] is for URLs that a model or fetched content chose: it never connects to a private
//! address. [`PageGuard`] is for servers on this machine.

mod cloud;
mod connection_headers;
mod error;
mod guard;
mod hash;
mod http;
mod local;
mod location;
mod mask;
mod page_guard;
mod proxy;
mod redirect;
mod stat;
mod storage;
mod transfer;
mod tunnel;
mod version;

pub use cloud::GoogleCredentials;
pub use connection_headers::{CONNECTION_HEADERS, is_connection_header};
pub use error::{Error, ErrorKind};
pub use guard::AllowedHosts;
pub use hash::{Algorithm, HashOutput, Hasher};
pub use http::{GuardedClient, HttpClient, HttpOptions};
pub use local::hash_file;
pub use mask::masked;
pub use page_guard::{PageGuard, PageRefusal};
pub use redirect::RedirectCheck;
pub use reqwest::{Method, RequestBuilder, Response, StatusCode, Url, header};
pub use stat::Stat;
pub use storage::{Storage, StorageOptions};
pub use transfer::{body, chunks, success};
pub use tunnel::{Connection, proxies, tls_config};
pub use version::{ObjectVersion, VersionRead};
