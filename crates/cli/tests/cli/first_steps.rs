//! The command without arguments: what it suggests on which machine.

use crate::support::{CommandOutput, Home};

/// Runs the command without arguments; the search path is the folder `bin` of the home.
fn overview(home: &Home, variables: &[(&str, &str)]) -> CommandOutput {
    let mut command = home.command(&[]);
    command.env("PATH", home.join("bin"));
    command.envs(variables.iter().copied());
    CommandOutput::from(command.output().unwrap()).ok()
}

/// The suggested commands.
fn commands(overview: &CommandOutput) -> Vec<&str> {
    let lines = overview.stdout.lines();
    let commands = lines.filter_map(|line| line.strip_prefix("  "));
    commands.filter(|line| !line.starts_with(' ')).collect()
}

#[test]
fn fresh_machine_gets_what_needs_no_key() {
    let home = Home::new();
    let shown = overview(&home, &[]);
    assert_eq!(
        commands(&shown),
        [
            "cachalot simulate",
            "cachalot init workflow && cachalot run workflow.yaml",
            "cachalot serve"
        ]
    );
    assert!(shown.stdout.contains("no key is set"), "{shown}");
    assert_eq!(shown.stderr, "");
    assert_eq!(home.files(), [], "it only looks");
}

#[test]
fn transcripts_programs_and_keys_of_the_machine_decide() {
    let home = Home::new();
    let key = ("ANTHROPIC_API_KEY", "sk-ant-test");
    let with_key = overview(&home, &[key]);
    assert_eq!(commands(&with_key)[0], "cachalot chat");
    assert!(with_key.stdout.contains("anthropic/"), "{with_key}");
    assert!(!with_key.stdout.contains("sk-ant-test"), "{with_key}");

    home.write("bin/codex", "");
    let with_program = overview(&home, &[]);
    assert_eq!(
        commands(&with_program)[..2],
        ["cachalot exec -- codex", "cachalot simulate"]
    );

    // An empty folder is no transcript.
    std::fs::create_dir_all(home.join(".codex/sessions")).unwrap();
    home.write(".claude/projects/reef/a.jsonl", "{}\n");
    home.write("bin/aider", "");
    home.write("bin/claude", "");
    let all = overview(&home, &[key]);
    assert_eq!(
        commands(&all),
        ["cachalot spend", "cachalot exec -- claude", "cachalot chat"]
    );
    assert!(all.stdout.contains("in ~/.claude/projects\n"), "{all}");
    assert!(
        all.stdout.contains("also found here: codex, aider\n"),
        "{all}"
    );
}
