//! `limit_large_tool_results`: no results that fill the conversation.

use std::fs;
use std::path::{Path, PathBuf};

use cachalot_hooks::input::{ToolResponse, ToolUse};
use cachalot_hooks::{Event, Input, Verdict};
use tempfile::TempDir;

use crate::redaction::hooks;

const LIMIT: usize = 50 << 10;

fn answered(tool: &str, text: &str) -> Input {
    Input {
        event: Event::ToolResponseTransform,
        session_id: "s-1".into(),
        tool: Some(ToolUse {
            name: tool.into(),
            category: "builtin".into(),
            ..ToolUse::default()
        }),
        tool_response: Some(ToolResponse {
            text: text.into(),
            is_error: false,
        }),
        ..Input::default()
    }
}

async fn fire(place: &Path, input: Input) -> Verdict {
    hooks(place, "").fire(input).await
}

fn place() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn lines(count: usize) -> String {
    (1..=count)
        .map(|number| format!("line {number}\n"))
        .collect()
}

/// The path that the model is told.
fn reported(text: &str) -> PathBuf {
    let after = text.split("in the file ").nth(1).unwrap();
    PathBuf::from(after.split(", for").next().unwrap())
}

#[tokio::test]
async fn results_within_the_limit_are_unchanged() {
    let place = place();
    for text in [
        String::new(),
        lines(2_000),
        "x".repeat(LIMIT),
        "ä".repeat(LIMIT / 2),
    ] {
        let verdict = fire(place.path(), answered("shell", &text)).await;
        assert_eq!(verdict.updated_tool_response, None);
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn end_is_kept_and_the_full_result_is_saved_privately() {
    let place = place();
    let hooks = hooks(place.path(), "");
    let whole = lines(3_000);
    let verdict = hooks.fire(answered("shell", &whole)).await;
    let text = verdict.updated_tool_response.unwrap();
    let shown = text.strip_prefix(&*lines(5)).unwrap();
    let (notice, rest) = shown.split_once('\n').unwrap();
    assert!(notice.contains("3000 lines and"), "{notice}");
    assert!(rest.starts_with("line 1016\n") && rest.ends_with("line 3000\n"));
    assert!(text.lines().count() <= 2_000 && text.len() <= LIMIT);
    let path = reported(&text);
    assert!(path.starts_with(place.path()), "{}", path.display());
    assert_eq!(fs::read_to_string(&path).unwrap(), whole);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }
}

/// A tool that itself gives the beginning and the end of a longer output.
#[tokio::test]
async fn what_the_tool_left_out_is_not_said_to_be_in_the_file() {
    let place = place();
    let omission = "[… 14900000 bytes left out: narrow the command down]";
    let given = format!("{}{omission}\n{}", lines(2_500), lines(2_500));
    let verdict = fire(place.path(), answered("shell", &given)).await;
    let text = verdict.updated_tool_response.unwrap();
    let notice = text.lines().find(|line| line.starts_with("[this")).unwrap();
    assert!(notice.contains(omission), "{notice}");
    assert!(!notice.contains("all of it"), "{notice}");
}

#[tokio::test]
async fn a_result_is_cut_by_bytes_between_characters() {
    let place = place();
    let whole = "🐳".repeat(LIMIT);
    let verdict = fire(place.path(), answered("fetch", &whole)).await;
    let text = verdict.updated_tool_response.unwrap();
    assert!(text.len() <= LIMIT && text.len() > LIMIT - (4 << 10));
    let rest = text.split_once('\n').unwrap().1;
    assert!(rest.chars().all(|c| c == '🐳'));
}

#[tokio::test]
async fn a_truncated_file_keeps_its_beginning_and_a_continuation_note() {
    let place = place();
    let mut input = answered("files_read_file", &lines(3_000));
    let tool = input.tool.as_mut().unwrap();
    tool.category = "mcp".into();
    tool.mcp = Some(("files".into(), "read_file".into()));
    let text = fire(place.path(), input)
        .await
        .updated_tool_response
        .unwrap();
    assert!(text.starts_with("line 1\nline 2\n"));
    assert!(text.contains("\nline 1990\n[this result was cut"));
    assert!(text.ends_with("request the following lines to continue]\n"));
}

#[tokio::test]
async fn pages_of_read_file_are_not_cut() {
    let place = place();
    let page = format!(
        "{}[lines 1-2000 of 9000; read on with offset 2001]\n",
        lines(2_000)
    );
    let verdict = fire(place.path(), answered("read_file", &page)).await;
    assert_eq!(verdict.updated_tool_response, None);
}

#[tokio::test]
async fn failed_results_are_cut() {
    let place = place();
    let mut input = answered("shell", &lines(3_000));
    input.tool_response.as_mut().unwrap().is_error = true;
    assert!(
        fire(place.path(), input)
            .await
            .updated_tool_response
            .is_some()
    );
}

#[tokio::test]
async fn cut_result_is_not_cut_again() {
    let place = place();
    let cut = fire(place.path(), answered("shell", &lines(9_000))).await;
    let again = answered("shell", &cut.updated_tool_response.unwrap());
    assert_eq!(fire(place.path(), again).await.updated_tool_response, None);
}

#[tokio::test]
async fn secrets_are_masked_in_the_saved_result() {
    let place = place();
    let hooks = hooks(place.path(), "redact_secrets: true");
    let whole = format!("sk-abcdefghijklmnopqrstuv\n{}", lines(3_000));
    let verdict = hooks.fire(answered("shell", &whole)).await;
    let path = reported(&verdict.updated_tool_response.unwrap());
    let kept = fs::read_to_string(path).unwrap();
    assert!(kept.starts_with("[secret]\nline 1\n"));
}

#[tokio::test]
async fn end_of_session_removes_its_saved_results_only() {
    let place = place();
    let hooks = hooks(place.path(), "");
    let mut paths = Vec::new();
    for session in ["s-1", "s-1", "s-2"] {
        let mut input = answered("shell", &lines(3_000));
        input.session_id = session.into();
        let verdict = hooks.fire(input).await;
        paths.push(reported(&verdict.updated_tool_response.unwrap()));
    }
    assert_ne!(paths[0], paths[1]);
    assert_eq!(paths[0].parent(), paths[1].parent());
    let end = |session: &str| Input {
        event: Event::SessionEnd,
        session_id: session.into(),
        ..Input::default()
    };
    for _ in 0..2 {
        assert_eq!(hooks.fire(end("s-1")).await.messages, [""; 0]);
        assert!(!paths[0].parent().unwrap().exists());
        assert!(paths[2].exists());
    }
    drop(hooks);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_removed_directory_is_created_again() {
    let place = place();
    let hooks = hooks(place.path(), "");
    let first = hooks.fire(answered("shell", &lines(3_000))).await;
    let path = reported(&first.updated_tool_response.unwrap());
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    let second = hooks.fire(answered("shell", &lines(3_000))).await;
    assert!(reported(&second.updated_tool_response.unwrap()).exists());
}

#[tokio::test]
async fn unsavable_result_is_cut_with_a_warning() {
    let nowhere = Path::new("/nowhere/at/all");
    let verdict = fire(nowhere, answered("shell", &lines(3_000))).await;
    let text = verdict.updated_tool_response.unwrap();
    assert!(text.contains("the rest is lost") && text.ends_with("line 3000\n"));
    assert!(verdict.messages[0].contains("of `shell` could not be kept"));
}

#[tokio::test]
async fn tool_name_cannot_escape_the_directory() {
    let place = place();
    let hooks = hooks(place.path(), "");
    let verdict = hooks.fire(answered("../../x y/…", &lines(3_000))).await;
    let path = reported(&verdict.updated_tool_response.unwrap());
    assert_eq!(path.parent().unwrap().parent().unwrap(), place.path());
    assert!(path.exists());
}
