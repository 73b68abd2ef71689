//! Objects in cloud stores, with credentials from the given environment.

mod azure;
mod google_credentials;
mod settings;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::client::{ClientConfigKey, HttpConnector, HttpError};
use object_store::path::Path;
use object_store::{
    ClientOptions, GetOptions, GetResult, ObjectStore, ObjectStoreExt as _, PutMode, PutResult,
    RetryConfig, UpdateVersion,
};
use parking_lot::Mutex;

use cachalot_core::causes::cause_in;
use cachalot_core::secret::MASK;
use cachalot_core::text::{one_line, truncate};

use crate::error::{Error, ErrorKind};
use crate::http::{HttpClient, HttpOptions};
use crate::location::{Bucket, Cloud, Object};
use crate::mask::{masked, masked_text};
use crate::stat::Stat;
use crate::transfer::{read_limited, truncated};
use crate::version::{ObjectVersion, VersionRead};

pub use google_credentials::GoogleCredentials;

/// The cloud stores: one client per bucket, created when the bucket is first used.
pub(crate) struct Clouds {
    environment: BTreeMap<String, String>,
    connector: Connector,
    stores: Mutex<HashMap<Bucket, Arc<dyn ObjectStore>>>,
}

impl Clouds {
    pub(crate) fn new(environment: BTreeMap<String, String>, http: HttpClient) -> Self {
        Self {
            environment,
            connector: Connector(http),
            stores: Mutex::new(HashMap::new()),
        }
    }

    pub(crate) async fn stat(&self, uri: &str, object: &Object) -> Result<Stat, Error> {
        let found = self.get(uri, object, true).await?;
        Ok(Stat {
            size: found.meta.size,
            modified: Some(found.meta.last_modified.timestamp_millis()),
            etag: found.meta.e_tag,
        })
    }

    /// Returns the size of an object and its bytes.
    pub(crate) async fn open(
        &self,
        uri: &str,
        object: &Object,
    ) -> Result<(u64, BoxStream<'static, Result<Bytes, Error>>), Error> {
        let found = self.get(uri, object, false).await?;
        let size = found.meta.size;
        let complaint = self.context(uri, object);
        let state = (found.into_stream(), 0_u64, complaint);
        let stream = stream::try_unfold(state, move |(mut chunks, seen, complaint)| async move {
            match chunks.try_next().await {
                Ok(Some(chunk)) => {
                    let seen = seen + chunk.len() as u64;
                    Ok(Some((chunk, (chunks, seen, complaint))))
                }
                Ok(None) if seen < size => Err(truncated(&complaint.uri, seen, size)),
                Ok(None) => Ok(None),
                Err(error) => Err(complaint.about(&error)),
            }
        });
        Ok((size, stream.boxed()))
    }

    async fn get(&self, uri: &str, object: &Object, head: bool) -> Result<GetResult, Error> {
        let options = GetOptions {
            head,
            ..GetOptions::default()
        };
        let (store, path) = self.open_object(uri, object)?;
        let found = store.get_opts(&path, options).await;
        found.map_err(|error| self.context(uri, object).about(&error))
    }

    /// See [`crate::Storage::read_version`].
    pub(crate) async fn read_version(
        &self,
        uri: &str,
        object: &Object,
        known: Option<&ObjectVersion>,
        max_bytes: u64,
    ) -> Result<VersionRead, Error> {
        let options = GetOptions {
            if_none_match: known.and_then(|known| known.0.e_tag.clone()),
            ..GetOptions::default()
        };
        let (store, path) = self.open_object(uri, object)?;
        let found = match store.get_opts(&path, options).await {
            Ok(found) => found,
            Err(object_store::Error::NotModified { .. }) => return Ok(VersionRead::Unchanged),
            Err(object_store::Error::NotFound { .. }) => return Ok(VersionRead::Absent),
            Err(error) => return Err(self.context(uri, object).about(&error)),
        };
        let version = ObjectVersion(UpdateVersion {
            e_tag: found.meta.e_tag.clone(),
            version: found.meta.version.clone(),
        });
        let size = found.meta.size;
        let context = self.context(uri, object);
        let chunks = found.into_stream();
        let chunks = chunks.map_err(move |error| context.about(&error));
        let bytes = read_limited(&masked(uri), Some(size), chunks.boxed(), max_bytes).await?;
        if bytes.len() as u64 == size {
            Ok(VersionRead::Found(bytes, version))
        } else {
            Err(truncated(uri, bytes.len() as u64, size))
        }
    }

    /// See [`crate::Storage::write_version`].
    pub(crate) async fn write_version(
        &self,
        uri: &str,
        object: &Object,
        bytes: Bytes,
        expected: Option<&ObjectVersion>,
    ) -> Result<Option<ObjectVersion>, Error> {
        let mode = match expected {
            Some(version) => PutMode::Update(version.0.clone()),
            None => PutMode::Create,
        };
        let (store, path) = self.open_object(uri, object)?;
        match store.put_opts(&path, bytes.into(), mode.into()).await {
            Ok(PutResult { e_tag, version, .. }) => {
                Ok(Some(ObjectVersion(UpdateVersion { e_tag, version })))
            }
            Err(
                object_store::Error::Precondition { .. }
                | object_store::Error::AlreadyExists { .. },
            ) => Ok(None),
            // The object was deleted.
            Err(object_store::Error::NotFound { .. }) if expected.is_some() => Ok(None),
            Err(error) => Err(self.context(uri, object).about(&error)),
        }
    }

    /// See [`crate::Storage::write`].
    pub(crate) async fn write(
        &self,
        uri: &str,
        object: &Object,
        bytes: Bytes,
    ) -> Result<(), Error> {
        let (store, path) = self.open_object(uri, object)?;
        let written = store.put(&path, bytes.into()).await.map(drop);
        written.map_err(|error| self.context(uri, object).about(&error))
    }

    /// See [`crate::Storage::delete`].
    pub(crate) async fn delete(&self, uri: &str, object: &Object) -> Result<(), Error> {
        let (store, path) = self.open_object(uri, object)?;
        match store.delete(&path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.context(uri, object).about(&error)),
        }
    }

    fn open_object(
        &self,
        uri: &str,
        object: &Object,
    ) -> Result<(Arc<dyn ObjectStore>, Path), Error> {
        let path = Path::parse(&object.key).map_err(|error| {
            Error::new(
                ErrorKind::Invalid,
                format!("`{}` is not a key that can be read: {error}", masked(uri)),
            )
        })?;
        let store = self.store(&object.bucket);
        let store = store.map_err(|error| self.context(uri, object).about(&error))?;
        Ok((store, path))
    }

    fn context(&self, uri: &str, object: &Object) -> ErrorContext {
        ErrorContext {
            uri: uri.to_owned(),
            cloud: object.bucket.cloud,
            secrets: settings::secrets(&self.environment),
        }
    }

    fn store(&self, bucket: &Bucket) -> object_store::Result<Arc<dyn ObjectStore>> {
        let mut stores = self.stores.lock();
        if let Some(store) = stores.get(bucket) {
            return Ok(Arc::clone(store));
        }
        let retry = retries();
        let (connector, environment) = (self.connector.clone(), &self.environment);
        let store: Arc<dyn ObjectStore> = match bucket.cloud {
            Cloud::S3 => Arc::new(
                settings::amazon(environment)
                    .with_bucket_name(&bucket.name)
                    .with_retry(retry)
                    .with_http_connector(connector)
                    .build()?,
            ),
            Cloud::Google => Arc::new(
                settings::google(environment)
                    .with_bucket_name(&bucket.name)
                    .with_retry(retry)
                    .with_http_connector(connector)
                    .build()?,
            ),
            Cloud::Azure => Arc::new(
                azure::settings(environment, bucket)
                    .with_retry(retry)
                    .with_http_connector(connector)
                    .build()?,
            ),
        };
        stores.insert(bucket.clone(), Arc::clone(&store));
        Ok(store)
    }
}

/// How often, and for how long, a request is repeated that failed.
fn retries() -> RetryConfig {
    RetryConfig {
        max_retries: 3,
        retry_timeout: Duration::from_secs(30),
        ..RetryConfig::default()
    }
}

/// Supplies the HTTP client for cloud stores. For credential requests to the metadata service of the local
/// machine, it supplies a client with short timeouts, because most machines have no such service.
#[derive(Clone)]
struct Connector(HttpClient);

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl HttpConnector for Connector {
    fn connect(
        &self,
        options: &ClientOptions,
    ) -> object_store::Result<object_store::client::HttpClient> {
        let usual = ClientOptions::default().get_config_value(&ClientConfigKey::ConnectTimeout);
        let client = if options.get_config_value(&ClientConfigKey::ConnectTimeout) == usual {
            self.0.client().cloned()
        } else {
            let impatient = HttpOptions {
                connect_timeout: Duration::from_secs(1),
                idle_timeout: Duration::from_secs(5),
                redirects: 0,
                ..HttpOptions::default()
            };
            HttpClient::new(impatient).and_then(|client| client.client().cloned())
        };
        client
            .map(object_store::client::HttpClient::new)
            .map_err(|error| object_store::Error::Generic {
                store: "HTTP",
                source: Box::new(error),
            })
    }
}

/// Converts errors of a store to [`Error`], without credentials.
struct ErrorContext {
    uri: String,
    cloud: Cloud,
    secrets: Vec<String>,
}

impl ErrorContext {
    fn about(&self, error: &object_store::Error) -> Error {
        use object_store::Error as Fault;
        let uri = masked(&self.uri);
        match error {
            Fault::NotFound { .. } => Error::new(
                ErrorKind::NotFound,
                format!("no such object: `{uri}`; check the bucket and the key (case matters)"),
            )
            .with_status(404),
            Fault::PermissionDenied { .. } | Fault::Unauthenticated { .. } => Error::new(
                ErrorKind::Denied,
                format!(
                    "no permission to read `{uri}`: {}; {}",
                    self.reason(error),
                    self.remedy()
                ),
            ),
            Fault::InvalidPath { .. } | Fault::UnknownConfigurationKey { .. } => Error::new(
                ErrorKind::Invalid,
                format!("cannot read `{uri}`: {}", self.reason(error)),
            ),
            _ => self.general(error),
        }
    }

    /// Converts errors without a variant of their own: of the network, of the server, or of invalid settings.
    fn general(&self, error: &object_store::Error) -> Error {
        let uri = masked(&self.uri);
        let reason = self.reason(error);
        // The metadata service is the last source of credentials: an error that names it means that there are no
        // others.
        if ["169.254.169.254", "metadata.google.internal"]
            .iter()
            .any(|host| reason.contains(host))
        {
            return Error::new(
                ErrorKind::Denied,
                format!(
                    "no credentials for `{uri}`, and this machine has none of its own; {}",
                    self.remedy()
                ),
            );
        }
        // The error of our HTTP client, which a store passed through.
        if let Some(error) = cause_in::<Error>(error) {
            return error.clone();
        }
        // The credentials of a session, whose time is over: S3 has no status of its own for it.
        if reason.contains("<Code>ExpiredToken</Code>") {
            return Error::new(
                ErrorKind::Denied,
                format!("the session has expired: `{uri}`; {}", self.remedy()),
            );
        }
        let kind = cause_in(error).map(HttpError::kind);
        let failing = ["status code: 5", "status code: 429"]
            .iter()
            .any(|text| reason.contains(text));
        if kind.is_none() && !failing {
            return Error::new(
                ErrorKind::Invalid,
                format!("cannot read `{uri}`: {reason}; {}", self.remedy()),
            );
        }
        Error::new(
            ErrorKind::Unavailable,
            format!("cannot read `{uri}`: {reason}; try again"),
        )
        .retrying(true)
    }

    fn remedy(&self) -> &'static str {
        match self.cloud {
            Cloud::S3 => {
                "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION and AWS_ENDPOINT_URL_S3"
            }
            Cloud::Google => "check GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT_KEY",
            Cloud::Azure => {
                "check AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN"
            }
        }
    }

    /// The text of an error on one line, without credentials.
    fn reason(&self, error: &object_store::Error) -> String {
        // Masked before it is cut: a part of a secret would not be recognized.
        let mut text = masked_text(&one_line(&error.to_string()));
        for secret in &self.secrets {
            text = text.replace(secret.as_str(), MASK);
        }
        const MAX_REASON_CHARS: usize = 400;
        truncate(&text, MAX_REASON_CHARS).into_owned()
    }
}
