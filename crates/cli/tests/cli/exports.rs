//! Destinations of `sessions export` and `cache export`.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::provider::{Provider, SCRIPTED_MODEL, SHELL};
use crate::support::{CommandOutput, Home, MARKING};

/// The commands, and what is in all that they write.
const COMMANDS: [(&[&str], &str); 2] = [
    (&["sessions", "export", "-o"], "\"messages\":["),
    (&["cache", "export"], "\"cachalot_cassette\":"),
];

/// A home with a conversation and an entry in its memory.
fn home() -> Home {
    let home = Home::new();
    home.write("team.yaml", SHELL);
    home.ask(&Provider::scripted(SCRIPTED_MODEL), &["team.yaml"], "hello")
        .ok();
    home.write("agent.yaml", MARKING);
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    home
}

fn export(home: &Home, command: &[&str], file: &Path) -> CommandOutput {
    home.run(&[command, &[file.to_str().unwrap()]].concat())
}

/// The data that can be read without waiting.
fn arrived(from: &mut File) -> String {
    let mut bytes = vec![0; 64 << 10];
    let length = from.read(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let part = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "part")
    };
    files.filter(part).collect()
}

#[test]
fn export_writes_into_a_pipe() {
    let home = home();
    let pipe = home.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let mut both_ends = File::options();
    both_ends.read(true).write(true);
    let mut both_ends = both_ends
        .custom_flags(libc::O_NONBLOCK)
        .open(&pipe)
        .unwrap();
    for (command, part) in COMMANDS {
        export(&home, command, &pipe).ok();
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        let reported = arrived(&mut both_ends);
        assert!(reported.contains(part), "{reported}");
    }
}

/// A terminal, because it cannot be replaced by a file.
#[test]
fn export_writes_into_a_device() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let home = home();
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    // Open all the time: otherwise reading fails when the command has closed it.
    let terminal = File::options().write(true).open(name.to_str().unwrap());
    let _terminal = terminal.unwrap();
    let mut controller = File::from(controller);
    for (command, part) in COMMANDS {
        let link = home.join("terminal");
        let _ = fs::remove_file(&link);
        symlink(name.to_str().unwrap(), &link).unwrap();
        export(&home, command, &link).ok();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let reported = arrived(&mut controller);
        assert!(reported.contains(&part[..10]), "{reported}");
    }
}

#[test]
fn export_to_a_socket_or_directory_fails() {
    let home = home();
    let socket = home.join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    for (command, _) in COMMANDS {
        let ran = export(&home, command, &socket).fails(1);
        assert!(ran.stderr.contains("socket: "), "{ran}");
        let kind = fs::symlink_metadata(&socket).unwrap().file_type();
        assert!(kind.is_socket());
        let ran = export(&home, command, home.path()).fails(1);
        assert!(ran.stderr.contains("directory"), "{ran}");
    }
}

#[test]
fn export_follows_and_keeps_symbolic_links() {
    let home = home();
    let cassette = "{\"cachalot_cassette\":1,\"created\":\"\"}\n";
    symlink("elsewhere/there.jsonl", home.join("to-there")).unwrap();
    symlink("elsewhere/new.jsonl", home.join("to-new")).unwrap();
    symlink("to-new", home.join("to-link")).unwrap();
    symlink("circle", home.join("circle")).unwrap();
    for (command, part) in COMMANDS {
        home.write("elsewhere/there.jsonl", cassette);
        for (link, target) in [("to-there", "there.jsonl"), ("to-link", "new.jsonl")] {
            export(&home, command, Path::new(link)).ok();
            let link = fs::symlink_metadata(home.join(link)).unwrap();
            assert!(link.is_symlink());
            let written = home.join("elsewhere").join(target);
            assert!(fs::symlink_metadata(&written).unwrap().is_file());
            let reported = fs::read_to_string(&written).unwrap();
            assert!(reported.contains(part), "{reported}");
            fs::remove_file(written).unwrap();
        }
        let ran = export(&home, command, Path::new("circle")).fails(1);
        assert!(ran.stderr.contains("circle: "), "{ran}");
        let circle = fs::symlink_metadata(home.join("circle")).unwrap();
        assert!(circle.is_symlink());
    }
    for folder in [home.path(), &home.join("elsewhere")] {
        assert_eq!(leftovers(folder), Vec::<PathBuf>::new());
    }
}

#[test]
fn export_over_files_of_the_store_is_refused() {
    let home = home();
    let database = home.database();
    let folder = database.parent().unwrap();
    let name = "cachalot.db";
    let beside: Vec<_> = [
        "",
        "-wal",
        "-shm",
        "-journal",
        "-stamp",
        ".ledger",
        ".ledger-wal",
        ".ledger-shm",
        ".digest-key",
        ".history",
    ]
    .iter()
    .map(|ending| folder.join(format!("{name}{ending}")))
    .collect();
    symlink(&database, home.join("link")).unwrap();
    symlink(folder, home.join("folder")).unwrap();
    fs::hard_link(&database, home.join("other-name")).unwrap();
    let others = [
        "link",
        "other-name",
        "folder/cachalot.db-wal",
        "data/../data/cachalot/cachalot.db",
    ];
    let key = fs::read(folder.join("cachalot.db.digest-key")).unwrap();
    let before = home.run(&["sessions", "export"]).ok().stdout;
    for (command, _) in COMMANDS {
        for file in beside
            .iter()
            .map(|path| &**path)
            .chain(others.map(Path::new))
        {
            let ran = export(&home, command, file).fails(2);
            assert!(ran.stderr.contains("file-of-memory"), "{ran}");
            let written = fs::read(home.path().join(file)).unwrap_or_default();
            // The key is random and may begin like an export.
            let is_export = written.starts_with(b"{") && written != key;
            assert!(!is_export, "{}", file.display());
        }
        // What only begins with the same name is anybody's.
        let other = folder.join("cachalot.db.jsonl");
        export(&home, command, &other).ok();
        fs::remove_file(other).unwrap();
    }
    assert_eq!(fs::read(&beside[8]).unwrap(), key);
    assert_eq!(home.run(&["sessions", "export"]).ok().stdout, before);
    home.run(&["cache", "stats"]).ok();
    assert_eq!(leftovers(folder), Vec::<PathBuf>::new());
}

#[test]
fn export_keeps_existing_files_that_are_no_cassettes() {
    let home = home();
    let command = &["cache", "export"];
    for (name, text) in [
        ("notes.txt", "remember".to_owned()),
        ("agent.yaml", MARKING.to_owned()),
        ("data.json", "{\"a\": 1}\n".to_owned()),
        (
            "long.jsonl",
            format!(
                "{{\"x\": \"{}\", \"cachalot_cassette\": 1}}",
                "y".repeat(10_000)
            ),
        ),
    ] {
        home.write(name, &text);
        let ran = export(&home, command, Path::new(name)).fails(2);
        assert!(ran.stderr.contains("exists and is no cassette"), "{ran}");
        assert_eq!(fs::read_to_string(home.join(name)).unwrap(), text);
    }
    for text in ["", "{\"cachalot_cassette\":99}\n{}\n"] {
        home.write("tape.jsonl", text);
        export(&home, command, Path::new("tape.jsonl")).ok();
        let written = fs::read_to_string(home.join("tape.jsonl")).unwrap();
        assert!(written.contains("\"kind\""), "{written}");
        export(&home, command, Path::new("tape.jsonl")).ok();
    }
}
