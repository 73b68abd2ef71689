//! `CLAUDE_ENV_FILE`.

use std::collections::BTreeMap;

use cachalot_hooks::{Event, Hooks, Verdict};
use serde_json::json;

use super::{Project, command};

fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

async fn started(project: &Project, hooks: &Hooks) -> Verdict {
    hooks.fire(project.input(Event::SessionStart)).await
}

#[tokio::test]
async fn session_start_exports_reach_later_hooks_and_the_verdict() {
    let project = Project::new();
    let hooks = project.hooks(&json!({
        "SessionStart": command(r#"echo 'export NODE_ENV=production' >> "$CLAUDE_ENV_FILE"
            echo 'export PATH="$PATH:./node_modules/.bin"' >> "$CLAUDE_ENV_FILE""#),
        "PreToolUse": command("echo \"$NODE_ENV $PATH ${CLAUDE_ENV_FILE-none}\" >&2; exit 2"),
    }));
    let before = project.shell(&hooks, "ls").await;
    let path = std::env::var("PATH").unwrap();
    assert_eq!(before.denial(), Some(format!("{path} none").as_str()));
    let verdict = started(&project, &hooks).await;
    let added = format!("{path}:./node_modules/.bin");
    let set = variables(&[("NODE_ENV", "production"), ("PATH", &added)]);
    assert_eq!((verdict.environment, verdict.messages), (set, vec![]));
    let after = project.shell(&hooks, "ls").await;
    let reported = format!("production {added} none");
    assert_eq!(after.denial(), Some(reported.as_str()));
    assert_eq!(after.environment, BTreeMap::new());
}

#[tokio::test]
async fn exports_are_private_to_the_session_and_end_with_it() {
    let project = Project::new();
    let hooks = project.hooks(&json!({
        "SessionStart": command("echo export A=b >> \"$CLAUDE_ENV_FILE\"; echo \"$CLAUDE_ENV_FILE\" > file"),
        "SessionEnd": command("echo \"end $A\" > ended"),
        "PreToolUse": command("echo \"a=$A\" >&2; exit 2"),
    }));
    started(&project, &hooks).await;
    let file = project.handler_fixture.read("file");
    let mut other = project.calling(Event::PreToolUse, "shell", &json!({}));
    other.session_id = "s-2".to_owned();
    assert_eq!(hooks.fire(other).await.denial(), Some("a="));
    assert_eq!(project.shell(&hooks, "ls").await.denial(), Some("a=b"));
    hooks.fire(project.input(Event::SessionEnd)).await;
    assert_eq!(project.handler_fixture.read("ended"), "end b\n");
    assert_eq!(project.shell(&hooks, "ls").await.denial(), Some("a="));
    assert!(!std::path::Path::new(file.trim()).exists());
}

#[tokio::test]
async fn session_start_hooks_share_one_environment_file() {
    let project = Project::new();
    let hooks = project.hooks(&json!({"SessionStart": [{"hooks": [
        {"type": "command", "command": "echo export A=1 >> \"$CLAUDE_ENV_FILE\""},
        {"type": "command", "command": "echo export B=2 >> \"$CLAUDE_ENV_FILE\""},
    ]}]}));
    let first = started(&project, &hooks).await;
    assert_eq!(first.environment, variables(&[("A", "1"), ("B", "2")]));
    let again = started(&project, &hooks).await;
    assert_eq!(again.environment, first.environment);
}

#[cfg(unix)]
#[tokio::test]
async fn exports_with_shell_syntax_are_evaluated_by_a_shell() {
    let project = Project::new();
    let hooks = project.hooks(&json!({"SessionStart": command(
        r#"cat >> "$CLAUDE_ENV_FILE" <<'END'
export NAME="$(printf 'a b')"
if true; then export LINES_OF='one
two'; fi
echo "a profile prints things"
END"#)}));
    let verdict = started(&project, &hooks).await;
    let set = variables(&[("NAME", "a b"), ("LINES_OF", "one\ntwo")]);
    assert_eq!((verdict.environment, verdict.messages), (set, vec![]));
}

#[cfg(unix)]
#[tokio::test]
async fn invalid_export_lines_are_reported() {
    let project = Project::new();
    let hooks = project.hooks(&json!({
        "SessionStart": command("echo 'exit 3' >> \"$CLAUDE_ENV_FILE\""),
    }));
    let verdict = started(&project, &hooks).await;
    assert_eq!(verdict.environment, BTreeMap::new());
    assert_eq!(verdict.messages.len(), 1);
    assert!(
        verdict.messages[0].contains("CLAUDE_ENV_FILE"),
        "{:?}",
        verdict.messages
    );
}
