//! The HTTP client, with and without the guard.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cachalot_core::causes::{cause_in, root_cause};
use parking_lot::Mutex;
use reqwest::{Method, Request, RequestBuilder, Response, Url, redirect};

use crate::error::{Error, ErrorKind};
use crate::guard::{AllowList, AllowedHosts, BlockedHost, ForeignRedirect, GuardedResolver};
use crate::mask::{masked, masked_text};
use crate::proxy::proxies;
use crate::redirect::{self as hop, RedirectCheck};
use crate::tunnel::{Connection, TunnelError, Tunnels};

/// Options of the HTTP client. The defaults suit the command line.
#[derive(Clone)]
pub struct HttpOptions {
    /// The source of the proxy variables: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, in upper or
    /// lower case. No other variables are read.
    pub environment: BTreeMap<String, String>,
    /// Timeout for establishing a connection. Default 10 s.
    pub connect_timeout: Duration,
    /// Timeout for silence of a server, before or during its response. Default 60 s.
    pub idle_timeout: Duration,
    /// Maximum number of redirects to follow. Default 10.
    pub redirects: usize,
    /// Private hosts that the guarded client may reach: host names (`*.` as a prefix matches all names
    /// below), addresses, networks such as `10.0.0.0/8`. Default none.
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
    /// Omits the environment, which contains secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions")
            .field("connect_timeout", &self.connect_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("redirects", &self.redirects)
            .field("allow", &self.allow)
            .finish_non_exhaustive()
    }
}

/// The HTTP client for URLs that the user chose. Cheap to clone; clones share connections.
///
/// Creating one is cheap: certificates, proxies and the connection pool are set up by the first request.
/// Requests use rustls with the platform's trusted certificates; the user agent is `cachalot/<version>`;
/// redirects send no referrer, and no credentials to another host.
///
/// The user chose only the first host. A redirect to another host goes through the guard (see
/// [`GuardedClient`]), and one from a private address to another host is refused, unless
/// [`HttpClient::redirecting_to`] names that host.
#[derive(Clone)]
pub struct HttpClient {
    shared: Arc<Shared>,
}

/// The client for URLs that a model or fetched content chose; created by [`HttpClient::guarded`].
///
/// It does not connect to loopback, private, link-local, unique local, carrier-shared, multicast, reserved or
/// unspecified addresses, nor to addresses that translate to such an address, unless [`HttpOptions::allow`]
/// permits it. Host names are checked by their addresses, in the resolver of the connection itself; each
/// redirect is checked again. A proxy of the environment is asked for a tunnel to the checked address,
/// because it would otherwise resolve the host name itself.
#[derive(Clone)]
pub struct GuardedClient {
    shared: Arc<Shared>,
    redirect_check: Option<RedirectCheck>,
}

/// Maximum number of derived clients that are kept for reuse; when it is reached, all are dropped.
const MAX_RESTRICTED_CLIENTS: usize = 64;

struct Shared {
    options: HttpOptions,
    allow: Arc<AllowList>,
    /// Hosts to which redirects may lead; `None` permits all.
    redirects_to: Option<AllowedHosts>,
    /// The client of [`HttpClient::for_library`], and of clients that follow no redirects.
    following: OnceLock<reqwest::Client>,
    /// The client for URLs that the user chose. Neither it nor `guarded` follows redirects by itself.
    open: OnceLock<reqwest::Client>,
    guarded: OnceLock<reqwest::Client>,
    /// Clients created by [`HttpClient::redirecting_to`] and [`HttpClient::allowing`].
    restricted: Mutex<Vec<HttpClient>>,
    /// Proxy tunnels of the guarded client.
    tunnels: Tunnels,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpClient")
            .field(&self.shared.options)
            .finish()
    }
}

impl HttpClient {
    /// Creates a client.
    ///
    /// # Errors
    /// An entry of [`HttpOptions::allow`] is neither a host nor a network.
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
            following: OnceLock::new(),
            open: OnceLock::new(),
            guarded: OnceLock::new(),
            restricted: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Returns a client with the same options that follows redirects to these hosts only. Clients for the
    /// same hosts share connections.
    #[must_use]
    pub fn redirecting_to(&self, hosts: &AllowedHosts) -> Self {
        let options = self.shared.options.clone();
        self.derived(options, Arc::clone(&self.shared.allow), Some(hosts.clone()))
    }

    /// Returns a client with the same options whose guarded variant may also reach these private hosts; see
    /// [`HttpOptions::allow`]. Clients for the same hosts share connections.
    ///
    /// # Errors
    /// An entry is neither a host nor a network.
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
        let mut kept = kept.lock();
        let same = |client: &&Self| {
            client.shared.redirects_to == redirects_to
                && client.shared.options.allow == options.allow
        };
        if let Some(known) = kept.iter().find(same) {
            return known.clone();
        }
        if kept.len() == MAX_RESTRICTED_CLIENTS {
            kept.clear();
        }
        let client = Self::with(options, allow, redirects_to);
        kept.push(client.clone());
        client
    }

    /// Returns the guarded variant of the client, for URLs that a model or fetched content chose.
    #[must_use]
    pub fn guarded(&self) -> GuardedClient {
        GuardedClient {
            shared: Arc::clone(&self.shared),
            redirect_check: None,
        }
    }

    /// Starts a request; the caller completes it and passes it to [`HttpClient::send`].
    ///
    /// # Errors
    /// `url` is not a valid `http(s)` URL, or the client cannot be set up (because of an invalid proxy
    /// variable).
    pub fn request(&self, method: Method, url: &str) -> Result<RequestBuilder, Error> {
        let url = web_url(url)?;
        Ok(self.shared.client(self.route())?.request(method, url))
    }

    /// Returns the mode of requests. A client that follows no redirects uses `Following`, whose underlying
    /// client reports a redirect as not followed.
    fn route(&self) -> RequestRoute {
        match self.shared.options.redirects {
            0 => RequestRoute::Following,
            _ => RequestRoute::Open,
        }
    }

    /// Sends a request and waits for the response headers, for any status; see [`success`](crate::success)
    /// and [`body`](crate::body) for the rest.
    ///
    /// # Errors
    /// The server is unreachable, does not respond in time, or redirects too often; [`ErrorKind::Refused`] if
    /// it redirects to a host to which the user did not send the request.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let (_, request) = request.build_split();
        match self.route() {
            RequestRoute::Following => {
                self.shared
                    .send_by(RequestRoute::Following, valid(request)?)
                    .await
            }
            route => self.shared.exchange(request, route, None).await,
        }
    }

    /// Returns a client for a library that sends its own requests to `url`. It follows redirects without the
    /// guard.
    ///
    /// # Errors
    /// The errors of [`HttpClient::request`].
    pub fn for_library(&self, url: &str) -> Result<reqwest::Client, Error> {
        web_url(url)?;
        self.client().cloned()
    }

    pub(crate) fn client(&self) -> Result<&reqwest::Client, Error> {
        self.shared.client(RequestRoute::Following)
    }
}

impl GuardedClient {
    /// Returns the same client with a judge, which is called before each redirect and may refuse it with a
    /// reason.
    #[must_use]
    pub fn with_redirect_check(self, redirect_check: RedirectCheck) -> Self {
        Self {
            redirect_check: Some(redirect_check),
            ..self
        }
    }

    /// Starts a request; the caller completes it and passes it to [`GuardedClient::send`].
    pub fn request(&self, method: Method, url: &str) -> Result<RequestBuilder, Error> {
        let url = web_url(url)?;
        self.shared.check(&url)?;
        Ok(self
            .shared
            .client(RequestRoute::Guarded)?
            .request(method, url))
    }

    /// Sends a request and waits for the response headers, for any status.
    ///
    /// # Errors
    /// The errors of [`HttpClient::send`]; also [`ErrorKind::Refused`] if the host, or one to which it
    /// redirects, is private, or the judge refuses a redirect.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        // The guarded client sends the request, even if another client created the builder.
        let (_, request) = request.build_split();
        let redirect_check = self.redirect_check.as_ref();
        self.shared
            .exchange(request, RequestRoute::Guarded, redirect_check)
            .await
    }

    /// Connects to the host and port of an `http(s)` URL; the caller speaks the protocol, TLS included.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if the host is private; the server, or a proxy on the way, is unreachable.
    pub async fn connect(&self, url: &Url) -> Result<Connection, Error> {
        let unreachable = |what: &str| {
            let message = format!("cannot connect to `{}`: {what}", masked(url.as_str()));
            Error::new(ErrorKind::Unavailable, message).retrying(true)
        };
        let connecting = self.shared.tunnels.connect(url);
        match tokio::time::timeout(self.shared.options.connect_timeout, connecting).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(TunnelError::Refused(refusal))) => Err(refused(url.as_str(), &refusal)),
            Ok(Err(TunnelError::Failed(what))) => Err(unreachable(&what)),
            Err(_) => Err(unreachable("no answer in time")),
        }
    }
}

/// The mode of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestRoute {
    /// To a URL that the user chose.
    Open,
    /// To a URL that a model or fetched content chose.
    Guarded,
    /// To a URL that the user chose, with redirects followed without the guard.
    Following,
}

/// The reason why a guarded request failed.
enum GuardedError {
    Refused(BlockedHost),
    Failed(Error),
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
    /// Sends a request and follows its redirects.
    async fn exchange(
        &self,
        request: reqwest::Result<Request>,
        route: RequestRoute,
        redirect_check: Option<&RedirectCheck>,
    ) -> Result<Response, Error> {
        let mut request = valid(request)?;
        let first = request.url().clone();
        let declined = |target: &Url, why: &str| {
            let message = format!(
                "refused to follow a redirect of `{}` to `{}`: {why}",
                masked(first.as_str()),
                masked(target.as_str())
            );
            Error::new(ErrorKind::Refused, message)
        };
        let mut is_guarded = route == RequestRoute::Guarded;
        if is_guarded {
            self.check(&first)?;
        }
        let mut private_origin = None;
        for _ in 0..=self.options.redirects {
            let again = hop::RequestCopy::from_request(&request);
            let url = request.url().clone();
            let answered = if is_guarded {
                self.send_guarded(request).await
            } else {
                let sent = self.send_by(RequestRoute::Open, request).await;
                sent.map_err(GuardedError::Failed)
            };
            let response = match answered {
                Ok(response) => response,
                Err(GuardedError::Failed(error)) => return Err(error),
                Err(GuardedError::Refused(refusal)) if route == RequestRoute::Guarded => {
                    return Err(refused(url.as_str(), &refusal));
                }
                Err(GuardedError::Refused(refusal)) => {
                    return Err(declined(&url, &format!("{refusal}; {REDIRECT_HINT}")));
                }
            };
            let Some(next) = again.redirected(&response) else {
                return Ok(response);
            };
            let target = next.url();
            if !matches!(target.scheme(), "http" | "https") {
                let what = format!("it leads to `{}:`", target.scheme());
                return Err(connection_lost(&first, &what));
            }
            if let Some(hosts) = &self.redirects_to
                && !hosts.allows(target)
            {
                let host = target.host_str().unwrap_or_default();
                return Err(foreign_redirect(
                    first.as_str(),
                    &ForeignRedirect(host.to_owned()),
                ));
            }
            if route == RequestRoute::Guarded {
                self.check(target)?;
            } else {
                let is_proxied = self.tunnels.proxy(&url).is_some();
                // A response to a guarded request came from an address that the guard permits.
                if !is_guarded && hop::is_private(&url, &response, is_proxied) {
                    private_origin = url.host_str().map(str::to_owned);
                }
                // The user may mean a private address. A host that only a server names goes through the guard.
                let is_chosen =
                    self.redirects_to.is_some() || target.host_str() == first.host_str();
                if let (false, Some(host)) = (is_chosen, &private_origin) {
                    let why = format!(
                        "`{host}` has a private address, and decides about no other host; {REDIRECT_HINT}"
                    );
                    return Err(declined(target, &why));
                }
                is_guarded = !is_chosen;
                if let (true, Err(refusal)) = (is_guarded, self.allow.check_literal(target)) {
                    return Err(declined(target, &format!("{refusal}; {REDIRECT_HINT}")));
                }
            }
            if let Some(Err(why)) = redirect_check.map(|redirect_check| redirect_check(target)) {
                return Err(declined(target, &why.message));
            }
            request = next;
        }
        Err(connection_lost(&first, "too many redirects"))
    }

    async fn send_by(&self, route: RequestRoute, request: Request) -> Result<Response, Error> {
        let url = request.url().to_string();
        let answered = self.client(route)?.execute(request).await;
        answered.map_err(|error| fault(&url, error))
    }

    async fn send_guarded(&self, request: Request) -> Result<Response, GuardedError> {
        let url = request.url().clone();
        let Some(proxy) = self.tunnels.proxy(&url) else {
            let client = self
                .client(RequestRoute::Guarded)
                .map_err(GuardedError::Failed)?;
            let answered = client.execute(request).await;
            return answered.map_err(|error| match cause_in::<BlockedHost>(&error) {
                Some(refusal) => GuardedError::Refused(refusal.clone()),
                None => GuardedError::Failed(fault(url.as_str(), error)),
            });
        };
        let unavailable = |what: &str| {
            let message = format!(
                "cannot fetch `{}` through the proxy: {what}",
                masked(url.as_str())
            );
            GuardedError::Failed(Error::new(ErrorKind::Unavailable, message).retrying(true))
        };
        // The client of a tunnel has no timeouts of its own.
        let limit = self.options.connect_timeout + self.options.idle_timeout;
        let sent = Box::pin(self.tunnels.send(request, &proxy));
        match tokio::time::timeout(limit, sent).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(TunnelError::Refused(refusal))) => Err(GuardedError::Refused(refusal)),
            Ok(Err(TunnelError::Failed(what))) => Err(unavailable(&what)),
            Err(_) => Err(unavailable("no answer in time")),
        }
    }

    fn check(&self, url: &Url) -> Result<(), Error> {
        self.allow
            .check_literal(url)
            .map_err(|refusal| refused(url.as_str(), &refusal))
    }

    fn client(&self, route: RequestRoute) -> Result<&reqwest::Client, Error> {
        let cell = match route {
            RequestRoute::Open => &self.open,
            RequestRoute::Guarded => &self.guarded,
            RequestRoute::Following => &self.following,
        };
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        let client = self.build(route)?;
        // Another thread may have built one at the same time.
        Ok(cell.get_or_init(|| client))
    }

    fn build(&self, route: RequestRoute) -> Result<reqwest::Client, Error> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // This build has only one provider; another thread may have installed it first.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        match self.settings(route)?.build() {
            Ok(client) => Ok(client),
            // A minimal container has no certificates, but plain HTTP must work there.
            Err(_) => self
                .settings(route)?
                .tls_certs_only([])
                .build()
                .map_err(|error| {
                    Error::new(
                        ErrorKind::Unavailable,
                        format!("cannot set up the HTTP client: {}", deepest(&error)),
                    )
                    .with_source(error.without_url())
                }),
        }
    }

    fn settings(&self, route: RequestRoute) -> Result<reqwest::ClientBuilder, Error> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("cachalot/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.options.connect_timeout)
            .read_timeout(self.options.idle_timeout)
            .referer(false)
            // Proxies come only from the given environment, never from that of the process.
            .no_proxy();
        builder = match route {
            RequestRoute::Following => builder.redirect(self.redirects()),
            RequestRoute::Open | RequestRoute::Guarded => {
                builder.redirect(redirect::Policy::none())
            }
        };
        // Without the proxies below, which would resolve the name themselves: `send_guarded` uses tunnels.
        if route == RequestRoute::Guarded {
            let resolver = GuardedResolver(Arc::clone(&self.allow));
            return Ok(builder.dns_resolver(Arc::new(resolver)));
        }
        for proxy in proxies(&self.options.environment)? {
            builder = builder.proxy(proxy);
        }
        Ok(builder)
    }

    /// The redirect policy for requests that a library sends.
    fn redirects(&self) -> redirect::Policy {
        let limited = redirect::Policy::limited(self.options.redirects);
        let hosts = self.redirects_to.clone();
        redirect::Policy::custom(move |attempt| {
            let url = attempt.url();
            if let Some(hosts) = &hosts
                && !hosts.allows(url)
            {
                let host = url.host_str().unwrap_or_default().to_owned();
                return attempt.error(ForeignRedirect(host));
            }
            limited.redirect(attempt)
        })
    }
}

/// The remedy in messages about a refused redirect.
const REDIRECT_HINT: &str =
    "if that is meant, request that address itself, or name its host in `allowed_hosts`";

fn valid(request: reqwest::Result<Request>) -> Result<Request, Error> {
    request.map_err(|error| {
        Error::new(
            ErrorKind::Invalid,
            format!("the request makes no sense: {}", deepest(&error)),
        )
        .with_source(error.without_url())
    })
}

fn connection_lost(url: &Url, what: &str) -> Error {
    let message = format!(
        "cannot follow the redirects of `{}`: {what}; check the address",
        masked(url.as_str())
    );
    Error::new(ErrorKind::Unavailable, message)
}

/// Converts an error before or during a response.
pub(crate) fn fault(url: &str, error: reqwest::Error) -> Error {
    if let Some(refusal) = cause_in::<BlockedHost>(&error) {
        return refused(url, refusal);
    }
    if let Some(host) = cause_in::<ForeignRedirect>(&error) {
        return foreign_redirect(url, host);
    }
    let (kind, retry, message) = describe_error(&masked(url), &error);
    Error::new(kind, message)
        .retrying(retry)
        .with_source(error.without_url())
}

fn describe_error(shown: &str, error: &reqwest::Error) -> (ErrorKind, bool, String) {
    use ErrorKind::{Invalid, Unavailable};
    let reason = deepest(error);
    let (kind, retry, what, remedy) = if error.is_redirect() {
        let what = "cannot follow the redirects of";
        (Unavailable, false, what, "check the address")
    } else if error.is_timeout() {
        let remedy = "try again, or raise the timeout";
        (Unavailable, true, "no answer in time from", remedy)
    } else if error.is_connect() && reason.contains("certificate") {
        let remedy = "check its certificate and the ones that this machine trusts";
        (Unavailable, false, "no trust in", remedy)
    } else if error.is_connect() {
        let remedy = "check the address, the network and the proxy";
        (Unavailable, true, "cannot connect to", remedy)
    } else if error.is_builder() {
        let remedy = "check the address and the headers";
        (Invalid, false, "cannot make a request to", remedy)
    } else {
        (Unavailable, true, "broken exchange with", "try again")
    };
    (kind, retry, format!("{what} `{shown}`: {reason}; {remedy}"))
}

fn foreign_redirect(url: &str, host: &ForeignRedirect) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!(
            "refused to follow a redirect of `{}`: {host}; if that is meant, add the host to `allowed_hosts`",
            masked(url)
        ),
    )
}

fn refused(url: &str, refusal: &BlockedHost) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!(
            "refused to fetch `{}`: {refusal}; if that is meant, allow the host or its network (`allow`)",
            masked(url)
        ),
    )
}

/// The text of the innermost cause; outer ones only contain "error sending request".
fn deepest(error: &reqwest::Error) -> String {
    masked_text(&root_cause(error))
}
