//! Opens the store that a URL names.

use std::fmt;
use std::sync::Arc;

use cachalot_store::Store;

use crate::url::StoreUrl;

/// The reason why a URL names no store of this build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrlError {
    /// The store of this backend is not part of this build.
    NotBuilt(&'static str),
    /// No backend has this scheme.
    UnknownScheme(String),
    /// The URL is invalid; the message does not contain a password.
    Invalid(String),
}

impl fmt::Display for StoreUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt(backend) => {
                write!(f, "the store backend `{backend}` is not part of this build")
            }
            Self::UnknownScheme(scheme) => {
                write!(f, "there is no store for URLs that begin with `{scheme}:`")
            }
            Self::Invalid(message) => f.write_str(message),
        }
    }
}

/// Opens the store that a URL names; connects with its first call. `password` is used if the URL has none.
///
/// # Errors
/// If the URL names no store of this build.
pub fn open(url: &StoreUrl, password: Option<&str>) -> Result<Arc<dyn Store>, StoreUrlError> {
    match url.backend() {
        #[cfg(feature = "postgres")]
        Some("postgres") => {
            let server = crate::postgres::Server::new(url, password);
            let server = server.map_err(StoreUrlError::Invalid)?;
            Ok(Arc::new(crate::postgres::PostgresStore::new(server)))
        }
        #[cfg(feature = "redis")]
        Some("redis") => {
            let server = crate::redis::Server::new(url, password);
            let server = server.map_err(StoreUrlError::Invalid)?;
            Ok(Arc::new(crate::redis::RedisStore::new(server)))
        }
        Some(backend) => {
            let _ = password;
            Err(StoreUrlError::NotBuilt(backend))
        }
        None => Err(StoreUrlError::UnknownScheme(url.scheme().to_owned())),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn stores_that_are_not_built_are_known_by_name() {
        let error = |url| open(&StoreUrl::recognize(url).unwrap(), None).err();
        assert_eq!(
            error("redis-cluster://host"),
            Some(StoreUrlError::NotBuilt("redis-cluster"))
        );
        assert_eq!(
            error("s3://bucket/x.db"),
            Some(StoreUrlError::NotBuilt("blob-sqlite"))
        );
        assert_eq!(
            error("mysql://host"),
            Some(StoreUrlError::UnknownScheme("mysql".into()))
        );
        assert!(matches!(
            error("postgres://host:no/x"),
            Some(StoreUrlError::Invalid(_))
        ));
        assert!(matches!(
            error("redis://host/no"),
            Some(StoreUrlError::Invalid(_))
        ));
    }
}
