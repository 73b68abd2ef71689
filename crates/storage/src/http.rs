//! The HTTP client, plain and guarded.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, Url, redirect};

use crate::error::{Error, ErrorKind};
use crate::guard::{AllowList, AllowedHosts, Elsewhere, GuardedResolver, Refusal};
use crate::mask::masked;
use crate::proxy::proxies;
use crate::tunnel::{self, Broken, Tunnels};

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
/// connection itself; each redirect is judged again. A proxy of the environment is asked for a tunnel
/// to the address that was checked, since it would resolve a name on its own.
#[derive(Clone)]
pub struct GuardedClient {
    shared: Arc<Shared>,
}

/// Derived clients that are kept for reuse. With more, all are made anew.
const MOST_RESTRICTED: usize = 64;

struct Shared {
    options: HttpOptions,
    allow: Arc<AllowList>,
    /// The hosts that redirects may lead to; `None`: any.
    redirects_to: Option<AllowedHosts>,
    open: OnceLock<reqwest::Client>,
    guarded: OnceLock<reqwest::Client>,
    /// Of [`HttpClient::redirecting_to`] and [`HttpClient::allowing`].
    restricted: Mutex<Vec<HttpClient>>,
    /// Of the guarded client.
    tunnels: Tunnels,
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
        Ok(Self::with(options, allow, None))
    }

    fn with(
        options: HttpOptions,
        allow: Arc<AllowList>,
        redirects_to: Option<AllowedHosts>,
    ) -> Self {
        let shared = Shared {
            tunnels: Tunnels::new(&options.environment, Arc::clone(&allow)),
            options,
            allow,
            redirects_to,
            open: OnceLock::new(),
            guarded: OnceLock::new(),
            restricted: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// A client with the same options that follows redirects to these hosts only. Clients for the
    /// same hosts share connections.
    #[must_use]
    pub fn redirecting_to(&self, hosts: &AllowedHosts) -> Self {
        let options = self.shared.options.clone();
        self.derived(options, Arc::clone(&self.shared.allow), Some(hosts.clone()))
    }

    /// A client with the same options whose guarded half may also reach these private hosts; see
    /// [`HttpOptions::allow`]. Clients for the same hosts share connections.
    ///
    /// # Errors
    /// An entry that is neither a host nor a network.
    pub fn allowing(&self, hosts: &[String]) -> Result<Self, Error> {
        let mut options = self.shared.options.clone();
        options.allow.extend(hosts.iter().cloned());
        let allow = Arc::new(AllowList::parse(&options.allow)?);
        Ok(self.derived(options, allow, self.shared.redirects_to.clone()))
    }

    fn derived(
        &self,
        options: HttpOptions,
        allow: Arc<AllowList>,
        redirects_to: Option<AllowedHosts>,
    ) -> Self {
        let kept = &self.shared.restricted;
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |client: &&Self| {
            client.shared.redirects_to == redirects_to
                && client.shared.options.allow == options.allow
        };
        if let Some(known) = kept.iter().find(same) {
            return known.clone();
        }
        if kept.len() == MOST_RESTRICTED {
            kept.clear();
        }
        let client = Self::with(options, allow, redirects_to);
        kept.push(client.clone());
        client
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
        let client = self.shared.client(true)?;
        match request {
            Ok(request) if self.shared.tunnels.proxy(request.url()).is_some() => {
                Box::pin(self.send_through_proxy(client, request)).await
            }
            request => execute(client, request).await,
        }
    }

    async fn send_through_proxy(
        &self,
        client: &reqwest::Client,
        mut request: reqwest::Request,
    ) -> Result<Response, Error> {
        let first = request.url().to_string();
        let unavailable = |url: &Url, what: &str, retry: bool| {
            let message = format!(
                "cannot fetch `{}` through the proxy: {what}",
                masked(url.as_str())
            );
            Error::new(ErrorKind::Unavailable, message).retrying(retry)
        };
        let options = &self.shared.options;
        let limit = options.connect_timeout + options.idle_timeout;
        for _ in 0..=options.redirects {
            let url = request.url().clone();
            let Some(proxy) = self.shared.tunnels.proxy(&url) else {
                return execute(client, Ok(request)).await;
            };
            let base = request.try_clone();
            let sent = self.shared.tunnels.send(request, &proxy);
            let response = match tokio::time::timeout(limit, sent).await {
                Ok(Ok(response)) => response,
                Ok(Err(Broken::Refused(refusal))) => return Err(refused(url.as_str(), &refusal)),
                Ok(Err(Broken::Failed(what))) => return Err(unavailable(&url, &what, true)),
                Err(_) => return Err(unavailable(&url, "no answer in time", true)),
            };
            let next = base.and_then(|base| tunnel::redirected(&base, &response));
            let Some(next) = next else {
                return Ok(response);
            };
            web_url(next.url().as_str())?;
            if let Some(hosts) = &self.shared.redirects_to
                && !hosts.allows(next.url())
            {
                let host = next.url().host_str().unwrap_or_default();
                return Err(elsewhere(&first, &Elsewhere(host.to_owned())));
            }
            self.check(next.url())?;
            request = next;
        }
        Err(unavailable(request.url(), "too many redirects", false))
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
                .redirect(self.redirects(Some(Arc::clone(&self.allow))));
        } else {
            builder = builder.redirect(self.redirects(None));
            for proxy in proxies(&self.options.environment)? {
                builder = builder.proxy(proxy);
            }
        }
        Ok(builder)
    }

    /// Which redirects are followed; with `guard`, not those to private addresses.
    fn redirects(&self, guard: Option<Arc<AllowList>>) -> redirect::Policy {
        let limited = redirect::Policy::limited(self.options.redirects);
        let hosts = self.redirects_to.clone();
        redirect::Policy::custom(move |attempt| {
            let url = attempt.url();
            if let Some(hosts) = &hosts
                && !hosts.allows(url)
            {
                let host = url.host_str().unwrap_or_default().to_owned();
                return attempt.error(Elsewhere(host));
            }
            match guard.as_ref().map(|guard| guard.check_literal(url)) {
                Some(Err(refusal)) => attempt.error(refusal),
                Some(Ok(())) | None => limited.redirect(attempt),
            }
        })
    }
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
    if let Some(refusal) = cause_in::<Refusal>(&error) {
        return refused(url, refusal);
    }
    if let Some(host) = cause_in::<Elsewhere>(&error) {
        return elsewhere(url, host);
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

fn elsewhere(url: &str, host: &Elsewhere) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!(
            "refused to follow a redirect of `{}`: {host}; if that is meant, add the host to `allowed_hosts`",
            masked(url)
        ),
    )
}

fn refused(url: &str, refusal: &Refusal) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!(
            "refused to fetch `{}`: {refusal}; if that is meant, allow the host or its network (`allow`)",
            masked(url)
        ),
    )
}

fn cause_in<T: std::error::Error + 'static>(error: &reqwest::Error) -> Option<&T> {
    let mut next = error.source();
    while let Some(cause) = next {
        if let Some(found) = cause.downcast_ref::<T>() {
            return Some(found);
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
