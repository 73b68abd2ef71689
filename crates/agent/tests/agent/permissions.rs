//! Which calls may be made.

use cachalot_agent::Approval;
use cachalot_agent::permissions::{AccessRequest, PermissionDecision, Permissions};
use cachalot_core::tree;
use cachalot_simulator::ScriptedReply;
use cachalot_tools::builtin;
use cachalot_tools::{Arguments, CallOutcome, ResourceAccess, Workspace};
use serde_json::{Value, json};

use crate::fixture::{Fixture, WIRES, Wire};
use crate::turns::CODER;

/// Rules over a workspace.
struct Rules {
    permissions: Permissions,
    root: tempfile::TempDir,
    workspace: Workspace,
}

impl Rules {
    fn of(yaml: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut problems = Vec::new();
        let node = tree::parse("rules.yaml", yaml).unwrap();
        let permissions = Permissions::read(&node, &mut problems);
        assert_eq!(problems, []);
        Self {
            permissions,
            workspace: Workspace::open(root.path()).unwrap(),
            root,
        }
    }

    fn judge(&self, tool: &str, read_only: bool, arguments: Value) -> PermissionDecision {
        let Value::Object(arguments) = arguments else {
            panic!("no object");
        };
        let resource_access = resource_access(tool, &arguments, read_only);
        let operation = AccessRequest {
            tool,
            read_only,
            arguments: &arguments,
            resource_access: &resource_access,
            sandboxed: false,
        };
        self.permissions.judge(&operation, &self.workspace)
    }

    fn of_command(&self, command: impl Into<Value>) -> PermissionDecision {
        self.judge("shell", false, json!({"command": command.into()}))
    }

    fn of_reading(&self, path: &str) -> PermissionDecision {
        self.judge("read_file", true, json!({"path": path}))
    }

    fn of_writing(&self, path: &str) -> PermissionDecision {
        self.judge("write_file", false, json!({"path": path, "content": "x"}))
    }
}

/// The resources of a call: as the built-in tool declares them, or as the arguments show them.
fn resource_access(tool: &str, arguments: &Arguments, read_only: bool) -> ResourceAccess {
    let tools = builtin::all();
    match tools.iter().find(|known| known.metadata().name == tool) {
        Some(tool) => tool.resource_access(arguments),
        None => ResourceAccess::declared(&Value::Null, arguments, read_only),
    }
}

const ALLOW: PermissionDecision = PermissionDecision::Allow;
const ASK: PermissionDecision = PermissionDecision::Ask(None);

fn denied(decision: &PermissionDecision) -> bool {
    matches!(decision, PermissionDecision::Deny(_))
}

#[test]
fn without_rules_reads_are_allowed_and_writes_need_approval() {
    let rules = Rules::of("{}");
    assert_eq!(rules.of_reading("a"), ALLOW);
    assert_eq!(rules.of_writing("a"), ASK);
}

#[test]
fn deny_overrides_ask_and_ask_overrides_allow() {
    let rules = Rules::of(
        "allow: ['*']\nask: ['shell:command=git push*', 'read_file:path=secret*']\ndeny: ['shell:command=git push --force*']",
    );
    assert_eq!(rules.of_command("git log"), ALLOW);
    assert_eq!(
        rules.of_command("git push"),
        PermissionDecision::Ask(Some("shell:command=git push*".to_owned()))
    );
    assert_eq!(
        rules.of_command("git push --force"),
        PermissionDecision::Deny("shell:command=git push --force*".to_owned())
    );
    assert!(matches!(
        rules.of_reading("secret.txt"),
        PermissionDecision::Ask(Some(_))
    ));
    assert_eq!(rules.of_reading("public.txt"), ALLOW);
}

/// Running a command in the background is no way around a rule.
#[test]
fn rules_for_the_shell_apply_to_background_jobs() {
    let rules = Rules::of(
        "allow: ['shell:cmd=git *', run_background_job:cwd=sub]\ndeny: ['shell:command=git push*', 'shell:path=**/.env']",
    );
    std::fs::create_dir(rules.root.path().join("sub")).unwrap();
    let judge = |arguments| rules.judge("run_background_job", false, arguments);
    assert_eq!(judge(json!({"cmd": "git log"})), ALLOW);
    assert!(denied(&judge(json!({"cmd": "cd x && git push"}))));
    assert!(denied(&judge(json!({"cmd": "cat .env", "cwd": "sub"}))));
    assert_eq!(judge(json!({"cmd": "make"})), ASK);
    assert_eq!(judge(json!({"cmd": "make", "cwd": "./sub"})), ALLOW);
    let rules = Rules::of("deny: ['shell:working_directory=prod*']");
    assert!(denied(&rules.judge(
        "run_background_job",
        false,
        json!({"cmd": "make deploy", "cwd": "prod"})
    )));
    let rules = Rules::of("deny: [run_background_job]");
    assert_eq!(
        rules.of_command("ls"),
        ASK,
        "the other way around it does not"
    );
}

#[test]
fn rule_applies_only_if_all_its_arguments_match() {
    let rules = Rules::of("allow: ['shell:command=make *:working_directory=build']");
    for directory in ["x", "build"] {
        std::fs::create_dir(rules.root.path().join(directory)).unwrap();
    }
    let judge = |arguments| rules.judge("shell", false, arguments);
    assert_eq!(
        judge(json!({"command": "make all", "working_directory": "build"})),
        ALLOW
    );
    assert_eq!(
        judge(json!({"command": "make all", "working_directory": "./x/../build"})),
        ALLOW
    );
    assert_eq!(
        judge(json!({"command": "make all", "working_directory": "src"})),
        ASK
    );
    assert_eq!(judge(json!({"command": "make all"})), ASK);
}

#[test]
fn allowed_command_does_not_cover_shell_syntax() {
    let rules = Rules::of(
        "allow: ['shell:command=git *', 'shell:command=ls', 'shell:command=echo * > out.txt']",
    );
    for line in ["git log", "git log --format='%H %s' -- \"a b\"", "ls"] {
        assert_eq!(rules.of_command(line), ALLOW, "{line}");
    }
    for line in [
        "git log; rm -rf .",
        "git log && rm -rf .",
        "git log | sh",
        "git log > /etc/passwd",
        "git log $(rm -rf .)",
        "git log `rm -rf .`",
        "git log\nrm -rf .",
        "git log &",
        "ls -l",
        " ls",
        "gitx log",
        "",
    ] {
        assert_eq!(rules.of_command(line), ASK, "{line:?}");
    }
    // What a pattern spells, it means, once.
    assert_eq!(rules.of_command("echo a > out.txt"), ALLOW);
    assert_eq!(rules.of_command("echo a > b > out.txt"), ASK);
    // No shell sees a list.
    assert_eq!(rules.of_command(json!(["git", "log", "a; b"])), ALLOW);
    assert_eq!(rules.of_command(json!(["rm", "git log"])), ASK);
}

#[test]
fn denied_command_is_found_within_a_line() {
    let rules = Rules::of("allow: [shell]\ndeny: ['shell:command=rm *']");
    for line in [
        "rm -rf .",
        "  rm -rf .",
        "cd x && rm -rf .",
        "true; rm x",
        "echo $(rm x)",
        "echo x | rm x",
        "(rm x)",
        "{ rm x; }",
        "if true\nthen\nrm x\nfi",
    ] {
        assert!(denied(&rules.of_command(line)), "{line:?}");
    }
    assert!(denied(&rules.of_command(json!(["rm", "-rf", "."]))));
    assert!(denied(&rules.of_command(json!(["sh", "-c", "cd x; rm y"]))));
    for line in ["echo rm", "farm x", "git rm"] {
        assert_eq!(rules.of_command(line), ALLOW, "{line:?}");
    }
}

#[test]
fn path_rules_match_the_normalized_path() {
    let rules = Rules::of(
        "allow: ['write_file:path=src/**', 'apply_patch:path=src/*']\ndeny: ['*:path=.env*', '*:path=**/*.key']",
    );
    for directory in ["a", "b", "src"] {
        std::fs::create_dir(rules.root.path().join(directory)).unwrap();
    }
    for path in [
        ".env",
        "./.env",
        "a/../.env",
        ".//.env",
        "src/../.env",
        ".env.local",
        "x.key",
        "a/b/x.key",
        "src/x.key",
    ] {
        assert!(denied(&rules.of_reading(path)), "{path}");
        assert!(denied(&rules.of_writing(path)), "{path}");
    }
    let absolute = rules.workspace.root().join(".env").display().to_string();
    assert!(denied(&rules.of_reading(&absolute)));
    for path in ["src/a", "src/b/c", "./src/a", "b/../src/a"] {
        assert_eq!(rules.of_writing(path), ALLOW, "{path}");
    }
    let inside = rules.workspace.root().join("src/a").display().to_string();
    assert_eq!(rules.of_writing(&inside), ALLOW);
    for path in ["a", "src", "src/../a", "../src/a", "/src/a", "srcs/a"] {
        assert_eq!(rules.of_writing(path), ASK, "{path}");
    }
}

#[cfg(unix)]
#[test]
fn path_rules_match_the_target_of_links() {
    let rules = Rules::of("allow: ['write_file:path=src/**']\ndeny: ['*:path=secrets/**']");
    let root = rules.root.path();
    for directory in ["src", "secrets", "other"] {
        std::fs::create_dir(root.join(directory)).unwrap();
    }
    std::fs::write(root.join("secrets/key"), "x").unwrap();
    std::os::unix::fs::symlink("../secrets", root.join("src/link")).unwrap();
    std::os::unix::fs::symlink("../other", root.join("src/there")).unwrap();
    std::os::unix::fs::symlink("secrets/key", root.join("innocent")).unwrap();
    assert!(denied(&rules.of_reading("innocent")));
    assert!(denied(&rules.of_reading("src/link/key")));
    assert!(denied(&rules.of_writing("src/link/new")));
    // It looks as if it were in `src`, and is not.
    assert_eq!(rules.of_writing("src/there/new"), ASK);
    assert_eq!(rules.of_writing("src/new"), ALLOW);
}

#[test]
fn a_patch_is_judged_by_the_files_in_it() {
    let rules = Rules::of("allow: ['apply_patch:path=src/*']\ndeny: ['*:path=.env']");
    let judge = |sections: &str| {
        let patch = format!("*** Begin Patch\n{sections}*** End Patch\n");
        rules.judge("apply_patch", false, json!({"patch": patch}))
    };
    let add = |path: &str| format!("*** Add File: {path}\n+x\n");
    assert_eq!(judge(&add("src/a")), ALLOW);
    assert_eq!(judge(&(add("src/a") + &add("b"))), ASK);
    assert!(denied(&judge(&(add("src/a") + &add("./.env")))));
    assert!(denied(&judge("*** Delete File: .env\n")));
    let moved = "*** Update File: src/a\n*** Move to: .env\n@@\n-x\n+y\n";
    assert!(denied(&judge(moved)));
    // What is no patch is not allowed, and then the tool says what is wrong.
    let nonsense = rules.judge("apply_patch", false, json!({"patch": "nonsense"}));
    assert_eq!(nonsense, ASK);
}

#[test]
fn rules_match_lists_and_scalar_arguments() {
    let rules = Rules::of(
        "allow: ['add:names=a*', 'count:number=4*']\ndeny: ['move:paths=.env', 'add:names=aa', 'web_fetch:url=https://evil.example:8443/*?x=1']",
    );
    assert_eq!(
        rules.judge("add", false, json!({"names": ["ab", "ac"]})),
        ALLOW
    );
    assert_eq!(
        rules.judge("add", false, json!({"names": ["ab", "b"]})),
        ASK
    );
    assert_eq!(rules.judge("add", false, json!({"names": []})), ASK);
    assert!(denied(&rules.judge(
        "add",
        false,
        json!({"names": ["ab", "aa"]})
    )));
    assert_eq!(rules.judge("count", false, json!({"number": 42})), ALLOW);
    assert!(denied(&rules.judge(
        "move",
        false,
        json!({"paths": ["a", "x/../.env"]})
    )));
    let url = json!({"url": "https://evil.example:8443/a?x=1"});
    assert!(denied(&rules.judge("web_fetch", true, url)));
}

#[tokio::test]
async fn allowed_calls_run_denied_calls_fail_and_others_need_approval() {
    for wire in WIRES {
        let file = "
agents:
  root: {model: test, instruction: You work., toolsets: [{type: filesystem}, {type: shell}]}
permissions:
  allow: ['write_file:path=out/*', 'shell:command=echo *']
  deny: ['read_file:path=.env']
";
        let write = |path: &str| json!({"path": path, "content": "x"});
        let calls = ScriptedReply::call("write_file", write("out/a"))
            .and_call("read_file", json!({"path": "./.env"}))
            .and_call("write_file", write("b"))
            .and_call("write_file", write("c"))
            .and_call("shell", json!({"command": "echo hello"}))
            .and_call("shell", json!({"command": "echo hello > d"}));
        let fixture = Fixture::new(wire, file, vec![calls, ScriptedReply::text("done")]).await;
        fixture.write(".env", "SECRET=1");
        fixture.answers.give([
            Approval::Yes,
            Approval::No(None),
            Approval::No(Some("use `out`".to_owned())),
        ]);
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "go").await;
        let asked = fixture.answers.asked();
        assert_eq!(asked.len(), 3);
        assert_eq!(asked[0].arguments, write("b"));
        assert_eq!(
            (asked[0].agent.as_str(), asked[0].rule.as_deref()),
            ("root", None)
        );
        assert_eq!(asked[2].arguments["command"], "echo hello > d");
        assert_eq!(fixture.answers.most_at_once(), 1);
        for (path, is_there) in [("out/a", true), ("b", true), ("c", false), ("d", false)] {
            assert_eq!(fixture.root.path().join(path).exists(), is_there, "{path}");
        }
        let ended = fixture.reported.ended();
        assert_eq!(ended.len(), 6);
        assert_eq!(ended[1].how, CallOutcome::Refused);
        assert!(
            ended[1]
                .text
                .contains("denied by the rule `read_file:path=.env`")
        );
        assert!(!ended[1].text.contains("SECRET"));
        assert_eq!(
            ended[3].text,
            "The user did not allow this call of `write_file`."
        );
        assert_eq!(
            ended[5].text,
            "The user did not allow this call of `shell`: use `out`."
        );
        assert!(ended[4].text.contains("hello"));
        fixture.check();
    }
}

#[tokio::test]
async fn approval_without_a_user_is_denied() {
    use cachalot_agent::event::DenyAll;

    let replies = vec![
        ScriptedReply::call("write_file", json!({"path": "a", "content": "x"})),
        ScriptedReply::text("I may not."),
    ];
    let file = CODER.replace("[edit_file, write_file]", "[edit_file]");
    let fixture = Fixture::new(Wire::Chat, &file, replies).await;
    let mut dependencies = fixture.dependencies();
    dependencies.approver = std::sync::Arc::new(DenyAll);
    let mut chat = cachalot_agent::Chat::begin(dependencies, fixture.team(), None)
        .await
        .unwrap();
    fixture.turn(&mut chat, "go").await;
    assert!(!fixture.root.path().join("a").exists());
    let text = &fixture.reported.ended()[0].text;
    assert!(text.contains("permissions.allow"), "{text}");
    fixture.check();
}

/// "Always" is for the pattern that was shown, where it would be asked about for the same reason.
#[tokio::test]
async fn always_approval_covers_only_the_shown_pattern() {
    let file = "
agents:
  root: {model: test, instruction: You work., toolsets: [{type: filesystem}, {type: shell}]}
permissions:
  ask: ['shell:command=touch *']
  deny: ['shell:command=rm *']
";
    let shell = |command: &str| ScriptedReply::call("shell", json!({"command": command}));
    let replies = vec![
        shell("echo 1"),
        shell("echo 2"),
        shell("touch a"),
        shell("rm a"),
        shell("touch b"),
        shell("touch b"),
        shell("touch c"),
        ScriptedReply::call("write_file", json!({"path": "d", "content": "x"})),
        ScriptedReply::text("done"),
        shell("echo 3"),
        ScriptedReply::text("done"),
    ];
    let fixture = Fixture::new(Wire::Chat, file, replies).await;
    fixture.answers.give([
        Approval::Always,
        Approval::No(None),
        Approval::Always,
        Approval::Yes,
        Approval::Yes,
    ]);
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "go").await;
    let patterns: Vec<Option<String>> = fixture
        .answers
        .asked()
        .into_iter()
        .map(|asked| asked.pattern)
        .collect();
    assert_eq!(
        patterns,
        [
            Some("shell:command=echo *".to_owned()),
            Some("shell:command=touch a".to_owned()),
            Some("shell:command=touch b".to_owned()),
            Some("shell:command=touch c".to_owned()),
            Some("write_file:path=d".to_owned()),
        ]
    );
    // In a new session of the same chat it still holds.
    chat.start_new_session().await.unwrap();
    fixture.turn(&mut chat, "again").await;
    let asked: Vec<Value> = fixture
        .answers
        .asked()
        .into_iter()
        .map(|asked| asked.arguments.get("command").cloned().unwrap_or_default())
        .collect();
    assert_eq!(
        asked,
        [
            json!("echo 1"),
            json!("touch a"),
            json!("touch b"),
            json!("touch c"),
            Value::Null
        ]
    );
    let there = |path: &str| fixture.root.path().join(path).exists();
    assert!(!there("a") && there("b") && there("c") && there("d"));
    fixture.check();
}

/// A possibly denied call needs approval each time, despite earlier approvals, and fails without a user.
#[tokio::test]
async fn possibly_denied_call_needs_approval_each_time() {
    let file = "
agents:
  root: {model: test, instruction: You work., toolsets: [{type: filesystem}, {type: shell}]}
permissions:
  allow: [shell]
  deny: ['shell:command=rm *', '*:path=**/.env*']
";
    let shell = |command: &str| ScriptedReply::call("shell", json!({"command": command}));
    let replies = vec![
        shell("X=touch; echo $X"),
        shell("sh -c \"$CMD\""),
        shell("sh -c \"$CMD\""),
        shell("X=1 /bin/rm a"),
        ScriptedReply::call("grep", json!({"pattern": "KEY", "hidden": true})),
        ScriptedReply::text("done"),
    ];
    let fixture = Fixture::new(Wire::Chat, file, replies).await;
    std::fs::write(fixture.root.path().join(".env"), "KEY=secret").unwrap();
    std::fs::write(fixture.root.path().join("a"), "the KEY").unwrap();
    fixture.answers.give([Approval::Always, Approval::No(None)]);
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "go").await;
    let asked = fixture.answers.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    for asked in &asked {
        assert!(
            asked.doubt.is_some() && asked.pattern.is_none(),
            "{asked:?}"
        );
        assert_eq!(asked.rule.as_deref(), Some("shell:command=rm *"));
    }
    let ended = fixture.reported.ended();
    assert!(
        ended[3]
            .text
            .contains("denied by the rule `shell:command=rm *`")
    );
    assert!(ended[4].text.contains("the KEY") && !ended[4].text.contains("secret"));
    assert!(
        ended[4].text.contains("1 entry is left out"),
        "{}",
        ended[4].text
    );
    assert!(fixture.root.path().join("a").exists());
    fixture.check();
}
