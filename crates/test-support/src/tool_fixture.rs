//! A workspace, the file tools, and the context of a call.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cachalot_cache::Witness;
use cachalot_core::{ManualClock, SecretSet};
use cachalot_model::Block;
use cachalot_storage::{HttpClient, HttpOptions};
use cachalot_tools::{
    Arguments, BatchContext, Registry, Tool, ToolCall, ToolCallResult, ToolContext, ToolOutput,
    Toolbox as _, Workspace, builtin,
};
use serde_json::Value;
use tempfile::TempDir;

pub struct ToolFixture {
    /// Goes when the workshop does.
    _root: TempDir,
    pub registry: Registry,
    pub context: ToolContext,
}

pub fn context(workspace: Workspace) -> ToolContext {
    ToolContext {
        workspace: Arc::new(workspace),
        session: "main".to_owned(),
        environment: Arc::new(BTreeMap::new()),
        clock: Arc::new(ManualClock::at(0)),
        http: HttpClient::new(HttpOptions::default()).unwrap(),
        store: None,
        secret_set: Arc::new(SecretSet::empty()),
        user: None,
        sampler: None,
        gate: None,
        rules: Arc::default(),
        sandbox: None,
        witness: Witness::default(),
        output: cachalot_tools::LiveOutput::default(),
    }
}

impl ToolFixture {
    pub fn new() -> Self {
        Self::with(builtin::files())
    }

    pub fn with(tools: Vec<Arc<dyn Tool>>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(root.path()).unwrap();
        Self {
            context: context(workspace),
            registry: Registry::new(tools).unwrap(),
            _root: root,
        }
    }

    /// With these files.
    pub fn holding(files: &[(&str, &str)]) -> Self {
        let tool_fixture = Self::new();
        for (path, text) in files {
            tool_fixture.write(path, text);
        }
        tool_fixture
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.context.workspace.root().join(path)
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    pub fn is_there(&self, path: &str) -> bool {
        fs::symlink_metadata(self.path(path)).is_ok()
    }

    pub fn batch(&self) -> BatchContext {
        BatchContext {
            context: self.context.clone(),
            verbatim: Arc::new(BTreeSet::new()),
            observer: Arc::new(()),
        }
    }

    /// The output of a tool, called as by a turn loop.
    pub async fn call(&self, tool: &str, arguments: Value) -> ToolOutput {
        let prepared = self.registry.prepare(call(tool, &arguments.to_string()));
        let mut answers = self.registry.run(vec![prepared], &self.batch()).await;
        let ToolCallResult { output, .. } = answers.remove(0);
        output
    }

    pub async fn done(&self, tool: &str, arguments: Value) -> String {
        let output = self.call(tool, arguments).await;
        assert!(!output.is_error, "{}", text(&output));
        text(&output)
    }

    pub async fn fails(&self, tool: &str, arguments: Value) -> String {
        let output = self.call(tool, arguments).await;
        assert!(output.is_error, "{}", text(&output));
        text(&output)
    }

    /// Runs a tool with a witness of its own.
    pub async fn witnessed(&self, tool: &str, arguments: Value) -> (ToolOutput, Witness) {
        let context = ToolContext {
            witness: Witness::default(),
            ..self.context.clone()
        };
        let tool = self.registry.tool(tool).unwrap();
        let output = tool.run(object(arguments), &context).await;
        (output, context.witness)
    }

    /// Everything below the root, by path, links as what they point to.
    pub fn tree(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        collect(self.context.workspace.root(), &mut all);
        all
    }
}

fn collect(directory: &Path, all: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap();
        if kind.is_dir() {
            all.insert(path.clone(), b"directory".to_vec());
            collect(&path, all);
        } else if kind.is_symlink() {
            all.insert(
                path.clone(),
                fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes(),
            );
        } else {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
}

pub fn object(value: Value) -> Arguments {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is no object"),
    }
}

pub fn call(tool: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: format!("call-of-{tool}"),
        name: tool.to_owned(),
        arguments: arguments.to_owned(),
    }
}

pub fn text(output: &ToolOutput) -> String {
    output
        .content
        .iter()
        .map(|block| match block {
            Block::Text { text, .. } => text.as_str(),
            _ => "",
        })
        .collect()
}

/// Waits until something is so.
pub async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < Duration::from_secs(60), "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns whether a process runs; a zombie does not.
pub fn runs(process: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", process.trim()));
    status.is_ok_and(|status| {
        let state = status.rsplit(')').next().unwrap_or_default().trim_start();
        !state.starts_with('Z')
    })
}
