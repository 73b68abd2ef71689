//! Entry points of the fuzz targets: the parsers of bytes of clients, upstreams and stores.

use cachalot_core::config::Word as _;
use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::{Canonical, DigestKey, SecretSet};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use serde_json::Value;

use crate::answer::AnswerReader;
use crate::answer_form::AnswerForm;
use crate::call::{self, CallIdentity, CallParts, Sample};
use crate::client_profile::Clients;
use crate::control::Controls;
use crate::credentials::Credentials;
use crate::endpoint::{Cacheability, Endpoint, Setting};
use crate::parsed_body::ParsedBody;
use crate::pieces::{PieceIndex, Split};
use crate::recorded::{FirstChunk, Recorded, RecordedHead, encode_entry};
use crate::replay::{self, Pace};
use crate::request_api::{self, Target};
use crate::route;
use crate::run_body::RunRequest;
use crate::upstream::Upstream;

/// The judgment of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgment {
    /// Target at the upstream, without its scheme and authority; `None` if it has no valid form.
    pub target: Option<String>,
    /// The query that is sent with a credential of the operator.
    pub query_without_credentials: Option<String>,
    /// True if the target is one of the upstream's own server.
    pub is_own_server: bool,
    /// True if no credential is left that the decision removes.
    pub is_without_others: bool,
    /// `repeatable`, `sampled`, `run` or `never`.
    pub cacheability: &'static str,
    /// The key; `None` if the body has no canonical form.
    pub key: Option<String>,
    /// The cache directives, or the message of the refusal.
    pub controls: String,
}

/// Judges a request; `None` if it has no route.
#[must_use]
pub fn judge(method: &Method, target: &Uri, headers: &HeaderMap, body: &[u8]) -> Option<Judgment> {
    let route = route::find(method, target.path(), headers).ok()?;
    let name = route.named.as_deref().unwrap_or(route.api.word());
    let upstreams = Upstream::built_in();
    let upstream = upstreams.iter().find(|upstream| upstream.name() == name)?;
    let document: Value = serde_json::from_slice(body).unwrap_or_default();
    let query = target.query();
    let form = AnswerForm::of_request(route.endpoint, &route.path, query, &document);
    let client = Clients::built_in()
        .of_request(headers, route.agent.as_deref(), None)
        .ok()?;
    let client = client.map(AsRef::as_ref);
    let text = Bytes::copy_from_slice(body);
    let parsed = ParsedBody::of(route.endpoint, &text, Arc::default());
    let run_body = RunRequest::new(&text, &parsed, client, route.agent.is_some()).body();
    let numbered_calls = run_body
        .as_ref()
        .map_or(0, |run_body| run_body.numbered_calls.len());
    let canonical = match &parsed.canonical {
        Ok(canonical) => Some(run_body.map_or_else(|| canonical.clone(), |run_body| run_body.body)),
        Err(_) => None,
    };
    let base = upstream.base();
    let key = canonical.map(|canonical| {
        let parts = CallParts {
            endpoint: route.endpoint,
            upstream: &base,
            path: &route.path,
            query,
            headers,
            body: &canonical,
            client,
            numbered_calls,
            form,
            agent: route.agent.as_deref(),
            tenant: None,
        };
        let digest_key = DigestKey::new([7; 32]);
        let identity = CallIdentity::new(&parts, Sample::Any, &digest_key, &SecretSet::empty());
        identity.key().to_string()
    });
    let uri = upstream.uri(route.api, &route.path, query).ok();
    let credentials = Credentials::read(headers, query);
    let all: Vec<Arc<Upstream>> = upstreams.iter().cloned().map(Arc::new).collect();
    let place = Target {
        method,
        named: route.named.as_deref(),
        path: &route.path,
    };
    let decision = request_api::decide(place, &credentials, &all, |_| true);
    let is_without_others = decision.map_or(true, |decision| {
        let mut request = Request::new(());
        *request.uri_mut() = target.clone();
        *request.headers_mut() = headers.clone();
        decision.remove_others(&mut request);
        let left = Credentials::read(request.headers(), request.uri().query());
        decision.has_removed_all_of(&left)
    });
    let _ = route.endpoint.model(&route.path, &document);
    let object_reference = || {
        route
            .endpoint
            .object_reference(&document, Setting::Anywhere)
    };
    Some(Judgment {
        is_own_server: uri.as_ref().is_none_or(|uri| {
            let authority = uri.authority().map(http::uri::Authority::as_str);
            authority == Some(upstream.authority())
        }),
        target: uri.and_then(|uri| Some(uri.path_and_query()?.to_string())),
        query_without_credentials: call::without_credentials(query),
        is_without_others,
        cacheability: match route.endpoint.judge(&document, &[], object_reference) {
            Cacheability::Repeatable { .. } => "repeatable",
            Cacheability::Sampled => "sampled",
            Cacheability::InRun(_) => "run",
            Cacheability::Never(_) => "never",
        },
        key,
        controls: match Controls::read(headers) {
            Ok(controls) => format!("{controls:?}"),
            Err(refusal) => refusal.message,
        },
    })
}

/// Parses the bodies of one client one after the other; `0xff`, which is part of no text, separates them. Returns what is
/// known of each by its pieces, and by its whole text.
#[must_use]
pub fn pieces(api: u8, bodies: &[u8]) -> Vec<[String; 2]> {
    let (endpoint, index) = (endpoint(api), PieceIndex::default());
    let shown = |parsed: &ParsedBody| {
        let canonical = parsed.canonical.as_ref().map(|canonical| {
            let order = canonical.order.as_ref().map(Canonical::digest);
            (canonical.value.digest(), order)
        });
        let judged = (&parsed.cacheability, parsed.object_reference());
        let price = (parsed.extra_charge(), parsed.has_media());
        let long = endpoint.writes_for_12h(parsed.priced());
        let members = (&parsed.form_members, parsed.beginning());
        format!("{canonical:?} {judged:?} {price:?} {long:?} {members:?}")
    };
    let parsed = bodies.split(|byte| *byte == 0xff).filter_map(|body| {
        let text = Bytes::copy_from_slice(body);
        let split = Split::read(&text, &index.recent("client", endpoint))?;
        let pieces = ParsedBody::of_pieces(endpoint, &split, &Arc::default(), true)?;
        index.keep("client", endpoint, &pieces.pieces.as_ref()?.body);
        let whole = ParsedBody::of(endpoint, &text, Arc::default());
        Some([shown(&pieces), shown(&whole)])
    });
    parsed.collect()
}

/// Decodes the first chunk of an answer, builds its response, and encodes it again; `None` if the bytes are none.
#[must_use]
pub fn recorded(bytes: &[u8]) -> Option<Vec<u8>> {
    match FirstChunk::decode(&Bytes::copy_from_slice(bytes)).ok()? {
        FirstChunk::Head(head) => Some(head.encode().to_vec()),
        FirstChunk::Entry(entry) => {
            let body = [entry.body.clone()];
            let encoded = encode_entry(&entry.head, &entry.chunks, &body).to_vec();
            let _ = replay::of_entry(entry, Pace::AtOnce);
            Some(encoded)
        }
    }
}

/// The judgment of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerJudgment {
    /// True if the answer may be stored.
    pub is_storable: bool,
    /// True if the last event of a stream has arrived.
    pub is_complete: bool,
    /// Usage and model.
    pub account: String,
}

/// The endpoints with answers that may be stored.
const ENDPOINTS: [&str; 8] = [
    "chat",
    "responses",
    "messages",
    "gemini",
    "embeddings",
    "count_tokens",
    "models",
    "interactions",
];

fn endpoint(api: u8) -> Endpoint {
    let name = ENDPOINTS[usize::from(api) % ENDPOINTS.len()];
    Endpoint::of_name(name).unwrap_or(Endpoint::Other)
}

/// Judges an answer that arrives in the given parts. `api` selects the endpoint.
#[must_use]
pub fn answer(
    api: u8,
    is_streamed: bool,
    headers: &HeaderMap,
    parts: &mut dyn Iterator<Item = &[u8]>,
) -> AnswerJudgment {
    let mut reader = AnswerReader::new(endpoint(api), is_streamed, StatusCode::OK, headers);
    parts.for_each(|part| reader.push(part));
    let is_complete = reader.is_complete();
    let report = reader.finish();
    AnswerJudgment {
        is_storable: report.refusal.is_none(),
        is_complete,
        account: format!("{:?} {:?}", report.usage, report.model),
    }
}

/// Converts a stored answer to all forms: `true` for a stream of events.
#[must_use]
pub fn converted(api: u8, is_streamed: bool, body: &[u8]) -> Vec<(bool, Bytes)> {
    let stored = if is_streamed {
        AnswerForm::EventsWithUsage
    } else {
        AnswerForm::Whole
    };
    let body = Bytes::copy_from_slice(body);
    let recorded = Recorded {
        head: RecordedHead {
            status: 200,
            headers: Vec::new(),
            endpoint: endpoint(api),
            form: stored.number(),
        },
        chunks: Vec::new(),
        body,
    };
    let forms = [
        AnswerForm::Whole,
        AnswerForm::Events,
        AnswerForm::EventsWithUsage,
    ];
    let converted = forms.into_iter().filter_map(|form| {
        let body = form.convert(&recorded)?;
        Some((form.is_events(), body))
    });
    converted.collect()
}
