//! URLs that name a store.

use std::collections::BTreeMap;
use std::fmt;

use url::Url;

/// The schemes of stores, with the names of their backends. Not all of them are built.
const SCHEMES: [(&str, &str); 18] = [
    ("postgres", "postgres"),
    ("postgresql", "postgres"),
    ("redis", "redis"),
    ("rediss", "redis"),
    ("valkey", "redis"),
    ("valkeys", "redis"),
    ("unix", "redis"),
    ("redis-cluster", "redis"),
    ("rediss-cluster", "redis"),
    ("redis-sentinel", "redis"),
    ("rediss-sentinel", "redis"),
    ("libsql", "turso"),
    ("https", "turso"),
    ("duckdb", "duckdb"),
    ("s3", "blob-sqlite"),
    ("gs", "blob-sqlite"),
    ("az", "blob-sqlite"),
    ("firestore", "firestore"),
];

/// The beginnings of libpq's connection strings, which are not URLs.
const KEYWORDS: [&str; 7] = [
    "dbname=",
    "host=",
    "hostaddr=",
    "password=",
    "port=",
    "service=",
    "user=",
];

/// A URL that names a store on a server. It may contain a password, which no message shows.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    /// The scheme is in lower case.
    text: String,
    scheme: String,
    location: String,
    /// Parameters that are not secret.
    parameters: String,
    has_password: bool,
    fault: Option<&'static str>,
}

impl StoreUrl {
    /// Recognizes a URL; `None` for anything else, such as the path of a file. A text with `://`, or with the
    /// scheme of a store in front of a colon, is a URL, and so is a connection string of libpq, which is invalid.
    #[must_use]
    pub fn recognize(text: &str) -> Option<Self> {
        let text = text.trim_start();
        if KEYWORDS.iter().any(|keyword| text.starts_with(keyword)) {
            return Some(Self::without_location(
                "postgres",
                text,
                "write the connection string as a URL",
            ));
        }
        let (scheme, rest) = text.split_once(':')?;
        let mut characters = scheme.chars();
        // One letter is a drive of Windows.
        let is_scheme = scheme.len() > 1
            && characters.next().is_some_and(|c| c.is_ascii_alphabetic())
            && characters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        let scheme = scheme.to_ascii_lowercase();
        (is_scheme && (backend_of(&scheme).is_some() || rest.starts_with("//")))
            .then(|| Self::read(&scheme, rest))
    }

    /// Reads what follows the colon after the scheme. Clients split URLs differently where characters are not
    /// encoded: what one of them takes for a path is the password for another.
    fn read(scheme: &str, rest: &str) -> Self {
        let text = format!("{scheme}:{rest}");
        if scheme == "duckdb" {
            let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
            return Self {
                scheme: scheme.to_owned(),
                location: format!("{scheme}:{path}"),
                parameters: parameters.to_owned(),
                has_password: false,
                fault: None,
                text,
            };
        }
        // A socket is named by a path, with or without an empty host in front of it.
        let authority = rest.strip_prefix("//");
        let is_path = scheme == "unix" && rest.starts_with('/');
        let Some(authority) = authority.or(is_path.then_some("")) else {
            return Self::without_location(scheme, &text, "`//` has to follow the scheme");
        };
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        let is_ambiguous = user.contains(['/', '?', '#', '@', '\\']);
        if is_ambiguous || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Self::without_location(
                scheme,
                &text,
                "write `/`, `?`, `#`, `@`, `\\` and spaces within a user name, a password or a parameter as %2F, %3F, \
                 %23, %40, %5C and %20",
            );
        }
        // The hosts after the first one, of a cluster or of a group of sentinels.
        let hosts = authority.split(['/', '?', '#']).next().unwrap_or_default();
        let first = match scheme.contains('-') {
            true => {
                user.len()
                    + hosts[user.len()..]
                        .find(',')
                        .unwrap_or(hosts.len() - user.len())
            }
            false => hosts.len(),
        };
        let further = &hosts[first..];
        let start = text.len() - authority.len() + first;
        let parsed = Url::parse(&format!(
            "{}{}",
            &text[..start],
            &text[start + further.len()..]
        ));
        let Ok(mut url) = parsed else {
            return Self::without_location(scheme, &text, "the host or the port is not valid");
        };
        let is_secret = |name: &str| {
            let name = name.to_ascii_lowercase();
            ["pass", "secret", "token"]
                .iter()
                .any(|word| name.contains(word))
        };
        let has_password =
            url.password().is_some() || url.query_pairs().any(|(name, _)| is_secret(&name));
        let parameters = url.query_pairs().filter(|(name, _)| !is_secret(name));
        let parameters: Vec<_> = parameters
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if url.password().is_some() && url.set_password(None).is_err() {
            return Self::without_location(scheme, &text, "a password needs a host");
        }
        url.set_query(None);
        url.set_fragment(None);
        let mut location = String::from(url);
        if !further.is_empty() {
            let start = scheme.len() + "://".len();
            let path = location[start..].find('/');
            location.insert_str(path.map_or(location.len(), |at| start + at), further);
        }
        Self {
            text,
            scheme: scheme.to_owned(),
            location,
            parameters: parameters.join("&"),
            has_password,
            fault: None,
        }
    }

    /// A URL that cannot be used, or of which it is not known where a password may be.
    fn without_location(scheme: &str, text: &str, fault: &'static str) -> Self {
        Self {
            text: text.to_owned(),
            scheme: scheme.to_owned(),
            location: format!("{scheme}:"),
            parameters: String::new(),
            has_password: text.contains('@') || text.to_ascii_lowercase().contains("password"),
            fault: Some(fault),
        }
    }

    /// True if the URL contains a password, or may contain one.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.has_password
    }

    /// The URL without a password and parameters.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Returns a text that is the same for all spellings of this URL, and another one for every other store, also one
    /// on a server that the environment chooses. Contains no secrets of the URL.
    #[must_use]
    pub fn identity(&self, environment: &BTreeMap<String, String>) -> String {
        let mut location = self.location.clone();
        let (scheme, port) = match self.scheme.as_str() {
            "postgres" | "postgresql" => ("postgres", Some(5432)),
            "redis" | "valkey" => ("redis", Some(6379)),
            "rediss" | "valkeys" => ("rediss", Some(6379)),
            other => (other, None),
        };
        if let (Some(port), Ok(mut url)) = (port, Url::parse(&self.location)) {
            // A URL without a host names no port.
            let _ = url.set_port(Some(url.port().unwrap_or(port)));
            if scheme.starts_with("redis") && ["", "/"].contains(&url.path()) {
                url.set_path("/0");
            }
            let rest = String::from(url).split_off(self.scheme.len());
            location = format!("{scheme}{rest}");
        }
        let chosen = environment.iter().filter(|(name, _)| {
            ["ENDPOINT", "EMULATOR", "STORAGE_ACCOUNT"]
                .iter()
                .any(|part| name.contains(part))
                && !name.ends_with("KEY")
        });
        chosen.fold(
            format!("{location}?{}", self.parameters),
            |text, (name, value)| format!("{text}\n{name}={value}"),
        )
    }

    /// The URL with its password.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The backend of this scheme, whether it is built or not.
    #[must_use]
    pub fn backend(&self) -> Option<&'static str> {
        backend_of(&self.scheme)
    }

    /// The environment variable from which the programs of this backend read a password.
    #[must_use]
    pub fn password_variable(&self) -> Option<&'static str> {
        match self.backend()? {
            "postgres" => Some("PGPASSWORD"),
            "redis" => Some("REDISCLI_AUTH"),
            "turso" => Some("TURSO_AUTH_TOKEN"),
            _ => None,
        }
    }

    pub(crate) fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The reason why the URL cannot be used.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        self.fault
    }
}

fn backend_of(scheme: &str) -> Option<&'static str> {
    let known = SCHEMES.iter().find(|(known, _)| *known == scheme);
    known.map(|(_, backend)| *backend)
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreUrl").field(&self.location()).finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::open;

    #[test]
    fn paths_are_no_urls() {
        for path in [
            "cachalot.db",
            "./a:b/c.db",
            "C:\\data\\x.db",
            "c:/x.db",
            "a:b",
            "/x/redis:/y",
            "",
        ] {
            assert_eq!(StoreUrl::recognize(path), None, "{path}");
        }
    }

    #[test]
    fn identity_is_that_of_the_store() {
        let none = BTreeMap::new();
        let identity = |url: &str| StoreUrl::recognize(url).unwrap().identity(&none);
        for (one, other, is_same) in [
            ("redis://h", "valkey://h:6379/0", true),
            ("redis://h/", "redis://user:secret@h/0", false),
            ("redis://h/0", "redis://h/1", false),
            ("redis://h", "rediss://h", false),
            ("postgres://h/x", "postgresql://h:5432/x", true),
            ("postgres://u:one@h/x", "postgres://u:two@h/x", true),
            (
                "postgres://h/x",
                "postgres://h/x?options=-csearch_path%3Dy",
                false,
            ),
            ("s3://bucket/x.db", "s3://bucket/y.db", false),
        ] {
            assert_eq!(identity(one) == identity(other), is_same, "{one} {other}");
        }
        let url = StoreUrl::recognize("s3://bucket/x.db").unwrap();
        let endpoint = [(
            "AWS_ENDPOINT_URL_S3".to_owned(),
            "http://localhost".to_owned(),
        )];
        assert_ne!(url.identity(&none), url.identity(&endpoint.into()));
    }

    #[test]
    fn urls_are_recognized_in_any_spelling() {
        for url in [
            "postgres://host/x",
            "PostgreSQL://host/x",
            "postgres:host",
            "redis:host",
            "valkeys://host/0",
            "duckdb:file.db",
            "unix:/run/redis.sock",
            "http://host/x",
            "mysql://host/x",
            "file:///x.db",
            "sqlite://x.db",
        ] {
            assert!(StoreUrl::recognize(url).is_some(), "{url}");
        }
    }

    #[test]
    fn files_of_duckdb_are_told_apart() {
        let none = BTreeMap::new();
        let url = |text| StoreUrl::recognize(text).unwrap();
        let file = url("duckdb:a b@c.db?values=s3://bucket/x");
        assert_eq!(file.location(), "duckdb:a b@c.db");
        assert!(!file.has_password());
        assert_ne!(file.identity(&none), url("duckdb:a b@c.db").identity(&none));
        assert_ne!(
            url("duckdb:a.db").identity(&none),
            url("duckdb:b.db").identity(&none)
        );
    }

    #[test]
    fn passwords_are_seen_and_not_shown() {
        for (url, has_password) in [
            ("postgres://me:hunter2@host/x", true),
            ("postgres://me:hunter2@[::1]:5432/x?sslmode=require", true),
            ("postgres://host/x?user=me&password=hunter2", true),
            ("postgres://me:hunter2@host:no/x", true),
            ("postgres://me@host:5432/x", false),
            ("postgres://host:5432/x?user=me%40corp", false),
            // Postgres's client takes all up to the first `@` for the user and the password.
            ("postgres://me:12/hunter2@host/x", true),
            ("postgres://me:/hunter2@host/x", true),
            ("postgres://me:12#hunter2@host/x", true),
            ("postgres://me:12?hunter2@host/x", true),
            ("postgres://me:hun@hunter2@host/x", true),
            ("postgres://me:12\\hunter2@host/x", true),
            ("postgres://me:hun\nhunter2@host/x", true),
            ("POSTGRES://me:hunter2@host/x?sslmode=require", true),
            (" postgres://me:hunter2@host/x", true),
            ("postgres:me:hunter2@host", true),
            ("postgres:/me:hunter2@host/x", true),
            ("redis::hunter2@host", true),
            ("redis://:hunter2@host", true),
            ("unix:/run/redis.sock?pass=hunter2", true),
            ("unix:///run/redis.sock?db=1", false),
            ("libsql://host?authToken=hunter2", true),
            ("postgres://host/x?passw%6Frd=hunter2", true),
            ("postgres://host/x?PASSWORD=hunter2", true),
            ("host=localhost password=hunter2", true),
            ("postgres://host/x?hunter2", false),
            ("postgres://host/x?hunter2=1", false),
        ] {
            let url = StoreUrl::recognize(url).unwrap();
            assert_eq!(url.has_password(), has_password, "{}", url.text);
            let identity = match url.text.contains("?hunter2") {
                true => String::new(),
                false => url.identity(&BTreeMap::new()),
            };
            let shown = format!(
                "{url:?} {} {identity} {:?}",
                url.location(),
                open(&url, &crate::OpenOptions::default()).err()
            );
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
