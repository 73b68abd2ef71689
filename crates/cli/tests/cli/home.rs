//! The path of the store: `--db`, `CACHALOT_DB`, `settings.ltm`, the default.

use crate::support::{Home, MARKING};

fn with_settings(settings: &str) -> String {
    MARKING.replace(
        "name: marking\n",
        &format!("name: marking\nsettings:\n{settings}\n"),
    )
}

#[test]
fn default_store_is_private_in_the_data_directory() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    assert!(home.database().exists());
    #[cfg(unix)]
    for (path, _) in home.files() {
        use std::os::unix::fs::PermissionsExt as _;
        if path.starts_with(home.join("data")) {
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", path.display());
        }
    }
}

#[test]
fn database_path_precedence() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        with_settings("  ltm:\n    backend: sqlite\n    path: from-file.db"),
    );
    let run = |arguments: &[&str], variable: Option<&str>| {
        let mut command =
            home.command(&[&["run", "agent.yaml", "-i", "text=x"], arguments].concat());
        if let Some(value) = variable {
            command.env("CACHALOT_DB", value);
        }
        let ran: crate::support::CommandOutput = command.output().unwrap().into();
        ran.ok();
    };
    run(&["--db", "given.db"], Some("from-environment.db"));
    assert!(home.join("given.db").exists() && !home.join("from-environment.db").exists());
    run(&[], Some("from-environment.db"));
    assert!(home.join("from-environment.db").exists() && !home.join("from-file.db").exists());
    run(&[], None);
    assert!(home.join("from-file.db").exists() && !home.database().exists());
}

#[test]
fn every_store_setting_of_the_file_persists() {
    for settings in [
        "  ltm:\n    path: a.db",
        "  ltm:\n    ltm_path: a.db",
        "  ltm_path: a.db",
    ] {
        let home = Home::new();
        home.write("agent.yaml", with_settings(settings));
        home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
        home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
        assert!(home.join("a.db").exists(), "{settings}");
        assert_eq!(home.runs(), 1, "{settings}");
    }
}

#[test]
fn unknown_backend_is_a_load_error() {
    let home = Home::new();
    for backend in ["duckdb", "nonsense"] {
        home.write(
            "agent.yaml",
            with_settings(&format!("  ltm:\n    backend: {backend}")),
        );
        let ran = home.run(&["run", "agent.yaml", "-i", "text=x"]).fails(2);
        assert!(ran.stderr.contains(backend), "{ran}");
    }
}

#[test]
fn environment_variables_are_expanded_in_settings() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        with_settings("  ltm:\n    path: \"${PLACE:-fallback}.db\""),
    );
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    assert!(home.join("fallback.db").exists());
    let ran = home
        .command(&["run", "agent.yaml", "-i", "text=x"])
        .env("PLACE", "chosen")
        .output()
        .unwrap();
    assert!(ran.status.success());
    assert!(home.join("chosen.db").exists());
}

#[test]
fn memory_path_is_refused_in_favor_of_the_in_process_backend() {
    let home = Home::new();
    for settings in [
        "  ltm:\n    path: \":memory:\"",
        "  ltm:\n    backend: sqlite\n    path: \":memory:\"",
        "  ltm_path: \":memory:\"",
    ] {
        home.write("agent.yaml", with_settings(settings));
        for command in [&["validate", "agent.yaml"][..], &["run", "agent.yaml"]] {
            let ran = home.run(command).fails(2);
            assert!(ran.stderr.contains("backend: in-process"), "{ran}");
            assert!(ran.stderr.contains("agent.yaml:"), "{ran}");
        }
    }
    assert!(!home.join(":memory:").exists());
    home.write(
        "agent.yaml",
        with_settings("  ltm:\n    backend: in-process\n    path: \":memory:\""),
    );
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    assert!(!home.join(":memory:").exists());
}
