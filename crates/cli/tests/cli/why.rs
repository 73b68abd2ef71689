//! `cachalot why`.

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
    assert!(why.stdout.contains("/args/command/3"), "{why}");
    assert!(
        why.stdout.contains("\"old value\" became \"new value\""),
        "{why}"
    );
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
    assert!(
        why.stdout.contains("answered from the cache, saved"),
        "{why}"
    );
    let handle = first["answer"]["_cache_key"].as_str().unwrap();
    let why = home.run(&["why", handle]).ok();
    assert!(why.stdout.contains(handle), "{why}");
}

#[test]
fn why_without_anything_to_explain_says_so() {
    let home = Home::new();
    let why = home.run(&["why"]).fails(1);
    assert!(why.stderr.contains("nothing was run yet"), "{why}");
    let unknown = home.run(&["why", "cache:nobody:x"]).fails(1);
    assert!(unknown.stderr.contains("cache:nobody:x"), "{unknown}");
}

#[test]
fn why_says_that_the_time_was_over() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        MARKING.replace("      args:", "      ttl_seconds: 0.2\n      args:"),
    );
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    std::thread::sleep(std::time::Duration::from_millis(300));
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    let why = home.run(&["why"]).ok();
    assert!(why.stdout.contains("expired"), "{why}");
    assert!(
        why.stdout.contains("the same call was answered before"),
        "{why}"
    );
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
