//! A full disk, on a file system of its own: what is reported is that there is no space left, and never a
//! missing permission or a fault without a cause.
//!
//! The file system is a small tmpfs in a mount namespace. Where a process may not make one, the tests
//! say so on the terminal.

use std::io::Write as _;
use std::process::{Command, Output};

use crate::support::Home;

const AGENT: &str = r#"
name: small
nodes:
  - name: work
    uses: cache.wrap
    with:
      action: json.parse
      args: {text: '["{{ "x" * 2000 }}", {{ state.n }}]'}
    output: answer
  - name: remember
    uses: ltm.store
    with: {key: "k{{ state.n }}", value: "{{ 'x' * 3000 }}"}
"#;

/// Shell functions: `fill N` leaves N pages of four kilobytes, `cachalot` keeps everything in `$TINY`.
const FUNCTIONS: &str = r#"
set -u
mount -t tmpfs -o "$OPTIONS" tmpfs "$TINY"
export HOME="$TINY" XDG_DATA_HOME="$TINY/data" XDG_CONFIG_HOME="$TINY/conf" XDG_CACHE_HOME="$TINY/cache"
fill() {
    rm -f "$TINY/fill"
    dd if=/dev/zero of="$TINY/fill" bs=4k 2> "$TINY/../dd.txt"
    truncate -s "-$(( $1 * 4096 ))" "$TINY/fill"
}
cachalot() { "$CACHALOT" "$@" 2>&1 > "$TINY/../out.txt"; }
"#;

/// Runs a script beside a small file system; none where that is not permitted.
fn with_tiny_disk(options: &str, script: &str) -> Option<String> {
    let home = Home::new();
    home.write("agent.yaml", AGENT);
    let tiny = home.join("tiny");
    std::fs::create_dir(&tiny).unwrap();
    let run = |namespace: &str, script: &str| -> Option<Output> {
        let mut command = Command::new("unshare");
        command
            .args([namespace, "sh", "-c", &format!("{FUNCTIONS}{script}")])
            .current_dir(home.join("."))
            .env("CACHALOT", env!("CARGO_BIN_EXE_cachalot"))
            .env("TINY", &tiny)
            .env("OPTIONS", options)
            .env_remove("CACHALOT_DB");
        command.output().ok()
    };
    let works = |namespace: &&&str| {
        let probe = "[ \"$(df -Pk \"$TINY\" | awk 'NR == 2 {print $1}')\" = tmpfs ] || exit 1";
        run(namespace, probe).is_some_and(|output| output.status.success())
    };
    let Some(namespace) = ["-m", "-rm"].iter().find(works) else {
        // Past the capture of the test harness: a test that is skipped says so.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: a full disk cannot be tested here: no mount namespace may be made (unshare -m, unshare -rm)"
        );
        return None;
    };
    let output = run(namespace, script).unwrap();
    Some(format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// The reports by the heading of their case.
#[track_caller]
fn cases(report: &str) -> Vec<(&str, &str)> {
    let cases = report.split("=== ").skip(1);
    let cases: Vec<_> = cases.filter_map(|case| case.split_once('\n')).collect();
    assert!(!cases.is_empty(), "{report}");
    cases
}

#[track_caller]
fn is_about_space(name: &str, said: &str) {
    let lower = said.to_lowercase();
    for wrong in ["permission", "disk i/o error", "unable to open"] {
        assert!(!lower.contains(wrong), "{name}: {wrong}\n{said}");
    }
}

/// Checks that every case of a report names the full disk; returns the number of cases.
#[track_caller]
fn all_name_the_full_disk(report: &str) -> usize {
    let cases = cases(report);
    for (name, said) in &cases {
        assert!(
            said.to_lowercase().contains("no space left"),
            "{name}\n{said}"
        );
        is_about_space(name, said);
    }
    cases.len()
}

#[test]
fn read_only_home_is_found_by_doctor_and_runs_go_on() {
    let script = r#"
printf 'name: code\nnodes:\n  - name: a\n    run: "return {\"x\": 1}"\n  - name: b\n    uses: cache.wrap\n    with: {action: json.parse, args: {text: "1"}}\n' > "$TINY/code.yaml"
mount -o remount,ro "$TINY"
for command in "doctor" "run $TINY/code.yaml" "run $TINY/code.yaml --require-store" "serve" "exec -- echo ran" "exec --record x -- echo ran"; do
    echo "=== $command"
    cachalot $command
    echo "exit $?"
    cat "$TINY/../out.txt"
done
"#;
    let Some(report) = with_tiny_disk("size=1m", script) else {
        return;
    };
    for (name, said) in cases(&report) {
        let (parts, code): (&[&str], _) = match name {
            "doctor" => (&["cannot be created", "Read-only", "--db"], 1),
            "serve" => (&["digest key", "Read-only", "--db"], 1),
            "exec -- echo ran" => (&["nothing is cached", "read-only", "ran\n"], 0),
            "exec --record x -- echo ran" => (&["digest key", "Read-only"], 1),
            name if name.ends_with("--require-store") => (&["--require-store: ", "read-only"], 1),
            _ => (&["no store", "read-only", "--db"], 0),
        };
        for part in parts {
            assert!(said.contains(part), "{name}: {part}\n{said}");
        }
        assert!(said.contains(&format!("exit {code}\n")), "{name}\n{said}");
    }
}

#[test]
fn full_disk_is_reported_by_run() {
    let script = r#"
for free in 0 1 2 3 5 9 12 17 20 26 30; do
    rm -rf "$TINY/data"
    fill $free
    echo "=== new $free"
    cachalot run agent.yaml -i n=1
done
rm -rf "$TINY/data" "$TINY/fill"
cachalot run agent.yaml -q -i n=0
for free in 0 1 2 3 5; do
    fill $free
    echo "=== old $free"
    cachalot run agent.yaml -i "n=1$free"
done
for file in stamp shm; do
    rm -f "$TINY"/data/cachalot/*-$file
    fill 0
    echo "=== without $file"
    cachalot run agent.yaml -i n=3
done
echo "=== list"
cachalot cache ls
echo "=== why"
cachalot why --last
"#;
    let Some(report) = with_tiny_disk("size=1m", script) else {
        return;
    };
    assert_eq!(all_name_the_full_disk(&report), 20, "{report}");
}

#[test]
fn disk_without_inodes_is_reported_as_full() {
    let script = r#"
use_up() {
    i=0
    while [ $i -lt 64 ] && touch "$TINY/file-$i" 2> /dev/null; do i=$((i + 1)); done
}
for free in 0 1 2 3 4 5; do
    rm -rf "$TINY/data"
    use_up
    j=0
    while [ $j -lt $free ]; do rm -f "$TINY/file-$j"; j=$((j + 1)); done
    echo "=== new $free"
    cachalot run agent.yaml -i n=1
done
"#;
    let Some(report) = with_tiny_disk("size=8m,nr_inodes=24", script) else {
        return;
    };
    assert_eq!(all_name_the_full_disk(&report), 6, "{report}");
}

#[test]
fn files_that_do_not_fit_are_reported_as_such() {
    let script = r#"
printf 'name: w\nnodes:\n  - name: w\n    uses: file.write\n    with: {path: "%s/out.txt", content: "{{ state.c }}"}\n' "$TINY" > write.yaml
printf '{"c": "%s"}' "$(head -c 60000 /dev/zero | tr '\0' x)" > in.json
cachalot run agent.yaml -q -i n=0 --db db/kept.db
fill 0
for free in 0 3; do
    fill $free
    echo "=== write $free"
    cachalot run write.yaml --db db/kept.db --input @in.json
done
fill 0
echo "=== export"
cachalot cache export "$TINY/kept.jsonl" --db db/kept.db
echo "=== key"
cachalot run agent.yaml --db "$TINY/data/x.db" -i n=1
echo "=== device"
"$CACHALOT" cache ls --db db/kept.db 2>&1 > /dev/full
"#;
    let Some(report) = with_tiny_disk("size=256k", script) else {
        return;
    };
    assert_eq!(all_name_the_full_disk(&report), 5, "{report}");
}

/// Erasing makes room with the space that there is, or says how much more is enough.
#[test]
fn cache_is_erased_on_a_full_disk() {
    let script = r#"
for free in 0 2 10; do
    rm -rf "$TINY/data" "$TINY/fill"
    n=0
    while [ $n -lt 60 ]; do
        cachalot run agent.yaml -q -i n=$n
        n=$((n + 1))
    done
    fill $free
    echo "=== $free"
    if ! "$CACHALOT" cache rm --all --json > "$TINY/../out.json" 2> "$TINY/../err.txt"; then
        needed=$(sed -n 's/.*free \([0-9]*\) KiB.*/\1/p' "$TINY/../err.txt")
        truncate -s "-${needed:-1024}K" "$TINY/fill"
        "$CACHALOT" cache rm --all --json > "$TINY/../out.json"
    fi
    echo "status $?"
    rm "$TINY/fill"
    "$CACHALOT" cache stats --json | grep '"entries"'
done
"#;
    // The write-ahead log of the store has up to 4 MB: a run that ends leaves what it has not moved to the next one.
    let Some(report) = with_tiny_disk("size=12m", script) else {
        return;
    };
    for (free, said) in cases(&report) {
        for expected in ["status 0", "\"entries\": 0"] {
            assert!(
                said.contains(expected),
                "{free} pages: {expected}\n{report}"
            );
        }
    }
}

#[test]
fn file_size_limit_is_reported_as_full_disk() {
    let script = r#"
trap '' XFSZ
mkdir db
for blocks in 0 8 40; do
    echo "=== $blocks"
    (ulimit -f $blocks; "$CACHALOT" run agent.yaml --db "db/$blocks.db" -i n=1 2>&1 | head -c 4000 | cat)
done
"#;
    let Some(report) = with_tiny_disk("size=1m", script) else {
        return;
    };
    assert_eq!(all_name_the_full_disk(&report), 3, "{report}");
}
