//! Small servers for one test each, on ports of their own.

use std::net::SocketAddr;

use axum::Router;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Serves `routes` until the test ends.
pub(crate) async fn serve(routes: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    address
}

/// Answers every connection with these very bytes, then closes it, or leaves it open and silent.
pub(crate) async fn say(answer: &'static [u8], then_close: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = socket.read(&mut request).await;
                let _ = socket.write_all(answer).await;
                if !then_close {
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    address
}

/// A port without a listener.
pub(crate) async fn unreachable_server() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
}
