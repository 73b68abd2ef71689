//! Unit tests of `src/redis/server.rs`.

use super::*;

fn server(url: &str) -> Result<Server, StoreUrlError> {
    Server::new(&StoreUrl::recognize(url).unwrap(), None)
}

#[test]
fn hosts_are_read_from_urls() {
    for (url, addresses, topology, database) in [
        ("redis://a/3", "a:6379", Topology::Single, 3),
        ("valkey://a:1", "a:1", Topology::Single, 0),
        ("redis-cluster://a:1,b", "a:1 b:6379", Topology::Cluster, 0),
        (
            "redis-cluster://u:p@[::1]:1,b/",
            "::1:1 b:6379",
            Topology::Cluster,
            0,
        ),
        (
            "rediss-sentinel://:p@a,b:2,c/main/4",
            "a:26379 b:2 c:26379",
            Topology::Sentinel {
                primary: "main".into(),
            },
            4,
        ),
    ] {
        let server = server(url).unwrap();
        let found: Vec<_> = server.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(found.join(" "), addresses, "{url}");
        assert_eq!(server.topology, topology, "{url}");
        assert_eq!(server.database, database, "{url}");
        assert!(!server.location().contains(":p@"), "{}", server.location());
    }
    for (url, is_durable) in [
        ("redis://a/0?durable=true", true),
        ("redis-cluster://a,b?durable=true", true),
        ("unix:/x?db=1&durable=true", true),
        ("redis://a/0?durable=false", false),
    ] {
        assert_eq!(server(url).unwrap().is_durable, is_durable, "{url}");
    }
    for url in [
        "redis-sentinel://a,b",
        "redis-sentinel://a,b/main/x",
        "redis-cluster://a,b/1",
        "redis-cluster://a:x,b",
        "redis-cluster://a,,b",
    ] {
        let error = server(url).err().unwrap().to_string();
        assert!(error.contains("is invalid"), "{url}: {error}");
    }
}
