#![allow(clippy::unwrap_used, clippy::expect_used)]
//! The client of MCP servers, against servers of our own: programs, and one behind HTTP.

mod authorization;
mod authorization_double;
mod behaviour;
mod caching;
mod conformance;
mod docker_agent;
mod eras;
mod http_server;
mod http_transport;
mod interaction;
mod messages;
mod modern;
mod program;
mod proxy_caching;
mod relay;
mod scripted;
mod server;
mod settings;
mod tasks;
mod tool_lists;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use cachalot_core::SourceSpan;
use cachalot_core::{DigestKey, SecretSet};
use cachalot_mcp::settings::{
    AgentTools, AssembleError, McpServerPool, ServerDefinition, ToolDependencies, Toolset,
    ToolsetKind, ToolsetSettings, assemble,
};
use cachalot_mcp::{McpDependencies, McpSettings, Reporter};
use cachalot_test_support::{cache_fixture, tool_fixture};
use cachalot_tools::filter::NameFilter;
use serde_json::json;
use tempfile::TempDir;

use crate::tool_fixture::ToolFixture;

/// Records reports.
#[derive(Default)]
pub(crate) struct ReportRecorder {
    pub(crate) warnings: Mutex<Vec<String>>,
    pub(crate) lines: Mutex<Vec<String>>,
    pub(crate) changes: Mutex<Vec<String>>,
    pub(crate) progress: Mutex<Vec<String>>,
}

impl Reporter for ReportRecorder {
    fn warning(&self, message: &str) {
        self.warnings.lock().unwrap().push(message.to_owned());
    }

    fn server_output(&self, server: &str, line: &str) {
        self.lines.lock().unwrap().push(format!("{server}: {line}"));
    }

    fn progress(&self, tool: &str, text: &str) {
        let mut progress = self.progress.lock().unwrap();
        progress.push(format!("{tool}: {text}"));
    }

    fn list_changed(&self, server: &str) {
        self.changes.lock().unwrap().push(server.to_owned());
    }
}

/// Calls the tools whose results are independent of the transport.
async fn call_the_usual_tools(tool_fixture: &ToolFixture) {
    assert_eq!(
        tool_fixture
            .done("mcp_test_echo", json!({ "text": "hé" }))
            .await,
        "hé"
    );
    assert_eq!(
        tool_fixture
            .done("mcp_test_add", json!({ "a": 2, "b": 3 }))
            .await,
        r#"{"sum":5}"#
    );
    let shown = tool_fixture.fails("mcp_test_refuse", json!({})).await;
    assert_eq!(
        shown,
        "the MCP server `test` refused: not like this (-32602)"
    );
}

/// A directory with the files of test servers, and the dependencies of tools.
pub(crate) struct Fixture {
    pub(crate) home: Arc<TempDir>,
    pub(crate) reported: Arc<ReportRecorder>,
    pub(crate) dependencies: ToolDependencies,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::in_home(Arc::new(tempfile::tempdir().unwrap()))
    }

    /// Another run of the same user.
    pub(crate) fn in_home_of(other: &Self) -> Self {
        Self::in_home(Arc::clone(&other.home))
    }

    fn in_home(home: Arc<TempDir>) -> Self {
        let reported = Arc::new(ReportRecorder::default());
        let environment = ["PATH", "HOME"]
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
        let mut environment: BTreeMap<String, String> = environment.collect();
        let data = home.path().join("data").to_string_lossy().into_owned();
        environment.insert("XDG_DATA_HOME".to_owned(), data);
        environment.insert("PRIVATE".to_owned(), "not passed on".to_owned());
        let dependencies = ToolDependencies {
            mcp: McpDependencies {
                directory: home.path().canonicalize().unwrap(),
                environment: Arc::new(environment),
                secret_set: Arc::new(SecretSet::with_key(DigestKey::new([5; 32]))),
                reporter: reported.clone(),
                write_notifier: Default::default(),
                sandbox: None,
                asks_user: true,
            },
            built_in: Default::default(),
            servers: McpServerPool::new(),
        };
        Self {
            home,
            reported,
            dependencies,
        }
    }

    pub(crate) fn notes(&self) -> PathBuf {
        self.home.path().join("notes")
    }

    pub(crate) fn program(&self, behavior: &str) -> McpSettings {
        program::program("test", behavior, &self.notes())
    }

    /// The number of starts of the program.
    pub(crate) fn starts(&self) -> usize {
        let notes = program::notes(&self.notes());
        notes.iter().filter(|line| *line == "began").count()
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.reported.warnings.lock().unwrap().clone()
    }

    pub(crate) async fn try_assemble(
        &self,
        servers: &[McpSettings],
    ) -> Result<AgentTools, AssembleError> {
        assemble(&toolsets(servers), &self.dependencies).await
    }

    pub(crate) async fn assemble(&self, servers: &[McpSettings]) -> AgentTools {
        self.try_assemble(servers).await.unwrap()
    }

    /// A registry of what the servers offer, to be called.
    pub(crate) async fn tool_fixture(&self, servers: &[McpSettings]) -> ToolFixture {
        let assembled = self.assemble(servers).await;
        self.tool_fixture_of(assembled)
    }

    pub(crate) fn tool_fixture_of(&self, assembled: AgentTools) -> ToolFixture {
        let mut tool_fixture = ToolFixture::with(assembled.tools);
        tool_fixture.context.secret_set = Arc::clone(&self.dependencies.mcp.secret_set);
        tool_fixture
    }
}

pub(crate) fn toolsets(servers: &[McpSettings]) -> ToolsetSettings {
    let toolset = |settings: &McpSettings| Toolset {
        kind: ToolsetKind::Mcp(Box::new(ServerDefinition {
            settings: settings.clone(),
            filter: NameFilter::default(),
            unset: Vec::new(),
        })),
        filter: NameFilter::default(),
        read_only: false,
        instruction: None,
        unset: Vec::new(),
        place: SourceSpan {
            file: "test".into(),
            line: 1,
            column: 1,
            start: 0,
            len: 0,
        },
    };
    ToolsetSettings {
        toolsets: servers.iter().map(toolset).collect(),
    }
}
