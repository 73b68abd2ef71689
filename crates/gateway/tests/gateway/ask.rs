//! Requests of tests, byte for byte, through the gateway or directly to the upstream.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::Method;
use reqwest::header::HeaderMap;

use crate::support::{Answer, Setup, read, until};

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    method: Method,
    target: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// A response as far as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Vec<u8>,
    /// True if the body ended as announced.
    pub(crate) is_whole: bool,
}

impl Ask {
    /// A request with a JSON body and without credentials.
    pub(crate) fn anonymous(target: &str, body: impl ToString) -> Self {
        let ask = Self {
            method: Method::POST,
            target: target.to_owned(),
            headers: Vec::new(),
            body: body.to_string(),
        };
        let ask = ask.with("content-type", "application/json");
        if target.contains("/messages") {
            ask.with("anthropic-version", "2023-06-01")
        } else {
            ask
        }
    }

    /// A request with a JSON body.
    pub(crate) fn new(target: &str, body: impl ToString) -> Self {
        Self::anonymous(target, body).with("authorization", "Bearer sk-one")
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    pub(crate) fn target(mut self, target: &str) -> Self {
        target.clone_into(&mut self.target);
        self
    }

    pub(crate) fn request(&self, setup: &Setup) -> reqwest::RequestBuilder {
        self.request_to(setup, setup.gateway.address())
    }

    fn request_to(&self, setup: &Setup, address: SocketAddr) -> reqwest::RequestBuilder {
        let url = format!("http://{address}{}", self.target);
        let request = setup.client.request(self.method.clone(), url);
        let add = |request: reqwest::RequestBuilder, (name, value): &(String, String)| {
            request.header(name, value)
        };
        let request = self.headers.iter().fold(request, add);
        request.body(self.body.clone())
    }

    /// Sends the request and reads the response to its end.
    pub(crate) async fn send(&self, setup: &Setup) -> Answer {
        read(self.request(setup)).await
    }

    /// Sends the request and reads the response as far as it arrives.
    pub(crate) async fn receive(&self, setup: &Setup) -> Arrived {
        self.receive_from(setup, setup.gateway.address()).await
    }

    /// The same without the gateway.
    pub(crate) async fn receive_from(&self, setup: &Setup, address: SocketAddr) -> Arrived {
        let request = self.request_to(setup, address);
        let sent = request.timeout(Duration::from_secs(120)).send().await;
        let Ok(mut response) = sent else {
            return Arrived {
                status: 0,
                headers: HeaderMap::new(),
                bytes: Vec::new(),
                is_whole: false,
            };
        };
        let mut arrived = Arrived {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            bytes: Vec::new(),
            is_whole: false,
        };
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) => arrived.bytes.extend_from_slice(&chunk),
                Ok(None) => {
                    arrived.is_whole = true;
                    return arrived;
                }
                Err(_) => return arrived,
            }
        }
    }

    /// True if the gateway has an answer to the request.
    pub(crate) async fn is_stored(&self, setup: &Setup) -> bool {
        let ask = self.clone().with("cache-control", "only-if-cached");
        ask.send(setup).await.status != 504
    }

    /// Waits until the gateway has an answer to the request; the end of a run comes after the end of its response.
    pub(crate) async fn stored(&self, setup: &Setup) {
        until(async || self.is_stored(setup).await).await;
    }

    /// The request as bytes of HTTP/1.1, with the headers that the client of the other methods adds.
    pub(crate) fn bytes(&self, setup: &Setup) -> Vec<u8> {
        let mut text = format!(
            "{} {} HTTP/1.1\r\nHost: {}\r\nAccept: */*\r\n",
            self.method,
            self.target,
            setup.gateway.address()
        );
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n{}", self.body.len(), self.body);
        text.into_bytes()
    }
}

impl Arrived {
    pub(crate) fn source(&self) -> &'static str {
        let answer = Answer {
            status: self.status,
            headers: self.headers.clone(),
            body: String::new(),
        };
        answer.source()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}
