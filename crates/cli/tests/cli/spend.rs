//! `cachalot spend`.

use std::path::Path;
use std::process::Command;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::support::{CommandOutput, Home};

/// Transcripts that are made from public descriptions of the formats; none is a real one.
fn transcripts() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/transcripts");
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

fn output(command: &mut Command) -> CommandOutput {
    command.env("TZ", "UTC").output().unwrap().into()
}

#[test]
fn headline_tells_cost_cache_and_causes() {
    let home = Home::new();
    let shown = output(&mut home.command(&["spend", &transcripts()])).ok();
    let headline = shown.stdout.lines().next().unwrap();
    assert!(headline.starts_with('$'), "{headline}");
    for part in [
        "in 3 days",
        "% of input read from cache",
        "avoidable: 2 pauses longer than the cache lives",
    ] {
        assert!(headline.contains(part), "{headline}");
    }
    for day in ["2026-11-18", "2026-11-19", "2026-11-20", "total"] {
        assert!(shown.stdout.contains(day), "{shown}");
    }
    // Each line fits, and the numbers are aligned at the right.
    assert!(shown.stdout.lines().all(|line| line.chars().count() <= 120));
    assert!(shown.stdout.contains("With 1-hour caching"), "{shown}");
    assert_eq!(shown.stderr, "");
}

#[test]
fn groups_and_periods_are_chosen() {
    let home = Home::new();
    let place = transcripts();
    let json = |options: &[&str]| {
        let mut arguments = vec!["spend", &place, "--json"];
        arguments.extend(options);
        output(&mut home.command(&arguments)).ok().json()
    };
    let all = json(&[]);
    assert_eq!(all["total"]["answers"], 14);
    assert_eq!(all["total"]["unpriced"], 0);
    let names = |report: &serde_json::Value| -> Vec<String> {
        let groups = report["groups"].as_array().unwrap().iter();
        let name = |group: &serde_json::Value| group["name"].as_str().unwrap().to_owned();
        groups.map(name).collect()
    };
    let mut programs = names(&json(&["--by", "client"]));
    programs.sort();
    assert_eq!(programs, ["Claude Code", "Codex", "Gemini CLI"]);
    assert!(names(&json(&["--by", "project"])).contains(&"/home/ada/api".to_owned()));
    assert!(names(&json(&["--by", "model"])).contains(&"gpt-5-codex".to_owned()));
    assert_eq!(json(&["--project", "ada/api"])["total"]["answers"], 3);
    let one_day = json(&["--since", "2026-11-19", "--until", "2026-11-20"]);
    assert_eq!(one_day["total"]["answers"], 3);
    assert_eq!(names(&one_day), ["2026-11-19"]);
    // A day begins at midnight of this machine's zone.
    let mut command = home.command(&["spend", &place, "--json", "--since", "2026-11-19"]);
    let command = command
        .args(["--until", "2026-11-20"])
        .env("TZ", "Pacific/Kiritimati");
    let there: CommandOutput = command.output().unwrap().into();
    assert_eq!(there.ok().json()["total"]["answers"], 0);
}

#[test]
fn programs_are_found_where_they_keep_transcripts() {
    let home = Home::new();
    let place = transcripts();
    let mut command = home.command(&["spend", "--json"]);
    command
        .env("CLAUDE_CONFIG_DIR", format!("{place}/claude"))
        .env("CODEX_HOME", format!("{place}/codex"));
    assert_eq!(output(&mut command).ok().json()["total"]["answers"], 12);
    let nothing = output(&mut home.command(&["spend"])).fails(1);
    assert!(nothing.stderr.contains(".claude/projects"), "{nothing}");
    let missing = output(&mut home.command(&["spend", "absent"])).fails(1);
    assert!(missing.stderr.contains("does not exist"), "{missing}");
    let wrong = output(&mut home.command(&["spend", &place, "--since", "soon"])).fails(1);
    assert!(wrong.stderr.contains("--since"), "{wrong}");
}

#[test]
fn defective_and_compressed_files_are_read_as_far_as_possible() {
    let home = Home::new();
    let folder = Path::new(&transcripts()).join("codex/sessions/2026/11/20");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = std::fs::File::open(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let packed = compress_to_vec(file, CompressionLevel::Fastest);
        home.write(&format!("logs/{name}.zst"), packed);
    }
    home.write("logs/notes.jsonl", "{\"a\": 1}\n");
    home.write("logs/index.json", "{\"a\": 1}\n");
    home.write("logs/broken.jsonl.zst", "no zstd");
    home.write(
        "logs/cut.jsonl",
        "{\"type\":\"user\",\"sessionId\":\"s\",\"uuid\":\"u\"}\n{\"type\":\"assis",
    );
    let shown = output(&mut home.command(&["spend", "logs", "--json"])).ok();
    assert_eq!(shown.json()["total"]["answers"], 3);
    for part in ["notes.jsonl", "broken.jsonl.zst", "cut.jsonl: line 2"] {
        assert_eq!(shown.stderr.matches(part).count(), 1, "{shown}");
    }
    assert!(!shown.stderr.contains("index.json"), "{shown}");
}
