//! The ledger of several machines: `ledger` of a gateway's file, and `--ledger`.
#![cfg(unix)]

use cachalot_backends::testing::{Fault, FaultProxy, PASSWORD, PostgresServer};

use crate::provider::Provider;
use crate::serve::Gateway;
use crate::support::{CommandOutput, Home, wait_until};

/// A machine with a gateway.
struct Machine {
    home: Home,
    /// The URL of the ledger without a password.
    url: String,
}

impl Machine {
    fn new(provider: &Provider, url: &str) -> Self {
        let home = Home::new();
        let upstream = provider.url();
        home.write(
            "gateway.yaml",
            format!("upstreams: {{openai: {{url: '{upstream}/v1'}}}}\nledger: '{url}'\n"),
        );
        Self {
            home,
            url: url.replace(&format!(":{PASSWORD}@"), "@"),
        }
    }

    fn gateway(&self) -> Gateway {
        Gateway::with(&self.home, &["--config", "gateway.yaml"], &[])
    }

    /// Sends a request with this text, and returns the key of its call.
    fn ask(gateway: &Gateway, text: &str) -> String {
        let body = format!(
            r#"{{"model": "gpt-4o-mini", "temperature": 0, "messages": [{{"role": "user", "content": "{text}"}}]}}"#
        );
        let answer = gateway.post("sk-of-client", &body);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let key = answer.split("key=\"").nth(1).unwrap();
        key.split('"').next().unwrap().to_owned()
    }

    /// Runs a command that reads the ledger of all machines.
    fn read(&self, arguments: &[&str]) -> CommandOutput {
        let arguments = [arguments, &["--ledger", &self.url]].concat();
        let mut command = self.home.command(&arguments);
        command.env("PGPASSWORD", PASSWORD).output().unwrap().into()
    }

    /// The number of runs that were paid for on all machines, by their sums and by their calls.
    fn paid(&self) -> [u64; 2] {
        let stats = self.read(&["cache", "stats", "--json"]).ok().json();
        let spend = self.read(&["spend", "--json"]);
        let answers = match spend.code {
            Some(0) => spend.json()["total"]["answers"].as_u64().unwrap(),
            _ => 0,
        };
        [stats["totals"]["misses"].as_u64().unwrap(), answers]
    }
}

#[test]
fn calls_of_several_machines_are_read_together() {
    let Some(server) = PostgresServer::shared() else {
        return;
    };
    let provider = Provider::built_in();
    let url = server.fresh_url();
    let machines = [(); 2].map(|()| Machine::new(&provider, &url));
    let mut keys = Vec::new();
    for (machine, text) in machines.iter().zip(["secret-one", "secret-two"]) {
        let gateway = machine.gateway();
        keys.push(Machine::ask(&gateway, text));
        gateway.stop();
    }
    // An operator's machine without a store.
    let reader = Machine::new(&provider, &url);
    assert_eq!(reader.paid(), [2, 2]);
    for key in &keys {
        let why = reader.read(&["why", key]).ok();
        assert!(why.stdout.contains("openai/chat/gpt-4o-mini/"), "{why}");
        assert!(!why.stdout.contains("secret-"), "{why}");
    }
    let spend = reader.read(&["spend", "--by", "model", "--json"]).ok();
    assert!(spend.stdout.contains("gpt-4o-mini"), "{spend}");
    let by_session = reader.read(&["spend", "--by", "session", "--json"]).ok();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
    if let Ok(host) = host {
        assert!(
            by_session.stdout.contains(&format!("{}/", host.trim())),
            "{by_session}"
        );
    }
    // A gateway that starts again sends what is new.
    let gateway = machines[0].gateway();
    Machine::ask(&gateway, "another");
    wait_until(|| reader.paid() == [3, 3]);
    gateway.stop();
    assert_eq!(reader.paid(), [3, 3]);

    let schema = url.rsplit("%3D").next().unwrap();
    let everything =
        format!("SELECT string_agg(c::text, ' ') FROM {schema}.cachalot_ledger_calls c");
    let everything = server.query(&everything);
    assert!(
        everything.contains("gpt-4o-mini") && !everything.contains("secret-"),
        "{everything}"
    );
    server.execute(&url, "UPDATE cachalot_ledger_layout SET version = 2");
    let refused = reader.read(&["cache", "stats"]).fails(1);
    assert!(refused.stderr.contains("newer version"), "{refused}");
    let gateway = machines[1].gateway();
    Machine::ask(&gateway, "nothing waits for the ledger");
    let printed = gateway.stop();
    assert!(
        printed.contains("the ledger is not copied") && printed.contains("newer version"),
        "{printed}"
    );
    assert!(!printed.contains(PASSWORD), "{printed}");
}

#[test]
fn an_outage_of_the_ledger_delays_its_copies_only() {
    let Some(server) = PostgresServer::shared() else {
        return;
    };
    let provider = Provider::built_in();
    let proxy = FaultProxy::start(server.port());
    let url = server.fresh_url();
    let reader = Machine::new(&provider, &url);
    let port = |port| format!(":{port}/");
    let url = url.replace(&port(server.port()), &port(proxy.port()));
    let machine = Machine::new(&provider, &url);
    proxy.set(Fault::Refuse);
    let gateway = machine.gateway();
    for text in ["a", "b", "c"] {
        Machine::ask(&gateway, text);
    }
    let printed = gateway.stop();
    assert_eq!(
        printed.matches("the ledger is not copied").count(),
        1,
        "{printed}"
    );
    proxy.set(Fault::None);
    let gateway = machine.gateway();
    Machine::ask(&gateway, "d");
    wait_until(|| reader.paid() == [4, 4]);
    // The reply to a page is lost: it is sent twice, and is there once.
    proxy.set(Fault::LoseNextReply);
    Machine::ask(&gateway, "e");
    wait_until(|| reader.paid() == [5, 5]);
    gateway.stop();
    assert_eq!(reader.paid(), [5, 5]);
}

#[test]
fn wrong_ledgers_are_named() {
    let (home, provider) = (Home::new(), Provider::built_in());
    for (url, part) in [
        ("somewhere", "no URL"),
        ("redis://127.0.0.1/0", "in Postgres"),
        ("postgres://a:pw-1234@127.0.0.1/b", "list of processes"),
    ] {
        let refused = home.run(&["why", "--ledger", url]).fails(2);
        assert!(refused.stderr.contains(part), "{refused}");
        assert!(!refused.stderr.contains("pw-1234"), "{refused}");
    }
    let upstream = provider.url();
    home.write(
        "gateway.yaml",
        format!("upstreams: {{openai: {{url: '{upstream}/v1'}}}}\nledger: 'mysql://a/b'\n"),
    );
    let refused = home.run(&["serve", "--config", "gateway.yaml"]).fails(2);
    assert!(refused.stderr.contains("no URL of Postgres"), "{refused}");
}
