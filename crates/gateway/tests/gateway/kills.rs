//! A gateway process that is killed under load, and its successors on the same store: this test's own program, started
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cachalot_cache::{Cache, CacheBounds, CacheOptions, Ledger, LedgerLimits};
use cachalot_core::{Clock, DigestKey, SecretSet, SystemClock};
use cachalot_gateway::{Gateway, GatewayOptions, Limits, Settings, StoreMetrics, Upstream};
use cachalot_model::Catalog;
use cachalot_store::Store;
use cachalot_store::sqlite::{SqliteOptions, SqliteStore};
use hyper_util::client::proxy::matcher::Matcher;
use parking_lot::Mutex;

use crate::fake_upstream::{FakeUpstream, Received, Step, chunked, head, media};
use crate::formats::Api;
use crate::support::{digest_key_check, tls};

const HOME: &str = "CACHALOT_TEST_HOME";
const UPSTREAM: &str = "CACHALOT_TEST_UPSTREAM";

/// The number of kills.
const KILLS: usize = 20;
/// The number of clients that ask at the same time.
const CLIENTS: usize = 8;
/// The number of texts that are new with each process.
const NEW_TEXTS: u64 = 8;

/// The work of child processes: a gateway until standard input ends. Returns at once when run as a test.
#[test]
fn as_a_gateway() {
    let (Some(home), Ok(upstream)) = (std::env::var_os(HOME), std::env::var(UPSTREAM)) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let gateway = runtime
        .block_on(start(&PathBuf::from(home), &upstream))
        .unwrap();
    println!("listening {}", gateway.address());
    let _ = std::io::stdin().read(&mut [0]);
    std::process::exit(0);
}

async fn start(home: &Path, upstream: &str) -> std::io::Result<cachalot_gateway::RunningGateway> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let secret_set = Arc::new(SecretSet::with_key(DigestKey::new([3; 32])));
    let warn = Arc::new(|message: &str| println!("warning: {message}"));
    let process = std::process::id().to_string();
    let store = SqliteStore::open(
        &home.join("cachalot.db"),
        SqliteOptions::new(Arc::clone(&clock)),
    );
    let store: Arc<dyn Store> = Arc::new(store.unwrap());
    let cache = Cache::new(CacheOptions {
        store: Some(Arc::clone(&store)),
        local: None,
        ledger: Ledger::with_limits(
            &home.join("ledger.db"),
            process.clone(),
            LedgerLimits::default(),
            warn.clone(),
        ),
        clock: Arc::clone(&clock),
        secret_set: Arc::clone(&secret_set),
        bounds: CacheBounds::default(),
        warn,
    });
    Gateway::start(GatewayOptions {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        admin_address: None,
        allowed_hosts: Vec::new(),
        settings: Settings::new(vec![Upstream::new("openai", upstream).unwrap()]),
        cache,
        store: Some(store),
        store_metrics: StoreMetrics::default(),
        check_digest_key: digest_key_check(Arc::default()),
        frozen: false,
        command: None,
        tenant_key: DigestKey::new([5; 32]),
        process,
        secret_set,
        catalog: Arc::new(Catalog::built_in()),
        clock,
        tls: tls(),
        proxies: Matcher::builder().build(),
        limits: Limits::default(),
        observe: Arc::new(|_| {}),
        warn: Arc::new(|_| {}),
    })
    .await
}

/// A gateway process, which is killed when it is dropped.
struct Process {
    child: Child,
    url: String,
}

impl Process {
    fn start(home: &Path, upstream: SocketAddr) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "kills::as_a_gateway",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(HOME, home)
            .env(UPSTREAM, format!("http://{upstream}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line = line.unwrap();
            // The harness may write before it on the same line.
            Some(line.split_once("listening ")?.1.to_owned())
        });
        // Its warnings must not block it.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            url: format!("http://{}", address.unwrap()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A sequence of numbers that is the same in each run of the test.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// The bodies of the upstream, and those of hits, by request.
#[derive(Default)]
struct Seen {
    /// Complete answers.
    sent: BTreeMap<String, BTreeSet<String>>,
    /// Answers that were served as stored.
    stored: BTreeMap<String, String>,
    whole_answers: usize,
    /// Answers to requests whose answer had been served as stored.
    kept: usize,
}

impl Seen {
    /// Records a whole answer to a request. `stored` is the answer that was served as stored before the request was
    /// sent.
    fn receive(&mut self, request: &str, stored: Option<String>, cache_status: &str, body: String) {
        self.whole_answers += 1;
        let sent = self.sent.get(request);
        let is_sent = sent.is_some_and(|bodies| bodies.contains(&body));
        assert!(is_sent, "{request}: {cache_status}: {body}");
        let is_hit = cache_status.contains("; hit");
        if let Some(stored) = stored {
            assert!(is_hit, "{request}: lost: {cache_status}");
            assert_eq!(stored, body, "{request}");
            self.kept += 1;
        }
        if is_hit {
            let stored = self
                .stored
                .entry(request.to_owned())
                .or_insert(body.clone());
            assert_eq!(*stored, body, "{request}");
        }
    }
}

/// The body of a request, which identifies it.
fn request(text: u64) -> String {
    Api::Chat
        .request(&format!("text {text}"), text.is_multiple_of(2))
        .to_string()
}

/// An answer of a size and a pace of its own, that no other request has.
fn steps(request: &Received, seen: &Mutex<Seen>) -> Vec<Step> {
    let number = request.number;
    let is_streamed = request.json()["stream"] == true;
    let text = format!("answer {number} {}", "word ".repeat(number * 131 % 2_000));
    let body = Api::Chat.answer(&text, is_streamed);
    let name = String::from_utf8(request.body.clone()).unwrap();
    let mut seen = seen.lock();
    seen.sent.entry(name).or_default().insert(body.clone());
    drop(seen);
    let lines = "Transfer-Encoding: chunked\r\n";
    let mut steps = vec![Step::Send(
        head("200 OK", media(is_streamed), lines).into_bytes(),
    )];
    for piece in body.as_bytes().chunks(body.len() / 4 + 1) {
        steps.push(Step::Pause(Duration::from_millis(number as u64 % 4)));
        steps.push(Step::Send(chunked(&[piece], false)));
    }
    steps.push(Step::Send(b"0\r\n\r\n".to_vec()));
    steps
}

/// Sends a request; `None` if the answer is not whole.
async fn ask(client: &reqwest::Client, url: &str, body: &str) -> Option<(String, String)> {
    let request = client
        .post(format!("{url}/v1/chat/completions"))
        .header("authorization", "Bearer one")
        .header("content-type", "application/json")
        .timeout(Duration::from_secs(120))
        .body(body.to_owned());
    let response = request.send().await.ok()?;
    assert_eq!(response.status(), 200);
    let status = response.headers()["cache-status"]
        .to_str()
        .unwrap()
        .to_owned();
    Some((status, response.text().await.ok()?))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_of_a_killed_gateway_are_whole_and_kept() {
    let start = Instant::now();
    // Of the clients of this process, too.
    let _ = tls();
    let home = tempfile::tempdir().unwrap();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let answers = Arc::clone(&seen);
    let upstream = FakeUpstream::start(move |request| steps(request, &answers)).await;
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for round in 0..KILLS as u64 {
        let process = Process::start(home.path(), upstream.address);
        let clients = (0..CLIENTS as u64).map(|_| {
            let (url, seen) = (process.url.clone(), Arc::clone(&seen));
            let mut numbers = Numbers(numbers.0 ^ (numbers.below(u64::MAX) | 1));
            tokio::spawn(async move {
                let client = reqwest::Client::builder().no_proxy().build().unwrap();
                loop {
                    let new = round * NEW_TEXTS + numbers.below(NEW_TEXTS);
                    let old = {
                        let seen = seen.lock();
                        let at = numbers.below(seen.stored.len() as u64 + 1) as usize;
                        seen.stored.keys().nth(at).cloned()
                    };
                    let old = old.filter(|_| numbers.below(2) == 0);
                    let body = old.unwrap_or_else(|| request(new));
                    let stored = seen.lock().stored.get(&body).cloned();
                    let Some((status, answer)) = ask(&client, &url, &body).await else {
                        return;
                    };
                    seen.lock().receive(&body, stored, &status, answer);
                }
            })
        });
        let clients: Vec<_> = clients.collect();
        // Killed at any moment after some answers, or before the first one.
        let enough = seen.lock().whole_answers + numbers.below(50) as usize;
        let has_failed = || clients.iter().any(tokio::task::JoinHandle::is_finished);
        while seen.lock().whole_answers < enough && !has_failed() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_micros(numbers.below(10_000))).await;
        drop(process);
        for client in clients {
            client.await.unwrap();
        }
    }
    // The last process: everything that was served as stored is still there, and the rest is answered.
    let process = Process::start(home.path(), upstream.address);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let requests: Vec<String> = (0..KILLS as u64 * NEW_TEXTS).map(request).collect();
    let known = seen.lock().stored.clone();
    let asking = requests.iter().map(|body| ask(&client, &process.url, body));
    let asking = futures_util::future::join_all(asking).await;
    for (body, answer) in requests.iter().zip(asking) {
        let (status, answer) = answer.unwrap();
        let stored = known.get(body).cloned();
        seen.lock().receive(body, stored, &status, answer);
    }
    let seen = seen.lock();
    println!(
        "{KILLS} kills in {:?}: {} whole answers, {} stored, {} times served again, {} paid",
        start.elapsed(),
        seen.whole_answers,
        seen.stored.len(),
        seen.kept,
        upstream.count(),
    );
    assert!(seen.stored.len() > KILLS && seen.kept > KILLS);
}
