//! `cachalot serve` in front of a simulator.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use cachalot_backends::testing::{Fault, FaultProxy, PASSWORD, PostgresServer};

use crate::provider::Provider;
use crate::support::{CommandOutput, Home, wait_until};

/// A running gateway.
pub(crate) struct Gateway {
    process: Child,
    address: String,
}

impl Gateway {
    pub(crate) fn start(home: &Home, provider: &Provider) -> Self {
        let upstream = format!("openai={}/v1", provider.url());
        Self::with(home, &["--upstream", &upstream], &[])
    }

    /// Starts a gateway with further arguments and variables.
    pub(crate) fn with(home: &Home, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let arguments = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut process = home
            .command(&arguments)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.trim().strip_prefix("listening on http");
        let address = address.and_then(|rest| rest.trim_start_matches('s').strip_prefix("://"));
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { process, address }
    }

    /// Sends a chat request and returns the whole response.
    fn ask(&self) -> String {
        self.ask_as("x")
    }

    /// Sends a chat request with a credential.
    fn ask_as(&self, credential: &str) -> String {
        self.ask_about(credential, "hello")
    }

    fn ask_about(&self, credential: &str, text: &str) -> String {
        let body = format!(
            r#"{{"model": "gpt-4o-mini", "temperature": 0, "messages": [{{"role": "user", "content": "{text}"}}]}}"#
        );
        self.post(credential, &body)
    }

    /// Sends a chat request with this body.
    pub(crate) fn post(&self, credential: &str, body: &str) -> String {
        self.post_to("/v1/chat/completions", credential, body)
    }

    /// Sends a request to a path.
    pub(crate) fn post_to(&self, path: &str, credential: &str, body: &str) -> String {
        self.post_with(path, credential, "", body)
    }

    /// Sends a request with further headers.
    fn post_with(&self, path: &str, credential: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {credential}\r\nx-cachalot-tags: trial\r\n{headers}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    /// Interrupts the gateway and returns what it printed on stderr.
    pub(crate) fn stop(mut self) -> String {
        let process = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
        let mut printed = String::new();
        self.process
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut printed)
            .unwrap();
        assert!(self.process.wait().unwrap().success(), "{printed}");
        printed
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn second_request_is_a_hit_also_after_a_restart() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let gateway = Gateway::start(&home, &provider);
    let first = gateway.ask();
    assert!(
        first.starts_with("HTTP/1.1 200") && first.contains("fwd=uri-miss"),
        "{first}"
    );
    // A request that arrives before the answer is stored joins the run.
    let hits = (0..100).find(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        gateway.ask().contains("cachalot; hit; ttl=")
    });
    assert!(hits.is_some());
    let printed = gateway.stop();
    assert!(printed.contains("answered from the cache"), "{printed}");
    assert_eq!(provider.received().len(), 1);
    let gateway = Gateway::start(&home, &provider);
    let hit = gateway.ask();
    assert!(hit.contains("cachalot; hit; ttl="), "{hit}");
    let body = |response: &str| response.split_once("\r\n\r\n").unwrap().1.to_owned();
    assert_eq!(body(&hit), body(&first));
    gateway.stop();
    let key = hit
        .split("key=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .to_owned();
    let tagged = home.run(&["cache", "ls", "--tag", "trial"]).ok();
    assert!(tagged.stdout.contains(&key), "{tagged}");
    let why = home.run(&["why", &key]).ok();
    assert!(why.stdout.contains("openai/chat/gpt-4o-mini/"), "{why}");
}

#[test]
fn a_configuration_is_checked_followed_and_read_again() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let made = home.run(&["serve", "--new-key"]).ok().stdout;
    let words: Vec<&str> = made.split_whitespace().collect();
    let key = words
        .iter()
        .find(|word| word.starts_with("cachalot-"))
        .unwrap();
    let digest = words.last().unwrap();
    assert_eq!(
        (key.len(), digest.len()),
        ("cachalot-".len() + 64, 64),
        "{made}"
    );
    let file = |keys: &str| {
        format!(
            "upstreams: {{openai: {{url: '{}/v1', credential: {{env: OPERATOR}}}}}}\n{keys}\n",
            provider.url()
        )
    };
    let keys = format!("keys: {{one: {{digest: {digest}}}}}");
    home.write("gateway.yaml", file(""));
    let refused = home.run(&["serve", "--config", "gateway.yaml"]).fails(2);
    assert!(
        refused.stderr.contains("credential-without-keys"),
        "{refused}"
    );
    let invalid = home.run(&["validate", "gateway.yaml"]).fails(2);
    assert!(
        invalid.stderr.contains("credential-without-keys"),
        "{invalid}"
    );
    home.write("gateway.yaml", file(&keys));
    let valid = home.run(&["validate", "gateway.yaml"]).ok();
    assert!(
        format!("{valid}").contains("1 upstream and 1 key"),
        "{valid}"
    );
    let missing = home.run(&["serve", "--config", "gateway.yaml"]).fails(2);
    assert!(missing.stderr.contains("OPERATOR"), "{missing}");

    let variables = [("OPERATOR", "sk-operator"), ("OPENAI_API_KEY", "sk-unused")];
    let gateway = Gateway::with(
        &home,
        &["--config", "gateway.yaml", "--log-json"],
        &variables,
    );
    assert!(gateway.ask_as("sk-own").starts_with("HTTP/1.1 401"));
    assert!(gateway.ask_as(key).starts_with("HTTP/1.1 200"));
    let received = provider.received();
    assert_eq!(received.len(), 1);
    let sent = format!("{:?}", received[0]);
    assert!(!sent.contains(key), "{sent}");
    // A broken file changes nothing; a corrected one takes effect, on a signal and by itself.
    home.write("gateway.yaml", "keys: [");
    let process = rustix::process::Pid::from_child(&gateway.process);
    rustix::process::kill_process(process, rustix::process::Signal::HUP).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(gateway.ask_as(key).starts_with("HTTP/1.1 200"));
    let other = keys.replace(digest, &"0".repeat(64));
    home.write("gateway.yaml", file(&other));
    let is_refused = |_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        gateway.ask_as(key).starts_with("HTTP/1.1 401")
    };
    assert!((0..200).any(is_refused));
    let printed = gateway.stop();
    assert!(
        printed.contains("the configuration stays as it was"),
        "{printed}"
    );
    assert!(printed.contains("was read again"), "{printed}");
    let logged = printed.lines().find(|line| line.starts_with('{')).unwrap();
    let logged: serde_json::Value = serde_json::from_str(logged).unwrap();
    assert_eq!(
        (&logged["status"], &logged["error"]),
        (&401.into(), &"key_required".into())
    );
    assert!(
        !printed.contains(key) && !printed.contains("sk-operator"),
        "{printed}"
    );
}

#[test]
fn a_frozen_gateway_needs_neither_a_provider_nor_its_credential() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let digest = cachalot_core::Digest::sha256(b"cachalot-one").to_hex();
    home.write(
        "gateway.yaml",
        format!(
            "upstreams: {{openai: {{url: '{}/v1', credential: {{env: OPERATOR}}}}}}\nkeys: {{one: {{digest: {digest}}}}}\n",
            provider.url()
        ),
    );
    let variables = [("OPERATOR", "sk-operator")];
    let gateway = Gateway::with(&home, &["--config", "gateway.yaml"], &variables);
    let recorded = gateway.ask_as("cachalot-one");
    assert!(recorded.starts_with("HTTP/1.1 200"), "{recorded}");
    gateway.stop();
    drop(provider);
    let gateway = Gateway::with(&home, &["--config", "gateway.yaml", "--frozen"], &[]);
    let replayed = gateway.ask_as("cachalot-one");
    let body = |response: &str| response.split_once("\r\n\r\n").unwrap().1.to_owned();
    assert_eq!(body(&replayed), body(&recorded));
    let other = gateway.ask_about("cachalot-one", "something else");
    assert!(
        other.starts_with("HTTP/1.1 504") && other.contains("not_cached"),
        "{other}"
    );
    gateway.stop();
}

#[test]
fn a_gateway_with_another_digest_key_than_the_store_is_not_ready() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let upstream = format!("openai={}/v1", provider.url());
    for (name, digit) in [("one", "1"), ("other", "2")] {
        home.write(name, digit.repeat(64));
        std::fs::set_permissions(home.path().join(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
    for (name, status) in [("one", "200"), ("other", "503"), ("one", "200")] {
        let variables = [("CACHALOT_DIGEST_KEY_FILE", name)];
        let gateway = Gateway::with(&home, &["--upstream", &upstream], &variables);
        let ready = gateway.get("/readyz");
        assert!(ready.starts_with(&format!("HTTP/1.1 {status}")), "{ready}");
        assert_eq!(ready.contains("digest key"), status == "503", "{ready}");
        let metrics = gateway.get("/metrics");
        let mismatch = u8::from(status == "503");
        for line in [
            format!("cachalot_digest_key_mismatch {mismatch}\n"),
            "cachalot_store_operation_seconds_count{operation=\"get\"}".to_owned(),
        ] {
            assert!(metrics.contains(&line), "{metrics}");
        }
        gateway.stop();
    }
}

/// The store is on a server, which goes away: copies on this machine answer.
#[test]
fn copies_answer_while_the_store_is_away() {
    let Some(server) = PostgresServer::shared() else {
        return;
    };
    let (home, provider) = (Home::new(), Provider::built_in());
    let proxy = FaultProxy::start(server.port());
    let port = |port| format!(":{port}");
    let url = server.fresh_url();
    let url = url.replace(&port(server.port()), &port(proxy.port()));
    home.write(
        "gateway.yaml",
        format!(
            "upstreams: {{openai: {{url: '{}/v1'}}}}\ncache: {{local: true, patience: 2s, front_bytes: 0}}\n",
            provider.url()
        ),
    );
    let variables = [("CACHALOT_DB", url.as_str())];
    let gateway = Gateway::with(&home, &["--config", "gateway.yaml"], &variables);
    let is_hit = |gateway: &Gateway| gateway.ask().contains("cachalot; hit; ttl=");
    wait_until(|| is_hit(&gateway));
    // The copy of the entry is made by a hit, in the background.
    let asked = provider.received().len();
    proxy.set(Fault::Refuse);
    wait_until(|| gateway.get("/readyz").starts_with("HTTP/1.1 503"));
    wait_until(|| is_hit(&gateway));
    let metrics = gateway.get("/metrics");
    assert!(metrics.contains("cachalot_store_up 0\n"), "{metrics}");
    let answers = metrics
        .lines()
        .find_map(|line| line.strip_prefix("cachalot_store_copy_answers_total "));
    assert!(answers.is_some_and(|answers| answers != "0"), "{metrics}");
    proxy.set(Fault::None);
    wait_until(|| gateway.get("/readyz").starts_with("HTTP/1.1 200"));
    let printed = gateway.stop();
    assert!(!printed.contains(PASSWORD), "{printed}");
    assert_eq!(provider.received().len(), asked, "{printed}");
}

#[test]
fn the_debug_log_shows_decisions_and_no_contents() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let digest = cachalot_core::Digest::sha256(b"cachalot-secret-of-client").to_hex();
    home.write(
        "gateway.yaml",
        format!(
            "upstreams:\n  openai: {{url: '{}/v1', credential: {{env: OPERATOR}}}}\n  anthropic: {{url: '{}'}}\n  \
             dead: {{url: 'http://127.0.0.1:1', retries: 1}}\n\
             keys: {{one: {{digest: {digest}}}}}\nprefix: {{inject_breakpoints: true}}\n",
            provider.url(),
            provider.url()
        ),
    );
    let variables = [
        ("OPERATOR", "sk-secret-of-operator"),
        (
            "CACHALOT_LOG",
            "info,cachalot_gateway=debug,cachalot_cache=debug",
        ),
    ];
    let gateway = Gateway::with(&home, &["--config", "gateway.yaml"], &variables);
    let answer = gateway.ask_about("cachalot-secret-of-client", "secret-of-body");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let body = r#"{"model": "claude-3-5-haiku-20241022", "max_tokens": 9, "system": "secret-of-system",
        "messages": [{"role": "user", "content": "secret-of-message"}]}"#;
    for path in [
        "/v1/messages?key=secret-of-query",
        "/u/dead/v1/chat/completions?api_key=secret-of-query",
        "/u/none-secret-of-path/v1/chat/completions?key=secret-of-query",
        "/secret-of-path?key=secret-of-query",
        "/p/secret-of-agent/v1/chat/completions",
    ] {
        let (credential, version) = if path.contains("messages") {
            (
                "sk-ant-secret-of-header",
                "anthropic-version: 2023-06-01\r\n",
            )
        } else {
            ("sk-secret-of-header", "")
        };
        let headers = format!("{version}x-own: secret-of-own-header\r\n");
        gateway.post_with(path, credential, &headers, body);
    }
    home.write(
        "gateway.yaml",
        "upstreams: {openai: {url: 'http://127.0.0.1:1'}}\n",
    );
    gateway.get("/readyz");
    wait_until(|| gateway.get("/metrics").starts_with("HTTP/1.1 200"));
    let printed = gateway.stop();
    let (log, rest): (Vec<&str>, Vec<&str>) = printed.lines().partition(|line| {
        line.contains(" cachalot_gateway::") || line.contains(" cachalot_cache::")
    });
    assert!(!log.join("\n").contains("secret"), "{printed}");
    assert!(rest.iter().all(|line| !line.contains("DEBUG")), "{printed}");
    for part in [
        "DEBUG cachalot_gateway::handler: an upstream was chosen endpoint=\"chat\" model=\"gpt-4o-mini\" key=\"one\" upstream=\"openai\"",
        "judgement=\"repeatable\"",
        "judgement=\"sampled\"",
        "DEBUG cachalot_gateway::client: the upstream answered upstream=\"openai\" status=200",
        "is repeated after a pause upstream=\"dead\" attempt=1",
        "DEBUG cachalot_gateway::injection: cache markers are added places=[",
        "DEBUG cachalot_gateway::report: a response began method=\"POST\" endpoint=\"chat\"",
        "error=\"unknown_path\"",
        "INFO  cachalot_gateway::server: the settings are replaced upstreams=1 keys=0",
        "INFO  cachalot_gateway::readiness: the store's state has changed state=Ready",
        "DEBUG cachalot_cache::ledger: a call has ended kind=\"request\" name=\"chat\"",
    ] {
        assert!(
            log.iter().any(|line| line.contains(part)),
            "{part}: {printed}"
        );
    }
    let quiet = Gateway::with(&home, &["--config", "gateway.yaml"], &[]);
    quiet.ask();
    assert!(!quiet.stop().contains("DEBUG"));
    let mut misspelled = home.command(&["models"]);
    let misspelled = misspelled.env("CACHALOT_LOG", "cachalot_gatway=debug");
    let misspelled: CommandOutput = misspelled.output().unwrap().into();
    let misspelled = misspelled.fails(2);
    assert!(
        misspelled
            .stderr
            .contains("did you mean `cachalot_gateway`?"),
        "{misspelled}"
    );
}

#[test]
fn an_encrypted_listener_takes_over_a_new_certificate() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let certify = |name: &str| {
        let script = format!(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} \
             -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out certificate.pem"
        );
        let made = Command::new("sh")
            .args(["-c", &script])
            .current_dir(home.path())
            .output();
        assert!(
            made.as_ref().is_ok_and(|made| made.status.success()),
            "{made:?}"
        );
    };
    // The name in the certificate that the gateway presents, checked by another implementation of TLS.
    let presented = |gateway: &Gateway| {
        let script = format!(
            "printf 'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' | \
             openssl s_client -connect {} -CAfile certificate.pem -verify_return_error -ign_eof 2>&1",
            gateway.address
        );
        let asked = Command::new("sh")
            .args(["-c", &script])
            .current_dir(home.path())
            .output();
        String::from_utf8_lossy(&asked.unwrap().stdout).into_owned()
    };
    certify("first");
    home.write(
        "gateway.yaml",
        format!(
            "upstreams: {{openai: {{url: '{}/v1'}}}}\ntls: {{certificate: certificate.pem, key: key.pem}}\n",
            provider.url()
        ),
    );
    let gateway = Gateway::with(&home, &["--config", "gateway.yaml"], &[]);
    let said = presented(&gateway);
    assert!(
        said.contains("CN = first") && said.contains("HTTP/1.1 200"),
        "{said}"
    );
    certify("second");
    let is_new = |_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let said = presented(&gateway);
        said.contains("CN = second") && said.contains("HTTP/1.1 200")
    };
    assert!((0..100).any(is_new));
    gateway.stop();
    home.write("key.pem", "no key");
    let broken = home.run(&["serve", "--config", "gateway.yaml"]).fails(2);
    assert!(broken.stderr.contains("key.pem"), "{broken}");
}

#[test]
fn malformed_options_are_named() {
    let home = Home::new();
    for (arguments, part) in [
        (["--upstream", "openai"], "expected NAME=URL"),
        (
            ["--upstream", "a=ftp://a.example"],
            "expected an http:// or https:// URL",
        ),
        (["--listen", "4114"], "invalid"),
        (["--config", "absent.yaml"], "absent.yaml"),
    ] {
        let ran = home.run(&["serve", arguments[0], arguments[1]]);
        assert!(ran.code != Some(0) && ran.stderr.contains(part), "{ran}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = home.run(&["serve", "--listen", &address]);
    assert!(
        ran.stderr.contains("--listen") && ran.stderr.contains(&address),
        "{ran}"
    );
}
