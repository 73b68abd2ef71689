//! Reads, in a transaction or without.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cachalot_store::Error;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::client::Server;
use super::document::Document;
use super::name::IdRange;

/// Reads documents of a database.
#[derive(Clone)]
pub(super) struct Reader {
    server: Arc<Server>,
    transaction: Option<Arc<Transaction>>,
}

/// A transaction. The server may keep other writers from what was read in it until it ends.
struct Transaction {
    server: Arc<Server>,
    id: String,
    has_ended: AtomicBool,
}

impl Drop for Transaction {
    /// Ends the transaction of a call that failed, or whose caller does not wait for it.
    fn drop(&mut self) {
        if self.has_ended.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            let server = Arc::clone(&self.server);
            let content = json!({"transaction": self.id});
            runtime.spawn(async move {
                // The server ends it by itself after a while.
                let _ = server.call("rollback", &content).await;
            });
        }
    }
}

/// A query of documents of one collection, in the order of one field, and of their identifiers within it.
pub(super) struct Query<'q> {
    /// The path of the document above the collection.
    pub(super) parent: &'q str,
    /// The name of the collection.
    pub(super) collection: &'q str,
    /// The field that the result is ordered by; `None`: the identifiers.
    pub(super) field: Option<&'q str>,
    pub(super) descending: bool,
    /// Conditions of the field.
    pub(super) conditions: Vec<Value>,
    /// The fields to read.
    pub(super) select: &'q [&'q str],
    pub(super) limit: u32,
}

impl Query<'_> {
    fn field(&self) -> &str {
        self.field.unwrap_or("__name__")
    }

    /// Adds a condition: `operator` and a value of the API.
    pub(super) fn and(mut self, operator: &str, value: Value) -> Self {
        let field = self.field().to_owned();
        self.conditions.push(json!({
            "fieldFilter": {"field": {"fieldPath": field}, "op": operator, "value": value}
        }));
        self
    }

    /// Adds the condition that identifiers are in a range and come after another one.
    pub(super) fn within(self, range: &IdRange, after: Option<&str>) -> Self {
        let path = |id: &str| json!({"referenceValue": format!("{}/{}/{id}", self.parent, self.collection)});
        let (start, end) = (path(&range.start), path(&range.end));
        let after = after.filter(|after| **after >= *range.start).map(path);
        let query = match after {
            Some(after) => self.and("GREATER_THAN", after),
            None => self.and("GREATER_THAN_OR_EQUAL", start),
        };
        query.and("LESS_THAN", end)
    }

    fn to_json(&self, after: Option<&Document>) -> Result<Value, Error> {
        let direction = if self.descending {
            "DESCENDING"
        } else {
            "ASCENDING"
        };
        let order = |field: &str| json!({"field": {"fieldPath": field}, "direction": direction});
        let mut orders: Vec<_> = self.field.map(order).into_iter().collect();
        orders.push(order("__name__"));
        let fields: Vec<_> = self
            .select
            .iter()
            .map(|field| json!({"fieldPath": field}))
            .collect();
        let mut query = json!({
            "from": [{"collectionId": self.collection}],
            "select": {"fields": fields},
            "orderBy": orders,
            "limit": self.limit,
        });
        if !self.conditions.is_empty() {
            query["where"] = json!({"compositeFilter": {"op": "AND", "filters": self.conditions}});
        }
        if let Some(after) = after {
            let mut values: Vec<_> = match self.field {
                Some(field) => vec![after.field(field)],
                None => Vec::new(),
            };
            values.push(json!({"referenceValue": after.path}));
            query["startAt"] = json!({"values": values, "before": false});
        }
        Ok(query)
    }
}

/// Documents that were read at one time.
pub(super) struct Documents {
    found: HashMap<String, Document>,
    /// The server's time of the read, in microseconds.
    pub(super) micros: i64,
}

impl Documents {
    pub(super) fn get(&self, path: &str) -> Option<&Document> {
        self.found.get(path)
    }
}

impl Reader {
    /// Returns a reader outside of transactions.
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            transaction: None,
        }
    }

    /// Begins a transaction.
    pub(super) async fn begin(server: Arc<Server>) -> Result<Self, Error> {
        let content = json!({"options": {"readWrite": {}}});
        let answer = server.call("beginTransaction", &content).await?;
        let id = answer["transaction"].as_str();
        let id = id
            .ok_or_else(|| server.damaged("no transaction"))?
            .to_owned();
        let transaction = Transaction {
            server: Arc::clone(&server),
            id,
            has_ended: AtomicBool::new(false),
        };
        Ok(Self {
            server,
            transaction: Some(Arc::new(transaction)),
        })
    }

    /// Ends the transaction with writes. Fails with [`cachalot_store::ErrorKind::Busy`] if what it has read was changed.
    pub(super) async fn commit(&self, writes: &[Value]) -> Result<Vec<Value>, Error> {
        let transaction = self.transaction.as_deref();
        let id = transaction.map(|transaction| transaction.id.as_str());
        let results = self.server.commit(id, writes).await?;
        // Only after the commit: the drop ends the transaction of one that failed.
        if let Some(transaction) = transaction {
            transaction.has_ended.store(true, Ordering::Relaxed);
        }
        Ok(results)
    }

    fn in_transaction(&self, mut content: Value) -> Value {
        if let Some(transaction) = &self.transaction {
            content["transaction"] = transaction.id.as_str().into();
        }
        content
    }

    /// Reads the documents of paths; all fields, or those of the mask.
    pub(super) async fn get(
        &self,
        paths: &[String],
        mask: Option<&[&str]>,
    ) -> Result<Documents, Error> {
        let mut paths = paths.to_vec();
        // Without repetitions, so that the answers can be counted.
        paths.sort_unstable();
        paths.dedup();
        let mut content = json!({"documents": paths});
        if let Some(mask) = mask {
            content["mask"] = json!({"fieldPaths": mask});
        }
        let content = self.in_transaction(content);
        let answer = self.server.call("batchGet", &content).await?;
        let (parts, micros) = self.server.parts(answer)?;
        let mut found = HashMap::new();
        let mut answered = 0;
        for mut part in parts {
            answered += usize::from(part.get("found").is_some() || part.get("missing").is_some());
            if part.get("found").is_some() {
                let document = Document::read(part["found"].take())?;
                found.insert(document.path.clone(), document);
            }
        }
        if answered != paths.len() {
            return Err(self.server.damaged("an incomplete answer"));
        }
        Ok(Documents { found, micros })
    }

    /// Reads the documents of a query that come after another one of its result.
    pub(super) async fn query(
        &self,
        query: &Query<'_>,
        after: Option<&Document>,
    ) -> Result<Vec<Document>, Error> {
        let content = self.in_transaction(json!({"structuredQuery": query.to_json(after)?}));
        let answer = self
            .server
            .call_at(query.parent, "runQuery", &content)
            .await?;
        let (parts, _) = self.server.parts(answer)?;
        let documents = parts
            .into_iter()
            .filter(|part| part.get("document").is_some());
        documents
            .map(|mut part| Document::read(part["document"].take()))
            .collect()
    }

    /// Reads all documents of a query, several requests if need be.
    pub(super) async fn query_all(&self, query: &Query<'_>) -> Result<Vec<Document>, Error> {
        let mut all = Vec::new();
        loop {
            let page = self.query(query, all.last()).await?;
            let is_last = page.len() < query.limit as usize;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }
}
