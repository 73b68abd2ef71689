//! Parsing of URIs.

use std::path::{Path, PathBuf};

use cachalot_core::suggest::nearest;
use reqwest::Url;

use crate::error::{Error, ErrorKind};
use crate::mask::masked;

/// The supported schemes.
const SCHEMES: [&str; 8] = ["file", "http", "https", "s3", "gs", "az", "abfs", "abfss"];

/// The resource that a URI names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Location {
    Local(PathBuf),
    Web(Url),
    Object(Object),
}

/// An object in a cloud store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) bucket: Bucket,
    /// The key as written in the URI; keys are not percent-encoded.
    pub(crate) key: String,
}

/// A bucket or container.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Bucket {
    pub(crate) cloud: Cloud,
    pub(crate) name: String,
    /// The storage account, if the URI names it: `abfss://container@account.dfs.core.windows.net`.
    pub(crate) account: Option<String>,
}

/// A kind of object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Cloud {
    S3,
    Google,
    Azure,
}

impl Location {
    /// Parses a URI; relative paths start at `directory`.
    pub(crate) fn parse(uri: &str, directory: &Path) -> Result<Self, Error> {
        if uri.is_empty() {
            return Err(invalid("an empty path names nothing; give a path or a URI"));
        }
        if uri.contains('\0') {
            return Err(invalid(format!(
                "`{}` holds a NUL character; remove it",
                uri.escape_debug()
            )));
        }
        let Some((scheme, rest)) = scheme_of(uri) else {
            return Ok(Self::Local(directory.join(uri)));
        };
        match scheme.as_str() {
            "file" => Ok(Self::Local(file_path(uri, rest)?)),
            "http" | "https" => web(uri),
            "s3" => object(uri, Cloud::S3, rest),
            "gs" => object(uri, Cloud::Google, rest),
            "az" | "abfs" | "abfss" => object(uri, Cloud::Azure, rest),
            _ => Err(unknown_scheme(uri, &scheme)),
        }
    }
}

/// Returns the scheme in lower case and the part after `://`; for `file`, the part after the colon. A single
/// letter is a Windows drive, not a scheme.
fn scheme_of(uri: &str) -> Option<(String, &str)> {
    let (scheme, rest) = uri.split_once(':')?;
    let mut letters = scheme.bytes();
    let well_formed = letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    // A single letter is a drive of Windows, as in `C:/x`.
    if !well_formed || scheme.len() < 2 {
        return None;
    }
    let scheme = scheme.to_ascii_lowercase();
    if scheme == "file" && rest.starts_with('/') {
        return Some((scheme, rest));
    }
    rest.strip_prefix("//").map(|rest| (scheme, rest))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

fn unknown_scheme(uri: &str, scheme: &str) -> Error {
    let near = nearest(scheme, SCHEMES)
        .map(|near| format!("; did you mean `{near}://`?"))
        .unwrap_or_default();
    Error::new(
        ErrorKind::UnknownScheme,
        format!(
            "unknown scheme `{scheme}` in `{}`: expected a path or one of {}{near}",
            masked(uri),
            SCHEMES.join(", ")
        ),
    )
}

fn web(uri: &str) -> Result<Location, Error> {
    Url::parse(uri)
        .map(Location::Web)
        .map_err(|error| invalid(format!("`{}` is not a valid URL: {error}", masked(uri))))
}

/// Parses the path of a `file:` URI. A general URL parser resolves `..` and converts backslashes, and would
/// then name another file.
fn file_path(uri: &str, rest: &str) -> Result<PathBuf, Error> {
    let encoded = match rest.strip_prefix("//") {
        Some(rest) => {
            let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
            if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                return Err(invalid(format!(
                    "`{uri}` names the host `{host}`; a file URI is about this machine: write `file:///{host}{path}` or a plain path"
                )));
            }
            path
        }
        None => rest,
    };
    if encoded.len() <= 1 {
        return Err(invalid(format!("`{uri}` names no file")));
    }
    if encoded.contains(['?', '#']) {
        return Err(invalid(format!(
            "`{uri}` has a query or a fragment, which files do not have; in a name, write `?` as `%3F` and `#` as `%23`"
        )));
    }
    let bytes = percent_decoded(encoded).ok_or_else(|| {
        invalid(format!("`{uri}` has a `%` that is not followed by two hex digits, or encodes NUL; write `%` as `%25`"))
    })?;
    path_from_bytes(bytes)
        .ok_or_else(|| invalid(format!("`{uri}` encodes a name that is no valid path here")))
}

fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'%' {
            let mut byte = [0_u8];
            hex::decode_to_slice(tail.get(..2)?, &mut byte).ok()?;
            if byte == [0] {
                return None;
            }
            decoded.push(byte[0]);
            rest = &tail[2..];
        } else {
            decoded.push(first);
            rest = tail;
        }
    }
    Some(decoded)
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps)] // Other platforms return `None` for invalid names.
fn path_from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

#[cfg(not(unix))]
fn path_from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
    let text = String::from_utf8(bytes).ok()?;
    // `file:///C:/x` is `C:/x`.
    let drive = text.as_bytes().get(2) == Some(&b':');
    Some(PathBuf::from(if drive { &text[1..] } else { &text }))
}

fn object(uri: &str, cloud: Cloud, rest: &str) -> Result<Location, Error> {
    let (authority, key) = rest.split_once('/').unwrap_or((rest, ""));
    let (name, account) = match (cloud, authority.split_once('@')) {
        (Cloud::Azure, Some((container, account))) => (container, Some(account.to_owned())),
        (_, Some(_)) => {
            return Err(invalid(format!(
                "`{}` has a user before the bucket; credentials come from the environment",
                masked(uri)
            )));
        }
        (_, None) => (authority, None),
    };
    if name.is_empty() {
        return Err(invalid(format!("`{}` names no bucket", masked(uri))));
    }
    if key.is_empty() || key.ends_with('/') {
        return Err(Error::new(
            ErrorKind::IsDirectory,
            format!(
                "`{}` is a bucket or a folder in one; name an object in it",
                masked(uri)
            ),
        ));
    }
    let bucket = Bucket {
        cloud,
        name: name.to_owned(),
        account,
    };
    Ok(Location::Object(Object {
        bucket,
        key: key.to_owned(),
    }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(uri: &str) -> Result<Location, Error> {
        Location::parse(uri, Path::new("/base"))
    }

    fn local(uri: &str) -> PathBuf {
        match parse(uri) {
            Ok(Location::Local(path)) => path,
            other => panic!("{uri}: {other:?}"),
        }
    }

    #[test]
    #[cfg(unix)]
    fn paths_are_used_unchanged() {
        for (uri, path) in [
            ("a/b.txt", "/base/a/b.txt"),
            ("/a/b.txt", "/a/b.txt"),
            ("./a/../b", "/base/./a/../b"),
            ("~/a", "/base/~/a"),
            ("a*b?[c].txt", "/base/a*b?[c].txt"),
            ("a%20b", "/base/a%20b"),
            ("C:/x", "/base/C:/x"),
            ("x://y", "/base/x://y"),
            ("file:relative", "/base/file:relative"),
            ("s3:bucket", "/base/s3:bucket"),
            ("1a://b", "/base/1a://b"),
            ("ä://b", "/base/ä://b"),
            (" ", "/base/ "),
        ] {
            assert_eq!(local(uri), Path::new(path), "{uri}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn file_uris_are_decoded_and_not_normalised() {
        for (uri, path) in [
            ("file:///a/b", "/a/b"),
            ("FILE:///a", "/a"),
            ("file:/a", "/a"),
            ("file://localhost/a", "/a"),
            ("file://LocalHost/a", "/a"),
            ("file:///a%20b%2525", "/a b%25"),
            ("file:///%C3%A9/\u{e9}", "/\u{e9}/\u{e9}"),
            ("file:///a/../b", "/a/../b"),
            ("file:///a\\b", "/a\\b"),
            ("file:///a%3Fb%23c", "/a?b#c"),
        ] {
            assert_eq!(local(uri), Path::new(path), "{uri}");
        }
    }

    #[test]
    fn invalid_uris_are_refused_with_the_reason() {
        for uri in [
            "",
            "a\0b",
            "file://",
            "file:///",
            "file://localhost",
            "file://server/share",
            "file:///a?b",
            "file:///a#b",
            "file:///a%2",
            "file:///a%zz",
            "file:///a%00",
            "http://",
            "https://host:port/",
            "s3:///key",
            "s3://user@bucket/key",
        ] {
            assert_eq!(parse(uri).unwrap_err().kind, ErrorKind::Invalid, "{uri:?}");
        }
        for uri in [
            "s3://bucket",
            "s3://bucket/",
            "gs://bucket/folder/",
            "az://box",
        ] {
            assert_eq!(
                parse(uri).unwrap_err().kind,
                ErrorKind::IsDirectory,
                "{uri}"
            );
        }
    }

    #[test]
    fn unknown_scheme_error_lists_the_known_ones() {
        let error = parse("htps://user:hunter2@host/a?token=t0ken").unwrap_err();
        assert_eq!(error.kind, ErrorKind::UnknownScheme);
        assert_eq!(
            error.message,
            "unknown scheme `htps` in `htps://[secret]@host/a?token=[secret]`: expected a path or one of file, http, https, s3, gs, az, abfs, abfss; did you mean `https://`?"
        );
        let error = parse("magnetic://x").unwrap_err();
        assert!(!error.message.contains("did you mean"), "{error}");
    }

    #[test]
    fn object_keys_are_kept_as_written() {
        for (uri, cloud, name, account, key) in [
            ("s3://b/a%20b c?d#e", Cloud::S3, "b", None, "a%20b c?d#e"),
            ("S3://B/k", Cloud::S3, "B", None, "k"),
            ("gs://b_1/x/y", Cloud::Google, "b_1", None, "x/y"),
            ("az://box/x", Cloud::Azure, "box", None, "x"),
            ("abfs://box/x", Cloud::Azure, "box", None, "x"),
            (
                "abfss://box@me.dfs.core.windows.net/x@y",
                Cloud::Azure,
                "box",
                Some("me.dfs.core.windows.net"),
                "x@y",
            ),
        ] {
            let bucket = Bucket {
                cloud,
                name: name.into(),
                account: account.map(str::to_owned),
            };
            let object = Object {
                bucket,
                key: key.into(),
            };
            assert_eq!(parse(uri).unwrap(), Location::Object(object), "{uri}");
        }
    }

    proptest! {
        #[test]
        #[cfg(unix)]
        fn percent_encoded_file_names_round_trip(name in proptest::collection::vec(1_u8.., 1..40)) {
            use std::os::unix::ffi::OsStrExt as _;
            let encoded: String = name.iter().map(|byte| format!("%{byte:02x}")).collect();
            let path = local(&format!("file:///x/{encoded}"));
            let mut expected = b"/x/".to_vec();
            expected.extend(&name);
            prop_assert_eq!(path.as_os_str().as_bytes(), expected);
        }

        #[test]
        fn arbitrary_text_does_not_panic(uri in "\\PC*") {
            let _ = parse(&uri);
            let _ = masked(&uri);
        }

        #[test]
        fn password_is_never_shown(
            scheme in "http|https|ftp|s3",
            password in "Q[a-z0-9/:@]{6,12}Z",
            host in "[a-z]{1,8}",
        ) {
            let uri = format!("{scheme}://user:{password}@{host}/file");
            prop_assert!(!masked(&uri).contains(&password), "{}", masked(&uri));
        }
    }
}
