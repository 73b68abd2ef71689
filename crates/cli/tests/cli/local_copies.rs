//! Copies on this machine of the entries of a store on a server: `settings.ltm.local`.

use cachalot_backends::testing::{Fault, FaultProxy, RedisServer};
use serde_json::Value;

use crate::support::{CommandOutput, Home};

/// An agent whose answers expire, with copies.
fn agent(settings: &str) -> String {
    format!(
        "name: away\n\
         settings: {{ltm: {settings}}}\n\
         nodes:\n\
         \x20 - name: work\n\
         \x20   uses: cache.wrap\n\
         \x20   with: {{action: json.stringify, args: {{data: '{{{{ state.text }}}}'}}, ttl_seconds: 3600}}\n\
         \x20   output: answer\n"
    )
}

const LOCAL: &str = "{url: '${STORE}', local: true}";

fn run(home: &Home, settings: &str, url: &str, text: &str) -> CommandOutput {
    home.write("agent.yaml", agent(settings));
    let input = format!("text={text}");
    let mut command = home.command(&["run", "agent.yaml", "-i", &input]);
    command.env("STORE", url).output().unwrap().into()
}

fn answer(output: &CommandOutput) -> Value {
    output.json()["answer"].clone()
}

#[test]
fn copies_answer_while_the_server_is_away() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let direct = server.fresh_url();
    let proxy = FaultProxy::start(server.port());
    let port = |port| format!(":{port}");
    let url = direct.replace(&port(server.port()), &port(proxy.port()));
    let (here, there) = (Home::new(), Home::new());
    let missed = run(&here, LOCAL, &url, "x").ok();
    assert_eq!(answer(&missed)["_cache_hit"], false, "{missed}");

    proxy.set(Fault::Refuse);
    let hit = run(&here, LOCAL, &url, "x").ok();
    assert_eq!(answer(&hit)["_cache_hit"], true, "{hit}");
    let reason = answer(&hit)["_cache_reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("store fault"), "{hit}");
    assert_eq!(hit.stderr.matches("warning:").count(), 1, "{hit}");
    // Without the setting, nothing is served from there.
    let missed = run(&here, "{url: '${STORE}'}", &url, "x").ok();
    assert_eq!(answer(&missed)["_cache_hit"], false, "{missed}");
    // An answer that the server does not have yet.
    let missed = run(&here, LOCAL, &url, "new").ok();
    assert_eq!(answer(&missed)["_cache_stored"], false, "{missed}");
    let reason = answer(&missed)["_cache_reason"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(reason.contains("a local copy is sent"), "{missed}");
    let hit = run(&here, LOCAL, &url, "new").ok();
    assert_eq!(answer(&hit)["_cache_hit"], true, "{hit}");

    proxy.set(Fault::None);
    run(&here, LOCAL, &url, "other").ok();
    let hit = run(&there, "{url: '${STORE}'}", &direct, "new").ok();
    assert_eq!(answer(&hit)["_cache_hit"], true, "{hit}");

    // What a command erases here is erased from the copies, although it reads no agent file.
    let mut command = here.command(&["cache", "rm", "--all"]);
    let erased: CommandOutput = command.env("CACHALOT_DB", &url).output().unwrap().into();
    erased.ok();
    proxy.set(Fault::Refuse);
    let missed = run(&here, LOCAL, &url, "x").ok();
    assert_eq!(answer(&missed)["_cache_hit"], false, "{missed}");
}

/// The copies are encrypted like the store, and belong to one store.
#[test]
fn copies_are_encrypted_and_of_one_store() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let url = server.fresh_url();
    let home = Home::new();
    home.write("agent.yaml", agent(LOCAL));
    let key = "07".repeat(32);
    let mut command = home.command(&["run", "agent.yaml", "-i", "text=clear-text"]);
    command
        .env("STORE", &url)
        .env("CACHALOT_ENCRYPTION_KEY", &key);
    let ran: CommandOutput = command.output().unwrap().into();
    assert_eq!(answer(&ran.ok())["_cache_stored"], true);
    let copies: Vec<_> = std::fs::read_dir(home.database().parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(".copies"))
        .collect();
    assert!(!copies.is_empty());
    for path in copies {
        let bytes = std::fs::read(&path).unwrap();
        let is_clear = bytes.windows(10).any(|part| part == b"clear-text");
        assert!(!is_clear, "{}", path.display());
    }
    // Nothing listens there, and it is another store.
    let missed = run(&home, LOCAL, "redis://127.0.0.1:1/0", "clear-text").ok();
    assert_eq!(answer(&missed)["_cache_hit"], false, "{missed}");
}

#[test]
fn copies_of_a_file_have_no_effect() {
    let home = Home::new();
    let ran = run(&home, "{path: own.db, local: true}", "", "x").ok();
    assert!(
        ran.stderr.contains("the setting `local` has no effect"),
        "{ran}"
    );
}
