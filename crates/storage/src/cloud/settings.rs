//! Configuration of S3 and Google Cloud Storage by the environment, with each cloud's usual variables.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};

/// Configures S3: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION` (overrides
/// `AWS_DEFAULT_REGION`), `AWS_ENDPOINT_URL_S3` (overrides `AWS_ENDPOINT_URL`), web identity and container
/// credentials, `AWS_VIRTUAL_HOSTED_STYLE_REQUEST` (the endpoint then names the bucket), `AWS_SKIP_SIGNATURE`
/// for public buckets.
pub(super) fn amazon(environment: &BTreeMap<String, String>) -> AmazonS3Builder {
    // Variables are applied in alphabetical order: `AWS_REGION` comes after `AWS_DEFAULT_REGION` and replaces
    // it.
    set(environment, "AWS_").fold(AmazonS3Builder::new(), |builder, (name, value)| {
        match name.to_ascii_lowercase().parse() {
            // We supply the HTTP client, so its settings do not apply.
            Err(_) | Ok(AmazonS3ConfigKey::Client(_)) => builder,
            Ok(key) => builder.with_config(key, value),
        }
    })
}

/// Configures Google Cloud Storage: `GOOGLE_APPLICATION_CREDENTIALS`, `GOOGLE_SERVICE_ACCOUNT` (a file),
/// `GOOGLE_SERVICE_ACCOUNT_KEY` (its content), `GOOGLE_BEARER_TOKEN`, the credentials that `gcloud auth
/// application-default login` has stored in the home directory, and `STORAGE_EMULATOR_HOST`.
pub(super) fn google(environment: &BTreeMap<String, String>) -> GoogleCloudStorageBuilder {
    let mut builder = GoogleCloudStorageBuilder::new();
    if let Some(path) = logged_in(environment) {
        builder = builder.with_application_credentials(path);
    }
    for (name, value) in set(environment, "GOOGLE_") {
        match name.to_ascii_lowercase().parse() {
            Err(_) | Ok(GoogleConfigKey::Client(_)) => {}
            Ok(key) => builder = builder.with_config(key, value),
        }
    }
    if let Some((_, host)) = set(environment, "STORAGE_EMULATOR_HOST").next() {
        let url = if host.contains("://") {
            host.to_owned()
        } else {
            format!("http://{host}")
        };
        builder = builder
            .with_base_url(url.trim_end_matches('/'))
            .with_bearer_token("emulator");
    }
    builder
}

/// Returns the path of the logged-in user's credentials file, if it exists.
fn logged_in(environment: &BTreeMap<String, String>) -> Option<String> {
    let (variable, below) = if cfg!(windows) {
        ("APPDATA", "gcloud")
    } else {
        ("HOME", ".config/gcloud")
    };
    let home = environment.get(variable).filter(|home| !home.is_empty())?;
    let path = Path::new(home)
        .join(below)
        .join("application_default_credentials.json");
    path.is_file().then(|| path.to_string_lossy().into_owned())
}

/// Returns the variables that begin with `prefix` and are not empty.
pub(super) fn set<'a>(
    environment: &'a BTreeMap<String, String>,
    prefix: &'a str,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    environment
        .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
        .take_while(move |(name, _)| name.starts_with(prefix))
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .filter(|(_, value)| !value.is_empty())
}

/// Returns values of the environment that must be masked if a store repeats them in an error.
pub(super) fn secrets(environment: &BTreeMap<String, String>) -> Vec<String> {
    const PARTS: [&str; 6] = [
        "KEY",
        "SECRET",
        "TOKEN",
        "PASSWORD",
        "SAS",
        "CONNECTION_STRING",
    ];
    let shortest = 8;
    ["AWS_", "AZURE_", "GOOGLE_"]
        .into_iter()
        .flat_map(|prefix| set(environment, prefix))
        .filter(|(name, value)| {
            value.len() >= shortest && PARTS.iter().any(|part| name.contains(part))
        })
        .map(|(_, value)| value.to_owned())
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn aws_variables_have_the_documented_precedence() {
        let builder = amazon(&environment(&[
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_SESSION_TOKEN", ""),
            ("AWS_DEFAULT_REGION", "eu-west-1"),
            ("AWS_REGION", "eu-central-1"),
            ("AWS_ENDPOINT_URL_S3", "http://localhost:9000"),
            ("AWS_PROFILE", "unused"),
        ]));
        let value = |key| builder.get_config_value(&key);
        assert_eq!(value(AmazonS3ConfigKey::AccessKeyId).as_deref(), Some("id"));
        assert_eq!(value(AmazonS3ConfigKey::Token), None);
        assert_eq!(
            value(AmazonS3ConfigKey::Region).as_deref(),
            Some("eu-central-1")
        );
        assert_eq!(
            value(AmazonS3ConfigKey::S3Endpoint).as_deref(),
            Some("http://localhost:9000")
        );
        let only = amazon(&environment(&[("AWS_DEFAULT_REGION", "eu-west-1")]));
        assert_eq!(
            only.get_config_value(&AmazonS3ConfigKey::Region).as_deref(),
            Some("eu-west-1")
        );
    }

    #[test]
    fn google_credentials_come_from_the_variable_or_the_login() {
        let home = tempfile::tempdir().unwrap();
        let home_text = home.path().to_str().unwrap();
        let file = |pairs: &[(&str, &str)]| {
            google(&environment(pairs)).get_config_value(&GoogleConfigKey::ApplicationCredentials)
        };
        assert_eq!(file(&[("HOME", home_text)]), None);
        let login = home.path().join(".config/gcloud");
        std::fs::create_dir_all(&login).unwrap();
        std::fs::write(login.join("application_default_credentials.json"), "{}").unwrap();
        if !cfg!(windows) {
            assert!(file(&[("HOME", home_text)]).unwrap().starts_with(home_text));
        }
        let both = [
            ("HOME", home_text),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/given.json"),
        ];
        assert_eq!(file(&both).as_deref(), Some("/given.json"));
    }

    #[test]
    fn secrets_are_the_credential_values() {
        let found = secrets(&environment(&[
            ("AWS_SECRET_ACCESS_KEY", "abcdefgh"),
            ("AWS_REGION", "eu-central-1"),
            ("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=x"),
            ("GOOGLE_BEARER_TOKEN", "short"),
            ("OTHER_TOKEN", "not-a-clouds"),
        ]));
        assert_eq!(found, ["abcdefgh", "sv=1&sig=x"]);
    }
}
