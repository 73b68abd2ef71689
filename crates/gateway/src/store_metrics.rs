//! Statistics of a store: the times and errors of its operations.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use cachalot_store::intercepted::{Interceptor, StoreOperation};
use cachalot_store::{Error, Store, StoreReply};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds of the times of operations, in seconds: a read of a local file takes some microseconds, and a call of
/// the engine waits 250 ms by default.
const TIMES: [f64; 13] = [
    0.000_01, 0.000_05, 0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0,
];

/// The error of an operation whose caller did not wait for the answer.
const ABANDONED: &str = "abandoned";

/// Times and errors of a store's operations since the start. Clones share them.
#[derive(Clone)]
pub struct StoreMetrics(Arc<Counts>);

struct Counts {
    times: Family<OperationLabels, Histogram>,
    errors: Family<ErrorLabels, Counter>,
    /// Those of `times`, by the position in [`StoreOperation::ALL`]: an operation that was never called has none.
    of_operations: [OnceLock<Histogram>; StoreOperation::ALL.len()],
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    operation: &'static str,
    error: &'static str,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        Self(Arc::new(Counts {
            times: Family::new_with_constructor(|| Histogram::new(TIMES)),
            errors: Family::default(),
            of_operations: Default::default(),
        }))
    }
}

impl StoreMetrics {
    /// Returns a store whose operations are those of `store`, and are measured. Looks at stamps are not: they take
    /// nanoseconds.
    #[must_use]
    pub fn measure(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(MeasuredStore {
            inner: store,
            metrics: self.clone(),
        })
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Time of the operations of the store";
        let times = self.0.times.clone();
        registry.register("store_operation_seconds", help, times);
        let help = "Operations of the store that failed, or whose answer came too late (abandoned)";
        registry.register("store_errors", help, self.0.errors.clone());
    }

    fn record(&self, operation: StoreOperation, began: Instant, error: Option<&'static str>) {
        let seconds = began.elapsed().as_secs_f64();
        let Counts {
            times,
            errors,
            of_operations,
        } = &*self.0;
        let labels = || OperationLabels {
            operation: operation.name(),
        };
        match of_operations.get(operation as usize) {
            Some(known) => known
                .get_or_init(|| times.get_or_create(&labels()).clone())
                .observe(seconds),
            None => times.get_or_create(&labels()).observe(seconds),
        }
        if let Some(error) = error {
            let labels = ErrorLabels {
                operation: operation.name(),
                error,
            };
            errors.get_or_create(&labels).inc();
        }
    }
}

/// A store whose operations are measured.
struct MeasuredStore {
    inner: Arc<dyn Store>,
    metrics: StoreMetrics,
}

impl Interceptor for MeasuredStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn intercept<'a, T: Send + 'static>(
        &'a self,
        operation: StoreOperation,
        pass: impl FnOnce() -> StoreReply<'a, T> + Send + 'a,
    ) -> StoreReply<'a, T> {
        let waiting = Waiting {
            metrics: &self.metrics,
            operation,
            began: Instant::now(),
            error: Some(ABANDONED),
        };
        match pass() {
            StoreReply::Now(answer) => {
                waiting.end(&answer);
                StoreReply::Now(answer)
            }
            StoreReply::Later(answer) => StoreReply::later(async move {
                let answer = answer.await;
                waiting.end(&answer);
                answer
            }),
        }
    }
}

/// An operation in progress. Dropping it records its time: a caller that does not wait longer drops the answer.
struct Waiting<'a> {
    metrics: &'a StoreMetrics,
    operation: StoreOperation,
    began: Instant,
    error: Option<&'static str>,
}

impl Waiting<'_> {
    fn end<T>(mut self, answer: &Result<T, Error>) {
        self.error = answer.as_ref().err().map(|error| error.kind.name());
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.metrics.record(self.operation, self.began, self.error);
    }
}
