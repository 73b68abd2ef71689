//! Charts of stacked bars, as SVG that stretches to the width of the page. The labels beside it are text.

use serde::Serialize;

/// The number of colors. The last one is for all other series.
pub(crate) const COLORS: usize = 8;

/// The width of a column in units of the drawing; its height is the same.
const UNIT: u64 = 1_000;

/// A chart, and its figures as a table.
#[derive(Serialize)]
pub(crate) struct Chart {
    title: String,
    /// The unit of a column: `day`.
    unit: &'static str,
    /// The description for readers who do not see the drawing.
    label: String,
    width: u64,
    /// The labels of the vertical axis, from the top.
    ticks: [String; 3],
    /// The labels of the horizontal axis.
    dates: Vec<String>,
    columns: Vec<ColumnDrawing>,
    /// The names of the series.
    series: Vec<String>,
    figures: Vec<Row>,
}

#[derive(Serialize)]
struct ColumnDrawing {
    x: u64,
    title: String,
    parts: Vec<Part>,
}

#[derive(Serialize)]
struct Part {
    series: usize,
    y: u64,
    height: u64,
}

#[derive(Serialize)]
struct Row {
    name: String,
    cells: Vec<String>,
}

/// A column of a chart.
pub(crate) struct Column {
    /// The name: a day.
    pub(crate) name: String,
    /// The values of the series, in picodollars.
    pub(crate) values: Vec<u64>,
}

impl Chart {
    /// Creates a chart. `amount` formats a value.
    pub(crate) fn new(
        title: String,
        unit: &'static str,
        series: Vec<String>,
        columns: &[Column],
        amount: impl Fn(u64) -> String,
    ) -> Self {
        let sum = |column: &Column| {
            column
                .values
                .iter()
                .fold(0_u64, |sum, value| sum.saturating_add(*value))
        };
        let highest = columns.iter().map(sum).max().unwrap_or(0);
        let top = round_up(highest);
        let drawings = columns.iter().zip(0_u64..).map(|(column, number)| {
            let mut below = 0_u64;
            let mut parts = Vec::new();
            for (series, value) in column.values.iter().enumerate() {
                let from = scaled(below, top);
                below = below.saturating_add(*value);
                let to = scaled(below, top);
                if to > from {
                    parts.push(Part {
                        series: series.min(COLORS - 1),
                        y: UNIT - to,
                        height: to - from,
                    });
                }
            }
            let values = column.values.iter().zip(&series);
            let values = values.filter(|(value, _)| **value > 0);
            let lines = values.map(|(value, name)| format!("\n{name}: {}", amount(*value)));
            ColumnDrawing {
                x: number * UNIT,
                title: format!(
                    "{}: {}{}",
                    column.name,
                    amount(sum(column)),
                    lines.collect::<String>()
                ),
                parts,
            }
        });
        let label = match columns.iter().max_by_key(|column| sum(column)) {
            Some(column) => format!(
                "{title}, a bar for each {unit}. The highest: {} on {}.",
                amount(sum(column)),
                column.name
            ),
            None => title.clone(),
        };
        let cell = |value: &u64| match value {
            0 => String::new(),
            value => amount(*value),
        };
        let figures = columns.iter().rev().filter(|column| sum(column) > 0);
        Self {
            label,
            unit,
            width: UNIT * columns.len() as u64,
            ticks: [top, top / 2, 0].map(&amount),
            dates: dates(columns),
            columns: drawings.collect(),
            figures: figures
                .map(|column| Row {
                    name: column.name.clone(),
                    cells: column.values.iter().map(cell).collect(),
                })
                .collect(),
            title,
            series,
        }
    }
}

/// Returns the names of the first, the middle and the last column.
fn dates(columns: &[Column]) -> Vec<String> {
    let count = columns.len();
    let mut places = match count {
        0 => Vec::new(),
        count => vec![0, count / 2, count - 1],
    };
    places.dedup();
    places
        .iter()
        .map(|place| columns[*place].name.clone())
        .collect()
}

fn scaled(value: u64, top: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(UNIT) / u128::from(top.max(1));
    u64::try_from(scaled).unwrap_or(UNIT).min(UNIT)
}

/// Returns the next value of which the first digit is 1 or even and all others are 0; at least two cents, so that half of
/// it is a whole number of cents.
fn round_up(value: u64) -> u64 {
    const MIN: u64 = 20_000_000_000;
    let mut power = MIN / 2;
    loop {
        for factor in [2, 4, 6, 8, 10] {
            let top = power.saturating_mul(factor);
            if top >= value || top == u64::MAX {
                return top;
            }
        }
        power = power.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_stacked_below_a_round_top() {
        const CENT: u64 = 10_000_000_000;
        let column = |name: &str, values: &[u64]| Column {
            name: name.to_owned(),
            values: values.iter().map(|cents| cents * CENT).collect(),
        };
        let columns = [
            column("a", &[25, 50]),
            column("b", &[0, 0]),
            column("c", &[0, 1]),
        ];
        let series = vec!["x".to_owned(), "y".to_owned()];
        let chart = Chart::new("title".to_owned(), "day", series, &columns, |value| {
            format!("{}¢", value / CENT)
        });
        assert_eq!(chart.ticks, ["80¢", "40¢", "0¢"]);
        let parts: Vec<_> = chart.columns[0]
            .parts
            .iter()
            .map(|part| (part.series, part.y, part.height))
            .collect();
        assert_eq!(parts, [(0, 688, 312), (1, 63, 625)]);
        assert_eq!(chart.columns[0].title, "a: 75¢\nx: 25¢\ny: 50¢");
        assert!(chart.columns[1].parts.is_empty());
        assert_eq!(chart.dates, ["a", "b", "c"]);
        // Days without a cost have no row; the newest one is first.
        let names: Vec<_> = chart.figures.iter().map(|row| &*row.name).collect();
        assert_eq!(names, ["c", "a"]);
        assert_eq!(
            [round_up(0), round_up(3 * CENT), round_up(u64::MAX)],
            [2 * CENT, 4 * CENT, u64::MAX]
        );
    }
}
