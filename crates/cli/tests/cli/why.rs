//! `cachalot why`.

use crate::provider::{Provider, SCRIPTED_MODEL, SHELL, session};
use crate::support::{Home, MARKING};

#[test]
fn why_names_the_pointer_and_both_values_after_one_argument_changed() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    home.run(&["run", "agent.yaml", "-i", "text=old value"])
        .ok();
    home.run(&["run", "agent.yaml", "-i", "text=new value"])
        .ok();
    let why = home.run(&["why", "--last"]).ok();
    insta::assert_snapshot!(why.shown(&home));
    let why = home.run(&["why", "--json"]).ok().json();
    assert_eq!(why["differences"][0]["pointer"], "/args/command/3");
    assert_eq!(why["differences"][0]["old"], "old value");
    assert_eq!(why["differences"][0]["new"], "new value");
    assert_eq!(why["differences"].as_array().unwrap().len(), 1, "{why}");
}

#[test]
fn why_explains_a_hit_and_a_call_by_its_handle() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    let first = home.run(&["run", "agent.yaml", "-i", "text=x"]).ok().json();
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    let why = home.run(&["why"]).ok();
    insta::assert_snapshot!("why_of_a_hit", why.shown(&home));
    let handle = first["answer"]["_cache_key"].as_str().unwrap();
    let short = &handle[..handle.len() - 54];
    let why = home.run(&["why", handle]).ok();
    assert!(why.stdout.contains(&format!("  key    {short}\n")), "{why}");
    let verbose = home.run(&["why", "-v", handle]).ok();
    assert!(
        verbose.stdout.contains(&format!("  key    {handle}\n")),
        "{verbose}"
    );
    let key = home.run(&["why", "--json", handle]).ok().json()["call"]["key"].clone();
    for abbreviated in [short, &key.as_str().unwrap()[..4]] {
        assert_eq!(home.run(&["why", abbreviated]).ok().stdout, why.stdout);
    }
    let unknown = home.run(&["why", "cache:marking:shell.run:0000"]).fails(1);
    insta::assert_snapshot!("why_of_an_unknown_handle", unknown.shown(&home));
}

#[test]
fn why_without_any_call_reports_that() {
    let home = Home::new();
    let why = home.run(&["why"]).fails(1);
    let unknown = home.run(&["why", "cache:nobody:x"]).fails(1);
    insta::assert_snapshot!(format!("{}\n{}", why.shown(&home), unknown.shown(&home)));
}

#[test]
fn why_reports_an_expired_entry() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        MARKING.replace("      args:", "      ttl_seconds: 0.2\n      args:"),
    );
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    std::thread::sleep(std::time::Duration::from_millis(300));
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    let why = home.run(&["why"]).ok();
    insta::assert_snapshot!(why.shown(&home));
}

#[test]
fn long_texts_are_shown_where_they_differ() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    let (before, after) = ("b".repeat(500), "a".repeat(500));
    for word in ["old", "new"] {
        let input = format!("text={before}{word}{after}");
        home.run(&["run", "agent.yaml", "-i", &input]).ok();
    }
    let why = home.run(&["why", "--last"]).ok();
    let line = why.stdout.lines().find(|line| line.contains(" became "));
    let (old, new) = line.unwrap().split_once(" became ").unwrap();
    for (shown, word) in [(old, "bbboldaaa"), (new, "bbbnewaaa")] {
        assert!(shown.contains(word), "{why}");
        assert!(shown.contains('…') && shown.ends_with('…'), "{why}");
    }
}

/// Two chats, the newer one last.
fn chats(home: &Home) -> [String; 2] {
    let provider = Provider::scripted(SCRIPTED_MODEL);
    home.write("agent.yaml", SHELL);
    ["hello", "something else"]
        .map(|question| session(&home.ask(&provider, &["agent.yaml"], question).ok()))
}

/// Changes what the ledger holds.
fn change(home: &Home, how: &str) {
    let mut ledger = home.database().into_os_string();
    ledger.push(".ledger");
    let ledger = rusqlite::Connection::open(ledger).unwrap();
    assert!(ledger.execute(how, []).unwrap() > 0, "{how}");
}

#[test]
fn why_after_chats_only_points_to_the_answers_of_models() {
    let home = Home::new();
    let [_, newest] = chats(&home);
    for arguments in [&["why"][..], &["why", "--last"]] {
        let why = home.run(arguments).fails(1);
        assert!(!why.stderr.contains("nothing was run"), "{why}");
        let way = format!("`cachalot why {newest}`");
        assert!(why.stderr.contains(&way), "{why}");
    }
}

#[test]
fn why_finds_a_session_by_a_prefix_of_its_name() {
    let home = Home::new();
    let [older, newer] = chats(&home);
    for (name, set) in [(&older, "5e551011"), (&newer, "5e551022")] {
        let set = format!("UPDATE calls SET handle = '{set}' WHERE handle = '{name}'");
        change(&home, &set);
    }
    let whole = home.run(&["why", "5e551011"]).ok().stdout;
    assert_eq!(home.run(&["why", "5e55101"]).ok().stdout, whole);
    let several = home.run(&["why", "5e55"]).fails(1);
    assert!(
        several.stderr.contains("`5e551022`, `5e551011`") && several.stderr.contains("more of"),
        "{several}"
    );
    for none in ["5e551033", ""] {
        let unknown = home.run(&["why", none]).fails(1);
        assert!(unknown.stderr.contains("knows no call of"), "{unknown}");
    }
    // A name that another one begins with is no beginning.
    change(
        &home,
        "UPDATE calls SET handle = '5e551' WHERE handle = '5e551011'",
    );
    let exact = home.run(&["why", "5e551", "--json"]).ok().json();
    assert_eq!(exact["call"]["handle"], "5e551");
}

#[test]
fn cacheable_tokens_are_reported_if_fewer_were_read() {
    let home = Home::new();
    let [_, name] = chats(&home);
    for (read, less) in [(3_721, false), (3_700, false), (3_699, true)] {
        change(
            &home,
            &format!(
                "UPDATE calls SET input = json_set(input, \
                 '$.read_from_its_cache', {read}, '$.could_have_read', 3700)"
            ),
        );
        let why = home.run(&["why", &name]).ok();
        let line = why.stdout.lines().any(|line| line.contains("could have"));
        assert_eq!(line, less, "{why}");
        assert!(why.stdout.contains(&format!("3,{}", read - 3_000)), "{why}");
    }
}
