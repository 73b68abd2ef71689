//! The HTTP client, plain and guarded.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, Url, redirect};

use crate::error::{Error, ErrorKind};
use crate::guard::{AllowList, GuardedResolver, Refusal};
use crate::mask::masked;
use crate::proxy::proxies;

/// How the client behaves. The defaults suit the command line.
#[derive(Clone)]
pub struct HttpOptions {
    /// Where proxies are read from: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, in
    /// capitals or not. Nothing else in it is looked at.
    pub environment: BTreeMap<String, String>,
    /// How long a connection may take to come about. Default 10 s.
    pub connect_timeout: Duration,
    /// How long a server may be silent, before its answer or in the middle of it. Default 60 s.
    pub idle_timeout: Duration,
    /// How many redirects are followed. Default 10.
    pub redirects: usize,
    /// What the guarded client may reach although it is private: host names (`*.` in front for all
    /// names below one), addresses, networks such as `10.0.0.0/8`. Default none.
    pub allow: Vec<String>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            environment: BTreeMap::new(),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            redirects: 10,
            allow: Vec::new(),
        }
    }
}

impl fmt::Debug for HttpOptions {
    /// Without the environment, which holds secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions")
            .field("connect_timeout", &self.connect_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("redirects", &self.redirects)
            .field("allow", &self.allow)
            .finish_non_exhaustive()
    }
}

/// The HTTP client, for addresses that the user chose. Cheap to clone; clones share connections.
///
/// Making one costs nothing: certificates, proxies and the connection pool are set up by the first
/// request. Requests go over rustls with the platform's trusted certificates; the user agent is
/// `cachalot/<version>`; redirects carry no referrer, and no credentials to another host.
#[derive(Clone)]
pub struct HttpClient {
    shared: Arc<Shared>,
}

/// The client for addresses that a model or fetched content chose; made by [`HttpClient::guarded`].
///
/// It connects to no loopback, private, link-local, unique local, carrier-shared, multicast,
/// reserved or unspecified address, nor to one that translates to such an address, unless
/// [`HttpOptions::allow`] says so. Names are judged by what they resolve to, in the resolver of the
/// connection itself; each redirect is judged again. It uses no proxy, since a proxy resolves names
/// on its own.
#[derive(Clone)]
pub struct GuardedClient {
    shared: Arc<Shared>,
}

struct Shared {
    options: HttpOptions,
    allow: Arc<AllowList>,
    open: OnceLock<reqwest::Client>,
    guarded: OnceLock<reqwest::Client>,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpClient")
            .field(&self.shared.options)
            .finish()
    }
}

impl fmt::Debug for GuardedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GuardedClient")
            .field(&self.shared.options)
            .finish()
    }
}

impl HttpClient {
    /// A client that has not done anything yet.
    ///
    /// # Errors
    /// An entry of [`HttpOptions::allow`] that is neither a host nor a network.
    pub fn new(options: HttpOptions) -> Result<Self, Error> {
        let allow = Arc::new(AllowList::parse(&options.allow)?);
        let shared = Shared {
            options,
            allow,
            open: OnceLock::new(),
            guarded: OnceLock::new(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// The same client for addresses that a model or fetched content chose.
    #[must_use]
    pub fn guarded(&self) -> GuardedClient {
        GuardedClient {
            shared: Arc::clone(&self.shared),
        }
    }

    /// A request, to be completed and given to [`HttpClient::send`].
    ///
    /// # Errors
    /// `url` is not a valid `http(s)` URL, or the client cannot be set up (a proxy variable that
    /// makes no sense).
    pub fn request(&self, method: Method, url: &str) -> Result<RequestBuilder, Error> {
        Ok(self.client()?.request(method, web_url(url)?))
    }

    /// Sends a request and waits for the head of its answer, whatever its status; see
    /// [`success`](crate::success) and [`body`](crate::body) for the rest.
    ///
    /// # Errors
    /// The server cannot be reached, does not answer in time, or redirects too often.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let (client, request) = request.build_split();
        execute(&client, request).await
    }

    pub(crate) fn client(&self) -> Result<&reqwest::Client, Error> {
        self.shared.client(false)
    }
}

impl GuardedClient {
    /// A request, to be completed and given to [`GuardedClient::send`].
    ///
    /// # Errors
    /// `url` is not a valid `http(s)` URL, or its host is a private address ([`ErrorKind::Refused`]).
    pub fn request(&self, method: Method, url: &str) -> Result<RequestBuilder, Error> {
        let url = web_url(url)?;
        self.check(&url)?;
        Ok(self.shared.client(true)?.request(method, url))
    }

    /// Sends a request and waits for the head of its answer, whatever its status.
    ///
    /// # Errors
    /// As of [`HttpClient::send`]; and [`ErrorKind::Refused`] if the host, or one that it redirects
    /// to, is private.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        // Whatever client the builder came from, the guarded one sends.
        let (_, request) = request.build_split();
        if let Ok(request) = &request {
            self.check(request.url())?;
        }
        execute(self.shared.client(true)?, request).await
    }

    fn check(&self, url: &Url) -> Result<(), Error> {
        self.shared
            .allow
            .check_literal(url)
            .map_err(|refusal| refused(url.as_str(), &refusal))
    }
}

fn web_url(text: &str) -> Result<Url, Error> {
    let invalid = |what: String| {
        Error::new(
            ErrorKind::Invalid,
            format!("`{}` is not a valid URL: {what}", masked(text)),
        )
    };
    let url = Url::parse(text).map_err(|error| invalid(error.to_string()))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(invalid(format!(
            "expected http:// or https://, not `{other}`"
        ))),
    }
}

impl Shared {
    fn client(&self, guarded: bool) -> Result<&reqwest::Client, Error> {
        let cell = if guarded { &self.guarded } else { &self.open };
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        let client = self.build(guarded)?;
        Ok(cell.get_or_init(|| client))
    }

    fn build(&self, guarded: bool) -> Result<reqwest::Client, Error> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // The one choice this build has; another thread may have made it first.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        match self.settings(guarded)?.build() {
            Ok(client) => Ok(client),
            // A bare container has no certificates; plain HTTP must work there all the same.
            Err(_) => self
                .settings(guarded)?
                .tls_certs_only([])
                .build()
                .map_err(|error| {
                    Error::new(
                        ErrorKind::Unavailable,
                        format!("cannot set up the HTTP client: {}", deepest(&error)),
                    )
                    .because(error.without_url())
                }),
        }
    }

    fn settings(&self, guarded: bool) -> Result<reqwest::ClientBuilder, Error> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("cachalot/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.options.connect_timeout)
            .read_timeout(self.options.idle_timeout)
            .referer(false)
            // Proxies come from the passed environment only, never from the process's.
            .no_proxy();
        if guarded {
            builder = builder
                .dns_resolver(Arc::new(GuardedResolver(Arc::clone(&self.allow))))
                .redirect(guarded_redirects(
                    self.options.redirects,
                    Arc::clone(&self.allow),
                ));
        } else {
            builder = builder.redirect(redirect::Policy::limited(self.options.redirects));
            for proxy in proxies(&self.options.environment)? {
                builder = builder.proxy(proxy);
            }
        }
        Ok(builder)
    }
}

fn guarded_redirects(most: usize, allow: Arc<AllowList>) -> redirect::Policy {
    let limited = redirect::Policy::limited(most);
    redirect::Policy::custom(move |attempt| match allow.check_literal(attempt.url()) {
        Ok(()) => limited.redirect(attempt),
        Err(refusal) => attempt.error(refusal),
    })
}

async fn execute(
    client: &reqwest::Client,
    request: reqwest::Result<reqwest::Request>,
) -> Result<Response, Error> {
    let request = request.map_err(|error| {
        Error::new(
            ErrorKind::Invalid,
            format!("the request makes no sense: {}", deepest(&error)),
        )
        .because(error.without_url())
    })?;
    let url = request.url().to_string();
    client
        .execute(request)
        .await
        .map_err(|error| fault(&url, error))
}

/// What went wrong on the way to an answer, or in the middle of it.
pub(crate) fn fault(url: &str, error: reqwest::Error) -> Error {
    if let Some(refusal) = refusal_in(&error) {
        return refused(url, refusal);
    }
    let (kind, retry, message) = diagnosis(&masked(url), &error);
    Error::new(kind, message)
        .retrying(retry)
        .because(error.without_url())
}

fn diagnosis(shown: &str, error: &reqwest::Error) -> (ErrorKind, bool, String) {
    let reason = deepest(error);
    let (kind, retry, what, remedy) = if error.is_redirect() {
        (
            ErrorKind::Unavailable,
            false,
            "cannot follow the redirects of",
            "check the address",
        )
    } else if error.is_timeout() {
        (
            ErrorKind::Unavailable,
            true,
            "no answer in time from",
            "try again, or raise the timeout",
        )
    } else if error.is_connect() && reason.contains("certificate") {
        let remedy = "check its certificate and the ones that this machine trusts";
        (ErrorKind::Unavailable, false, "no trust in", remedy)
    } else if error.is_connect() {
        let remedy = "check the address, the network and the proxy";
        (ErrorKind::Unavailable, true, "cannot connect to", remedy)
    } else if error.is_builder() {
        (
            ErrorKind::Invalid,
            false,
            "cannot make a request to",
            "check the address and the headers",
        )
    } else {
        (
            ErrorKind::Unavailable,
            true,
            "broken exchange with",
            "try again",
        )
    };
    (kind, retry, format!("{what} `{shown}`: {reason}; {remedy}"))
}

fn refused(url: &str, refusal: &Refusal) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!(
            "refused to fetch `{}`: {refusal}; if that is meant, add the host or its network to the allowed hosts",
            masked(url)
        ),
    )
}

fn refusal_in(error: &reqwest::Error) -> Option<&Refusal> {
    let mut next = error.source();
    while let Some(cause) = next {
        if let Some(refusal) = cause.downcast_ref::<Refusal>() {
            return Some(refusal);
        }
        next = cause.source();
    }
    None
}

/// The text of the innermost cause: the outer ones say no more than "error sending request".
fn deepest(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    crate::mask::masked_text(&cause.to_string())
}
