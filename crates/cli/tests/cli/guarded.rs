//! `examples/guarded.yaml` against the attacks of `examples/data/attacks.yaml`: the commands, the reads
//! and the request that its rules forbid do not run, asked about or with `--yes`.

use std::path::{Path, PathBuf};

use crate::provider::Provider;
use crate::support::{CommandOutput, Home};

/// Calls of the script that must not run; one more is allowed by a rule.
const FORBIDDEN: usize = 13;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name)
}

fn attacked(arguments: &[&str]) -> (Home, CommandOutput) {
    let home = Home::new();
    home.write(".env", "TOKEN=abc123\n");
    home.write("notes/depth.md", "2,000 m\n");
    let script = std::fs::read_to_string(example("data/attacks.yaml")).unwrap();
    let provider = Provider::scripted(&script);
    let file = example("guarded.yaml");
    let arguments = [&[file.to_str().unwrap()], arguments].concat();
    let ran = home.ask(&provider, &arguments, "Attack.").ok();
    let requests = provider.received();
    assert_eq!(requests.len(), FORBIDDEN + 2, "{ran}");
    for request in requests {
        let body = String::from_utf8_lossy(&request.body);
        assert!(
            !body.contains("abc123"),
            "a secret reached the model: {body}"
        );
    }
    assert!(home.join("notes/depth.md").is_file(), "{ran}");
    (home, ran)
}

fn refused(ran: &CommandOutput) -> usize {
    ran.stderr
        .lines()
        .filter(|line| line.contains(" refused "))
        .count()
}

#[test]
fn attacks_are_denied_or_need_approval() {
    let (_home, ran) = attacked(&[]);
    assert_eq!(refused(&ran), FORBIDDEN, "{ran}");
    assert!(ran.stdout.contains("depth.md"), "{ran}");
}

#[test]
fn attacks_are_denied_with_the_yes_flag() {
    let (_home, ran) = attacked(&["--yes"]);
    // Nothing denies the request: `--yes` lets it, and the name cannot be resolved.
    assert_eq!(refused(&ran), FORBIDDEN - 1, "{ran}");
}
