//! Tasks of tools that may change anything: their writes last until the task ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::WriteGuard;
use cachalot_core::json;
use parking_lot::Mutex;

use super::invalidation::end;
use crate::json_members::text_value;
use crate::relay::Frame;

/// Maximum number of tasks.
const MAX_TASKS: usize = 1_024;

/// The write guards of tasks that have not ended, by the id of the task.
#[derive(Default)]
pub(super) struct OpenTasks(Arc<Mutex<Tasks>>);

#[derive(Default)]
struct Tasks {
    open: BTreeMap<String, OpenTask>,
    /// Guards all tasks beyond the maximum: since it is not known when they end, nothing is stored from then on.
    overflow: Option<WriteGuard>,
    last: u64,
}

struct OpenTask {
    /// Distinguishes tasks of one id.
    number: u64,
    guard: WriteGuard,
}

impl OpenTasks {
    /// Keeps the guard of a call that was answered with a task; returns it if the answer is none. To be called within a
    /// runtime.
    pub(super) fn keep(&self, response: &Frame, guard: WriteGuard) -> Option<WriteGuard> {
        let Some(task) = task_of(response) else {
            return Some(guard);
        };
        let (Some(id), false) = (text_member(task, "taskId"), is_final(task)) else {
            return Some(guard);
        };
        let mut tasks = self.0.lock();
        if tasks.open.len() >= MAX_TASKS && !tasks.open.contains_key(&id) {
            if tasks.overflow.is_none() {
                tasks.overflow = Some(guard);
                return None;
            }
            // Its end raises the epoch, as every end of a write does.
            return Some(guard);
        }
        tasks.last += 1;
        let number = tasks.last;
        let replaced = tasks.open.insert(id.clone(), OpenTask { number, guard });
        drop(tasks);
        if let Some(ttl) = time_to_live(task) {
            self.end_after(ttl, id, number);
        }
        replaced.map(|replaced| replaced.guard)
    }

    /// Ends the write of a task when the server may have forgotten the task.
    fn end_after(&self, ttl: Duration, id: String, number: u64) {
        let tasks = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(ttl).await;
            let Some(tasks) = tasks.upgrade() else { return };
            let guard = {
                let mut tasks = tasks.lock();
                let is_same = tasks.open.get(&id).is_some_and(|it| it.number == number);
                is_same.then(|| tasks.open.remove(&id)).flatten()
            };
            end(guard.map(|open| open.guard)).await;
        });
    }

    /// Takes the guard of a task that has ended, as the response to a request about it says.
    pub(super) fn take_ended(&self, request: &Frame, response: &Frame) -> Option<WriteGuard> {
        let id = text_member(request.params()?, "taskId")?;
        let result = response.result()?;
        let has_ended = match request.method() {
            "tasks/result" => true,
            // The end of a cancelled task may come later: then the response has no final status.
            _ => is_final(result) || json::member(result, "task").is_some_and(is_final),
        };
        has_ended.then(|| self.take(&id)).flatten()
    }

    /// Takes the guard of a task that has ended, as a notification of the server says.
    pub(super) fn take_announced(&self, notification: &Frame) -> Option<WriteGuard> {
        if !matches!(
            notification.method(),
            "notifications/tasks/status" | "notifications/tasks"
        ) {
            return None;
        }
        let params = notification.params()?;
        let id = text_member(params, "taskId")?;
        is_final(params).then(|| self.take(&id)).flatten()
    }

    fn take(&self, id: &str) -> Option<WriteGuard> {
        let open = self.0.lock().open.remove(id)?;
        Some(open.guard)
    }
}

/// Returns the task that a response announces.
fn task_of(response: &Frame) -> Option<&str> {
    let result = response.result()?;
    let has_id = |of: &&str| json::member(of, "taskId").is_some();
    json::member(result, "task")
        .filter(has_id)
        .or_else(|| Some(result).filter(has_id))
}

fn text_member(of: &str, key: &str) -> Option<String> {
    json::member(of, key).and_then(text_value)
}

fn is_final(task: &str) -> bool {
    matches!(
        text_member(task, "status").as_deref(),
        Some("completed" | "failed" | "cancelled")
    )
}

/// Returns the time for which the server keeps a task; `None` if it is unlimited or not known.
fn time_to_live(task: &str) -> Option<Duration> {
    let ttl = json::member(task, "ttl").or_else(|| json::member(task, "ttlMs"))?;
    ttl.parse().ok().map(Duration::from_millis)
}
