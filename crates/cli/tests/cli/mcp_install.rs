//! `cachalot mcp install`: the settings of clients.

use serde_json::{Value, json};

use crate::support::{CommandOutput, Home};

const CLIENTS: [(&str, &str, &str); 4] = [
    ("claude-code", ".claude.json", ".mcp.json"),
    ("codex", ".codex/config.toml", ".codex/config.toml"),
    ("cursor", ".cursor/mcp.json", ".cursor/mcp.json"),
    ("vscode", "config/Code/User/mcp.json", ".vscode/mcp.json"),
];

/// Runs the command for the server `files`.
fn install(home: &Home, client: &str, options: &[&str], server: &[&str]) -> CommandOutput {
    let start = ["mcp", "install", "--client", client];
    let words = [&start[..], options, &["files"], server].concat();
    let mut command = home.command(&words);
    command.env("XDG_CONFIG_HOME", home.join("config"));
    command.output().unwrap().into()
}

fn read(home: &Home, file: &str) -> String {
    std::fs::read_to_string(home.join(file)).unwrap()
}

fn parsed(home: &Home, file: &str) -> Value {
    serde_json::from_str(&read(home, file)).unwrap()
}

/// The names of files beside this one.
fn backups(home: &Home, folder: &str) -> Vec<String> {
    let files = std::fs::read_dir(home.join(folder)).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".bak")).collect()
}

const SERVER: [&str; 4] = ["--", "npx", "-y", "a server"];

#[cfg(target_os = "linux")]
#[test]
fn each_client_gets_an_entry_in_its_own_file() {
    for (client, of_user, of_project) in CLIENTS {
        let home = Home::new();
        let ran = install(&home, client, &[], &SERVER).ok();
        let text = read(&home, of_user);
        let program = env!("CARGO_BIN_EXE_cachalot");
        let arguments = json!(["mcp", "--", "npx", "-y", "a server"]);
        match client {
            "codex" => assert_eq!(
                text,
                format!(
                    "[mcp_servers.files]\ncommand = \"{program}\"\nargs = [\"mcp\", \"--\", \"npx\", \"-y\", \"a server\"]\n"
                )
            ),
            _ => {
                let container = if client == "vscode" {
                    "servers"
                } else {
                    "mcpServers"
                };
                let mut entry = json!({ "type": "stdio", "command": program, "args": arguments });
                if client == "claude-code" {
                    entry["env"] = json!({});
                }
                assert_eq!(
                    parsed(&home, of_user),
                    json!({ container: { "files": entry } })
                );
            }
        }
        assert!(ran.stdout.contains("  + "), "{ran}");
        assert!(ran.stdout.contains("uses it from its next start"), "{ran}");
        // A second time: nothing to do.
        let again = install(&home, client, &[], &SERVER).ok();
        assert!(again.stdout.contains("in this way already"), "{again}");
        // The project has a file of its own; that of Codex has the same name here, because the project is the home.
        if of_user != of_project {
            install(&home, client, &["--project"], &SERVER).ok();
            assert!(!read(&home, of_project).is_empty());
            assert_eq!(read(&home, of_user), text);
        }
    }
}

#[test]
fn options_are_absolute_paths_and_a_url() {
    let home = Home::new();
    home.write("policy.yaml", "servers: {files: {}}");
    let options = ["--project", "--policy", "./policy.yaml"];
    install(&home, "claude-code", &options, &["--", "./serve", "./x"]).ok();
    let arguments = &parsed(&home, ".mcp.json")["mcpServers"]["files"]["args"];
    let directory = std::fs::canonicalize(home.path()).unwrap();
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    assert_eq!(
        *arguments,
        json!([
            "mcp",
            "--policy",
            path("policy.yaml"),
            "--",
            path("serve"),
            "./x"
        ])
    );
    install(
        &home,
        "claude-code",
        &["--project"],
        &["--url", "https://x.example/mcp"],
    )
    .ok();
    let arguments = &parsed(&home, ".mcp.json")["mcpServers"]["files"]["args"];
    assert_eq!(*arguments, json!(["mcp", "--url", "https://x.example/mcp"]));
    let ran = install(&home, "cursor", &["--policy", "missing.yaml"], &SERVER).fails(2);
    assert!(ran.stderr.contains("missing.yaml"), "{ran}");
    home.write("wrong.yaml", "servers: {files: {tool: {}}}");
    let ran = install(&home, "cursor", &["--policy", "wrong.yaml"], &SERVER).fails(2);
    assert!(ran.unwrapped().contains("did you mean `tools`?"), "{ran}");
    install(&home, "cursor", &[], &["--url", "file:///x"]).fails(2);
    install(&home, "cursor", &[], &[]).fails(2);
    let words = ["mcp", "install", "--client", "cursor", "a b", "--", "x"];
    assert!(home.run(&words).fails(2).stderr.contains("letters, digits"));
}

#[test]
fn headers_are_written_with_their_variables_and_shown_without_their_values() {
    let server = [
        "--url",
        "https://x.example/mcp",
        "--header",
        "Authorization: Bearer ${HOME}",
        "--header",
        "X-Tenant: the \"tenant\"",
    ];
    for (client, _, file) in CLIENTS {
        let home = Home::new();
        let ran = install(&home, client, &["--project"], &server).ok();
        assert!(ran.stdout.contains("Authorization: [secret]"), "{ran}");
        assert!(
            !ran.stdout.contains("tenant\\\"") && !ran.stdout.contains("tenant\""),
            "{ran}"
        );
        let text = read(&home, file);
        if client == "codex" {
            let arguments = r#"args = ["mcp", "--url", "https://x.example/mcp", "--header", "Authorization: Bearer ${HOME}", "--header", 'X-Tenant: the "tenant"']"#;
            assert!(text.contains(arguments), "{text}");
            // Codex passes on only variables that are named.
            assert!(text.contains("env_vars = [\"HOME\"]\n"), "{text}");
        } else {
            let root = parsed(&home, file);
            let container = if client == "vscode" {
                "servers"
            } else {
                "mcpServers"
            };
            let arguments = &root[container]["files"]["args"];
            assert_eq!(*arguments, json!([&["mcp"], &server[..]].concat()));
        }
        // The old value is not shown, either.
        let ran = install(&home, client, &["--project"], &server[..4]).ok();
        assert!(
            !ran.stdout.contains("tenant\\\"") && !ran.stdout.contains("tenant\""),
            "{ran}"
        );
    }
    let home = Home::new();
    let unset = [
        "--url",
        "https://x.example/mcp",
        "--header",
        "X: ${NOT_SET}",
    ];
    let ran = install(&home, "cursor", &[], &unset).fails(2);
    assert!(ran.unwrapped().contains("`NOT_SET` is not set"), "{ran}");
}

#[test]
fn headers_of_neighbors_and_in_other_spellings_are_not_shown() {
    let args = r#"["mcp", "--url", "https://x.example/mcp", "--header", "X-Tenant: \u0074enant-\/-one", "--header=X-Pin: 1234"]"#;
    let headers = r#"{"X-Team": "team-two"}"#;
    let neighbors = format!(
        "{{\"servers\": {{\n  \"old\": {{\"args\": {args}}},\n  \"web\": {{\"headers\": {headers}, \"cwd\": \"a\"}}\n}}}}\n"
    );
    let home = Home::new();
    home.write(".vscode/mcp.json", &neighbors);
    let ran = install(&home, "vscode", &["--project"], &["--", "x"]).ok();
    assert!(ran.stdout.contains("\"X-Team\": \"[secret]\""), "{ran}");
    // The neighbor is a line of the context.
    let own = format!(
        "{{\"servers\": {{\n  \"files\": {{\"command\": \"cachalot\", \"args\": [\"mcp\", \"--\", \"y\"]}},\n  \"old\": {{\"args\": {args}}}\n}}}}\n"
    );
    home.write(".vscode/mcp.json", &own);
    let ran = install(&home, "vscode", &["--project"], &["--", "x"]).ok();
    let shown = r#""--header", "X-Tenant: [secret]", "--header=X-Pin: [secret]"]"#;
    assert!(ran.stdout.contains(shown), "{ran}");

    let home = Home::new();
    home.write(
        ".codex/config.toml",
        "[mcp_servers.files] # mine\nhttp_headers = { X-Team = 'team-two' }\ncommand = 'cachalot'\nargs = ['mcp', '--url', 'https://x.example/mcp', '--header', 'X-Tenant: \"one\"', '--header', \"X-Pin: \\U00000031234\"]\n",
    );
    let ran = install(&home, "codex", &["--project"], &["--", "x"]).ok();
    let shown = "'--header', \"X-Tenant: [secret]\", '--header', \"X-Pin: [secret]\"]";
    assert!(ran.stdout.contains(shown), "{ran}");
    assert!(ran.stdout.contains("X-Team = \"[secret]\""), "{ran}");
}

#[test]
fn other_settings_stay_byte_for_byte_and_are_backed_up() {
    let home = Home::new();
    let before = "{\n\t// mine\n\t\"servers\": {\n\t\t\"a\": {\"command\": \"b\"}, // one\n\t},\n\t\"inputs\": [1.50],\n}\n";
    home.write(".vscode/mcp.json", before);
    install(&home, "vscode", &["--project"], &["--", "x"]).ok();
    let after = read(&home, ".vscode/mcp.json");
    let added: String = after.split_inclusive('\n').skip(4).take(5).collect();
    assert!(
        added.starts_with("\t\t\"files\": {\n\t\t\t\"type\": \"stdio\",\n"),
        "{after}"
    );
    assert_eq!(after.replacen(&added, "", 1), before);
    let kept = backups(&home, ".vscode");
    assert_eq!(kept.len(), 1);
    assert_eq!(read(&home, &format!(".vscode/{}", kept[0])), before);
}

#[test]
fn dry_run_writes_nothing() {
    let home = Home::new();
    let ran = install(&home, "codex", &["--dry-run"], &SERVER).ok();
    assert!(ran.stdout.contains("+ [mcp_servers.files]"), "{ran}");
    assert_eq!(home.files(), []);
}

#[test]
fn entry_of_another_server_is_refused_and_one_of_ours_is_replaced() {
    let home = Home::new();
    let foreign = r#"{"mcpServers": {"files": {"command": "npx", "args": ["mcp"]}}}"#;
    home.write(".cursor/mcp.json", foreign);
    let ran = install(&home, "cursor", &[], &SERVER).fails(1);
    assert!(ran.stderr.contains("has another server `files`"), "{ran}");
    assert_eq!(read(&home, ".cursor/mcp.json"), foreign);
    assert_eq!(backups(&home, ".cursor"), Vec::<String>::new());
    let ours = json!({ "mcpServers": { "files": {
        "command": "/old/cachalot", "args": ["mcp", "--", "y"], "env": { "A": "b" }
    } } });
    home.write(".cursor/mcp.json", ours.to_string());
    install(&home, "cursor", &[], &SERVER).ok();
    let entry = &parsed(&home, ".cursor/mcp.json")["mcpServers"]["files"];
    assert_eq!(entry["args"], json!(["mcp", "--", "npx", "-y", "a server"]));
    // What the user has added stays.
    assert_eq!(entry["env"], json!({ "A": "b" }));
}

#[test]
fn file_that_cannot_be_parsed_is_refused_with_its_place() {
    let home = Home::new();
    let text = "{\n  \"mcpServers\": {\n    \"a\": {\"key\": \"of-a-user\" \"b\": 1}\n  }\n}\n";
    home.write(".claude.json", text);
    let ran = install(&home, "claude-code", &[], &SERVER).fails(1);
    assert!(
        ran.unwrapped()
            .contains(".claude.json:3:29: Expected comma; nothing was changed"),
        "{ran}"
    );
    assert!(!ran.stderr.contains("of-a-user"), "{ran}");
    assert_eq!(read(&home, ".claude.json"), text);
    home.write(".codex/config.toml", "a = 1\nb = \n");
    let ran = install(&home, "codex", &[], &SERVER).fails(1);
    assert!(ran.unwrapped().contains("config.toml:2:"), "{ran}");
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_permissions_stay() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let home = Home::new();
    let real = home.write("dotfiles/claude.json", "{}");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    symlink("dotfiles/claude.json", home.join(".claude.json")).unwrap();
    install(&home, "claude-code", &[], &SERVER).ok();
    assert!(home.join(".claude.json").is_symlink());
    let mode = |file: &std::path::Path| file.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&real), 0o640);
    assert_eq!(
        parsed(&home, "dotfiles/claude.json")["mcpServers"]["files"]["type"],
        "stdio"
    );
    let kept = backups(&home, "dotfiles");
    assert_eq!(mode(&home.join(&format!("dotfiles/{}", kept[0]))), 0o640);
    // A new file of the user is private: others may put secrets into it.
    let home = Home::new();
    install(&home, "claude-code", &[], &SERVER).ok();
    assert_eq!(mode(&home.join(".claude.json")), 0o600);
}
