//! No secret used in a run occurs in any file that Cachalot wrote.

use crate::support::{Home, Server};

const SECRET: &str = "s3cr3t/with \"quotes\" & more";

fn agent(url: &str) -> String {
    format!(
        r#"name: secretive
nodes:
  - name: fetch
    uses: cache.wrap
    with:
      action: http.get
      args:
        url: {url}/data
        params:
          token: "{{{{ secrets.TOKEN }}}}"
        headers:
          X-Secret: "Bearer {{{{ secrets.TOKEN }}}}"
    output: fetched
  - name: keyed
    uses: cache.wrap
    with:
      action: json.stringify
      key: "by {{{{ secrets.TOKEN }}}}"
      args:
        data: {{a: 1}}
    output: keyed
"#
    )
}

#[track_caller]
fn assert_in_no_file(home: &Home, secret: &str) {
    let spellings = [
        secret.to_owned(),
        serde_json::to_string(secret)
            .unwrap()
            .trim_matches('"')
            .to_owned(),
        "s3cr3t".to_owned(),
    ];
    for (path, bytes) in home.files() {
        if path.ends_with("secrets.json") {
            continue;
        }
        for spelling in &spellings {
            let found = bytes
                .windows(spelling.len())
                .any(|window| window == spelling.as_bytes());
            assert!(!found, "{} holds {spelling}", path.display());
        }
    }
}

#[test]
fn secret_is_used_and_written_to_no_file() {
    let home = Home::new();
    let server = Server::start("{\"fine\": true}");
    home.write("agent.yaml", agent(&server.url()));
    home.write(
        "secrets.json",
        serde_json::json!({"TOKEN": SECRET}).to_string(),
    );
    let run = || home.run(&["run", "agent.yaml", "--secrets", "secrets.json", "-v"]);
    let first = run().ok();
    assert!(
        !first.stderr.contains("s3cr3t") && !first.stdout.contains("s3cr3t"),
        "{first}"
    );
    let second = run().ok();
    assert_eq!(second.json()["fetched"]["_cache_hit"], true, "{second}");
    assert_eq!(second.json()["keyed"]["_cache_hit"], true, "{second}");
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert!(
        requests[0].contains("x-secret: Bearer s3cr3t"),
        "the server got it: {}",
        requests[0]
    );
    let why = home.run(&["why", "--json"]).ok();
    assert!(!why.stdout.contains("s3cr3t"), "{why}");
    let left_out = home.run(&["cache", "export", "tape.jsonl"]).ok();
    assert!(left_out.stderr.contains("left out 2"), "{left_out}");
    home.run(&["cache", "export", "with-key.jsonl", "--with-digest-key"])
        .ok();
    assert_in_no_file(&home, SECRET);
}

#[test]
fn calls_with_different_secrets_have_different_keys() {
    let home = Home::new();
    let server = Server::start("{\"fine\": true}");
    home.write("agent.yaml", agent(&server.url()));
    for (value, hit) in [("one one", false), ("two two", false), ("one one", true)] {
        let ran = home
            .command(&["run", "agent.yaml", "--secrets-env", "APP"])
            .env("APP_TOKEN", value)
            .output()
            .unwrap();
        let ran = crate::support::CommandOutput::from(ran).ok();
        assert_eq!(ran.json()["fetched"]["_cache_hit"], hit, "{value}: {ran}");
    }
}

#[test]
fn answer_with_the_secret_is_not_cached() {
    let home = Home::new();
    let server = Server::start(&serde_json::json!({"echo": SECRET}).to_string());
    home.write("agent.yaml", agent(&server.url()));
    home.write(
        "secrets.json",
        serde_json::json!({"TOKEN": SECRET}).to_string(),
    );
    let ran = home
        .run(&["run", "agent.yaml", "--secrets", "secrets.json"])
        .ok()
        .json();
    assert_eq!(ran["fetched"]["_cache_stored"], false);
    assert!(
        ran["fetched"]["_cache_reason"]
            .as_str()
            .unwrap()
            .contains("secret")
    );
    assert_in_no_file(&home, SECRET);
}

#[test]
fn a_failure_does_not_show_the_secret() {
    let home = Home::new();
    home.write("agent.yaml", agent("http://127.0.0.1:1"));
    home.write(
        "secrets.json",
        serde_json::json!({"TOKEN": SECRET}).to_string(),
    );
    let ran = home
        .run(&["run", "agent.yaml", "--secrets", "secrets.json"])
        .fails(1);
    assert!(!ran.stderr.contains("s3cr3t"), "{ran}");
    assert_in_no_file(&home, SECRET);
}

#[test]
fn invalid_secrets_file_is_refused_without_showing_values() {
    let home = Home::new();
    home.write("agent.yaml", "name: a\nnodes:\n  - name: n\n");
    for content in ["TOKEN: [s3cr3t", "[s3cr3t]", "TOKEN: {a: s3cr3t}"] {
        home.write("secrets.yaml", content);
        let ran = home
            .run(&["run", "agent.yaml", "--secrets", "secrets.yaml"])
            .fails(2);
        assert!(!ran.stderr.contains("s3cr3t"), "{ran}");
    }
    home.run(&["run", "agent.yaml", "--secrets", "missing.yaml"])
        .fails(2);
}

#[test]
fn undeclared_credentials_are_not_stored() {
    let home = Home::new();
    let server = Server::start("{\"fine\": true}");
    let address = server.url().replace("http://", "http://bob:s3cr3t-0@");
    home.write(
        "agent.yaml",
        format!(
            r#"name: careless
nodes:
  - name: fetch
    uses: cache.wrap
    with:
      action: http.post
      args:
        url: "{address}/data?access_token=s3cr3t-1&page=7&sig=s3cr3t-2"
        headers:
          X-Auth-Token: s3cr3t-3
        json:
          db_password: s3cr3t-4
          openaiApiKey: s3cr3t-5
          max_tokens: 4711
"#
        ),
    );
    home.run(&["run", "agent.yaml"]).ok();
    let why = home.run(&["why", "--json"]).ok();
    assert!(!why.stdout.contains("s3cr3t"), "{why}");
    assert!(
        why.stdout.contains("4711") && why.stdout.contains("page=7"),
        "{why}"
    );
    for (path, bytes) in home.files() {
        let name = path.to_string_lossy();
        if name.contains(".ledger") {
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("s3cr3t"), "{name}");
        }
    }
}

#[test]
fn named_variable_has_a_stable_key_and_is_not_shown() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        r#"name: naming
nodes:
  - name: work
    uses: cache.wrap
    with:
      action: shell.run
      args: {command: ["sh", "-c", "test -n \"$API_PASSWORD\""], environment: [API_PASSWORD]}
    output: answer
"#,
    );
    for (password, hit) in [
        ("pass-1234", false),
        ("pass-1234", true),
        ("pass-5678", false),
    ] {
        let ran = home
            .command(&["run", "agent.yaml"])
            .env("API_PASSWORD", password)
            .output()
            .unwrap();
        let ran = crate::support::CommandOutput::from(ran).ok();
        assert_eq!(ran.json()["answer"]["_cache_hit"], hit, "{password}: {ran}");
    }
    for (path, bytes) in home.files() {
        let found = bytes.windows(5).any(|window| window == b"pass-");
        assert!(!found, "{}", path.display());
    }
}

#[test]
fn very_short_secret_is_a_warning() {
    let home = Home::new();
    home.write("agent.yaml", "name: a\nnodes:\n  - name: n\n");
    home.write("secrets.json", r#"{"PIN": "12"}"#);
    let ran = home
        .run(&["run", "agent.yaml", "--secrets", "secrets.json"])
        .ok();
    assert!(ran.stderr.contains("PIN is very short"), "{ran}");
}
