#![allow(clippy::unwrap_used, clippy::expect_used)]
//! The client of MCP servers, against servers of our own: programs, and one behind HTTP.

mod behaviour;
mod messages;
mod offers;
mod program;
mod reached;
mod server;
mod settings;
mod site;
#[allow(dead_code)]
#[path = "../../../tools/tests/tools/workshop.rs"]
mod workshop;

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
use cachalot_tools::filter::NameFilter;
use serde_json::json;
use tempfile::TempDir;

use crate::workshop::Workshop;

/// Keeps what it is told.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) warnings: Mutex<Vec<String>>,
    pub(crate) lines: Mutex<Vec<String>>,
    pub(crate) changes: Mutex<Vec<String>>,
    pub(crate) progress: Mutex<Vec<String>>,
}

impl Reporter for Told {
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
async fn call_the_usual_tools(workshop: &Workshop) {
    assert_eq!(
        workshop
            .done("mcp_test_echo", json!({ "text": "hé" }))
            .await,
        "hé"
    );
    assert_eq!(
        workshop
            .done("mcp_test_add", json!({ "a": 2, "b": 3 }))
            .await,
        r#"{"sum":5}"#
    );
    let shown = workshop.fails("mcp_test_refuse", json!({})).await;
    assert_eq!(
        shown,
        "the MCP server `test` refused: not like this (-32602)"
    );
}

/// A directory with what servers are given.
pub(crate) struct House {
    pub(crate) home: TempDir,
    pub(crate) told: Arc<Told>,
    pub(crate) dependencies: ToolDependencies,
}

impl House {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let told = Arc::new(Told::default());
        let environment = ["PATH", "HOME"]
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
        let mut environment: BTreeMap<String, String> = environment.collect();
        environment.insert("PRIVATE".to_owned(), "not passed on".to_owned());
        let dependencies = ToolDependencies {
            mcp: McpDependencies {
                directory: home.path().canonicalize().unwrap(),
                environment: Arc::new(environment),
                secret_set: Arc::new(SecretSet::with_key(DigestKey::new([5; 32]))),
                reporter: told.clone(),
            },
            data: None,
            servers: McpServerPool::new(),
        };
        Self {
            home,
            told,
            dependencies,
        }
    }

    pub(crate) fn notes(&self) -> PathBuf {
        self.home.path().join("notes")
    }

    pub(crate) fn program(&self, manner: &str) -> McpSettings {
        program::program("test", manner, &self.notes())
    }

    /// How often the program was started.
    pub(crate) fn starts(&self) -> usize {
        let notes = program::notes(&self.notes());
        notes.iter().filter(|line| *line == "began").count()
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.told.warnings.lock().unwrap().clone()
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
    pub(crate) async fn workshop(&self, servers: &[McpSettings]) -> Workshop {
        let assembled = self.assemble(servers).await;
        self.workshop_of(assembled)
    }

    pub(crate) fn workshop_of(&self, assembled: AgentTools) -> Workshop {
        let mut workshop = Workshop::with(assembled.tools);
        workshop.context.secret_set = Arc::clone(&self.dependencies.mcp.secret_set);
        workshop
    }
}

pub(crate) fn toolsets(servers: &[McpSettings]) -> ToolsetSettings {
    let toolset = |settings: &McpSettings| Toolset {
        kind: ToolsetKind::Mcp(Box::new(ServerDefinition {
            settings: settings.clone(),
            filter: NameFilter::default(),
        })),
        filter: NameFilter::default(),
        read_only: false,
        instruction: None,
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
