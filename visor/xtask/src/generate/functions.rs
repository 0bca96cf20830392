//! Generates the page of the SQL functions that Stratalog adds to DataFusion's functions, from
//! their declarations in the code.

use super::literal;
use crate::tree::Tree;

/// The source files with declarations, and the heading of each list.
const SOURCES: [(&[&str], &str); 9] = [
    (&["query/functions/src/json"], "JSON"),
    (&["query/functions/src/ordered_set.rs"], "Aggregates WITHIN GROUP"),
    (
        &[
            "query/functions/src/make_time.rs",
            "query/functions/src/time_pattern.rs",
            "query/functions/src/number_pattern.rs",
        ],
        "Times, and patterns of times and numbers",
    ),
    (&["query/functions/src/regex/calls.rs"], "Regular expressions"),
    (&["query/functions/src/bytes.rs"], "Bytes"),
    (&["query/functions/src/arrays.rs"], "Arrays and NULLs"),
    (&["query/functions/src/numbers.rs", "query/functions/src/number.rs"], "Numbers"),
    (
        &[
            "query/functions/src/cases.rs",
            "query/functions/src/format.rs",
            "query/functions/src/misc.rs",
            "query/functions/src/similar.rs",
            "query/functions/src/texts.rs",
        ],
        "General",
    ),
    (&["query/pg_catalog/src/functions/"], "About the session and the catalog"),
];

/// Phrases in the descriptions of functions that only casts and output use; the page omits these
/// functions.
const INTERNAL: [&str; 5] =
    ["what a cast", "is printed as", "what the operator", "as a list", "what SUBSTRING"];

const HEAD: &str = "# Functions and operators

<!-- Made from query/functions and query/pg_catalog by `cargo run -p xtask -- docs`. Do not edit. -->

## Time

`time_bucket(width, time)` is the start of the aligned window that a time falls into. `width` is an
interval of months or of days and less. Windows of days and less count from Monday 2000-01-03,
windows of months from 2000-01-01, in UTC. A third argument moves the windows: a timestamp is
where one of them starts, an interval shifts them. `time_bucket(width, value)` does the same for
integers. `date_bin(width, time [, origin])` is PostgreSQL's.

`now()`, `current_timestamp`, `current_date`, `localtimestamp`, `localtime`, `clock_timestamp()`,
`date_trunc(unit, time [, zone])`, `date_part`, `extract`, `to_char`, `to_timestamp`, `to_date`,
`age`, `justify_days`, `justify_hours`, `justify_interval`, `make_interval` and `AT TIME ZONE` are
as in PostgreSQL; so are the constants `'now'`, `'today'`, `'tomorrow'` and `'yesterday'`. `extract` gives a numeric with microseconds; its unit `nanoseconds` gives all
digits. `pg_sleep(seconds)` waits.

## Operators on jsonb

| operator | right side | gives |
|---|---|---|
| `->` | text, integer | member, or element from 0 (from the end when negative), as jsonb |
| `->>` | text, integer | the same, as text |
| `#>` | text[] | what is at a path, as jsonb |
| `#>>` | text[] | the same, as text |
| `@>` | jsonb | whether the left contains the right |
| `?` | text | whether a key, or a string in an array, is there |
| `?|` `?&` | text[] | whether one of several, or all, are there |
| `||` | jsonb | the members or elements of both |
| `-` | text, text[], integer | without a key or keys, or without an element |
| `#-` | text[] | without what is at a path |
| `=` `<>` `<` `<=` `>` `>=` | jsonb | PostgreSQL's order: 1.0 equals 1 |

`jsonb_array_elements(array)` and `jsonb_array_elements_text(array)` give one row for each element,
in FROM, also of a column of a table before them, and in a select list. `jsonb_each(object)` and
`jsonb_each_text(object)` give rows of `key` and `value` in FROM. Subscripts, `j['a'][0]`, are `->`.

## Rows and arrays

`generate_series(from, to [, step])` of integers and times gives rows: in FROM, and once in a
select list, where its arguments are constants. `unnest(array)` gives one for each element, in a
select list and in FROM, also of a column of a table before it. `&&` tells whether two arrays
have an element in common.

## Text

`SIMILAR TO` and its ESCAPE are PostgreSQL's. `length`, `octet_length`, `bit_length`, SUBSTRING,
OVERLAY, POSITION and TRIM take text and bytea. `a ^@ b` is `starts_with(a, b)`.

Regular expressions are PostgreSQL's: `.` matches a line break, of the matches that begin first the
longest counts (the shortest where the first quantifier is one like `*?`), there are `\\m`, `\\M`, `\\y`
and `[[:<:]]`, back-references and look-around. The last two backtrack, at most a million steps for a text of
1 KB, and fewer in longer texts, down to a thousand for each start of a match in texts above 256 KB; more are refused (54001). All
other expressions take time that grows with the text only. What parts in
parentheses match may differ where several ways give the same whole. `regexp_matches` gives a row for
each match with `g`, `regexp_split_to_table` one for each part.

## Types of arguments

A function takes a constant in quotes, NULL or a parameter as the type that PostgreSQL would choose
among its functions of that name: `sqrt('4')`, `repeat('a', $1)`. The name of a type is a function that casts:
`float8('1.5')`, `text(1)`.

## First and last

`first(value, time)` and `last(value, time)` are TimescaleDB's: the value of the row with the least, or the greatest, `time`, which may be
any expression; what has none comes last. They are `first_value(value ORDER BY time)` and
`first_value(value ORDER BY time DESC NULLS LAST)`. By key columns and the table's time, only those rows are looked for.

## From DataFusion

Aggregates (`count`, `sum`, `avg`, `min`, `max`, `stddev`, `variance`, `var_pop`, `corr`, `median`,
`percentile_cont`, `approx_distinct`, `approx_percentile_cont`, `first_value`, `last_value`,
`array_agg`, `string_agg`, `bool_and` or `every`, `bool_or` …, each also with `FILTER` and as a
window function), window functions (`row_number`, `rank`, `dense_rank`, `lag`, `lead`, `ntile`,
`nth_value` …), mathematics, strings, regular expressions, arrays, encodings and hashes, as its
documentation describes them. Functions that read files are off.
";

/// Generates the page.
pub(super) fn page(tree: &Tree) -> Result<String, String> {
    let mut page = String::from(HEAD);
    for (sources, title) in SOURCES {
        let mut functions: Vec<(String, String)> = tree
            .files
            .iter()
            .filter(|(path, _)| path.ends_with(".rs") && !path.ends_with("/tests.rs"))
            .filter(|(path, _)| sources.iter().any(|source| path.starts_with(source)))
            .flat_map(|(_, text)| declared(text))
            .filter(|(_, does)| !INTERNAL.iter().any(|internal| does.contains(internal)))
            .collect();
        functions.sort();
        if functions.is_empty() {
            return Err(format!("{sources:?}: no functions found"));
        }
        page.push_str(&format!("\n## {title}\n\n| function | what it gives |\n|---|---|\n"));
        for (name, does) in functions {
            page.push_str(&format!("| `{name}` | {} |\n", does.replace('|', "\\|")));
        }
    }
    Ok(page)
}

/// The name and the description of each declared function: `declare("name", …, "Description.", …)`,
/// where the declaring function may have any name. The description is the only string after the
/// name that ends with a full stop.
fn declared(source: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some((_, after)) = rest.split_once('(') {
        rest = after;
        let Some(argument) = after.trim_start().strip_prefix('"') else { continue };
        let Some((name, tail)) = argument.split_once('"') else { break };
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.is_empty() || !name.chars().all(plain) || !tail.starts_with(',') {
            continue;
        }
        let description = tail.find('"').and_then(|at| literal(tail.get(at..)?));
        if let Some((does, _)) = description
            && does.ends_with('.')
        {
            found.push((name.to_string(), does));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::declared;

    #[test]
    fn declarations_are_found_however_they_are_called() {
        let source = "d.stable(\n  \"a_b\", &[&[]], ColumnType::Text, \"UTF8.\", |_| f(\"UTF8\")),\n oid(\"c\", \"Oid of \\\"x\\\".\", g),\n other(\"no\");\n h(\"d\", \"not a sentence\")";
        let pair = |name: &str, does: &str| (name.to_string(), does.to_string());
        assert_eq!(declared(source), [pair("a_b", "UTF8."), pair("c", "Oid of \"x\".")]);
    }
}
