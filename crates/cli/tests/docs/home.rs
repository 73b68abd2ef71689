//! Where documents are tried out: a folder with the repository's examples, a home of its own, and
//! servers on loopback that stand in for those of others.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::files;
use crate::program_file::make_executable;

use cachalot_test_support::fakes::{LlamaCloud, Provider, SearXng, Server};

/// A key in the form of LlamaCloud.
const KEY: &str = "llx-stand-in";

/// A secret of the runs, as `secrets.TOKEN`.
const TOKEN: &str = "token-that-nobody-may-read";

/// No command of the documentation takes longer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A place to try things out in. Nothing that it starts sees the user's home or environment.
pub(crate) struct Home {
    directory: TempDir,
    llama_cloud: LlamaCloud,
    searxng: SearXng,
    models: Provider,
    api: Server,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        for folder in ["home", "programs"] {
            std::fs::create_dir(directory.path().join(folder)).unwrap();
        }
        files::copy("examples", &directory.path().join("work/examples"));
        // An example reads a document.
        files::link("docs/HOOKS.md", &directory.path().join("work"));
        let invoice = json!({ "invoice_number": "2026-0417", "total": 11_716.26 });
        let found = |title: &str, url: &str| json!({ "title": title, "url": url, "content": format!("About {title}.") });
        let home = Self {
            directory,
            llama_cloud: LlamaCloud::start(KEY)
                .agent("invoices", invoice)
                .looks_until_end(1),
            searxng: SearXng::start(vec![
                found("Sperm whale", "https://whales.example/sperm-whale"),
                found("Cachalot", "https://dictionary.example/cachalot"),
            ]),
            models: Provider::built_in(),
            api: Server::start(api()),
        };
        home.programs();
        home
    }

    /// The directory of commands.
    pub(crate) fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    /// The user's configuration directory.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.directory.path().join("home/.config/cachalot")
    }

    /// A file where commands run.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The number of paid extractions.
    pub(crate) fn extractions(&self) -> u32 {
        self.llama_cloud.started()
    }

    /// The number of model calls.
    pub(crate) fn model_calls(&self) -> usize {
        self.models.requests()
    }

    /// A file that holds the secret of the runs, which none may.
    pub(crate) fn leak(&self) -> Option<PathBuf> {
        file_with(TOKEN, self.directory.path())
    }

    /// Runs `cachalot`.
    pub(crate) fn cachalot<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Ended {
        self.run(Command::new(env!("CARGO_BIN_EXE_cachalot")).args(arguments))
    }

    /// Returns whether a program of this name exists.
    pub(crate) fn has(program: &str) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    }

    /// Runs a line of shell.
    pub(crate) fn shell(&self, line: &str) -> Ended {
        self.run(Command::new("sh").args(["-e", "-c", line]))
    }

    /// `cachalot`, and a `cargo` that knows only how to run it: what else Cargo does for a document
    /// is done by `.ci/run`.
    fn programs(&self) {
        let program = |name: &str, text: String| {
            let path = self.directory.path().join("programs").join(name);
            std::fs::write(&path, text).unwrap();
            make_executable(&path);
        };
        let binary = env!("CARGO_BIN_EXE_cachalot");
        program("cachalot", format!("#!/bin/sh\nexec '{binary}' \"$@\"\n"));
        program(
            "cargo",
            format!(
                "#!/bin/sh\ncase \"$1 $2 $3\" in\n'run --release --') shift 3; exec '{binary}' \"$@\";;\n\
                 *) echo \"the documentation test does not run cargo $*: mark the block no-run\" >&2; exit 99;;\nesac\n"
            ),
        );
    }

    fn run(&self, command: &mut Command) -> Ended {
        let folder = |name: &str| self.directory.path().join(name);
        let programs = [folder("programs")];
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path =
            std::env::join_paths(programs.into_iter().chain(std::env::split_paths(&path))).unwrap();
        let child = command
            .current_dir(self.work())
            .env_clear()
            .env("PATH", path)
            .env("HOME", folder("home"))
            .env("USER", "reader")
            .env("LANG", "C.UTF-8")
            .env("LLAMA_CLOUD_BASE_URL", self.llama_cloud.base_url())
            .env("LLAMA_CLOUD_API_KEY", KEY)
            .env("SEARXNG_BASE_URL", self.searxng.base_url())
            .env("EXAMPLE_API", self.api.base_url())
            .envs(self.models.environment())
            .env(
                "CACHALOT_EXAMPLE_PROVIDER",
                format!("{}/v1", self.models.url()),
            )
            .env("SECRET_TOKEN", TOKEN)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        ended(child, command)
    }
}

/// Waits for the end, but not for ever.
fn ended(mut child: Child, command: &Command) -> Ended {
    let read = |mut stream: Box<dyn std::io::Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).unwrap();
            String::from_utf8(bytes).expect("what is printed is UTF-8")
        })
    };
    let stdout = read(Box::new(child.stdout.take().unwrap()));
    let stderr = read(Box::new(child.stderr.take().unwrap()));
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if start.elapsed() > TIMEOUT => {
                child.kill().unwrap();
                panic!("{command:?} did not end within {TIMEOUT:?}");
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    Ended {
        code: status.code().unwrap_or(-1),
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

/// An external API.
fn api() -> Router {
    Router::new()
        .route(
            "/rates",
            get(|| async { Json(json!({ "base": "EUR", "rates": { "DKK": 7.46, "USD": 1.08 } })) }),
        )
        .route(
            "/echo",
            post(|Json(sent): Json<Value>| async move { Json(json!({ "received": sent })) }),
        )
        .route(
            "/missing",
            get(|| async { (axum::http::StatusCode::NOT_FOUND, "there is no such thing") }),
        )
}

/// The final state that a run has printed.
pub(crate) fn state(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("stdout is not one JSON document ({error}): {ended:?}"))
}

/// A file below a folder that holds a text.
fn file_with(text: &str, folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).find_map(|path| {
        if path.is_dir() {
            return file_with(text, &path);
        }
        // A link leads to a file of the repository.
        if path.is_symlink() {
            return None;
        }
        let bytes = std::fs::read(&path).unwrap();
        let holds = bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes());
        holds.then_some(path)
    })
}
