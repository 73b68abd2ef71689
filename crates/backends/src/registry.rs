//! The backends that a URL can name: one row each.

/// A backend: what is known about it without a server.
#[derive(Debug)]
pub struct Backend {
    /// Its name in `settings.ltm.backend`.
    pub name: &'static str,
    /// The schemes of its URLs.
    pub schemes: &'static [&'static str],
    /// An example of a URL.
    pub example: &'static str,
    /// The environment variable from which its own programs read a password.
    pub password_variable: Option<&'static str>,
    /// True if it is part of this build.
    pub is_built: bool,
}

/// All backends.
pub static BACKENDS: [Backend; 6] = [
    Backend {
        name: "postgres",
        schemes: &["postgres", "postgresql"],
        example: "postgres://USER@HOST/DATABASE",
        password_variable: Some("PGPASSWORD"),
        is_built: cfg!(feature = "postgres"),
    },
    Backend {
        name: "redis",
        schemes: &[
            "redis",
            "rediss",
            "valkey",
            "valkeys",
            "unix",
            "redis-cluster",
            "rediss-cluster",
            "redis-sentinel",
            "rediss-sentinel",
        ],
        example: "redis://HOST:6379/0",
        password_variable: Some("REDISCLI_AUTH"),
        is_built: cfg!(feature = "redis"),
    },
    Backend {
        name: "turso",
        schemes: &["libsql", "https"],
        example: "libsql://NAME.turso.io",
        password_variable: Some("TURSO_AUTH_TOKEN"),
        is_built: cfg!(feature = "turso"),
    },
    Backend {
        name: "blob-sqlite",
        schemes: &["s3", "gs", "az"],
        example: "s3://BUCKET/PATH/NAME.db",
        password_variable: None,
        is_built: cfg!(feature = "bucket"),
    },
    Backend {
        name: "firestore",
        schemes: &["firestore"],
        example: "firestore://PROJECT/COLLECTION",
        password_variable: None,
        is_built: cfg!(feature = "firestore"),
    },
    Backend {
        name: "duckdb",
        schemes: &["duckdb"],
        example: "duckdb:FILE.duckdb",
        password_variable: None,
        is_built: cfg!(feature = "duckdb"),
    },
];

impl Backend {
    /// Returns the backend of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        BACKENDS.iter().find(|backend| backend.name == name)
    }

    /// Returns the backend whose URLs have this scheme, in lower case.
    #[must_use]
    pub fn of_scheme(scheme: &str) -> Option<&'static Self> {
        let mut backends = BACKENDS.iter();
        backends.find(|backend| backend.schemes.contains(&scheme))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreUrl;

    #[test]
    fn examples_are_urls_of_their_backends_and_no_scheme_has_two() {
        for backend in &BACKENDS {
            let url = StoreUrl::recognize(backend.example);
            let found = url.and_then(|url| url.backend());
            assert_eq!(found, Some(backend.name));
            for scheme in backend.schemes {
                let of_scheme = Backend::of_scheme(scheme).map(|found| found.name);
                assert_eq!(of_scheme, Some(backend.name));
            }
        }
    }
}
