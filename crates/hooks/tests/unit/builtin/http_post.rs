//! Unit tests of `src/builtin/http_post.rs`.

use cachalot_storage::HttpOptions;

use super::*;

#[tokio::test]
async fn server_without_an_answer_is_abandoned_after_the_timeout() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", silent.local_addr().unwrap());
    let builtin = HttpPost {
        http: HttpClient::new(HttpOptions::default()).unwrap(),
        limit: Duration::from_millis(100),
        reported_failures: Mutex::default(),
    };
    let arguments = [url, "hello".to_owned()];
    let output = builtin.run(&arguments, &Input::default()).await.unwrap();
    let message = output.system_message.unwrap();
    assert!(message.contains("no answer within 100ms"), "{message}");
}
