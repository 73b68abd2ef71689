//! HTTP gateway: answers requests of other clients from the cache, or passes them on to their provider.
//!
//! A client changes only its base URL. A request travels through these modules, in this order:
//!
//! | module | work |
//! |---|---|
//! | [`server`] | accepts connections, limits them, ends them |
//! | `settings` | the client of a request by its key, and the upstreams that may answer |
//! | `command` | the secret path and the recording of `cachalot exec` |
//! | `route` | finds the API and the endpoint of a request |
//! | `endpoint` | may the answer to a request be stored? |
//! | `control` | reads the client's cache directives |
//! | `client_profile`, `run_body` | what differs between two runs of a client, and is left out of the key |
//! | `call` | the cache key: tenant, upstream, path, headers, body |
//! | `handler` | composes the steps: passes on, or asks upstreams in turn |
//! | `attempt` | asks the engine for the answer of one upstream |
//! | `pass` | passes a request on whose answer is not stored |
//! | `run` | runs a call of the engine: forwards, records, judges the answer |
//! | `injection` | adds members to the body, if the operator wants that |
//! | `prefix_watch` | looks for prefix breaks, after the answer |
//! | `delivery` | follows whether the client gets the whole answer; `retries` and `ordinals` use it for sampled answers |
//! | `answer_form` | the form that a request asks for; a stored answer is converted to it |
//! | `replay` | responds from the engine's answers, as leader, as follower or from an entry |
//! | `readiness`, `store_metrics` | the state of the store, for `/readyz` and `/metrics` |
//! | `telemetry` | spans of requests; `exporter` sends them to a collector |
//!
//! Bytes of answers are not changed, unless a stored answer is asked for in another form, and bytes of requests only by
//! `injection`, which is off by default. Keys, single-flight and stored answers are those of the engine
//! ([`cachalot_cache`]).

mod admin;
mod answer;
mod answer_form;
mod api;
mod attempt;
mod billing;
mod body;
mod body_index;
mod body_threads;
mod breaker;
mod budget;
mod cache_status;
mod call;
mod call_ids;
mod checksum;
mod client;
mod client_profile;
mod client_setup;
mod coding;
mod cold_prefix;
mod collector;
mod command;
mod config;
mod control;
mod credentials;
mod delivery;
mod endpoint;
mod error_body;
mod exporter;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handler;
mod header;
mod injection;
mod keep_alive;
mod kept_answers;
mod key_body;
mod key_request;
mod key_text;
mod limits;
mod metrics;
mod ordinals;
mod outbound;
mod owed_counts;
mod parsed_body;
mod pass;
mod payer;
mod payments;
mod pieces;
mod prefix_watch;
mod price_bound;
mod proxy_connector;
mod rate;
mod readiness;
mod recorded;
mod renewal;
mod renewal_notice;
mod replay;
mod report;
mod request_api;
mod request_body;
mod retries;
mod route;
mod run;
mod run_body;
mod seen_counts;
pub mod server;
mod settings;
mod shared;
mod store_metrics;
mod telemetry;
mod text_pattern;
mod tunnel;
mod upstream;
mod usage_filter;
mod virtual_key;

pub use client_profile::varying_texts;
pub use client_setup::{
    BaseUrl, ClientKey, ClientSettings, ClientSetup, ClientTable, CopiedFile, Folder, GatewayUrls,
    RecognizedClient, ReplacedBaseUrl,
};
pub use command::CommandRun;
pub use config::{AdminConfig, Config, MIN_KEEP_ALIVE, TlsFiles, keys};
pub use limits::Limits;
pub use payments::{ModelPayments, Payments};
pub use readiness::DigestKeyCheck;
pub use report::RequestReport;
pub use server::{Gateway, GatewayOptions, RunningGateway};
pub use settings::Settings;
pub use store_metrics::StoreMetrics;
pub use upstream::{Upstream, UpstreamError};
pub use virtual_key::NewKey;
