//! Observes a session between a client and a server, and proposes a policy for the proxy.

mod observation;
mod report;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use cachalot_core::{Canonical, Digest, json};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::caching::refusal_of_response;
use crate::proxy_policy::ToolDefinition;
use crate::relay::{Exchange, Frame, FrameKind, RequestContext, Upstream};
use observation::{Argument, CallRecord, Observation};

/// Maximum number of calls that are recorded. Later ones are passed on only.
const MAX_CALLS: usize = 100_000;

/// A server whose calls are recorded.
pub struct ObservedUpstream {
    inner: Arc<dyn Upstream>,
    observation: Arc<Mutex<Observation>>,
    /// The working directory of the server.
    directory: Arc<Path>,
}

impl ObservedUpstream {
    /// Observes a server.
    #[must_use]
    pub fn new(inner: Arc<dyn Upstream>) -> Self {
        Self {
            inner,
            observation: Arc::default(),
            // A server is started in the directory of this process.
            directory: std::env::current_dir().unwrap_or_default().into(),
        }
    }

    /// Returns true if no tool was called.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.observation.lock().calls.is_empty()
    }

    /// Returns the proposed policy, as YAML with a reason for each tool.
    #[must_use]
    pub fn policy(&self, server: &str) -> String {
        report::policy(&self.observation.lock(), server)
    }
}

#[async_trait]
impl Upstream for ObservedUpstream {
    async fn request(&self, request: Frame, context: RequestContext) -> Exchange {
        let is_observed = matches!(request.method(), "tools/call" | "tools/list");
        if !is_observed {
            return self.inner.request(request, context).await;
        }
        let began = Instant::now();
        let mut inner = self.inner.request(request.clone(), context).await;
        let (sender, exchange) = Exchange::new();
        let observation = Arc::clone(&self.observation);
        let directory = Arc::clone(&self.directory);
        tokio::spawn(async move {
            loop {
                let frame = tokio::select! {
                    frame = inner.next() => frame,
                    () = sender.cancelled() => return,
                };
                let Some(frame) = frame else { return };
                if frame.kind() == FrameKind::Response {
                    note(&observation, &request, &frame, began, &directory);
                }
                if !sender.send(frame) {
                    return;
                }
            }
        });
        exchange
    }

    async fn notify(&self, message: Frame, context: RequestContext) {
        self.inner.notify(message, context).await;
    }

    fn take_unattached(&self) -> Option<mpsc::Receiver<Frame>> {
        self.inner.take_unattached()
    }

    fn ends(&self) -> u64 {
        self.inner.ends()
    }

    fn losses(&self) -> u64 {
        self.inner.losses()
    }
}

/// Records the response to a request.
fn note(
    observation: &Mutex<Observation>,
    request: &Frame,
    response: &Frame,
    began: Instant,
    directory: &Path,
) {
    let took = began.elapsed();
    if request.method() == "tools/list" {
        let tools = response.result().and_then(|it| json::member(it, "tools"));
        let definitions = tools.map(json::elements).unwrap_or_default().into_iter();
        let definitions = definitions.filter_map(|it| ToolDefinition::parse(it).ok());
        let mut observation = observation.lock();
        for definition in definitions {
            let ToolDefinition {
                name, annotations, ..
            } = definition;
            observation.tools.insert(name, annotations);
        }
        return;
    }
    let params = request.params().unwrap_or("{}");
    let name = json::member(params, "name").and_then(|name| serde_json::from_str(name).ok());
    let Some(Value::String(tool)) = name else {
        return;
    };
    let arguments = json::member(params, "arguments").unwrap_or("{}");
    let Ok(canonical) = Canonical::json(arguments.as_bytes()) else {
        return;
    };
    let mut observation = observation.lock();
    if observation.calls.len() >= MAX_CALLS {
        observation.dropped += 1;
        return;
    }
    observation.calls.push(CallRecord {
        tool,
        arguments: canonical.digest(),
        paths: paths(arguments, directory),
        took,
        result: response
            .result()
            .map(|result| Digest::sha256(result.as_bytes())),
        refusal: refusal_of_response(response),
    });
}

/// Returns what each argument names on this machine.
fn paths(arguments: &str, directory: &Path) -> BTreeMap<String, Argument> {
    let Ok(Value::Object(members)) = serde_json::from_str(arguments) else {
        return BTreeMap::new();
    };
    let members = members.into_iter();
    members
        .map(|(name, value)| {
            let argument = Argument::new(&value, directory);
            (name, argument)
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::proxy_policy::ProxyPolicy;

    /// A server that answers each call with the number of calls of the tool `counter`, or with a constant.
    struct Fake(Mutex<u32>);

    #[async_trait]
    impl Upstream for Fake {
        async fn request(&self, request: Frame, _: RequestContext) -> Exchange {
            let id = request.id().unwrap();
            let result = if request.method() == "tools/list" {
                r#"{"tools":[{"name":"read","annotations":{"readOnlyHint":true}},{"name":"counter","annotations":{"readOnlyHint":true}},{"name":"write","annotations":{"readOnlyHint":false}},{"name":"plain"},{"name":"get_current_time","annotations":{"readOnlyHint":true}},{"name":"idle","annotations":{"readOnlyHint":true}},{"name":"relative","annotations":{"readOnlyHint":true}},{"name":"nested","annotations":{"readOnlyHint":true}},{"name":"search","annotations":{"readOnlyHint":true}},{"name":"failing","annotations":{"readOnlyHint":true}},{"name":"useless","annotations":{"readOnlyHint":true}}]}"#.to_owned()
            } else if request.params().unwrap().contains("counter") {
                let mut count = self.0.lock();
                *count += 1;
                format!(r#"{{"content":[{{"type":"text","text":"{count}"}}]}}"#)
            } else if request.params().unwrap().contains("failing") {
                r#"{"content":[],"isError":true}"#.to_owned()
            } else {
                r#"{"content":[{"type":"text","text":"same"}]}"#.to_owned()
            };
            Exchange::answered(Frame::response(id, &result))
        }

        async fn notify(&self, _: Frame, _: RequestContext) {}

        fn take_unattached(&self) -> Option<mpsc::Receiver<Frame>> {
            None
        }
    }

    #[tokio::test]
    async fn a_session_gives_a_policy_that_is_valid_and_has_reasons() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("a.txt");
        std::fs::write(&file, "x").unwrap();
        let observed = ObservedUpstream {
            directory: home.path().into(),
            ..ObservedUpstream::new(Arc::new(Fake(Mutex::new(0))))
        };
        let send = |method: &'static str, params: String| {
            let request = Frame::request("1", method, &params);
            let observed = &observed;
            async move {
                let exchange = observed.request(request, RequestContext::default());
                let response = exchange.await.next().await.unwrap();
                assert!(response.result().is_some());
            }
        };
        send("tools/list", "{}".to_owned()).await;
        let call = |tool: &str, arguments: Value| {
            serde_json::json!({"name": tool, "arguments": arguments}).to_string()
        };
        let path = serde_json::json!({ "path": file });
        let relative = serde_json::json!({"path": "a.txt", "query": "text"});
        let nested = serde_json::json!({"files": [{"path": file}]});
        let nothing = serde_json::json!({});
        // One of the calls names a file.
        let other = serde_json::json!({"path": "of nothing"});
        send("tools/call", call("read", other)).await;
        for _ in 0..3 {
            send("tools/call", call("read", path.clone())).await;
            send("tools/call", call("counter", nothing.clone())).await;
            send("tools/call", call("relative", relative.clone())).await;
            send("tools/call", call("nested", nested.clone())).await;
            send("tools/call", call("search", nothing.clone())).await;
            send("tools/call", call("failing", nothing.clone())).await;
        }
        for _ in 0..3 {
            send("tools/call", call("useless", nothing.clone())).await;
            send("tools/call", call("plain", nothing.clone())).await;
        }
        send("tools/call", call("write", serde_json::json!({}))).await;
        let policy = observed.policy("files");
        let parsed = ProxyPolicy::parse("policy.yaml", &policy);
        let parsed = parsed.unwrap_or_else(|problems| panic!("{problems:?}\n{policy}"));
        let server = parsed.server("files", false).unwrap();
        let read = server.tool("read").unwrap().0;
        assert_eq!(read.paths.get("path").map(String::as_str), Some("file"));
        let names: Vec<&str> = server.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["read", "relative", "search"], "{policy}");
        let relative = server.tool("relative").unwrap().0;
        assert_eq!(relative.paths.get("path").map(String::as_str), Some("file"));
        assert_eq!(relative.paths.len(), 1);
        assert!(server.relative_to.is_none() && policy.contains("# relative_to: \".\""));
        assert!(read.ttl.is_none() && relative.ttl.is_none());
        assert!(server.tool("search").unwrap().0.ttl.is_some());
        for reason in [
            "2 of 4 calls repeat an earlier one",
            "nested: an argument names a file in a form that `paths` cannot",
            "# failing: {ttl: 5m}",
            "# useless: {ttl: 5m}",
            "# idle: {ttl: 5m}",
            "equal calls had different results",
            "readOnlyHint: false",
            "assume_read_only: true",
            "current time",
            "it was not called",
        ] {
            assert!(policy.contains(reason), "{reason}\n{policy}");
        }
    }
}
