//! `shell.run`, with real programs.
#![cfg(unix)]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::Fixture;

fn sh(script: &str) -> Value {
    json!({"command": ["sh", "-c", script]})
}

fn with(mut arguments: Value, more: Value) -> Value {
    arguments
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    arguments
}

/// Returns whether the process with the id in this file runs, once the file exists.
async fn alive(fixture: &Fixture, file: &str) -> bool {
    let id = std::fs::read_to_string(fixture.path(file)).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
}

/// Waits until `done`, for at most ten seconds.
async fn until(mut done: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !done().await {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it did not happen"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn arguments_are_passed_unchanged_without_a_shell() {
    let fixture = Fixture::new();
    let ended = fixture
        .ok(
            "shell.run",
            json!({"command": ["printf", "%s|", "a b", "$HOME", "*", 5, ""]}),
        )
        .await;
    assert_eq!(
        ended,
        json!({"stdout": "a b|$HOME|*|5||", "stderr": "", "exit_code": 0, "success": true})
    );
}

#[tokio::test]
async fn stdin_stdout_and_directory_are_passed() {
    let fixture = Fixture::new();
    fixture.file("sub/f", "");
    let ended = fixture
        .ok(
            "shell.run",
            with(
                sh("cat; ls; echo oops >&2"),
                json!({"stdin": "in ä\n", "directory": "sub"}),
            ),
        )
        .await;
    assert_eq!(
        (&ended["stdout"], &ended["stderr"]),
        (&json!("in ä\nf\n"), &json!("oops\n"))
    );
    // A program need not read what it is given.
    let large = "x".repeat(1 << 20);
    fixture
        .ok("shell.run", with(sh("exit 0"), json!({"stdin": large})))
        .await;
    // Without input there is none to wait for.
    assert_eq!(
        fixture.ok("shell.run", json!({"command": ["cat"]})).await["stdout"],
        ""
    );
}

#[tokio::test]
async fn input_larger_than_a_pipe_is_passed() {
    let fixture = Fixture::new();
    let large = "x".repeat(900_000);
    let ended = fixture
        .ok("shell.run", json!({"command": ["cat"], "stdin": large}))
        .await;
    assert_eq!(ended["stdout"].as_str().unwrap().len(), 900_000);
}

#[tokio::test]
async fn exit_code_fails_the_node_unless_checked() {
    let fixture = Fixture::new();
    fixture.runtime.secret_set.learn("hunter2-of-the-run");
    let script = sh("echo no; echo why hunter2-of-the-run >&2; exit 3");
    let failure = fixture.fails("shell.run", script.clone()).await;
    assert_eq!((failure.kind, failure.retryable), ("shell_error", false));
    assert!(
        failure
            .message
            .ends_with("`sh` ended with exit code 3: why [secret]"),
        "{failure}"
    );
    let ended = fixture
        .ok("shell.run", with(script, json!({"check": false})))
        .await;
    assert_eq!(
        (&ended["exit_code"], &ended["success"], &ended["stdout"]),
        (&json!(3), &json!(false), &json!("no\n"))
    );
    let failure = fixture
        .fails("shell.run", sh("echo only here; exit 1"))
        .await;
    assert!(failure.message.ends_with("only here"), "{failure}");
    let failure = fixture.fails("shell.run", sh("kill -9 $$")).await;
    assert!(failure.message.contains("signal 9"), "{failure}");
}

#[tokio::test]
async fn the_environment_has_only_the_named_variables() {
    let fixture = Fixture::new()
        .with_variable("LC_ALL", "C.UTF-8")
        .with_variable("HOME", "/home/of-the-run")
        .with_variable("SECRET_TOKEN", "t")
        .with_variable("NAMED", "n");
    let variables = async |more: Value| {
        let ended = fixture
            .ok("shell.run", with(json!({"command": ["env"]}), more))
            .await;
        let mut lines: Vec<String> = ended["stdout"]
            .as_str()
            .unwrap()
            .lines()
            .filter(|line| !line.starts_with("PATH="))
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    };
    let base = ["HOME=/home/of-the-run", "LC_ALL=C.UTF-8"];
    assert_eq!(variables(json!({})).await, base);
    assert_eq!(
        variables(json!({"environment": ["NAMED", "UNSET"]})).await,
        [base[0], base[1], "NAMED=n"]
    );
    assert_eq!(
        variables(json!({"environment": {"A": 1, "HOME": null}})).await,
        ["A=1", "LC_ALL=C.UTF-8"]
    );
    for wrong in [
        json!("NAMED"),
        json!([5]),
        json!(["A=B"]),
        json!({"": "x"}),
        json!({"A": []}),
    ] {
        let failure = fixture
            .fails(
                "shell.run",
                with(json!({"command": ["env"]}), json!({"environment": wrong})),
            )
            .await;
        assert_eq!(failure.kind, "validation_error", "{failure}");
    }
}

#[tokio::test]
async fn passed_variables_and_directory_are_keyed() {
    let fixture = Fixture::new()
        .with_variable("PATH", "/bin")
        .with_variable("HOME", "/home/of-the-run")
        .with_variable("LC_TIME", "C")
        .with_variable("TMPDIR", "/t")
        .with_variable("LANG", "de")
        .with_variable("OTHER", "o");
    let implicit = fixture.implicit("shell.run", json!({"command": ["x"], "directory": "sub"}));
    assert_eq!(
        implicit,
        json!({
            "directory": fixture.path("sub").to_str().unwrap(),
            "passed": {
                "HOME": "/home/of-the-run", "LANG": "de", "LC_TIME": "C", "PATH": "/bin", "TMPDIR": "/t",
            },
            "named": [],
        })
    );
    // What a mapping replaces or takes away is not passed.
    let mapping =
        json!({"command": ["x"], "environment": {"HOME": "/h", "LANG": null, "OTHER": 1}});
    assert_eq!(
        fixture.implicit("shell.run", mapping)["passed"],
        json!({"LC_TIME": "C", "PATH": "/bin", "TMPDIR": "/t"})
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_linked_directory_is_keyed_by_its_resolved_path() {
    use std::os::unix::fs::symlink;
    let fixture = Fixture::new();
    let link = fixture.path("current");
    for name in ["one", "two"] {
        std::fs::create_dir_all(fixture.path(name).join("sub")).unwrap();
        std::fs::write(fixture.path(name).join("sub/v"), name).unwrap();
    }
    symlink("one", &link).unwrap();
    let with = json!({
        "action": "shell.run",
        "args": {"command": ["sh", "-c", "cat v"], "directory": "current/sub"},
    });
    assert_eq!(fixture.wrapped(with.clone()).await.1["stdout"], "one");
    assert!(fixture.wrapped(with.clone()).await.0);
    std::fs::remove_file(&link).unwrap();
    symlink("two", &link).unwrap();
    let (hit, result) = fixture.wrapped(with.clone()).await;
    assert!(!hit && result["stdout"] == "two", "{result}");
    std::fs::remove_file(&link).unwrap();
    let directory = |text: &str| {
        let arguments = json!({"command": ["x"], "directory": text});
        fixture.implicit("shell.run", arguments)["directory"].clone()
    };
    // What is reached through no link is keyed as it was before links were followed.
    for text in ["one/sub", "one/../two", "./one", "one/", "missing"] {
        assert_eq!(
            directory(text),
            fixture.path(text).to_str().unwrap(),
            "{text}"
        );
    }
}

#[tokio::test]
async fn home_directory_is_keyed() {
    let fixture = Fixture::new().with_variable("HOME", "/one");
    let with = json!({"action": "shell.run", "args": {"command": ["sh", "-c", "echo $HOME"]}});
    assert!(!fixture.wrapped(with.clone()).await.0);
    assert!(fixture.wrapped(with.clone()).await.0);
    let fixture = fixture.with_variable("HOME", "/two");
    let (hit, result) = fixture.wrapped(with).await;
    assert!(!hit && result["stdout"] == "/two\n", "{result}");
}

#[tokio::test]
async fn named_variables_are_keyed_by_their_digests() {
    let arguments = json!({"command": ["x"], "environment": ["API_TOKEN", "UNSET", "EMPTY"]});
    let named = |value: &str, secret_set: Option<cachalot_core::SecretSet>| {
        let mut fixture = Fixture::new()
            .with_variable("API_TOKEN", value)
            .with_variable("EMPTY", "");
        if let Some(secret_set) = secret_set {
            fixture.runtime.secret_set = std::sync::Arc::new(secret_set);
        }
        fixture.implicit("shell.run", arguments.clone())["named"].clone()
    };
    let keyed = named("hunter2", None);
    let digest = cachalot_core::DigestKey::new([7; 32]).digest(b"hunter2");
    assert_eq!(
        keyed[0],
        json!({"variable": "API_TOKEN", "digest": format!("hmac-sha256:{digest}")})
    );
    assert_eq!(keyed[1], json!({"variable": "UNSET", "digest": null}));
    assert!(keyed[2]["digest"].is_string(), "empty is not unset");
    assert_eq!(named("hunter2", None), keyed);
    assert_ne!(named("hunter3", None), keyed);
    let plain = named("hunter2", Some(cachalot_core::SecretSet::empty()));
    let digest = cachalot_core::Digest::sha256(b"hunter2");
    assert_eq!(plain[0]["digest"], format!("sha256:{digest}"));
    // A ledger masks fields that are named like credentials; a change is still to be seen.
    let (mut shown, mut changed) = (keyed.clone(), named("hunter3", None));
    for value in [&mut shown, &mut changed] {
        cachalot_core::secret::redact_value(value, &cachalot_core::SecretSet::empty());
    }
    assert_ne!(shown, changed);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn directories_that_are_not_utf_8_have_different_keys() {
    use std::os::unix::ffi::OsStrExt as _;
    let in_directory = |bytes: &[u8]| {
        let mut fixture = Fixture::new();
        fixture.runtime.directory = std::ffi::OsStr::from_bytes(bytes).into();
        [
            fixture.implicit("shell.run", json!({"command": ["x"]})),
            fixture.implicit("file.glob", json!({"pattern": "*"})),
            fixture.implicit("file.read", json!({"path": "f"})),
        ]
    };
    let (one, other) = (in_directory(b"/d\xff"), in_directory(b"/d\xfe"));
    assert_eq!(one, in_directory(b"/d\xff"));
    for (one, other) in one.iter().zip(&other) {
        assert_ne!(one, other);
    }
    assert_eq!(one[1], json!({"relative_to": {"bytes_hex": "2f64ff"}}));
    assert_ne!(one[0], in_directory("/d\u{fffd}".as_bytes())[0]);
}

#[tokio::test]
async fn programs_that_cannot_start_are_reported() {
    let fixture = Fixture::new();
    assert_eq!(
        fixture
            .fails("shell.run", json!({"command": ["no-such-program-here"]}))
            .await
            .kind,
        "not_found"
    );
    let failure = fixture
        .fails(
            "shell.run",
            json!({"command": ["true"], "directory": "absent"}),
        )
        .await;
    assert!(
        failure.kind == "not_found" && failure.message.contains("directory"),
        "{failure}"
    );
    fixture.file("not-executable", "x");
    assert_eq!(
        fixture
            .fails("shell.run", json!({"command": ["./not-executable"]}))
            .await
            .kind,
        "shell_error"
    );
    for command in [
        json!([]),
        json!([""]),
        json!(["a", null]),
        json!(["a", {}]),
        json!(["a\0b"]),
        json!("ls -l"),
    ] {
        assert_eq!(
            fixture
                .fails("shell.run", json!({"command": command}))
                .await
                .kind,
            "validation_error"
        );
    }
    let failure = fixture.fails("shell.run", sh("printf '\\377'")).await;
    assert!(failure.message.contains("not UTF-8"), "{failure}");
}

#[tokio::test]
async fn too_much_output_is_a_failure() {
    let fixture = Fixture::new();
    for (script, stream) in [("yes", "stdout"), ("yes >&2", "stderr")] {
        let failure = fixture
            .fails("shell.run", with(sh(script), json!({"output_limit": 1000})))
            .await;
        assert_eq!(failure.kind, "output_limit");
        assert!(failure.message.contains(stream), "{failure}");
    }
    let ended = fixture
        .ok(
            "shell.run",
            with(sh("printf 12345"), json!({"output_limit": 5})),
        )
        .await;
    assert_eq!(ended["stdout"], "12345");
}

#[tokio::test]
async fn a_timeout_kills_the_process_group() {
    let fixture = Fixture::new();
    let begun = Instant::now();
    let failure = fixture
        .fails(
            "shell.run",
            with(
                sh("sleep 300 & echo $! > child; wait"),
                json!({"timeout": 0.4}),
            ),
        )
        .await;
    assert_eq!((failure.kind, failure.retryable), ("timeout", true));
    assert!(begun.elapsed() < Duration::from_secs(120));
    until(async || !alive(&fixture, "child").await).await;
}

#[tokio::test]
async fn descendant_with_open_output_is_killed_at_the_timeout() {
    let fixture = Fixture::new();
    let failure = fixture
        .fails(
            "shell.run",
            with(sh("sleep 300 & echo $! > child"), json!({"timeout": 0.4})),
        )
        .await;
    assert_eq!(failure.kind, "timeout");
    until(async || !alive(&fixture, "child").await).await;
}

#[tokio::test]
async fn dropping_the_call_kills_the_process_group() {
    let fixture = std::sync::Arc::new(Fixture::new());
    let call = {
        let fixture = std::sync::Arc::clone(&fixture);
        tokio::spawn(async move {
            fixture.run("shell.run", sh("sleep 300 & echo $! > child.tmp; echo $$ > leader; mv child.tmp child; wait")).await
        })
    };
    until(async || fixture.path("child").exists()).await;
    assert!(alive(&fixture, "child").await && alive(&fixture, "leader").await);
    call.abort();
    until(async || !alive(&fixture, "child").await && !alive(&fixture, "leader").await).await;
}
