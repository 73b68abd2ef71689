//! Stores that a URL names.

use std::process::Stdio;

use cachalot_backends::testing::{
    FaultProxy, FirestoreEmulator, LibsqlServer, ObjectServer, PASSWORD, PostgresServer,
    RedisCluster, RedisServer,
};

use crate::doctor::{check_of, doctor};
use crate::provider::{Provider, SCRIPTED_MODEL, SHELL, session};
use crate::support::{CommandOutput, Home};

/// An agent whose step depends on nothing but its text.
pub(crate) const STRINGIFY: &str = r#"
name: shared
nodes:
  - name: work
    uses: cache.wrap
    with:
      action: json.stringify
      args: {data: "{{ state.text }}"}
    output: answer
"#;

/// A memoized step for each item.
const MANY: &str = r#"
name: many
settings: {}
nodes:
  - name: each
    type: dynamic_parallel
    items: "{{ state.items }}"
    max_concurrency: 16
    action:
      uses: cache.wrap
      with:
        action: json.stringify
        args: {data: {item: "{{ state.item }}"}}
    fan_in: collect
  - name: collect
    fan_in: true
"#;

/// The file, with lookups that wait as long as a machine with other work may need.
pub(crate) fn patient(file: &str) -> String {
    format!("{file}settings: {{cache: {{patience: 10s}}}}\n")
}

/// Runs the agent with a store.
pub(crate) fn run(home: &Home, database: &str, text: &str) -> CommandOutput {
    home.write("agent.yaml", patient(STRINGIFY));
    let input = format!("text={text}");
    let mut command = home.command(&["run", "agent.yaml", "-i", &input]);
    command
        .env("CACHALOT_DB", database)
        .output()
        .unwrap()
        .into()
}

#[test]
fn url_is_never_a_file_name() {
    let home = Home::new();
    home.write("agent.yaml", STRINGIFY);
    let before = home.files().len();
    for (url, code) in [
        #[cfg(not(feature = "duckdb"))]
        ("duckdb:x.db", "backend-not-built"),
        ("redis-cluster://127.0.0.1/1", "bad-value"),
        ("libsql:///", "bad-value"),
        ("firestore://project", "bad-value"),
        ("mysql://127.0.0.1/x", "unknown-backend"),
        ("file:///tmp/x.db", "unknown-backend"),
        ("postgres://host:port/x", "bad-value"),
        ("redis://host/x", "bad-value"),
        ("unix:x", "bad-value"),
    ] {
        let given = home.run(&["run", "agent.yaml", "-i", "text=x", "--db", url]);
        let given = given.fails(2);
        assert!(
            given.stderr.contains(code) && given.stderr.contains("--db"),
            "{given}"
        );
        let set = run(&home, url, "x").fails(2);
        assert!(
            set.stderr.contains(code) && set.stderr.contains("CACHALOT_DB"),
            "{set}"
        );
    }
    assert_eq!(home.files().len(), before);
}

#[test]
fn backend_and_place_in_the_agent_file_have_to_agree() {
    let home = Home::new();
    for (settings, message) in [
        ("{backend: postgres}", "without the URL"),
        ("{backend: postgres, path: x.db}", "without the URL"),
        (
            "{backend: sqlite, path: 'postgres://127.0.0.1/x'}",
            "with the URL of a server",
        ),
        #[cfg(not(feature = "duckdb"))]
        (
            "{path: 'duckdb:x.db'}",
            "`duckdb` is not part of this build",
        ),
        (
            "{backend: redis, url: 'postgres://127.0.0.1/x'}",
            "`backend: redis` without the URL of such a server",
        ),
        (
            "{path: x.db, url: 'postgres://127.0.0.1/x'}",
            "second place",
        ),
    ] {
        home.write(
            "agent.yaml",
            format!("{STRINGIFY}settings: {{ltm: {settings}}}\n"),
        );
        let refused = home.run(&["run", "agent.yaml", "-i", "text=x"]).fails(2);
        assert!(refused.stderr.contains(message), "{settings}: {refused}");
    }
}

#[test]
fn password_in_an_argument_is_refused_and_not_shown() {
    let home = Home::new();
    for url in [
        "postgres://me:hunter2@127.0.0.1/x",
        "postgres://127.0.0.1/x?user=me&password=hunter2",
        "rediss://:hunter2@127.0.0.1/0",
        "unix:/run/redis.sock?pass=hunter2",
    ] {
        let refused = home.run(&["cache", "stats", "--db", url]).fails(2);
        assert!(refused.stderr.contains("CACHALOT_DB"), "{refused}");
        assert!(!refused.to_string().contains("hunter2"), "{refused}");
    }
}

#[test]
fn machines_share_a_postgres_store() {
    if let Some(server) = PostgresServer::shared() {
        machines_share_a_store(&server.fresh_url(), "postgres", "PGPASSWORD");
    }
}

#[test]
fn machines_share_a_redis_store() {
    if let Some(server) = RedisServer::shared() {
        machines_share_a_store(&server.fresh_url(), "redis", "REDISCLI_AUTH");
    }
}

#[test]
fn machines_share_a_libsql_store() {
    let Some(server) = LibsqlServer::start(&[]) else {
        return;
    };
    let url = server.url();
    let (here, there) = (Home::new(), Home::new());
    let missed = run(&here, &url, "x").ok();
    assert_eq!(missed.json()["answer"]["_cache_stored"], true, "{missed}");
    let hit = run(&there, &url, "x").ok();
    assert_eq!(hit.json()["answer"]["_cache_hit"], true, "{hit}");
    there.write(
        "agent.yaml",
        format!("{STRINGIFY}settings: {{ltm: {{backend: turso, ltm_url: '{url}', ltm_auth_token: '${{TOKEN}}'}}, cache: {{patience: 10s}}}}\n"),
    );
    let mut command = there.command(&["run", "agent.yaml", "-i", "text=x"]);
    let hit: CommandOutput = command.env("TOKEN", "any").output().unwrap().into();
    assert_eq!(hit.ok().json()["answer"]["_cache_hit"], true);
    assert!(!here.database().exists() && !there.database().exists());
    let checked = here.run(&["doctor", "--json", "--db", &url]).ok();
    assert_eq!(check_of(&checked, "write").0, "ok");
    here.run(&["cache", "rm", "--all", "--db", &url]).ok();
    let missed = run(&there, &url, "x").ok();
    assert_eq!(missed.json()["answer"]["_cache_hit"], false, "{missed}");
    let refused = here.run(&[
        "cache",
        "stats",
        "--db",
        &format!("{url}&authToken=hunter2"),
    ]);
    let refused = refused.fails(2);
    assert!(refused.stderr.contains("TURSO_AUTH_TOKEN"), "{refused}");
    assert!(!refused.to_string().contains("hunter2"), "{refused}");
    // A server that cannot be reached.
    let ran = run(&here, "libsql://127.0.0.1:1?tls=0", "x").ok();
    assert_eq!(ran.json()["answer"]["_cache_stored"], false, "{ran}");
    assert_eq!(ran.stderr.matches("warning:").count(), 1, "{ran}");
}

#[test]
fn machines_share_a_store_in_a_bucket() {
    let Some(server) = ObjectServer::shared() else {
        return;
    };
    let url = server.fresh_url();
    let run = |home: &Home, settings: &str, database: Option<&str>| -> CommandOutput {
        home.write("agent.yaml", format!("{STRINGIFY}{settings}\n"));
        let mut command = home.command(&["run", "agent.yaml", "-i", "text=x"]);
        command.envs(server.environment());
        if let Some(database) = database {
            command.env("CACHALOT_DB", database);
        }
        command.output().unwrap().into()
    };
    let (here, there) = (Home::new(), Home::new());
    let missed = run(&here, "", Some(&url)).ok();
    assert_eq!(missed.json()["answer"]["_cache_stored"], true, "{missed}");
    let hit = run(&there, "", Some(&url)).ok();
    assert_eq!(hit.json()["answer"]["_cache_hit"], true, "{hit}");
    let settings = format!(
        "settings: {{ltm: {{backend: blob-sqlite, ltm_blob_uri: '{url}', ltm_lock_backend: redis}}}}"
    );
    let hit = run(&there, &settings, None).ok();
    assert_eq!(hit.json()["answer"]["_cache_hit"], true, "{hit}");
    assert!(!here.database().exists() && !there.database().exists());
    // The endpoint does not answer: the work runs.
    let mut command = here.command(&["run", "agent.yaml", "-i", "text=x"]);
    command.envs(server.environment());
    command.env("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1");
    let ran: CommandOutput = command.env("CACHALOT_DB", &url).output().unwrap().into();
    let ran = ran.ok();
    assert_eq!(ran.json()["answer"]["_cache_stored"], false, "{ran}");
    assert_eq!(ran.stderr.matches("warning:").count(), 1, "{ran}");
    let mut command = here.command(&["doctor", "--json"]);
    command.envs(server.environment());
    let checked: CommandOutput = command.env("CACHALOT_DB", &url).output().unwrap().into();
    let checked = checked.ok();
    assert_eq!(check_of(&checked, "write").0, "ok");
    assert_eq!(check_of(&checked, "single-flight").0, "degraded");
}

/// Hits come from the process's memory, and only with the setting.
#[test]
fn staleness_saves_questions_to_the_server() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let url = server.fresh_url();
    let proxy = FaultProxy::start(server.port());
    let counted = proxy.url(&url, server.port());
    let home = Home::new();
    // The second step starts when the subscription has been answered.
    let steps: String = (0..40)
        .map(|number| {
            format!(
                "  - name: step{number}\n    uses: cache.wrap\n    with: {{action: json.stringify, args: {{data: x}}}}\n"
            )
        })
        .collect();
    let pause =
        "  - name: pause\n    run: |\n      import time\n      time.sleep(1)\n      return {}\n";
    let first = steps.split_inclusive("x}}\n").next().unwrap().to_owned();
    let mut questions = Vec::new();
    for staleness in ["20s", "0"] {
        home.write(
            "agent.yaml",
            format!(
                "name: repeat\nnodes:\n{}{pause}{steps}settings: {{ltm: {{url: '${{STORE}}', staleness: {staleness}}}, \
                 cache: {{patience_ms: 5000}}}}\n",
                first.replace("step0", "first")
            ),
        );
        let before = proxy.round_trips();
        let mut command = home.command(&["run", "agent.yaml"]);
        let ran: CommandOutput = command.env("STORE", &counted).output().unwrap().into();
        ran.ok();
        questions.push(proxy.round_trips() - before);
    }
    assert!(questions[0] < 40 && questions[1] > 40, "{questions:?}");
    home.write(
        "agent.yaml",
        format!("{STRINGIFY}settings: {{ltm: {{staleness: soon}}}}\n"),
    );
    let refused = home.run(&["run", "agent.yaml", "-i", "text=x"]).fails(2);
    assert!(
        refused
            .stderr
            .contains("`staleness` is `soon`, which is no duration"),
        "{refused}"
    );
}

/// The file, or the URL, says that the server loses nothing when it starts again.
#[test]
fn answers_survive_the_restart_of_a_durable_redis_server() {
    let settings = ["--appendonly", "yes", "--appendfsync", "always"];
    let Some(mut server) = RedisServer::start(&settings) else {
        return;
    };
    let url = server.fresh_url();
    let home = Home::new();
    let durable =
        format!("{STRINGIFY}settings: {{ltm: {{durable: true}}, cache: {{patience: 10s}}}}\n");
    home.write("durable.yaml", durable);
    home.write("agent.yaml", patient(STRINGIFY));
    let run = |file: &str, url: &str| -> CommandOutput {
        let mut command = home.command(&["run", file, "-i", "text=x"]);
        command.env("CACHALOT_DB", url).output().unwrap().into()
    };
    let is_hit = |file: &str, url: &str| run(file, url).ok().json()["answer"]["_cache_hit"] == true;
    assert!(!is_hit("durable.yaml", &url));
    let durable_url = format!("{url}?durable=true");
    for (file, url) in [("durable.yaml", &url), ("agent.yaml", &durable_url)] {
        server.restart();
        assert!(is_hit(file, url), "{file}");
    }
    server.restart();
    assert!(!is_hit("agent.yaml", &url), "nothing says so");
    server.execute(&["CONFIG", "SET", "appendfsync", "everysec"]);
    let refused = run("durable.yaml", &url).fails(1);
    assert!(
        refused.stderr.contains("set appendfsync to always"),
        "{refused}"
    );
}

/// A build with DuckDB (`scripts/duckdb`).
#[cfg(feature = "duckdb")]
#[test]
fn runs_share_a_store_in_duckdb() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        format!("{STRINGIFY}settings: {{ltm: {{backend: duckdb, url: 'duckdb:store.duckdb'}}}}\n"),
    );
    for hit in [false, true] {
        let ran = home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
        assert_eq!(ran.json()["answer"]["_cache_hit"], hit, "{ran}");
    }
    assert!(home.join("store.duckdb").exists());
    let given = home.run(&[
        "run",
        "agent.yaml",
        "-i",
        "text=x",
        "--db",
        "duckdb:store.duckdb",
    ]);
    assert_eq!(given.ok().json()["answer"]["_cache_hit"], true);
    let checked = home
        .run(&["doctor", "--json", "--db", "duckdb:store.duckdb"])
        .ok();
    assert_eq!(check_of(&checked, "write").0, "ok");
    home.write(
        "agent.yaml",
        format!("{STRINGIFY}settings: {{ltm: {{backend: duckdb}}}}\n"),
    );
    let refused = home.run(&["run", "agent.yaml", "-i", "text=x"]).fails(2);
    assert!(refused.stderr.contains("duckdb:FILE.duckdb"), "{refused}");
    // One process at a time: the work runs.
    let other = cachalot_backends::duckdb::DuckdbStore::open(
        &home.join("store.duckdb"),
        std::sync::Arc::new(cachalot_core::SystemClock),
    );
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        cachalot_store::Store::usage(&other, "cache")
            .settle()
            .await
            .unwrap();
    });
    home.write("agent.yaml", STRINGIFY);
    let ran = home
        .run(&[
            "run",
            "agent.yaml",
            "-i",
            "text=x",
            "--db",
            "duckdb:store.duckdb",
        ])
        .ok();
    assert_eq!(ran.json()["answer"]["_cache_stored"], false, "{ran}");
    assert_eq!(ran.stderr.matches("warning:").count(), 1, "{ran}");
    assert!(ran.stderr.contains("one at a time"), "{ran}");
}

/// A build with DuckDB (`scripts/duckdb`).
#[cfg(feature = "duckdb")]
#[test]
fn duckdb_reads_the_ledger_as_parquet() {
    let home = Home::new();
    home.write("agent.yaml", STRINGIFY);
    for _ in 0..3 {
        home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    }
    home.run(&["ledger", "export", "calls.parquet"]).ok();
    let connection = duckdb::Connection::open_in_memory().unwrap();
    let read = format!(
        "SELECT count(*), count(*) FILTER (WHERE answered = 'hit'), typeof(min(time)), sum(saved_ms) > 0 FROM '{}'",
        home.join("calls.parquet").display()
    );
    let read = connection.query_row(&read, [], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    });
    let (calls, hits, time, has_saved): (i64, i64, String, bool) = read.unwrap();
    assert_eq!((calls, hits, &*time, has_saved), (3, 2, "TIMESTAMP", true));
}

#[test]
fn machines_share_a_store_in_firestore() {
    let Some(emulator) = FirestoreEmulator::shared() else {
        return;
    };
    let url = emulator.fresh_url();
    let run = |home: &Home, arguments: &[&str]| -> CommandOutput {
        let mut command = home.command(arguments);
        command.envs(emulator.environment());
        command.env("CACHALOT_DB", &url).output().unwrap().into()
    };
    let (here, there) = (Home::new(), Home::new());
    for (home, hit) in [(&here, false), (&there, true)] {
        home.write("agent.yaml", patient(STRINGIFY));
        let ran = run(home, &["run", "agent.yaml", "-i", "text=x"]).ok();
        assert_eq!(ran.json()["answer"]["_cache_hit"], hit, "{ran}");
        assert!(!home.database().exists());
    }
    let settings = "settings: {ltm: {backend: firestore, ltm_url: '${CACHALOT_DB}', ltm_collection: x}, cache: {patience: 10s}}";
    there.write("agent.yaml", format!("{STRINGIFY}{settings}\n"));
    let hit = run(&there, &["run", "agent.yaml", "-i", "text=x"]).ok();
    assert_eq!(hit.json()["answer"]["_cache_hit"], true, "{hit}");
    let checked = run(&here, &["doctor", "--json"]).ok();
    assert_eq!(check_of(&checked, "write").0, "ok");
    run(&here, &["cache", "rm", "--all"]).ok();
    // The server does not answer: the work runs.
    let mut command = here.command(&["run", "agent.yaml", "-i", "text=x"]);
    command.env("FIRESTORE_EMULATOR_HOST", "127.0.0.1:1");
    let ran: CommandOutput = command.env("CACHALOT_DB", &url).output().unwrap().into();
    let ran = ran.ok();
    assert_eq!(ran.json()["answer"]["_cache_stored"], false, "{ran}");
    assert_eq!(ran.stderr.matches("warning:").count(), 1, "{ran}");
    // It has no search by text.
    let search = "nodes: [{name: answer, uses: ltm.search, with: {query: x}}]\n";
    there.write("agent.yaml", format!("name: search\n{search}"));
    let refused = run(&there, &["run", "agent.yaml"]).fails(2);
    assert!(refused.stderr.contains("no-text-search"), "{refused}");
}

fn machines_share_a_store(url: &str, backend: &str, variable: &str) {
    let (here, there) = (Home::new(), Home::new());
    let missed = run(&here, url, "x").ok();
    assert_eq!(missed.json()["answer"]["_cache_hit"], false);
    assert_eq!(missed.json()["answer"]["_cache_stored"], true, "{missed}");
    let hit = run(&there, url, "x").ok();
    assert_eq!(hit.json()["answer"]["_cache_hit"], true, "{hit}");
    assert!(!here.database().exists() && !there.database().exists());

    // Chosen by the agent file.
    for settings in [
        format!("{{backend: {backend}, ltm_url: '${{STORE}}'}}"),
        "{url: '${STORE}'}".to_owned(),
    ] {
        let home = Home::new();
        home.write(
            "agent.yaml",
            format!("{STRINGIFY}settings: {{ltm: {settings}, cache: {{patience: 10s}}}}\n"),
        );
        let mut command = home.command(&["run", "agent.yaml", "-i", "text=x"]);
        let ran: CommandOutput = command.env("STORE", url).output().unwrap().into();
        assert_eq!(ran.ok().json()["answer"]["_cache_hit"], true, "{settings}");
    }

    // Commands that look into the store; the password from the environment.
    let (user, host) = url.split_once(&format!(":{PASSWORD}")).unwrap();
    let bare = format!("{user}{host}");
    let with_password = |arguments: &[&str]| -> CommandOutput {
        let mut command = there.command(arguments);
        command.env(variable, PASSWORD).output().unwrap().into()
    };
    let stats = with_password(&["cache", "stats", "--json", "--db", &bare]).ok();
    assert_eq!(stats.json()["entries"], 1, "{stats}");
    assert!(!stats.to_string().contains(PASSWORD));
    // A server that an agent file names does not get it.
    there.write(
        "agent.yaml",
        format!("{STRINGIFY}settings: {{ltm: {{url: '{bare}'}}}}\n"),
    );
    let refused = with_password(&["run", "agent.yaml", "-i", "text=x"]).fails(2);
    assert!(refused.stderr.contains("missing-password"), "{refused}");
    assert!(refused.stderr.contains("${VARIABLE}"), "{refused}");
    let refused = there.run(&["run", "agent.yaml", "-i", "text=x", "--db", &bare]);
    assert!(refused.fails(2).stderr.contains(variable));
    with_password(&["cache", "rm", "--all", "--db", &bare]).ok();
    let missed = run(&here, url, "x").ok();
    assert_eq!(missed.json()["answer"]["_cache_hit"], false, "{missed}");
    there.run(&["cache", "ls", "--db", &bare]).fails(1);
    // The work runs without the store.
    let wrong = run(&there, &url.replace(PASSWORD, "wrong-secret"), "x").ok();
    assert_eq!(wrong.json()["answer"]["_cache_stored"], false, "{wrong}");
    assert_eq!(wrong.stderr.matches("warning:").count(), 1, "{wrong}");
    assert!(wrong.stderr.contains("password"), "{wrong}");
    assert!(!wrong.to_string().contains("wrong-secret"), "{wrong}");
}

#[test]
fn hosts_and_ports_are_written_as_for_other_clients() {
    let Some(server) = PostgresServer::shared() else {
        return;
    };
    let home = Home::new();
    let (url, port) = (server.fresh_url(), server.port());
    let place = format!("127.0.0.1:{port}/postgres?");
    for spelling in [
        format!("127.0.0.1:1,127.0.0.1:{port}/postgres?"),
        format!("127.0.0.1,127.0.0.1:{port}/postgres?"),
        format!("127.0.0.1/postgres?port={port}&"),
        format!("/postgres?host=127.0.0.1&port={port}&"),
        format!("127.0.0.1:{port}/postgres?host=127.0.0.1,localhost&"),
    ] {
        let url = url.replace(&place, &spelling);
        let checked = doctor(&home, &url).ok();
        assert_eq!(check_of(&checked, "write").0, "ok", "{spelling}");
        assert!(!checked.to_string().contains(PASSWORD), "{spelling}");
    }
}

#[test]
fn text_search_needs_a_store_that_has_it() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let home = Home::new();
    let url = server.fresh_url();
    let search = |with: &str| {
        home.write(
            "agent.yaml",
            format!(
                "name: find\nnodes:\n  - name: store\n    uses: ltm.store\n    with: {{key: a, value: blue, \
                 metadata: {{kind: color}}}}\n  - name: find\n    uses: ltm.search\n    with: {with}\n    output: found\n"
            ),
        );
        let mut command = home.command(&["run", "agent.yaml"]);
        let ran: CommandOutput = command.env("CACHALOT_DB", &url).output().unwrap().into();
        ran
    };
    let refused = search("{query: blue}").fails(2);
    assert!(refused.stderr.contains("no-text-search"), "{refused}");
    assert!(refused.stderr.contains("agent.yaml:"), "{refused}");
    let found = search("{metadata_filter: {kind: color}}").ok();
    assert!(found.to_string().contains("blue"), "{found}");
}

/// Four processes with the same thousand keys at the same time.
#[test]
fn fleet_computes_each_key_once() {
    let mut urls = Vec::new();
    urls.extend(PostgresServer::shared().map(|server| (server.fresh_url(), 1_000)));
    urls.extend(RedisServer::shared().map(|server| (server.fresh_url(), 1_000)));
    urls.extend(RedisCluster::shared().map(|cluster| (cluster.url(), 1_000)));
    // Stores that are not made for many writers.
    urls.extend(LibsqlServer::shared().map(|server| (server.url(), 50)));
    let emulator = FirestoreEmulator::shared();
    urls.extend(emulator.map(|emulator| (emulator.fresh_url(), 50)));
    let environment = emulator.map(FirestoreEmulator::environment);
    let environment = environment.unwrap_or_default();
    for (url, calls) in urls {
        let items: Vec<u64> = (0..calls).collect();
        let input = format!("items:={}", serde_json::to_string(&items).unwrap());
        let homes: Vec<Home> = (0..4).map(|_| Home::new()).collect();
        let started: Vec<_> = homes
            .iter()
            .map(|home| {
                home.write(
                    "many.yaml",
                    MANY.replace("settings: {}", "settings: {cache: {patience_ms: 30000}}"),
                );
                let mut command = home.command(&["run", "many.yaml", "-q", "--json", "-i", &input]);
                command
                    .envs(&environment)
                    .env("CACHALOT_DB", &url)
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        let mut paid = 0;
        for child in started {
            let ended: CommandOutput = child.wait_with_output().unwrap().into();
            paid += ended.ok().json()["report"]["paid"]["calls"]
                .as_u64()
                .unwrap();
        }
        assert_eq!(paid, calls, "{url:.8}");
    }
}

/// A file is copied to a server, and from there to another file; all of it works in each place.
#[test]
fn stores_are_copied() {
    const NOTES: &str = r#"
name: notes
nodes:
  - name: read
    uses: cache.wrap
    with: {action: ltm.retrieve, args: {key: fact}}
    output: found
"#;
    let mut urls = Vec::new();
    urls.extend(PostgresServer::shared().map(PostgresServer::fresh_url));
    urls.extend(RedisServer::shared().map(RedisServer::fresh_url));
    let cluster = RedisCluster::start(0);
    urls.extend(cluster.as_ref().map(RedisCluster::url));
    let libsql = LibsqlServer::start(&[]);
    urls.extend(libsql.as_ref().map(LibsqlServer::url));
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", patient(STRINGIFY));
    home.write("notes.yaml", patient(NOTES));
    home.write(
        "store.yaml",
        "name: store\nnodes:\n  - name: store\n    uses: ltm.store\n    with: {key: fact, value: '{{ state.text }}'}\n",
    );
    home.write("chat.yaml", SHELL);
    let in_store = |database: Option<&str>, arguments: &[&str]| -> CommandOutput {
        let mut command = home.command(arguments);
        if let Some(database) = database {
            command.env("CACHALOT_DB", database);
        }
        command.output().unwrap().into()
    };
    // Two writes, so that the epoch of the memory is not that of an empty store.
    for text in ["old", "blue"] {
        let input = format!("text={text}");
        in_store(None, &["run", "store.yaml", "-q", "-i", &input]).ok();
    }
    for file in ["agent.yaml", "notes.yaml"] {
        in_store(None, &["run", file, "-q", "-i", "text=x"]).ok();
    }
    let chat = session(&home.ask(&provider, &["chat.yaml"], "hello").ok());
    let own = home.database();
    let check = |database: &str| {
        for (file, field) in [("agent.yaml", "answer"), ("notes.yaml", "found")] {
            let ran = in_store(Some(database), &["run", file, "-i", "text=x"]).ok();
            assert_eq!(ran.json()[field]["_cache_hit"], true, "{database:.8} {ran}");
        }
        let ran = in_store(Some(database), &["run", "notes.yaml", "-i", "text=x"]).ok();
        assert!(ran.stdout.contains("blue"), "{ran}");
        let shown = in_store(Some(database), &["sessions", "show", &chat]).ok();
        assert!(shown.stdout.contains("hello"), "{shown}");
        // The copy is its own store: a write there makes its entries stale.
        in_store(
            Some(database),
            &["run", "store.yaml", "-q", "-i", "text=green"],
        )
        .ok();
        let ran = in_store(Some(database), &["run", "notes.yaml", "-i", "text=x"]).ok();
        assert!(ran.stdout.contains("green"), "{ran}");
    };
    for (number, url) in urls.iter().enumerate() {
        let bare = url.replace(&format!(":{PASSWORD}"), "");
        let copy = |from: &str, to: &str| -> CommandOutput {
            let mut command = home.command(&["cache", "copy", from, to, "--json"]);
            let passwords = [("PGPASSWORD", PASSWORD), ("REDISCLI_AUTH", PASSWORD)];
            command.envs(passwords).output().unwrap().into()
        };
        let copied = copy(own.to_str().unwrap(), &bare).ok().json();
        assert_eq!(copied["cache"]["copied"], 2, "{copied}");
        assert_eq!(
            (&copied["user"]["copied"], &copied["sessions"]["copied"]),
            (&1.into(), &1.into())
        );
        let again = copy(own.to_str().unwrap(), &bare).ok().json();
        for (space, counts) in again.as_object().unwrap() {
            assert_eq!(counts["copied"], 0, "{space}: {again}");
            assert_eq!(
                counts["present"], copied[space]["copied"],
                "{space}: {again}"
            );
        }
        let file = format!("copy-{number}.db");
        copy(&bare, &file).ok();
        check(&file);
        check(url);
    }
    let same = home.run(&["cache", "copy", "a.db", "a.db"]).fails(2);
    assert!(same.stderr.contains("same store"), "{same}");
    let absent = home.run(&["cache", "copy", "a.db", "b.db"]).fails(1);
    assert!(absent.stderr.contains("no store at"), "{absent}");
}
