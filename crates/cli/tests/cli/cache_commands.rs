//! `cachalot cache …`.

use crate::support::{CommandOutput, Home, MARKING};
#[cfg(unix)]
use crate::terminal::Terminal;

fn home_with(texts: &[&str]) -> Home {
    let home = Home::new();
    home.write(
        "agent.yaml",
        MARKING.replace(
            "      args:",
            "      tags: [\"{{ state.text }}\"]\n      args:",
        ),
    );
    for text in texts {
        home.run(&["run", "agent.yaml", "-q", "-i", &format!("text={text}")])
            .ok();
    }
    home
}

#[test]
fn entries_are_listed_read_and_erased() {
    let home = home_with(&["a", "b", "c"]);
    let listed = home.run(&["cache", "ls"]).ok();
    insta::assert_snapshot!(listed.shown(&home));
    let listed = home
        .run(&["cache", "ls", "--json", "--tag", "b"])
        .ok()
        .json();
    let entry = &listed[0];
    assert_eq!(entry["name"], "shell.run");
    let handle = entry["handle"].as_str().unwrap();
    let value = home.run(&["cache", "get", handle]).ok().json();
    assert_eq!(value["stdout"], "b");
    let by_key = home
        .run(&["cache", "get", entry["key"].as_str().unwrap(), "--json"])
        .ok()
        .json();
    assert_eq!(by_key["value"], value);
    let dry = home.run(&["cache", "rm", "--tag", "b", "--dry-run"]).ok();
    insta::assert_snapshot!("entry_that_would_be_erased", dry.shown(&home));
    home.run(&["cache", "rm", "--tag", "b"]).ok();
    assert_eq!(home.run(&["cache", "ls"]).ok().stdout.lines().count(), 2);
    let rest = home
        .run(&["cache", "rm", "cache:marking:*", "--json"])
        .ok()
        .json();
    assert_eq!(rest["count"], 2);
    home.run(&["cache", "get", handle]).fails(1);
}

#[test]
fn removal_of_nothing_says_what_would_match() {
    let home = home_with(&["a", "b"]);
    let hint = |arguments: &[&str]| {
        let ran = home.run(&[&["cache", "rm"], arguments].concat()).ok();
        assert!(ran.stderr.starts_with("erased 0 entries\n"), "{ran}");
        ran.stderr.lines().last().unwrap().to_owned()
    };
    assert_eq!(
        hint(&["marking"]),
        "  help: a pattern matches whole handles: '*marking*' matches 2 entries"
    );
    assert_eq!(
        hint(&["whale*"]),
        "  help: no handle contains `whale*`; `cachalot cache ls` lists 2 entries"
    );
    assert_eq!(
        hint(&["--tag", "c"]),
        "  help: `cachalot cache ls` lists 2 entries; --json shows kinds, names and tags"
    );
    // The shell replaces a pattern without quotes.
    let files = home
        .run(&["cache", "rm", "agent.yaml", "runs.log"])
        .fails(2);
    assert!(files.stderr.contains("put it in quotes"), "{files}");
    home.run(&["cache", "rm", "--all"]).ok();
    assert_eq!(
        hint(&["marking"]),
        "  help: the store has no entries; --db names another one"
    );
}

/// The reader of a long list leaves: the command ends without a message, before the list does.
#[cfg(unix)]
#[test]
fn list_as_json_ends_with_its_reader() {
    use std::io::Read as _;
    use std::process::Stdio;
    let home = Home::new();
    home.write(
        "many.yaml",
        "name: many\nnodes:\n  - name: each\n    type: dynamic_parallel\n    items: \"{{ range(600) }}\"\n    \
         action:\n      uses: cache.wrap\n      with:\n        action: json.stringify\n        args: {data: {item: \
         \"{{ state.item }}\"}}\n    fan_in: collect\n  - name: collect\n    fan_in: true\n",
    );
    home.run(&["run", "many.yaml", "-q"]).ok();
    let listed = home.run(&["cache", "ls", "--json"]).ok();
    assert_eq!(listed.json().as_array().unwrap().len(), 600);
    assert!(listed.stdout.starts_with("[\n  {\n    \""), "{listed}");
    assert!(listed.stdout.ends_with("\n  }\n]\n"), "{listed}");
    let mut command = home.command(&["cache", "ls", "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut beginning = [0; 2];
    let mut stdout = running.stdout.take().unwrap();
    stdout.read_exact(&mut beginning).unwrap();
    assert_eq!(&beginning, b"[\n");
    drop(stdout);
    let ended: CommandOutput = running.wait_with_output().unwrap().into();
    assert!(ended.fails(141).stderr.is_empty());
}

#[test]
fn cache_commands_accept_the_key_as_written_in_the_file() {
    let home = Home::new();
    let keyed = |name: &str, key: &str| {
        let agent = MARKING.replace("name: marking", &format!("name: {name}"));
        agent.replace("      args:", &format!("      {key}\n      args:"))
    };
    let run = |file: &str, text: &str, agent: String| {
        home.write(file, agent);
        home.run(&["run", file, "-q", "-i", &format!("text={text}")])
            .ok();
    };
    run("one.yaml", "a", keyed("one", "key: \"mark:a\""));
    run(
        "shared.yaml",
        "s",
        keyed("one", "key: shared:x\n      key_prefix: false"),
    );
    for key in ["mark:a", "cache:mark:a", "cache:one:mark:a", "one:mark:a"] {
        let found = home.run(&["cache", "get", key]).ok().json();
        assert_eq!(found["stdout"], "a", "{key}");
    }
    for key in ["shared:x", "cache:shared:x"] {
        let found = home.run(&["cache", "get", key]).ok().json();
        assert_eq!(found["stdout"], "s", "{key}");
    }
    let all = home.run(&["cache", "get", "mark:*"]).fails(1);
    assert!(
        all.stderr.contains("`cachalot cache ls 'mark:*'` lists"),
        "{all}"
    );
    home.run(&["cache", "get", "a"]).fails(1);
    let template = home
        .run(&["cache", "get", "mark:{{ state.text }}"])
        .fails(1);
    assert!(template.stderr.contains("is a template"), "{template}");
    run("two.yaml", "b", keyed("two", "key: \"mark:a\""));
    let several = home.run(&["cache", "get", "mark:a"]).fails(1);
    for part in [
        "2 agents have an entry under mark:a",
        "\n  cache:one:mark:a",
        "\n  cache:two:mark:a",
    ] {
        assert!(several.stderr.contains(part), "{several}");
    }
    let one = home.run(&["cache", "get", "cache:two:mark:a"]).ok().json();
    assert_eq!(one["stdout"], "b");
}

#[test]
fn cache_get_by_handle_hides_entries_of_other_users() {
    let home = Home::new();
    let shared = MARKING.replace(
        "      args:",
        "      key: mine\n      scope: user\n      args:",
    );
    home.write("agent.yaml", shared);
    let by = |user: &str, arguments: &[&str]| {
        let mut command = home.command(arguments);
        CommandOutput::from(command.env("USER", user).output().unwrap())
    };
    let run = ["run", "agent.yaml", "-q", "-i", "text=of bob"];
    by("bob", &run).ok();
    let get = ["cache", "get", "cache:mine"];
    assert_eq!(by("bob", &get).ok().json()["stdout"], "of bob");
    let refused = by("ada", &get).fails(1);
    assert!(refused.stderr.contains("not yours"), "{refused}");
    assert!(!refused.to_string().contains("of bob"), "{refused}");
    // The key of the entry itself finds it.
    let listed = by("ada", &["cache", "ls", "--json"]).ok().json();
    let key = listed[0]["key"].as_str().unwrap();
    let short = &key[..10];
    assert!(refused.stderr.contains(short), "{refused}");
    assert!(!refused.stderr.contains(&key[..11]), "{refused}");
    for key in [key, short, &key[..4]] {
        let got = by("ada", &["cache", "get", key]).ok().json();
        assert_eq!(got["stdout"], "of bob", "{key}");
    }
}

#[test]
fn cache_rm_without_a_selection_is_refused() {
    let home = home_with(&["a"]);
    let ran = home.run(&["cache", "rm"]).fails(2);
    assert!(ran.stderr.contains("--all"), "{ran}");
    home.run(&["cache", "rm", "--all"]).ok();
    assert_eq!(home.run(&["cache", "ls"]).ok().stdout, "");
}

#[test]
fn cache_stats_counts_paid_and_saved_calls() {
    let home = home_with(&["a", "a", "b", "a"]);
    let stats = home.run(&["cache", "stats", "--json"]).ok().json();
    assert_eq!(stats["entries"], 2);
    assert_eq!(stats["totals"]["misses"], 2);
    assert_eq!(stats["totals"]["hits"], 2);
    let text = home.run(&["cache", "stats"]).ok();
    assert!(
        text.stdout.contains("shell.run") && text.stdout.contains("2 entries"),
        "{text}"
    );
}

#[test]
fn cache_sweep_erases_expired_entries() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        MARKING.replace("      args:", "      ttl_seconds: 0.1\n      args:"),
    );
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    std::thread::sleep(std::time::Duration::from_millis(150));
    let swept = home.run(&["cache", "sweep"]).ok();
    assert!(swept.stderr.contains("swept 1 expired entry"), "{swept}");
    assert_eq!(
        home.run(&["cache", "sweep", "--json"]).ok().json()["swept"],
        0
    );
}

#[test]
fn cache_commands_report_a_missing_store() {
    let home = Home::new();
    for command in [
        &["cache", "ls", "--db", "typo.db"][..],
        &["sessions", "ls", "--db", "typo.db"],
        &["cache", "rm", "--all"],
        &["cache", "export", "x.jsonl"],
    ] {
        let ran = home.run(command).fails(1);
        assert!(ran.stderr.contains("there is no store at"), "{ran}");
        assert!(!home.database().exists());
    }
}

#[test]
fn lists_of_a_fresh_machine_are_empty() {
    let home = Home::new();
    for command in [
        &["cache", "ls"][..],
        &["sessions", "ls"],
        &["cache", "stats"],
    ] {
        let listed = home.run(command).ok();
        assert!(listed.stderr.contains("there is no store at"), "{listed}");
    }
    for command in [&["cache", "ls", "--json"], &["sessions", "ls", "--json"]] {
        assert_eq!(home.run(command).ok().json(), serde_json::json!([]));
    }
    assert_eq!(home.files(), [], "a list creates nothing");
}

#[test]
fn abbreviated_handle_selects_one_entry() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    for text in ["text=x", "text=y"] {
        home.run(&["run", "agent.yaml", "-q", "-i", text]).ok();
    }
    let listed = home.run(&["cache", "ls"]).ok().stdout;
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split("  ").next())
        .collect();
    assert_eq!(names.len(), 2, "{listed}");
    let whole = home.run(&["cache", "ls", "-v"]).ok().stdout;
    for name in &names {
        let digits = name.strip_prefix("cache:marking:shell.run:").unwrap();
        assert_eq!(digits.len(), 10, "{listed}");
        assert!(
            whole.contains(name) && !whole.contains(&format!("{name} ")),
            "{whole}"
        );
        let one = home.run(&["cache", "ls", name, "--json"]).ok().json();
        assert_eq!(one.as_array().unwrap().len(), 1);
        assert!(one[0]["handle"].as_str().unwrap().starts_with(name));
        for given in [name, &digits, &&digits[..4]] {
            let text = home.run(&["cache", "get", given]).ok().json()["stdout"].clone();
            assert!(text == "x" || text == "y", "{text}");
            let why = home.run(&["why", given]).ok();
            assert!(why.stdout.contains(name), "{given}: {why}");
        }
    }
    let erased = home.run(&["ledger", "rm", names[0]]).ok();
    assert!(erased.stderr.contains(" 1 call;"), "{erased}");
    let removed = home.run(&["cache", "rm", names[0]]).ok();
    assert_eq!(removed.stdout, format!("{}\n", names[0]));
    let left = home.run(&["cache", "ls"]).ok().stdout;
    assert!(
        left.starts_with(names[1]) && left.lines().count() == 1,
        "{left}"
    );
}

#[cfg(unix)]
#[test]
fn list_at_a_terminal_has_a_headline_and_fits() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    home.run(&["run", "agent.yaml", "-q", "-i", "text=x"]).ok();
    let mut command = home.command(&["cache", "ls"]);
    let mut terminal = Terminal::start(command.env("COLUMNS", "60"));
    terminal
        .see("1 entry, ")
        .see("\nentry ")
        .see("\ncache:marking:shell.run:")
        .see(" B");
    assert_eq!(terminal.ended(), Some(0));
    let shown = terminal.text();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines.iter().all(|line| line.chars().count() <= 60),
        "{shown}"
    );
}
