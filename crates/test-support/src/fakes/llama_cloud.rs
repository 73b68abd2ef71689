//! The extraction API of LlamaCloud: files, extraction agents, jobs and their results.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::Server;

/// LlamaCloud on loopback.
pub struct LlamaCloud {
    server: Server,
    shared: Arc<Shared>,
}

struct Shared {
    key: String,
    state: Mutex<Account>,
}

/// An account and how it is to behave.
struct Account {
    agents: HashMap<String, Value>,
    files: HashMap<String, Uploaded>,
    jobs: HashMap<String, Job>,
    looks_until_end: u32,
    failing_looks: u32,
    end: (String, Option<String>),
    uploads: u32,
    started: u32,
    looks: u32,
}

/// A file as it was uploaded.
#[derive(Clone)]
pub struct Uploaded {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

struct Job {
    looks_left: u32,
    data: Value,
    request: Value,
}

impl LlamaCloud {
    /// An account that is opened by `key`. Jobs are pending at the first look and end well at the
    /// second.
    pub fn start(key: &str) -> Self {
        let shared = Arc::new(Shared {
            key: key.to_owned(),
            state: Mutex::new(Account {
                agents: HashMap::new(),
                files: HashMap::new(),
                jobs: HashMap::new(),
                looks_until_end: 2,
                failing_looks: 0,
                end: ("SUCCESS".to_owned(), None),
                uploads: 0,
                started: 0,
                looks: 0,
            }),
        });
        let router = Router::new()
            .route("/api/v1/files", post(upload))
            .route(
                "/api/v1/extraction/extraction-agents/by-name/{name}",
                get(agent),
            )
            .route("/api/v1/extraction/jobs", post(start_by_agent))
            .route("/api/v1/extraction/run", post(start_by_schema))
            .route("/api/v1/extraction/jobs/{id}", get(look))
            .route("/api/v1/extraction/jobs/{id}/result", get(result))
            .layer(DefaultBodyLimit::disable())
            .with_state(Arc::clone(&shared));
        Self {
            server: Server::start(router),
            shared,
        }
    }

    /// Its base URL.
    pub fn base_url(&self) -> String {
        self.server.base_url()
    }

    /// Adds an extraction agent that finds `data` in every document; its id is `agent-{name}`.
    pub fn agent(self, name: &str, data: Value) -> Self {
        self.state().agents.insert(name.to_owned(), data);
        self
    }

    /// Jobs end at this look.
    pub fn looks_until_end(self, looks: u32) -> Self {
        self.state().looks_until_end = looks;
        self
    }

    /// The first looks are answered with 503.
    pub fn failing_looks(self, looks: u32) -> Self {
        self.state().failing_looks = looks;
        self
    }

    /// Jobs end so.
    pub fn ending_as(self, status: &str, error: Option<&str>) -> Self {
        self.state().end = (status.to_owned(), error.map(str::to_owned));
        self
    }

    /// The number of uploaded files.
    pub fn uploads(&self) -> u32 {
        self.state().uploads
    }

    /// The number of started jobs, which are paid.
    pub fn started(&self) -> u32 {
        self.state().started
    }

    /// The number of polls.
    pub fn looks(&self) -> u32 {
        self.state().looks
    }

    /// The files that were uploaded, in no order.
    pub fn files(&self) -> Vec<Uploaded> {
        self.state().files.values().cloned().collect()
    }

    /// The requests that started jobs, in no order.
    pub fn requests(&self) -> Vec<Value> {
        self.state()
            .jobs
            .values()
            .map(|job| job.request.clone())
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, Account> {
        self.shared.state.lock().unwrap()
    }
}

type Shares = State<Arc<Shared>>;

fn refused(shared: &Shared, headers: &HeaderMap) -> Option<Response> {
    let expected = format!("Bearer {}", shared.key);
    let given = headers
        .get("authorization")
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    (given != expected).then(|| {
        (
            StatusCode::UNAUTHORIZED,
            Json(json!({ "detail": format!("Invalid credentials: {given}") })),
        )
            .into_response()
    })
}

fn missing(what: &str) -> Response {
    (
        StatusCode::NOT_FOUND,
        Json(json!({ "detail": format!("{what} not found") })),
    )
        .into_response()
}

async fn upload(State(shared): Shares, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(refused) = refused(&shared, &headers) {
        return refused;
    }
    let kind = headers
        .get("content-type")
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    let Some(file) = part(kind, &body, "upload_file") else {
        return (
            StatusCode::UNPROCESSABLE_ENTITY,
            Json(json!({ "detail": "upload_file: field required" })),
        )
            .into_response();
    };
    let mut state = shared.state.lock().unwrap();
    state.uploads += 1;
    let id = format!("file-{}", state.uploads);
    let answer = json!({ "id": id, "name": file.name, "file_size": file.content.len() });
    state.files.insert(id, file);
    Json(answer).into_response()
}

/// The part called `name` of a multipart body.
fn part(content_type: &str, body: &[u8], name: &str) -> Option<Uploaded> {
    let boundary = content_type
        .strip_prefix("multipart/form-data; boundary=")?
        .trim_matches('"');
    let delimiter = format!("--{boundary}");
    let at = |bytes: &[u8], needle: &[u8]| {
        bytes
            .windows(needle.len())
            .position(|window| window == needle)
    };
    let mut rest = body;
    while let Some(start) = at(rest, delimiter.as_bytes()) {
        rest = &rest[start + delimiter.len()..];
        let head_end = at(rest, b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&rest[..head_end]).into_owned();
        let content = &rest[head_end + 4..];
        let end = at(content, format!("\r\n{delimiter}").as_bytes())?;
        if head.contains(&format!("name=\"{name}\"")) {
            let file_name = head.split("filename=\"").nth(1)?.split('"').next()?;
            return Some(Uploaded {
                name: file_name.to_owned(),
                content: content[..end].to_vec(),
            });
        }
        rest = &content[end..];
    }
    None
}

async fn agent(State(shared): Shares, headers: HeaderMap, Path(name): Path<String>) -> Response {
    if let Some(refused) = refused(&shared, &headers) {
        return refused;
    }
    if !shared.state.lock().unwrap().agents.contains_key(&name) {
        return missing(&format!("Extraction agent {name}"));
    }
    Json(json!({ "id": format!("agent-{name}"), "name": name, "data_schema": {}, "config": {} }))
        .into_response()
}

async fn start_by_agent(
    State(shared): Shares,
    headers: HeaderMap,
    Json(request): Json<Value>,
) -> Response {
    if let Some(refused) = refused(&shared, &headers) {
        return refused;
    }
    let mut state = shared.state.lock().unwrap();
    let agent = request["extraction_agent_id"]
        .as_str()
        .and_then(|id| id.strip_prefix("agent-"));
    let Some(data) = agent.and_then(|name| state.agents.get(name)).cloned() else {
        return missing("Extraction agent");
    };
    state.begin(request, data)
}

async fn start_by_schema(
    State(shared): Shares,
    headers: HeaderMap,
    Json(request): Json<Value>,
) -> Response {
    if let Some(refused) = refused(&shared, &headers) {
        return refused;
    }
    if !request["data_schema"].is_object() || !request["config"].is_object() {
        return (
            StatusCode::UNPROCESSABLE_ENTITY,
            Json(json!({ "detail": "data_schema, config: field required" })),
        )
            .into_response();
    }
    let data = json!({ "extracted_by": request["data_schema"] });
    shared.state.lock().unwrap().begin(request, data)
}

impl Account {
    fn begin(&mut self, request: Value, data: Value) -> Response {
        if !request["file_id"]
            .as_str()
            .is_some_and(|id| self.files.contains_key(id))
        {
            return missing("File");
        }
        self.started += 1;
        let id = format!("job-{}", self.started);
        self.jobs.insert(
            id.clone(),
            Job {
                looks_left: self.looks_until_end,
                data,
                request,
            },
        );
        Json(json!({ "id": id, "status": "PENDING", "error": null, "extraction_agent": { "id": "a" } })).into_response()
    }
}

async fn look(State(shared): Shares, headers: HeaderMap, Path(id): Path<String>) -> Response {
    if let Some(refused) = refused(&shared, &headers) {
        return refused;
    }
    let mut state = shared.state.lock().unwrap();
    state.looks += 1;
    if state.failing_looks > 0 {
        state.failing_looks -= 1;
        return (StatusCode::SERVICE_UNAVAILABLE, "try again").into_response();
    }
    let end = state.end.clone();
    let Some(job) = state.jobs.get_mut(&id) else {
        return missing("Job");
    };
    job.looks_left = job.looks_left.saturating_sub(1);
    let (status, error) = if job.looks_left == 0 {
        end
    } else {
        ("PENDING".to_owned(), None)
    };
    Json(json!({ "id": id, "status": status, "error": error })).into_response()
}

async fn result(State(shared): Shares, headers: HeaderMap, Path(id): Path<String>) -> Response {
    if let Some(refused) = refused(&shared, &headers) {
        return refused;
    }
    let state = shared.state.lock().unwrap();
    match state.jobs.get(&id) {
        None => missing("Job"),
        Some(job) if job.looks_left > 0 => {
            (StatusCode::BAD_REQUEST, "the job has not ended").into_response()
        }
        Some(job) => Json(json!({
            "run_id": format!("run-of-{id}"),
            "extraction_agent_id": job.request["extraction_agent_id"],
            "data": job.data,
            "extraction_metadata": { "usage": { "num_pages_extracted": 1 } },
        }))
        .into_response(),
    }
}
