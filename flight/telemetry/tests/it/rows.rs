//! Converts rows to a form that tests can compare.

use std::collections::BTreeMap;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{Float64Type, TimestampNanosecondType},
    util::display::array_value_to_string,
};
use stratalog_line::TableRows;

use crate::catalog::Catalog;

/// A sample: table, labels that are not empty, time in nanoseconds, and bits of the value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    pub table: String,
    pub tags: BTreeMap<String, String>,
    pub time_ns: i64,
    pub bits: u64,
}

pub fn sample(table: &str, tags: &[(&str, &str)], time_ns: i64, value: f64) -> Sample {
    let tags = tags.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string()));
    Sample { table: table.to_string(), tags: tags.collect(), time_ns, bits: value.to_bits() }
}

/// All rows of metrics, in the order of their tables and of arrival.
pub fn samples(tables: Vec<TableRows>) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (table, rows) in texts(tables) {
        for (mut tags, time_ns, bits) in rows {
            tags.remove("value");
            samples.push(Sample { table: table.clone(), tags, time_ns, bits: bits.unwrap() });
        }
    }
    samples
}

type Row = (BTreeMap<String, String>, i64, Option<u64>);

/// All rows: columns with values as text, nanoseconds, bits of the column `value`.
pub fn texts(tables: Vec<TableRows>) -> Vec<(String, Vec<Row>)> {
    let mut catalog = Catalog::default();
    let mut all = Vec::new();
    for rows in tables {
        let name = rows.measurement().to_string();
        let definition = catalog.made_for(&rows);
        let batch = rows.into_batch(&definition).unwrap();
        let (schema, mut texts) = (batch.schema(), Vec::new());
        let time = batch.column_by_name("time").unwrap().as_primitive::<TimestampNanosecondType>();
        let value = batch.column_by_name("value");
        for row in 0..batch.num_rows() {
            let columns = schema.fields().iter().zip(batch.columns());
            let columns = columns.filter(|(field, _)| field.name() != "time");
            let columns = columns.filter_map(|(field, column)| {
                let text = shown(column, row)?;
                Some((field.name().clone(), text))
            });
            let bits = value.map(|value| value.as_primitive::<Float64Type>().value(row).to_bits());
            texts.push((columns.collect(), time.value(row), bits));
        }
        all.push((name, texts));
    }
    all
}

fn shown(column: &ArrayRef, row: usize) -> Option<String> {
    let text = column.is_valid(row).then(|| array_value_to_string(column, row).unwrap())?;
    (!text.is_empty()).then_some(text)
}
