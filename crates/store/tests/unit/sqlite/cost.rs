//! Tests of the cost of queries in steps counted by SQLite: the same for many records as for few.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, StatementStatus, params};

use crate::{LabelMatch, Order, PageRequest, RecordFilter, ValuePart};

use super::failure::Context;
use super::select::{Statement, statement, stops_early};
use super::{files, labels, read, schema};
use crate::Label;

const FEW: i64 = 1_000;
const MANY: i64 = 100_000;

/// Number of records with the marks that the queries select.
const MARKED: i64 = 100;

/// Creates a database with [`MARKED`] marked records spread over all: by a prefix, a label, an expiry in the
/// past.
fn database(directory: &Path, records: i64) -> Connection {
    let path = files::prepare(&directory.join(format!("{records}.db"))).unwrap();
    let mut connection = schema::open(&path, &Context::new(&path), Duration::ZERO).unwrap();
    let transaction = connection.transaction().unwrap();
    {
        let mut insert = transaction
            .prepare(
                "INSERT INTO records(space, key, revision, updated, used, expires, labels, value)
                 VALUES ('cache', ?1, 1, ?2, ?2, ?3, ?4, zeroblob(100))",
            )
            .unwrap();
        let mut index = transaction
            .prepare("INSERT INTO labels(space, name, value, key) VALUES ('cache', ?1, ?2, ?3)")
            .unwrap();
        for number in 0..records {
            let marked = number % (records / MARKED) == 0;
            let spread = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let key = if marked {
                format!("marked:{spread:016x}")
            } else {
                format!("{spread:016x}")
            };
            let expires = if marked {
                number
            } else {
                1_000_000_000 + number
            };
            let own = [
                Label::new(
                    "tag",
                    if marked {
                        "marked".into()
                    } else {
                        format!("t{}", number % 50)
                    },
                ),
                Label::new(
                    "handle",
                    format!("{}:{number}", if marked { "marked" } else { "cache" }),
                ),
            ];
            insert
                .execute(params![key, number, expires, labels::encode(&own)])
                .unwrap();
            for label in &own {
                index
                    .execute(params![label.name, label.value, key])
                    .unwrap();
            }
        }
    }
    transaction.commit().unwrap();
    connection
}

/// Runs the statement for a page; returns the rows found, the steps of SQLite's virtual machine, and the
/// full-scan steps among them.
fn steps(connection: &Connection, statement: &Statement<'_>, limit: usize) -> (usize, i32, i32) {
    let mut prepared = connection.prepare(&statement.text).unwrap();
    let mut rows = prepared
        .query(rusqlite::params_from_iter(&statement.values))
        .unwrap();
    let mut found = 0;
    while found < limit && rows.next().unwrap().is_some() {
        found += 1;
    }
    drop(rows);
    (
        found,
        prepared.get_status(StatementStatus::VmStep),
        prepared.get_status(StatementStatus::FullscanStep),
    )
}

fn plan(connection: &Connection, statement: &Statement<'_>) -> String {
    let mut prepared = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {}", statement.text))
        .unwrap();
    let rows = prepared
        .query_map(rusqlite::params_from_iter(&statement.values), |row| {
            row.get::<_, String>(3)
        })
        .unwrap();
    rows.map(Result::unwrap).collect::<Vec<_>>().join("; ")
}

#[test]
fn cost_of_a_page_is_independent_of_the_number_of_records() {
    let directory = tempfile::tempdir().unwrap();
    let (few, many) = (
        database(directory.path(), FEW),
        database(directory.path(), MANY),
    );
    let (is, starts) = (
        [LabelMatch::Is {
            name: "tag",
            value: "marked",
        }],
        [LabelMatch::Starts {
            name: "handle",
            prefix: "marked:",
        }],
    );
    let expired = Some(1_000_000_000);
    let all = RecordFilter::default();
    let mut questions = Vec::new();
    for order in [
        Order::Key,
        Order::Newest,
        Order::LeastRecentlyUsed,
        Order::Expiry,
        Order::Any,
    ] {
        questions.extend([
            RecordFilter {
                order,
                expired_before: expired,
                ..all
            },
            RecordFilter {
                order,
                labels: &is,
                ..all
            },
            RecordFilter {
                order,
                labels: &starts,
                ..all
            },
            RecordFilter {
                order,
                prefix: "marked:",
                ..all
            },
            RecordFilter { order, ..all },
            RecordFilter {
                order,
                expired_before: expired,
                labels: &is,
                prefix: "marked:",
            },
        ]);
    }
    for filter in questions {
        let page = PageRequest::keys(MARKED as u32);
        let statement = statement("cache", &filter, &page, false);
        let (found, among_few, _) = steps(&few, &statement, MARKED as usize);
        let (found_too, among_many, scanned) = steps(&many, &statement, MARKED as usize);
        let plan = plan(&many, &statement);
        assert_eq!(
            (found, found_too),
            (MARKED as usize, MARKED as usize),
            "{filter:?}"
        );
        assert!(
            among_many <= among_few + 100,
            "{among_few} steps became {among_many}: {filter:?}: {plan}"
        );
        assert!(
            scanned <= MARKED as i32,
            "{scanned} rows were looked at: {filter:?}: {plan}"
        );
        assert!(!plan.contains("SCAN r"), "{filter:?}: {plan}");
        if stops_early(&filter) {
            assert!(!plan.contains("TEMP B-TREE"), "{filter:?}: {plan}");
        }
    }
}

#[test]
fn cost_of_a_later_page_equals_that_of_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let many = database(directory.path(), MANY);
    let tagged = [LabelMatch::Is {
        name: "tag",
        value: "t7",
    }];
    for labels in [&[][..], &tagged] {
        let filter = RecordFilter {
            labels,
            ..RecordFilter::default()
        };
        let first = statement("cache", &filter, &PageRequest::keys(50), false);
        let page = PageRequest {
            after: Some("cccccccc"),
            limit: 50,
            labels: false,
            values: ValuePart::None,
        };
        let later = statement("cache", &filter, &page, false);
        let (first, later) = (steps(&many, &first, 50), steps(&many, &later, 50));
        assert_eq!((first.0, later.0), (50, 50));
        assert!(later.1 <= first.1 + 50, "{first:?} {later:?}");
    }
}

/// Reads an existing record with a counter, twice, and returns the steps. Neither read scans a table, nor is
/// the statement compiled again, for other parameters or because the cache of statements clears them.
fn get_steps(connection: &Connection, key: &str) -> i32 {
    connection
        .execute(
            "INSERT INTO counters(space, name, value)
             SELECT 'cache', printf('counter %d', id), id FROM records LIMIT 100000",
            [],
        )
        .unwrap();
    for (counter, missing) in [("counter 7", None), ("counter 8", Some("counter 9"))] {
        let mut statement = connection.prepare_cached(read::GET).unwrap();
        let found = statement.query_row(params!["cache", key, counter, missing, missing], |row| {
            Ok((
                row.get::<_, i64>("revision")?,
                row.get::<_, i64>(read::FIRST_COUNTER)?,
            ))
        });
        let value: i64 = counter.strip_prefix("counter ").unwrap().parse().unwrap();
        assert_eq!(found.unwrap(), (1, value));
    }
    let statement = connection.prepare_cached(read::GET).unwrap();
    assert_eq!(statement.get_status(StatementStatus::FullscanStep), 0);
    assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    statement.get_status(StatementStatus::VmStep)
}

#[test]
fn cost_of_a_record_is_independent_of_the_number_of_records() {
    let directory = tempfile::tempdir().unwrap();
    let cost = |records| {
        let connection = database(directory.path(), records);
        let key: String = connection
            .query_row(
                "SELECT key FROM records WHERE id = ?1",
                [records / 2 + 3],
                |row| row.get(0),
            )
            .unwrap();
        get_steps(&connection, &key)
    };
    assert_eq!(cost(FEW), cost(MANY));
}

/// Uses a million records, generated by SQLite itself: storing them one by one would take a minute.
#[test]
fn cost_of_a_record_is_equal_among_a_million() {
    let directory = tempfile::tempdir().unwrap();
    let cost = |records: i64| {
        let path = files::prepare(&directory.path().join(format!("bare-{records}.db"))).unwrap();
        let connection = schema::open(&path, &Context::new(&path), Duration::ZERO).unwrap();
        let filled = connection.execute(
            "INSERT INTO records(space, key, revision, updated, used, expires, labels, value)
             WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
             SELECT 'cache', printf('%064x', n), 1, n, n, n, x'', zeroblob(20) FROM numbers",
            [records],
        );
        assert_eq!(filled.unwrap() as i64, records);
        get_steps(&connection, &format!("{:064x}", records / 2 + 3))
    };
    assert_eq!(cost(1_000), cost(1_000_000));
}
