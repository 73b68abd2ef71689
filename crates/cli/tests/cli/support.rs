//! A home directory for tests, and the command in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A fresh home and working directory.
pub(crate) struct Home {
    directory: tempfile::TempDir,
}

/// The output and exit code of a command.
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not one JSON document: {error}\n{self}"))
    }

    /// Everything that the command wrote, without what differs from run to run: keys, times and the folder.
    pub(crate) fn shown(&self, home: &Home) -> String {
        let code = self.code.unwrap_or(-1);
        let text = format!("exit {code}\n{}\n--- stderr\n{}", self.stdout, self.stderr);
        let folder = home.path().to_str().unwrap();
        let text = text.replace(folder, "[home]");
        let patterns = [
            (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "[id]"),
            (r":[0-9a-f]{10,}\b", ":[key]"),
            (r" +\d+(\.\d+)? (ms|µs|s|min)\b", " [time]"),
            (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b", "[date]"),
        ];
        patterns.iter().fold(text, |text, (pattern, name)| {
            let pattern = regex::Regex::new(pattern).unwrap();
            pattern.replace_all(&text, *name).into_owned()
        })
    }

    /// The messages without their line ends.
    pub(crate) fn unwrapped(&self) -> String {
        let words = self.stderr.split_whitespace().filter(|word| *word != "│");
        words.collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self}");
        self
    }

    #[track_caller]
    pub(crate) fn fails(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }
}

impl std::fmt::Display for CommandOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "exit {:?}\n--- stdout\n{}\n--- stderr\n{}",
            self.code, self.stdout, self.stderr
        )
    }
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file into the working directory.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The default path of the store.
    pub(crate) fn database(&self) -> PathBuf {
        self.join("data/cachalot/cachalot.db")
    }

    /// The command with these arguments. A chat is not offered the sandbox: `--sandbox=ask` is what it does without the
    /// flag, but for that.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let has_flag = |flag: &str| arguments.iter().any(|argument| argument.starts_with(flag));
        let is_offered =
            arguments.first() == Some(&"chat") && !has_flag("--sandbox") && !has_flag("--yes");
        let at = usize::from(is_offered);
        let mut command = Command::new(env!("CARGO_BIN_EXE_cachalot"));
        command
            .args(&arguments[..at])
            .args(is_offered.then_some("--sandbox=ask"))
            .args(&arguments[at..])
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("XDG_DATA_HOME", self.join("data"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.command(arguments).output().unwrap().into()
    }

    /// Every file below the home, with its bytes.
    pub(crate) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut folders = vec![self.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let bytes = std::fs::read(&path).unwrap();
                    found.push((path, bytes));
                }
            }
        }
        found
    }
}

/// An agent whose one step leaves a mark whenever it really runs: a line in `runs.log`.
pub(crate) const MARKING: &str = r#"
name: marking
nodes:
  - name: work
    uses: cache.wrap
    with:
      action: shell.run
      args:
        command: ["sh", "-c", "echo ran >> runs.log; printf '%s' \"$0\"", "{{ state.text }}"]
    output: answer
"#;

impl Home {
    /// The number of times that the marking step ran.
    pub(crate) fn runs(&self) -> usize {
        std::fs::read_to_string(self.join("runs.log")).map_or(0, |log| log.lines().count())
    }
}

/// A server on loopback that answers every request with the same JSON, and counts.
pub(crate) struct Server {
    address: std::net::SocketAddr,
    requests: std::sync::Arc<std::sync::Mutex<Vec<String>>>,
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(body: &str) -> Self {
        use std::io::{BufRead as _, BufReader, Read as _, Write as _};
        use std::sync::atomic::Ordering;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (body, seen, stopping) = (body.to_owned(), requests.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopping.load(Ordering::SeqCst) {
                    return;
                }
                let mut stream = stream.unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut head = String::new();
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                        break;
                    }
                    if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    head.push_str(&line);
                }
                let mut content = vec![0; length];
                reader.read_exact(&mut content).unwrap();
                seen.lock()
                    .unwrap()
                    .push(head + &String::from_utf8_lossy(&content));
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        Self {
            address,
            requests,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Stops the server; returns the number of requests.
    pub(crate) fn stop(mut self) -> usize {
        self.halt();
        self.requests().len()
    }

    fn halt(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::SeqCst);
        let _ = std::net::TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.halt();
    }
}

/// Waits for a state that another process reaches, at most five minutes.
#[cfg(unix)]
pub(crate) fn wait_until(is_reached: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !is_reached() {
        assert!(start.elapsed().as_secs() < 300, "the state was not reached");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
