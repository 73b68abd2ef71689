//! The tool beside the built-in ones, with results that are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cachalot_cache::{CacheMode, Ledger, Witness};
use cachalot_core::{SecretSet, SystemClock};
use cachalot_model::Block;
use cachalot_storage::{HttpClient, HttpOptions};
use cachalot_tools::cached::{CachedTools, CachedToolsOptions, ToolCacheSettings, WriteNotifier};
use cachalot_tools::{
    BatchContext, CallOutcome, LiveOutput, Registry, Tool, ToolCall, ToolCallResult, ToolContext,
    Toolbox, Workspace, builtin,
};
use third_party::LongestLine;

fn batch(directory: &Path) -> BatchContext {
    BatchContext {
        context: ToolContext {
            workspace: Arc::new(Workspace::open(directory).unwrap()),
            session: "a session".to_owned(),
            environment: Arc::new(BTreeMap::new()),
            clock: Arc::new(SystemClock),
            http: HttpClient::new(HttpOptions::default()).unwrap(),
            store: None,
            secret_set: Arc::new(SecretSet::empty()),
            gate: None,
            rules: Arc::default(),
            sandbox: None,
            witness: Witness::default(),
            output: LiveOutput::default(),
            user: None,
            sampler: None,
        },
        verbatim: Arc::new(BTreeSet::new()),
        observer: Arc::new(()),
    }
}

async fn ask(
    tools: &CachedTools,
    batch: &BatchContext,
    name: &str,
    arguments: &str,
) -> ToolCallResult {
    let call = ToolCall {
        id: "1".to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    };
    let prepared = tools.prepare(call);
    tools.run(vec![prepared], batch).await.remove(0)
}

fn text(answer: &ToolCallResult) -> &str {
    match answer.output.content.as_slice() {
        [Block::Text { text, .. }] => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn results_are_cached_until_the_file_changes() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.txt"), "one\nthree\nsix\n").unwrap();
    let (tool, done) = LongestLine::counted();
    let mut all: Vec<Arc<dyn Tool>> = builtin::files();
    all.push(Arc::new(tool));
    let settings = ToolCacheSettings {
        enabled: true,
        ..ToolCacheSettings::default()
    };
    let options = CachedToolsOptions {
        settings,
        mode: CacheMode::On,
        ledger: Ledger::disabled(),
        clock: Arc::new(SystemClock),
        secret_set: Arc::new(SecretSet::empty()),
        log: Arc::new(|_| {}),
        persistent: None,
        user: String::new(),
        write_notifier: WriteNotifier::new(),
    };
    let tools = CachedTools::new(&Registry::new(all).unwrap(), options).unwrap();
    let batch = batch(directory.path());
    let path = r#"{"path":"a.txt"}"#;

    let first = ask(&tools, &batch, "longest_line", path).await;
    let second = ask(&tools, &batch, "longest_line", path).await;
    assert_eq!((text(&first), text(&second)), ("three", "three"));
    assert_eq!(
        (second.outcome, done.load(Ordering::SeqCst)),
        (CallOutcome::Hit, 1)
    );

    let edit = r#"{"path":"a.txt","old_text":"six","new_text":"a longer line"}"#;
    let edited = ask(&tools, &batch, "edit_file", edit).await;
    assert!(!edited.output.is_error, "{edited:?}");
    let third = ask(&tools, &batch, "longest_line", path).await;
    assert_eq!(
        (text(&third), done.load(Ordering::SeqCst)),
        ("a longer line", 2)
    );

    let outside = ask(&tools, &batch, "longest_line", r#"{"path":"../a.txt"}"#).await;
    assert!(outside.output.is_error);
}
