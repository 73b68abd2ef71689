//! The guard, with real connections.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Path;
use axum::response::Redirect;
use axum::routing::get;
use bytes::Bytes;
use cachalot_storage::{
    AllowedHosts, Error, ErrorKind, HttpClient, HttpOptions, Method, Url, body,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::environment;
use crate::server::serve;

async fn server() -> SocketAddr {
    serve(Router::new().route("/abc", get(async || "abc")).route(
        "/to/{*url}",
        get(async |url: Path<String>| Redirect::temporary(&url.0)),
    ))
    .await
}

fn client(allow: &[&str]) -> HttpClient {
    let allow = allow.iter().map(|entry| (*entry).to_owned()).collect();
    HttpClient::new(HttpOptions {
        allow,
        ..HttpOptions::default()
    })
    .unwrap()
}

async fn fetch(client: &HttpClient, url: &str) -> Result<Bytes, Error> {
    let guarded = client.guarded();
    let request = guarded.request(Method::GET, url)?;
    body(guarded.send(request).await?, 1_000).await
}

#[tokio::test]
async fn loopback_is_refused_in_every_spelling() {
    let port = server().await.port();
    let client = client(&[]);
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.0.0.1.",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "localhost",
        "LOCALHOST",
    ] {
        let error = fetch(&client, &format!("http://u:hunter2@{host}:{port}/abc"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{host}: {error}");
        assert!(!error.is_retryable());
        assert!(error.message.contains("(`allow`)"), "{error}");
        assert!(!error.message.contains("hunter2"), "{error}");
    }
    // Not every system knows this spelling; those that do must not get through with it.
    assert!(
        fetch(&client, &format!("http://localhost.:{port}/abc"))
            .await
            .is_err()
    );
}

/// A connection for another protocol is checked like that of a request, with a proxy on the way, too.
#[tokio::test]
async fn connections_are_checked() {
    let server = server().await;
    let port = server.port();
    let connect = async |client: &HttpClient, host: &str| {
        let url = Url::parse(&format!("http://{host}:{port}/")).unwrap();
        let mut connection = client.guarded().connect(&url).await?;
        let request = b"GET /abc HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        connection.write_all(request).await.unwrap();
        let mut response = String::new();
        connection.read_to_string(&mut response).await.unwrap();
        Ok::<_, Error>(response)
    };
    let (proxy, noted) = connect_proxy(server).await;
    let through = |allow: &[&str]| {
        let options = HttpOptions {
            environment: environment(&[("HTTP_PROXY", &format!("http://{proxy}"))]),
            allow: allow.iter().map(|entry| (*entry).to_owned()).collect(),
            ..HttpOptions::default()
        };
        HttpClient::new(options).unwrap()
    };
    for (refusing, permitting) in [
        (client(&[]), client(&["127.0.0.0/8", "localhost"])),
        (through(&[]), through(&["127.0.0.0/8", "localhost"])),
    ] {
        for host in ["127.0.0.1", "2130706433", "localhost"] {
            let error = connect(&refusing, host).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Refused, "{host}: {error}");
            let response = connect(&permitting, host).await.unwrap();
            assert!(response.ends_with("abc"), "{host}: {response}");
        }
    }
    let heads = noted.lock().unwrap();
    assert!(
        heads[0].starts_with(&format!("CONNECT 127.0.0.1:{port} ")),
        "{heads:?}"
    );
}

#[tokio::test]
async fn private_networks_are_refused_before_connecting() {
    let client = client(&[]);
    for host in [
        "10.0.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "[fd00::1]",
        "[fe80::1]",
    ] {
        let error = fetch(&client, &format!("https://{host}/"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{host}: {error}");
    }
}

#[tokio::test]
async fn unguarded_client_reaches_hosts_refused_by_the_guard() {
    let server = server().await;
    let client = client(&[]);
    let request = client
        .request(Method::GET, &format!("http://{server}/abc"))
        .unwrap();
    assert_eq!(
        body(client.send(request).await.unwrap(), 3).await.unwrap(),
        "abc"
    );
    // The guard sends with its own client, whoever made the request.
    let request = client
        .request(Method::GET, &format!("http://{server}/abc"))
        .unwrap();
    let error = client.guarded().send(request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    let named = format!("http://localhost:{}/abc", server.port());
    let request = client.request(Method::GET, &named).unwrap();
    let error = client.guarded().send(request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
}

#[tokio::test]
async fn allowed_hosts_and_networks_are_reached() {
    let server = server().await;
    let port = server.port();
    for entry in ["127.0.0.1", "127.0.0.0/8", "0.0.0.0/0"] {
        let url = format!("http://127.0.0.1:{port}/abc");
        assert_eq!(
            fetch(&client(&[entry]), &url).await.unwrap(),
            "abc",
            "{entry}"
        );
    }
    let url = format!("http://localhost:{port}/abc");
    assert_eq!(fetch(&client(&["localhost"]), &url).await.unwrap(), "abc");
    assert_eq!(
        fetch(&client(&["127.0.0.0/8", "::1"]), &url).await.unwrap(),
        "abc"
    );
    let error = fetch(&client(&["other", "10.0.0.0/8"]), &url)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
}

#[tokio::test]
async fn redirect_target_is_checked() {
    let port = server().await.port();
    let named = client(&["localhost"]);
    let hop = |target: String| format!("http://localhost:{port}/to/{target}");
    let same = hop(format!("http://localhost:{port}/abc"));
    assert_eq!(fetch(&named, &same).await.unwrap(), "abc");
    for target in [
        format!("http://127.0.0.1:{port}/abc"),
        format!("http://[::1]:{port}/abc"),
        format!("http://2130706433:{port}/abc"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
    ] {
        let error = fetch(&named, &hop(target.clone())).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{target}: {error}");
    }
    // The other way round: the number is allowed, the name is not (unless all that it stands for is).
    let numbered = client(&["127.0.0.1/32"]);
    let names_more = tokio::net::lookup_host(("localhost", 0))
        .await
        .unwrap()
        .any(|address| address.ip() != std::net::Ipv4Addr::LOCALHOST);
    let url = format!("http://127.0.0.1:{port}/to/http://localhost:{port}/abc");
    match fetch(&numbered, &url).await {
        Err(error) => assert_eq!(
            (error.kind, names_more),
            (ErrorKind::Refused, true),
            "{error}"
        ),
        Ok(bytes) => assert_eq!((bytes, names_more), (Bytes::from("abc"), false)),
    }
}

#[tokio::test]
async fn proxy_does_not_bypass_the_guard() {
    let proxy = serve(Router::new().fallback(async || "proxied")).await;
    let pairs = [("HTTP_PROXY", format!("http://{proxy}"))];
    let options = HttpOptions {
        environment: environment(&[(pairs[0].0, &pairs[0].1)]),
        ..HttpOptions::default()
    };
    let client = HttpClient::new(options).unwrap();
    let error = fetch(&client, "http://localhost:1/").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
}

/// A double of a proxy that takes `CONNECT` only: it notes the head of each request, and the beginning
/// of what comes through the tunnel, which it leads to `server`.
async fn connect_proxy(server: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let noted: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = Arc::clone(&noted);
    let note = move |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        notes.lock().unwrap().push(text);
    };
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut bytes = vec![0; 16_384];
            let length = client.read(&mut bytes).await.unwrap();
            note(&bytes[..length]);
            if !bytes.starts_with(b"CONNECT ") {
                continue;
            }
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let length = client.read(&mut bytes).await.unwrap();
            note(&bytes[..length]);
            let mut server = tokio::net::TcpStream::connect(server).await.unwrap();
            server.write_all(&bytes[..length]).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        }
    });
    (address, noted)
}

#[tokio::test]
async fn proxy_receives_the_checked_address() {
    let server = server().await;
    let (proxy, noted) = connect_proxy(server).await;
    let take = || std::mem::take(&mut *noted.lock().unwrap());
    let options = HttpOptions {
        environment: environment(&[
            ("HTTP_PROXY", &format!("http://me:hunter2@{proxy}")),
            ("https_proxy", &format!("http://{proxy}")),
            ("NO_PROXY", "127.0.0.2"),
        ]),
        allow: vec!["localhost".to_owned()],
        ..HttpOptions::default()
    };
    let client = HttpClient::new(options).unwrap();
    let port = server.port();
    let url = format!("http://localhost:{port}/abc");
    assert_eq!(fetch(&client, &url).await.unwrap(), "abc");
    let heads = take();
    let is_address = |head: &str| {
        head.starts_with(&format!("CONNECT 127.0.0.1:{port} "))
            || head.starts_with(&format!("CONNECT [::1]:{port} "))
    };
    assert!(is_address(&heads[0]), "{heads:?}");
    assert!(
        heads[0].contains("Proxy-Authorization: Basic bWU6aHVudGVyMg=="),
        "{heads:?}"
    );
    assert!(heads[1].starts_with("GET /abc HTTP/1.1\r\n"), "{heads:?}");
    assert!(
        heads[1].contains(&format!("host: localhost:{port}\r\n")),
        "{heads:?}"
    );
    assert!(
        !heads[1].contains("hunter2") && !heads[1].contains("bWU6"),
        "{heads:?}"
    );

    // Within TLS, the name is the name.
    let error = fetch(&client, &format!("https://localhost:{port}/abc")).await;
    assert_eq!(error.unwrap_err().kind, ErrorKind::Unavailable);
    let heads = take();
    assert!(
        is_address(&heads[0]) && heads[1].contains("localhost"),
        "{heads:?}"
    );

    // Redirects are judged again, and go the same way.
    let hop = |target: &str| format!("http://localhost:{port}/to/{target}");
    assert_eq!(fetch(&client, &hop(&url)).await.unwrap(), "abc");
    assert_eq!(take().len(), 4);
    for target in [
        format!("http://127.0.0.3:{port}/abc"),
        "http://169.254.169.254/".to_owned(),
    ] {
        let error = fetch(&client, &hop(&target)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
        assert_eq!(take().len(), 2);
    }
    let hosts = AllowedHosts::parse(&["127.0.0.1".to_owned()]).unwrap();
    let error = fetch(&client.redirecting_to(&hosts), &hop(&url))
        .await
        .unwrap_err();
    assert!(
        error
            .message
            .contains("`localhost` is not among the allowed hosts"),
        "{error}"
    );
    take();

    // Without an exception for names and addresses, and with one for all.
    for all in ["*", "x.example, *"] {
        let exempt = HttpClient::new(HttpOptions {
            environment: environment(&[
                ("HTTP_PROXY", &format!("http://{proxy}")),
                ("no_proxy", all),
            ]),
            allow: vec!["127.0.0.1".to_owned()],
            ..HttpOptions::default()
        });
        let url = format!("http://127.0.0.1:{port}/abc");
        assert_eq!(fetch(&exempt.unwrap(), &url).await.unwrap(), "abc");
        assert_eq!(take(), [""; 0]);
    }

    // A name that leads to a private address is refused before the proxy hears of it.
    let plain = HttpClient::new(HttpOptions {
        environment: environment(&[("HTTP_PROXY", &format!("http://{proxy}"))]),
        ..HttpOptions::default()
    });
    let error = fetch(&plain.unwrap(), &url).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert_eq!(take(), [""; 0]);
}

/// A proxy that answers for a public host with a redirect to what stands behind `/to/`.
async fn redirecting_proxy() -> SocketAddr {
    let to = async |uri: axum::http::Uri| {
        let target = uri.path().trim_start_matches("/to/").to_owned();
        (
            axum::http::StatusCode::FOUND,
            [(axum::http::header::LOCATION, target)],
        )
    };
    serve(Router::new().fallback(to)).await
}

#[tokio::test]
async fn public_host_cannot_redirect_to_a_private_address() {
    let server = server().await;
    let proxy = redirecting_proxy().await;
    let options = |allow: &[&str]| HttpOptions {
        environment: environment(&[
            ("HTTP_PROXY", &format!("http://{proxy}")),
            ("NO_PROXY", "127.0.0.1,localhost"),
        ]),
        allow: allow.iter().map(|host| (*host).to_owned()).collect(),
        ..HttpOptions::default()
    };
    let open = async |client: &HttpClient, url: &str| {
        let response = client.send(client.request(Method::GET, url)?).await?;
        body(response, 1_000).await
    };
    let private = format!("http://127.0.0.1:{}/abc", server.port());
    let url = format!("http://93.184.216.34/to/{private}");
    let client = HttpClient::new(options(&[])).unwrap();
    // The user chose this one.
    assert_eq!(open(&client, &private).await.unwrap(), "abc");
    for target in [
        private.clone(),
        format!("http://localhost:{}/abc", server.port()),
        "http://169.254.169.254/latest".to_owned(),
        "http://[::ffff:10.0.0.1]/".to_owned(),
    ] {
        let url = format!("http://93.184.216.34/to/{target}");
        let error = open(&client, &url).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{target}: {error}");
        assert!(!error.is_retryable());
        assert!(
            error.message.contains("refused to follow a redirect"),
            "{error}"
        );
    }
    // Unless it is named.
    let named = AllowedHosts::parse(&["127.0.0.1".to_owned()]).unwrap();
    let named = client.redirecting_to(&named);
    assert_eq!(open(&named, &url).await.unwrap(), "abc");
    let allowing = HttpClient::new(options(&["127.0.0.1"])).unwrap();
    assert_eq!(open(&allowing, &url).await.unwrap(), "abc");
}

#[tokio::test]
async fn redirect_policy_is_called_for_every_redirect() {
    let port = server().await.port();
    let hop = format!("http://127.0.0.1:{port}/to/http://127.0.0.1:{port}/abc");
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let client = client(&["127.0.0.1"]);
    let judged = |verdict: Result<(), Error>| {
        let asked = Arc::clone(&asked);
        client.guarded().with_redirect_check(Arc::new(move |url| {
            asked.lock().unwrap().push(url.to_string());
            verdict.clone()
        }))
    };
    let guarded = judged(Ok(()));
    let request = guarded.request(Method::GET, &hop).unwrap();
    let response = guarded.send(request).await.unwrap();
    assert_eq!(body(response, 1_000).await.unwrap(), "abc");
    let guarded = judged(Err(Error::new(ErrorKind::Refused, "not today")));
    let request = guarded.request(Method::GET, &hop).unwrap();
    let error = guarded.send(request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.ends_with("`: not today"), "{error}");
    assert_eq!(
        *asked.lock().unwrap(),
        vec![format!("http://127.0.0.1:{port}/abc"); 2]
    );
}

#[test]
fn invalid_allow_list_entry_is_an_error() {
    let options = HttpOptions {
        allow: vec!["http://host".to_owned()],
        ..HttpOptions::default()
    };
    let error = HttpClient::new(options).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("`http://host`"), "{error}");
}
