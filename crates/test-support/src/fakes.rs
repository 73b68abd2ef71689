//! Local servers that speak the APIs of others: LlamaCloud, SearXNG, providers of models. Each runs in
//! a thread of its own until it is dropped, so that tests with and without a runtime can use it.

pub mod agent_host;
pub mod llama_cloud;
pub mod provider;
pub mod searxng;

pub use agent_host::TestAgentHost;
pub use llama_cloud::LlamaCloud;
pub use provider::Provider;
pub use searxng::SearXng;

use std::net::SocketAddr;
use std::thread::JoinHandle;

use axum::Router;
use tokio::sync::oneshot;

/// A server on a loopback port of its own.
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves from now on.
    pub fn start(router: Router) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    served = axum::serve(listener, router) => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self {
            address,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// `http://127.0.0.1:port`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
