//! Messages of the shapes that servers and clients send, with what typed relays lose: unknown members, number lexemes, big
//! integers, ids of any spelling.

/// A message: its name, and its text. `$ID` stands for the id of the request that it answers, `$TOKEN` for its progress
/// token.
pub(crate) type Sample = (&'static str, &'static str);

/// Messages of servers.
#[rustfmt::skip]
pub(crate) const OF_SERVERS: [Sample; 32] = [
    ("tools/list unknown tool field", r#"{"jsonrpc":"2.0","id":$ID,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"},"x-vendor":{"k":1}}],"nextCursor":null}}"#),
    ("tools/list tool annotations unknown", r#"{"jsonrpc":"2.0","id":$ID,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"x-cache":"1h"}}]}}"#),
    ("tools/list result extra field", r#"{"jsonrpc":"2.0","id":$ID,"result":{"tools":[],"x-total":3,"ttlMs":1,"cacheScope":"public","resultType":"complete"}}"#),
    ("tools/list icons,title,execution", r#"{"jsonrpc":"2.0","id":$ID,"result":{"tools":[{"name":"a","title":"T","icons":[{"src":"https://x/i.png","mimeType":"image/png","sizes":["48x48"],"theme":"dark"}],"execution":{"taskSupport":"optional"},"inputSchema":{"type":"object"},"outputSchema":{"type":"array"},"_meta":{"a":1}}]}}"#),
    ("schema $ref/$defs/bool", r#"{"jsonrpc":"2.0","id":$ID,"result":{"tools":[{"name":"a","inputSchema":{"$schema":"x","type":"object","properties":{"p":true},"$defs":{"d":{"type":"string"}}}}]}}"#),
    ("call big int", r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"x"}],"structuredContent":{"n":12345678901234567890123}}}"#),
    ("call float 1.10", r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"x"}],"structuredContent":{"n":1.10}}}"#),
    ("call content unknown type", r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"hologram","data":"x"}]}}"#),
    ("call content extra field", r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"x","x-lang":"en","annotations":{"audience":["user"],"priority":0.5,"lastModified":"2025-01-01T00:00:00Z"},"_meta":{"a":1}}]}}"#),
    ("call result extra field", r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"x-cost":5,"_meta":{"a":1}}}"#),
    ("call {}", r#"{"jsonrpc":"2.0","id":$ID,"result":{}}"#),
    ("call only _meta", r#"{"jsonrpc":"2.0","id":$ID,"result":{"_meta":{"a":1}}}"#),
    ("call resultType complete", r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"resultType":"complete","isError":false}}"#),
    ("input_required", r#"{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"n":{"type":"string","x-y":1}}}}}},"requestState":"S"}}"#),
    ("input_required unknown request", r#"{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"input_required","inputRequests":{"k":{"method":"x/y","params":{"a":1}}},"requestState":"S"}}"#),
    ("task result 2026", r#"{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"task","taskId":"t","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null,"pollIntervalMs":500}}"#),
    ("task result 2025", r#"{"jsonrpc":"2.0","id":$ID,"result":{"task":{"taskId":"t","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":1000,"pollInterval":500}}}"#),
    ("resource read + ttl", r#"{"jsonrpc":"2.0","id":$ID,"result":{"contents":[{"uri":"x://a","text":"t","mimeType":"text/plain","_meta":{"x":1},"extra":1}],"ttlMs":5,"cacheScope":"private","resultType":"complete"}}"#),
    ("error code+data", r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32022,"message":"m","data":{"supported":["x"],"n":1.10}}}"#),
    ("error unknown extra", r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":5,"message":"m","extra":1}}"#),
    ("id string", r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}"#),
    ("id float-like", r#"{"jsonrpc":"2.0","id":$ID,"result":{}}"#),
    ("id big", r#"{"jsonrpc":"2.0","id":$ID,"result":{}}"#),
    ("notification progress", r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1,"total":2,"message":"m","extra":1,"_meta":{"a":1}}}"#),
    ("notification progress int kept int", r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":50,"total":100}}"#),
    ("notification custom", r#"{"jsonrpc":"2.0","method":"notifications/x/y","params":{"a":1}}"#),
    ("notification updated", r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x://a","title":"T"}}"#),
    ("notification acknowledged", r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"notifications":{"toolsListChanged":true}}}"#),
    ("request sampling", r#"{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"x"}}],"maxTokens":5,"x":1}}"#),
    ("request custom", r#"{"jsonrpc":"2.0","id":"s","method":"vendor/ask","params":{"a":1}}"#),
    ("discover", r#"{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.x/y":{"a":1}},"experimental":{"z":{}}},"instructions":"i","ttlMs":5,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n","version":"1"}}}}"#),
    ("initialize result", r#"{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{},"completions":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}},"x":1},"serverInfo":{"name":"n","version":"1","title":"t","websiteUrl":"https://x","icons":[]},"instructions":"i","_meta":{"a":1}}}"#),
];

/// Messages of clients, all of them requests.
#[rustfmt::skip]
pub(crate) const OF_CLIENTS: [Sample; 8] = [
    ("tools/call extra", r#"{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":"a","arguments":{"n":1.10,"b":12345678901234567890123},"x":1,"_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"vendor/x":1}}}"#),
    ("call task 2025", r#"{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":"a","task":{"ttl":1000}}}"#),
    ("inputResponses", r#"{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":"a","inputResponses":{"k":{"action":"accept","content":{"a":1}}},"requestState":"S"}}"#),
    ("custom method", r#"{"jsonrpc":"2.0","id":$ID,"method":"vendor/do","params":{"a":1}}"#),
    ("tasks/get", r#"{"jsonrpc":"2.0","id":$ID,"method":"tasks/get","params":{"taskId":"t"}}"#),
    ("tasks/list", r#"{"jsonrpc":"2.0","id":$ID,"method":"tasks/list"}"#),
    ("listen", r#"{"jsonrpc":"2.0","id":$ID,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"x":true}}}"#),
    ("ping", r#"{"jsonrpc":"2.0","id":$ID,"method":"ping"}"#),
];

/// Ids of requests, in spellings that have to come back.
pub(crate) const IDS: [&str; 5] = [
    "1",
    r#""abc""#,
    "1.0",
    "99999999999999999999",
    r#""\u0041\/""#,
];
