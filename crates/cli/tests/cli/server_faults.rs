//! Servers that are unsuitable, or do not answer.

use std::process::Stdio;
use std::time::{Duration, Instant};

use cachalot_backends::testing::{
    Certificates, Fault, FaultProxy, PASSWORD, PostgresServer, RedisServer,
};

use crate::backends::{STRINGIFY, run};
use crate::doctor::{check_of, doctor};
use crate::support::{CommandOutput, Home};

/// Returns the URLs of the servers of this machine, and their ports.
fn servers() -> Vec<(String, u16)> {
    let mut servers = Vec::new();
    if let Some(server) = PostgresServer::shared() {
        servers.push((server.fresh_url(), server.port()));
    }
    if let Some(server) = RedisServer::shared() {
        servers.push((server.fresh_url(), server.port()));
    }
    servers
}

#[test]
fn unsuitable_server_is_refused_before_the_run() {
    let Some(server) = RedisServer::start(&["--maxmemory-policy", "allkeys-lfu"]) else {
        return;
    };
    let home = Home::new();
    let refused = run(&home, &server.fresh_url(), "x").fails(1);
    assert!(refused.stderr.contains("set maxmemory-policy"), "{refused}");
    assert!(refused.stdout.is_empty());
    is_refused_with_a_remedy(&home, &server.fresh_url(), "set maxmemory-policy");
}

/// Checks what a run and `doctor` report about a server that its operator has to change.
#[track_caller]
fn is_refused_with_a_remedy(home: &Home, url: &str, remedy: &str) {
    home.write("agent.yaml", STRINGIFY);
    let mut command = home.command(&["run", "agent.yaml", "--json", "-i", "text=x"]);
    let refused: CommandOutput = command.env("CACHALOT_DB", url).output().unwrap().into();
    let refused = refused.fails(1);
    let error = &refused.json()["error"];
    assert_eq!(error["code"], "store-setup", "{refused}");
    assert!(
        error["help"].as_str().unwrap().contains(remedy),
        "{refused}"
    );
    let checked = doctor(home, url).fails(1);
    let (status, stated) = check_of(&checked, "reach");
    assert_eq!(status, "failed");
    assert!(stated.contains(remedy), "{checked}");
}

#[test]
fn missing_databases_and_permissions_are_named() {
    let Some(server) = PostgresServer::shared() else {
        return;
    };
    let home = Home::new();
    let url = server.fresh_url();
    let missing = url.replace("/postgres?", "/no_such_database?");
    is_refused_with_a_remedy(&home, &missing, "createdb");
    server.execute(&url, "CREATE ROLE limited LOGIN PASSWORD 'a-password'");
    let limited = url.replace(&format!("cachalot:{PASSWORD}"), "limited:a-password");
    is_refused_with_a_remedy(&home, &limited, "GRANT");
}

/// The server refuses several calls, as during a restart, before it accepts one.
#[test]
fn long_term_memory_outlasts_the_restart_of_a_server() {
    let home = Home::new();
    home.write(
        "memory.yaml",
        "name: memory\nnodes:\n  - name: remember\n    uses: ltm.store\n    with: {key: k, value: v}\n    \
         output: stored\n",
    );
    for (url, port) in servers() {
        let proxy = FaultProxy::start(port);
        proxy.set(Fault::Refuse);
        let mut command = home.command(&["run", "memory.yaml"]);
        command
            .env("CACHALOT_DB", proxy.url(&url, port))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let running = command.spawn().unwrap();
        while proxy.refused() < 6 {
            std::thread::sleep(Duration::from_millis(5));
        }
        proxy.set(Fault::None);
        let ran: CommandOutput = running.wait_with_output().unwrap().into();
        assert_eq!(ran.ok().json()["stored"]["stored"], true);
    }
}

#[test]
fn unreachable_server_costs_a_warning_and_not_the_run() {
    let home = Home::new();
    let began = Instant::now();
    for url in [
        "postgres://me:hunter2@127.0.0.1:1/x",
        "redis://:hunter2@127.0.0.1:1/0",
        "unix:/nowhere/redis.sock?pass=hunter2",
    ] {
        let ran = run(&home, url, "x").ok();
        let answer = &ran.json()["answer"];
        assert_eq!(
            (&answer["_cache_hit"], &answer["_cache_stored"]),
            (&false.into(), &false.into())
        );
        assert_eq!(ran.stderr.matches("warning:").count(), 1, "{ran}");
        assert!(!ran.to_string().contains("hunter2"), "{ran}");
    }
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    assert!(!home.database().exists());
}

/// Thirty steps against a server that does not answer, and one that stops answering.
#[test]
fn hung_server_delays_a_run_once_and_not_each_step() {
    let home = Home::new();
    let steps: String = (0..30)
        .map(|number| {
            format!(
                "  - name: step{number}\n    uses: cache.wrap\n    with:\n      action: json.stringify\n      \
                 args: {{data: '{number}'}}\n"
            )
        })
        .collect();
    home.write("steps.yaml", format!("name: steps\nnodes:\n{steps}"));
    for (url, port) in servers() {
        let proxy = FaultProxy::start(port);
        let run = || -> CommandOutput {
            let mut command = home.command(&["run", "steps.yaml"]);
            command
                .env("CACHALOT_DB", proxy.url(&url, port))
                .output()
                .unwrap()
                .into()
        };
        proxy.set(Fault::Hang);
        let began = Instant::now();
        let ran = run().ok();
        // One result waits for five seconds to be stored, and the first calls for their limits.
        assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
        assert!(ran.stderr.contains("paid 30 calls"), "{ran}");
        assert_eq!(ran.stderr.matches("warning:").count(), 1, "{ran}");
        proxy.set(Fault::None);
        // A lookup that takes longer than its limit is a miss: on a machine with other work, some are.
        assert!((0..30).any(|_| run().ok().stderr.contains("paid 0 calls")));
    }
}

#[test]
fn certificates_of_servers_are_verified() {
    let mut urls = Vec::new();
    if let Some(server) = PostgresServer::shared() {
        urls.push(server.fresh_url() + "&sslmode=require");
    }
    let redis = RedisServer::start_with_tls();
    if let Some((_, url)) = &redis {
        urls.push(url.clone());
    }
    let home = Home::new();
    let authority = Some(&*Certificates::shared().authority);
    let check = |url: &str, authority: Option<&std::path::Path>| -> CommandOutput {
        let mut command = home.command(&["doctor", "--json"]);
        if let Some(authority) = authority {
            command.env("SSL_CERT_FILE", authority);
        }
        command.env("CACHALOT_DB", url).output().unwrap().into()
    };
    // The certificate is one for the address only.
    if let Some(server) = PostgresServer::shared() {
        let url = server.fresh_url().replace("@127.0.0.1:", "@localhost:");
        let url = url + "&sslmode=require&hostaddr=127.0.0.1";
        let other_name = check(&url, authority).fails(1);
        let (status, remedy) = check_of(&other_name, "reach");
        assert_eq!(status, "failed");
        assert!(remedy.contains("subjectAltName"), "{other_name}");
    }
    for url in urls {
        let unknown = check(&url, None).fails(1);
        assert_eq!(check_of(&unknown, "reach").0, "failed");
        assert!(unknown.stdout.contains("certificate"), "{unknown}");
        assert!(unknown.stdout.contains("SSL_CERT_FILE"), "{unknown}");
        // The work runs.
        let ran = run(&home, &url, "x").ok();
        assert_eq!(ran.json()["answer"]["_cache_stored"], false, "{ran}");
        let known = check(&url, authority).ok();
        assert_eq!(check_of(&known, "reach").0, "ok");
        assert_eq!(check_of(&known, "write").0, "ok");
    }
}
