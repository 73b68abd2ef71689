//! Bytes behind URIs: open, stat, hash while streaming; and the HTTP client.
