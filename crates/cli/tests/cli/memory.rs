//! Memories that are damaged, too new, or not there.

use crate::support::{Home, MARKING};

#[test]
fn damaged_store_is_renamed_and_the_run_continues() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    let garbage = b"this is no database at all, but it is somebody's file".repeat(200);
    home.write("data/cachalot/cachalot.db", &garbage);
    let ran = home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    assert!(
        ran.stderr.contains("damaged") && ran.stderr.contains("set aside as"),
        "{ran}"
    );
    assert_eq!(ran.json()["answer"]["_cache_stored"], false);
    let kept = home
        .files()
        .into_iter()
        .find(|(path, _)| path.to_string_lossy().contains("corrupt"));
    assert_eq!(kept.unwrap().1, garbage);
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    let again = home.run(&["run", "agent.yaml", "-i", "text=x"]).ok().json();
    assert_eq!(again["answer"]["_cache_hit"], true);
}

#[test]
fn file_that_is_no_store_stays_as_it_is() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    let text = "name: precious\n".repeat(200);
    home.write("precious.yaml", &text);
    let ran = home
        .run(&["run", "agent.yaml", "-i", "text=x", "--db", "precious.yaml"])
        .ok();
    assert!(
        ran.stderr.contains("is no store, and stays as it is"),
        "{ran}"
    );
    let kept = std::fs::read_to_string(home.join("precious.yaml")).unwrap();
    assert_eq!(kept, text);
    // A damaged database that the user named is set aside.
    let named = ["run", "agent.yaml", "-i", "text=x", "--db", "named.db"];
    home.run(&named).ok();
    let mut database = std::fs::read(home.join("named.db")).unwrap();
    database.truncate(16);
    for end in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(home.join(&format!("named.db{end}")));
    }
    database.resize(8_192, 0xaa);
    home.write("named.db", &database);
    let ran = home.run(&named).ok();
    assert!(ran.stderr.contains("set aside as"), "{ran}");
}

#[test]
fn store_of_a_newer_version_is_refused() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    let newer = rusqlite::Connection::open(home.database()).unwrap();
    newer.pragma_update(None, "user_version", 999).unwrap();
    drop(newer);
    let ran = home.run(&["run", "agent.yaml", "-i", "text=x"]).fails(1);
    assert!(ran.stderr.contains("newer"), "{ran}");
    assert_eq!(home.runs(), 1, "nothing was run");
}

#[test]
fn unopenable_store_is_a_warning() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    std::fs::create_dir_all(home.database()).unwrap();
    let ran = home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    assert!(ran.stderr.contains("warning:"), "{ran}");
    assert_eq!(ran.json()["answer"]["result"]["stdout"], "x");
}

#[test]
fn long_term_memory_persists_and_search_excludes_cache_entries() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        r#"name: remembering
nodes:
  - name: remember
    uses: ltm.store
    with: {key: whale, value: "the sperm whale dives", metadata: {kind: fact}}
  - name: work
    uses: cache.wrap
    with:
      action: json.parse
      args: {text: "{\"about\": \"the sperm whale\"}"}
    output: parsed
  - name: search
    uses: ltm.search
    with: {query: "sperm whale"}
    output: found
  - name: by_metadata
    uses: ltm.search
    with: {metadata_filter: {kind: fact}}
    output: filtered
"#,
    );
    for _ in 0..2 {
        let state = home.run(&["run", "agent.yaml"]).ok().json();
        assert_eq!(state["found"]["count"], 1, "{state}");
        assert_eq!(state["found"]["results"][0]["key"], "whale");
        assert_eq!(state["filtered"]["count"], 1);
    }
}
