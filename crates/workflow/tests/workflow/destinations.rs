//! Hosts that requests may go to: those that the author or the user named.

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse as _;
use axum::routing::any;
use cachalot_workflow::actions::builtin;
use serde_json::{Value, json};

use crate::fakes::Server;
use crate::fixture::Fixture;

/// A server that says what it was asked for, and redirects from `/to/…`.
fn server() -> Server {
    let to = async |uri: Uri| {
        let target = uri.path().trim_start_matches("/to/").to_owned();
        (StatusCode::TEMPORARY_REDIRECT, [("location", target)]).into_response()
    };
    Server::start(
        Router::new()
            .route("/to/{*target}", any(to))
            .fallback(async |uri: Uri| uri.to_string()),
    )
}

/// The server under two names: that which the author trusts, and that of somebody else.
struct Hosts {
    server: Server,
    trusted: String,
    other: String,
}

fn hosts() -> Hosts {
    let server = server();
    let trusted = server.base_url();
    let other = trusted.replace("127.0.0.1", "localhost");
    Hosts {
        server,
        trusted,
        other,
    }
}

impl Hosts {
    /// Runs nodes after one that sets `state.page`, as a model or a page would.
    async fn run(&self, page: &str, nodes: &str, input: Value) -> Result<Value, String> {
        self.run_with(page, nodes, input, json!({})).await
    }

    async fn run_with(
        &self,
        page: &str,
        nodes: &str,
        input: Value,
        settings: Value,
    ) -> Result<Value, String> {
        let mut fixture = Fixture::new();
        let runtime = Arc::get_mut(&mut fixture.runtime).unwrap();
        runtime.actions = Arc::new(builtin());
        runtime
            .environment
            .insert("API".to_owned(), self.trusted.clone());
        runtime.settings = settings;
        let port = self.trusted.rsplit(':').next().unwrap();
        let text = format!(
            "
variables: {{base: '{}', port: {port}}}
nodes:
  - name: read
    run: |
      {}
{nodes}",
            self.trusted,
            json!({ "page": page }),
        );
        let ran = fixture.run(&text, input).await;
        ran.map_err(|failure| format!("{}: {}", failure.kind, failure.message))
    }
}

fn get(url: &str) -> String {
    format!("  - {{name: get, uses: http.get, with: {{url: '{url}'}}, output: got}}\n")
}

#[tokio::test]
async fn hosts_from_the_file_or_the_input_are_requested() {
    let hosts = hosts();
    let trusted = &hosts.trusted;
    let (input, bare) = (
        json!({"url": trusted, "sub": "0", "list": [format!("{trusted}/listed")]}),
        trusted.trim_start_matches("http://"),
    );
    for url in [
        format!("{trusted}/{{{{ state.page }}}}"),
        format!("{trusted}/{{{{ state.page[0] | upper }}}}?x={{{{ state.page | urlencode }}}}"),
        format!("{trusted}?x={{{{ state.page.a | default(1) }}}}"),
        "{{ env.API }}/{{ state.page }}".to_owned(),
        "{{ variables.base }}/{{ state.page }}".to_owned(),
        "${base}/{{ state.page | length }}".to_owned(),
        "http://127.0.0.1:${port}/{{ state.page }}".to_owned(),
        "{{ state.url }}/{{ state.page }}".to_owned(),
        "http://127.0.{{ state.sub }}.1:${port}/{{ state.page }}".to_owned(),
        "{{ state.list[0] }}/{{ state.page }}".to_owned(),
        r#"{{ state.url ~ "/" ~ state.page }}"#.to_owned(),
    ] {
        let state = hosts.run("a", &get(&url), input.clone()).await;
        let got = state.unwrap_or_else(|error| panic!("{url}: {error}"))["got"].clone();
        assert!(
            got.as_str().is_some_and(|path| path.starts_with('/')),
            "{url}: {got}"
        );
    }
    // Also where the run has copied it, or goes through a list of the user's.
    for page in [trusted.as_str(), bare] {
        let url = if page == bare {
            "http://{{ state.page }}/x"
        } else {
            "{{ state.page }}/x"
        };
        let state = hosts.run(page, &get(url), json!({"hosts": [page]})).await;
        assert_eq!(state.unwrap()["got"], "/x");
    }
}

#[tokio::test]
async fn host_from_the_state_is_refused() {
    let hosts = hosts();
    let (trusted, other) = (&hosts.trusted, &hosts.other);
    let name = other.trim_start_matches("http://");
    let wrapped = "  - {name: get, uses: cache.wrap, with: {action: http.get, args: {url: '{{ state.page }}'}}, output: got}\n";
    let post = "  - {name: get, uses: http.post, with: {url: '{{ state.page }}', body: secret}, output: got}\n";
    let read = "  - {name: get, uses: file.read, with: {path: '{{ state.page }}'}, output: got}\n";
    let hash =
        "  - {name: get, uses: storage.hash, with: {path: '{{ state.page }}'}, output: got}\n";
    let search = "  - {name: get, uses: web.search, with: {query: x, base_url: '{{ state.page }}'}, output: got}\n";
    let ask = "  - {name: get, uses: llm.call, with: {model: m, provider: openai, base_url: '{{ state.page }}', prompt: x}, output: got}\n";
    let each = "
  - name: each
    type: dynamic_parallel
    items: '{{ [state.page] }}'
    action: {uses: http.get, with: {url: '{{ state.item }}'}}
    fan_in: done
  - {name: done}
";
    let input = json!({});
    let state = hosts.run(other, each, input).await.unwrap();
    let error = state["parallel_results"][0]["error"].as_str().unwrap();
    assert!(error.contains("comes from the state"), "{error}");
    let user = format!("{trusted}@{name}");
    let (at, file, api) = (
        format!("@{name}/"),
        format!("{other}/a.txt"),
        format!("{other}/v1"),
    );
    for (page, nodes) in [
        (other.as_str(), get("{{ state.page }}")),
        (name, get("http://{{ state.page }}/x")),
        (user.as_str(), get("{{ state.page }}")),
        (at.as_str(), get(&format!("{trusted}{{{{ state.page }}}}"))),
        // Another port is another server.
        ("http://127.0.0.1:9", get("{{ state.page }}")),
        (other, wrapped.to_owned()),
        (other, post.to_owned()),
        (file.as_str(), read.to_owned()),
        (file.as_str(), hash.to_owned()),
        (other, search.to_owned()),
        (api.as_str(), ask.to_owned()),
    ] {
        // That a text of the user's mentions a host does not name it.
        let input = json!({"mail": format!("See {other} for more."), "url": trusted});
        let error = hosts.run(page, &nodes, input).await.expect_err(&nodes);
        assert!(error.starts_with("host_not_allowed: "), "{nodes}: {error}");
        for part in ["comes from the state", "--input", "allowed_hosts"] {
            assert!(error.contains(part), "{error}");
        }
    }
}

#[tokio::test]
async fn allowed_hosts_list_is_exhaustive() {
    let hosts = hosts();
    let (trusted, other) = (&hosts.trusted, &hosts.other);
    let listed = |url: &str, list: &str| {
        format!(
            "  - {{name: get, uses: http.get, with: {{url: '{url}', allowed_hosts: {list}}}, output: got}}\n"
        )
    };
    let from_state = listed("{{ state.page }}/x", "[localhost]");
    let state = hosts.run(other, &from_state, json!({})).await;
    assert_eq!(state.unwrap()["got"], "/x");
    let typed = listed(&format!("{trusted}/x"), "[localhost]");
    let error = hosts.run("", &typed, json!({})).await.unwrap_err();
    assert!(
        error.contains("does not name the host `127.0.0.1`"),
        "{error}"
    );
    // The list of the file counts where a call has none.
    let settings = json!({"http": {"allowed_hosts": ["localhost"]}});
    for (nodes, goes) in [
        (get("{{ state.page }}/x"), true),
        (get(&format!("{trusted}/x")), false),
        (listed(&format!("{trusted}/x"), "[127.0.0.0/8]"), true),
    ] {
        let ran = hosts.run_with(other, &nodes, json!({}), settings.clone());
        assert_eq!(ran.await.is_ok(), goes, "{nodes}");
    }
}

#[tokio::test]
async fn redirects_to_other_hosts_require_a_call_without_state() {
    let hosts = hosts();
    let (trusted, other) = (&hosts.trusted, &hosts.other);
    let typed = get(&format!("{trusted}/to/{trusted}/x"));
    assert_eq!(hosts.run("", &typed, json!({})).await.unwrap()["got"], "/x");
    // A server at a private address chooses no other host, unless the author names it.
    let typed = get(&format!("{trusted}/to/{other}/x"));
    let error = hosts.run("", &typed, json!({})).await.unwrap_err();
    assert!(error.contains("decides about no other host"), "{error}");
    assert!(error.contains("`allowed_hosts`"), "{error}");
    let named = typed.replace("with: {", "with: {allowed_hosts: [127.0.0.1, localhost], ");
    assert_eq!(hosts.run("", &named, json!({})).await.unwrap()["got"], "/x");
    // The state chooses where a server of the author's redirects to.
    let open = get(&format!("{trusted}/to/{{{{ state.page }}}}"));
    let error = hosts
        .run(&format!("{other}/x"), &open, json!({}))
        .await
        .unwrap_err();
    assert!(
        error.contains("`localhost` is not among the allowed hosts"),
        "{error}"
    );
    let within = hosts.run(&format!("{trusted}/x"), &open, json!({})).await;
    assert_eq!(within.unwrap()["got"], "/x");
    let both = open.replace("with: {", "with: {allowed_hosts: [127.0.0.1, localhost], ");
    let state = hosts.run(&format!("{other}/x"), &both, json!({})).await;
    assert_eq!(state.unwrap()["got"], "/x");
    drop(hosts.server);
}

#[test]
fn allowed_hosts_must_be_literal() {
    let problems = |list: &str| {
        let text = format!(
            "nodes:\n  - {{name: get, uses: http.get, with: {{url: 'https://a.example', allowed_hosts: {list}}}}}\n"
        );
        let loaded = cachalot_workflow::format::load(
            "agent.yaml",
            &text,
            &builtin(),
            &std::collections::BTreeMap::new(),
            &cachalot_agent::definition::Builtins::default(),
        );
        loaded
            .err()
            .map_or_else(String::new, |problems| crate::fixture::shown(&problems))
    };
    assert_eq!(problems("[a.example, '*.b.example']"), "");
    for list in [
        "['{{ state.x }}']",
        "'{{ state.x }}'",
        "['${x}']",
        "['http://a']",
        "[1]",
    ] {
        assert!(
            problems(list).contains("allowed"),
            "{list}: {}",
            problems(list)
        );
    }
}

#[tokio::test]
async fn input_of_a_subgraph_allows_no_hosts() {
    let hosts = hosts();
    let directory = tempfile::TempDir::new().unwrap();
    let inner = directory.path().join("inner.yaml");
    let node =
        "nodes:\n  - {name: get, uses: http.get, with: {url: '{{ state.url }}/x'}, output: got}\n";
    std::fs::write(&inner, node).unwrap();
    for (url, page, is_allowed) in [
        ("{{ state.page }}", &hosts.other, false),
        ("{{ state.item }}", &hosts.other, false),
        ("{{ state.given }}", &hosts.other, true),
        (hosts.other.as_str(), &hosts.trusted, true),
        ("{{ variables.base }}", &hosts.other, true),
    ] {
        let nodes = format!(
            "  - {{name: each, type: dynamic_parallel, items: ['{{{{ state.page }}}}'], fan_in: end, subgraph: '{}', input: {{url: '{url}'}}}}\n  - {{name: end}}\n",
            inner.display()
        );
        // A host that the user names is allowed wherever it stands: the input differs from the page.
        let given = json!({"given": hosts.trusted});
        let state = hosts.run(page, &nodes, given).await.unwrap();
        let result = &state["parallel_results"][0];
        assert_eq!(result["success"], is_allowed, "{url}: {result}");
        if is_allowed {
            assert_eq!(result["state"]["got"], "/x");
        } else {
            assert_eq!(result["error_type"], "host_not_allowed");
        }
    }
}
