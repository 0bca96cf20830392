//! The table functions `replay` and `playback` in FROM, which are rewritten as queries. `replay`
//! reads ranges of a table in the order of time, and `playback` reads the newest events (F17, F18).
//!
//! ```text
//!   replay('cpu', ARRAY['[2024-01-01, 2024-01-02)', 'gsn [7, )'], usage > 90)
//!     (SELECT columns FROM cpu WHERE (time >= … AND time < … OR _gsn >= 7) AND (usage > 90)
//!      ORDER BY time, _seq)
//!   playback('cpu', 3)
//!     (SELECT columns FROM cpu WHERE time <= now() ORDER BY time DESC, _seq DESC LIMIT 3)
//! ```
//! Inside the rewritten queries, the table has all system columns. The result of a rewritten query
//! has only the system columns that the statement names.

use std::{ops::ControlFlow, sync::Arc};

use datafusion::{
    scalar::ScalarValue,
    sql::sqlparser::ast::{
        Array, BinaryOperator, CastKind, Expr, FunctionArg, FunctionArgExpr, LimitClause, Query,
        SetExpr, Statement, TableAlias, TableFactor, Value, ValueWithSpan,
    },
};
use stratalog_model::{
    ChronicleDefinition, ColumnType, Error, ErrorKind, Result, chronicle::SYSTEM_COLUMNS,
};
use stratalog_postgres::{
    names::{
        NameResolver, fold, quoted,
        replays::{is_replay, no_ordinality, text_of},
    },
    parameters, parse,
    walk::{self, Change},
};

use crate::session::planner::Planner;

/// Maximum number of ranges in one call of `replay`.
const RANGES_MAX: usize = 1_000;

/// A name prefix that requests a table with all system columns. No real table name has the prefix.
const WHOLE: &str = "\u{1}";

/// Removes the prefix that requests all system columns; `None` if `name` has no prefix. The
/// rewritten queries need system columns for conditions and order, even if the statement names no
/// system column.
pub fn whole(name: &str) -> Option<&str> {
    name.strip_prefix(WHOLE)
}

/// Replaces calls of `replay` and `playback` in FROM with queries. The results of the queries have
/// the system columns `mentioned`. Returns the parameters, counted from 0, that give the number of
/// events of a `playback`.
///
/// # Errors
/// `UndefinedFunction` for wrong arguments; `InvalidTextRepresentation` for a malformed range;
/// `NullNotAllowed` for a NULL number of events; `FeatureNotSupported` for WITH ORDINALITY;
/// `UndefinedTable`.
pub fn expand(tree: &mut Query, planner: &Planner, mentioned: &[usize]) -> Result<Vec<usize>> {
    let mut expander = Expander { planner, mentioned, counts: Vec::new(), error: None };
    let _ = walk::change(tree, &mut expander);
    match expander.error {
        Some(error) => Err(error),
        None => Ok(expander.counts),
    }
}

/// Checks that no parameter for the number of events of a `playback` is NULL.
///
/// # Errors
/// `NullNotAllowed`: LIMIT NULL would return the whole table.
pub fn check_counts(counts: &[usize], values: &[ScalarValue]) -> Result<()> {
    let is_null = |at: &usize| values.get(*at).is_some_and(ScalarValue::is_null);
    if counts.iter().any(is_null) { Err(no_count()) } else { Ok(()) }
}

fn no_count() -> Error {
    Error::new(ErrorKind::NullNotAllowed, "playback needs a number of events, not NULL")
}

struct Expander<'a> {
    planner: &'a Planner,
    mentioned: &'a [usize],
    counts: Vec<usize>,
    error: Option<Error>,
}

impl Change for Expander<'_> {
    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> walk::Flow {
        let (name, args, alias, is_numbered) = match factor {
            TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
                (name, &args.args, alias, *with_ordinality)
            }
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                (name, &*args, alias, *with_ordinality)
            }
            _ => return ControlFlow::Continue(()),
        };
        let Some(function) = name.0.last().and_then(|part| part.as_ident()).cloned() else {
            return ControlFlow::Continue(());
        };
        let called = fold(&function);
        if !is_replay(&called) {
            return ControlFlow::Continue(());
        }
        let alias = alias.clone();
        let query = match is_numbered {
            true => Err(no_ordinality(&called)),
            false => self.query(&called, args),
        };
        match query {
            Ok(subquery) => {
                let alias = alias.unwrap_or(TableAlias {
                    explicit: true,
                    name: function,
                    columns: Vec::new(),
                    at: None,
                });
                let (subquery, alias) = (Box::new(subquery), Some(alias));
                *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl Expander<'_> {
    fn query(&mut self, called: &str, args: &[FunctionArg]) -> Result<Query> {
        let given: Option<Vec<&Expr>> = args
            .iter()
            .map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
                _ => None,
            })
            .collect();
        let given = given.unwrap_or_default();
        let table = given.first().and_then(|expr| text_of(expr));
        let table = table.ok_or_else(|| undefined(called))?;
        let chronicle = self.planner.table_named(table)?;
        match (called, given.as_slice()) {
            ("playback", [_]) => self.playback(&chronicle, None),
            ("playback", [_, rows]) => self.playback(&chronicle, Some(rows)),
            ("replay", [_]) => self.replay(&chronicle, None, None),
            ("replay", [_, ranges]) => self.replay(&chronicle, Some(ranges), None),
            ("replay", [_, ranges, constraint]) => {
                self.replay(&chronicle, Some(ranges), Some(constraint))
            }
            _ => Err(undefined(called)),
        }
    }

    /// Builds the query for `playback`, which omits events with a future time.
    fn playback(
        &mut self,
        chronicle: &Arc<ChronicleDefinition>,
        rows: Option<&&Expr>,
    ) -> Result<Query> {
        let time = quoted(tick_of(chronicle)?);
        let order = format!("ORDER BY {time} DESC, _seq DESC LIMIT 1");
        // Ticks are in UTC, independent of the session's time zone.
        let now = match chronicle.tick().map(|tick| &tick.column_type) {
            Some(ColumnType::Timestamp { .. }) => "now() AT TIME ZONE 'UTC'",
            _ => "now()",
        };
        let mut query = self.selected(chronicle, &format!("{time} <= {now}"), &order)?;
        if let Some(rows) = rows
            && let Some(LimitClause::LimitOffset { limit, .. }) = &mut query.limit_clause
        {
            self.check_count(rows)?;
            *limit = Some((*rows).clone());
        }
        Ok(query)
    }

    /// Checks the expression for the number of events: it contains only constants and parameters,
    /// and no NULL. LIMIT NULL would return all events.
    fn check_count(&mut self, count: &Expr) -> Result<()> {
        let mut parts = vec![count];
        while let Some(part) = parts.pop() {
            match part {
                // TRY_CAST would return NULL for a value out of range.
                Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, .. }
                | Expr::Nested(expr)
                | Expr::UnaryOp { expr, .. } => parts.push(expr),
                Expr::BinaryOp { left, op, right } if is_arithmetic(op) => {
                    parts.extend([left.as_ref(), right]);
                }
                Expr::Value(ValueWithSpan { value: Value::Null, .. }) => return Err(no_count()),
                Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) => {
                    self.counts.extend(parameters::number(name).map(|number| number - 1));
                }
                Expr::Value(_) => {}
                _ => {
                    return Err(Error::new(
                        ErrorKind::FeatureNotSupported,
                        format!("playback needs a number of events, not {part}"),
                    )
                    .with_hint("give the number, or a parameter: playback('cpu', $1)"));
                }
            }
        }
        Ok(())
    }

    fn replay(
        &self,
        chronicle: &Arc<ChronicleDefinition>,
        ranges: Option<&&Expr>,
        constraint: Option<&&Expr>,
    ) -> Result<Query> {
        let time = quoted(tick_of(chronicle)?);
        let mut query = self.selected(chronicle, "true", &format!("ORDER BY {time}, _seq"))?;
        let ranges = ranges.map(|ranges| condition_of(ranges, &time)).transpose()?;
        let constraint = constraint.map(|constraint| constraint_of(constraint)).transpose()?;
        let constraint = constraint.map(|constraint| without_schema(constraint, chronicle));
        let nested = |condition: Expr| Expr::Nested(Box::new(condition));
        let both =
            ranges.into_iter().chain(constraint).map(nested).reduce(|ranges, constraint| {
                either_operand(ranges, BinaryOperator::And, constraint)
            });
        if let (SetExpr::Select(select), Some(both)) = (query.body.as_mut(), both) {
            select.selection = Some(both);
        }
        Ok(query)
    }

    fn selected(
        &self,
        chronicle: &ChronicleDefinition,
        condition: &str,
        order: &str,
    ) -> Result<Query> {
        let user = chronicle.columns.iter().map(|column| quoted(&column.name));
        let system = self.mentioned.iter().filter_map(|at| SYSTEM_COLUMNS.get(*at));
        let columns: Vec<String> = user.chain(system.map(|name| (*name).to_string())).collect();
        let sql = format!(
            "SELECT {} FROM {}.{} AS {} WHERE {condition} {order}",
            columns.join(", "),
            quoted(&chronicle.schema),
            quoted(&format!("{WHOLE}{}", chronicle.name)),
            quoted(&chronicle.name)
        );
        let parsed = parse::statements(&sql, usize::MAX)?.into_iter().next();
        match parsed.map(|tree| tree.statement) {
            Some(Statement::Query(query)) => Ok(*query),
            _ => Err(Error::internal("a replay is no query")),
        }
    }
}

/// True for operators that return NULL only if an operand is NULL.
fn is_arithmetic(operator: &BinaryOperator) -> bool {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
    matches!(operator, Plus | Minus | Multiply | Divide | Modulo)
}

fn tick_of(chronicle: &ChronicleDefinition) -> Result<&str> {
    let tick = chronicle.tick().map(|column| column.name.as_str());
    tick.ok_or_else(|| Error::internal("a chronicle has no tick"))
}

/// The condition of a `replay`: an expression, or a text constant that is parsed as an expression.
fn constraint_of(constraint: &Expr) -> Result<Expr> {
    let Some(text) = text_of(constraint) else { return Ok(constraint.clone()) };
    let said = parse::expression(text)?;
    // Parameters inside of the text are not parameters of the statement.
    if let Some(number) = parameters::numbers(&said)?.first() {
        return Err(Error::new(
            ErrorKind::UndefinedParameter,
            format!("there is no parameter ${number} in the text of a condition"),
        )
        .with_hint("give the condition as an expression: replay('cpu', '[,)', usage > $1)"));
    }
    Ok(said)
}

/// Removes the schema from column names, because the rewritten query uses the bare table name:
/// `public.cpu.usage` becomes `cpu.usage`.
fn without_schema(mut constraint: Expr, chronicle: &ChronicleDefinition) -> Expr {
    let _ = walk::expressions_mut(&mut constraint, |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [schema, table, _] = parts.as_slice()
            && fold(schema) == chronicle.schema
            && fold(table) == chronicle.name
        {
            parts.remove(0);
        }
        ControlFlow::Continue(())
    });
    constraint
}

fn either_operand(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// The WHERE condition for one range, or for an array of ranges joined by OR.
fn condition_of(ranges: &Expr, time: &str) -> Result<Expr> {
    let mut ranges = ranges;
    while let Expr::Cast { expr, .. } | Expr::Nested(expr) = ranges {
        ranges = expr;
    }
    let texts: Option<Vec<&str>> = match ranges {
        Expr::Array(Array { elem, .. }) => elem.iter().map(text_of).collect(),
        other => text_of(other).map(|text| vec![text]),
    };
    let texts = texts.ok_or_else(|| {
        Error::new(ErrorKind::FeatureNotSupported, "the ranges of replay must be constants")
            .with_hint(
                "replay('cpu', ARRAY['[2024-01-01, 2024-01-02)', 'tick [0, 100)', 'gsn [5, )']); \
                 for others, SELECT … WHERE … ORDER BY time",
            )
    })?;
    if texts.len() > RANGES_MAX {
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("a replay has at most {RANGES_MAX} ranges, not {}", texts.len()),
        ));
    }
    let conditions = texts.iter().map(|text| parse::expression(&Range::of(text)?.condition(time)));
    let mut conditions = conditions.collect::<Result<Vec<Expr>>>()?;
    // Join the conditions in pairs, so that the expression tree of many ranges is not deep.
    while conditions.len() > 1 {
        let mut all = conditions.into_iter();
        let mut pairs = Vec::with_capacity(all.len().div_ceil(2));
        while let Some(left) = all.next() {
            pairs.push(match all.next() {
                Some(right) => either_operand(left, BinaryOperator::Or, right),
                None => left,
            });
        }
        conditions = pairs;
    }
    // An empty array of ranges matches no event.
    conditions.pop().map_or_else(|| parse::expression("false"), Ok)
}

/// A range in its text form: `[start, end)` for times, `tick [start, end)`, or `gsn [start, end)`.
#[derive(Debug, PartialEq, Eq)]
struct Range<'a> {
    by: RangeAxis,
    start: Option<&'a str>,
    end: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RangeAxis {
    Time,
    Tick,
    Gsn,
}

impl<'a> Range<'a> {
    fn of(text: &'a str) -> Result<Self> {
        let wrong = || {
            Error::new(
                ErrorKind::InvalidTextRepresentation,
                format!("malformed range: \"{text}\""),
            )
            .with_hint(
                "a range is written [start, end), of times, or of numbers after the word tick or \
                 gsn; the start is inside, the end is not, and either may be left out",
            )
        };
        let (word, range) = text.split_once('[').ok_or_else(wrong)?;
        let by = match word.trim().to_ascii_lowercase().as_str() {
            "" | "time" => RangeAxis::Time,
            "tick" => RangeAxis::Tick,
            "gsn" => RangeAxis::Gsn,
            _ => return Err(wrong()),
        };
        let ends = range.trim_end().strip_suffix(')').ok_or_else(wrong)?;
        let (start, end) = ends.split_once(',').ok_or_else(wrong)?;
        let part = |text: &'a str| Some(text.trim()).filter(|text| !text.is_empty());
        let (start, end) = (part(start), part(end));
        let is_number = |text: &str| text.parse::<i64>().is_ok();
        let fits = by == RangeAxis::Time || [start, end].into_iter().flatten().all(is_number);
        if fits { Ok(Self { by, start, end }) } else { Err(wrong()) }
    }

    fn condition(&self, time: &str) -> String {
        let column = match self.by {
            RangeAxis::Time => time,
            RangeAxis::Tick => "_tick",
            RangeAxis::Gsn => "_gsn",
        };
        let value = |text: &str| match self.by {
            RangeAxis::Time => format!("'{}'", text.replace('\'', "''")),
            RangeAxis::Tick | RangeAxis::Gsn => text.to_string(),
        };
        let start = self.start.map(|start| format!("{column} >= {}", value(start)));
        let end = self.end.map(|end| format!("{column} < {}", value(end)));
        let both: Vec<String> = start.into_iter().chain(end).collect();
        match both.is_empty() {
            true => "true".to_string(),
            false => format!("({})", both.join(" AND ")),
        }
    }
}

fn undefined(called: &str) -> Error {
    let (takes, example) = match called {
        "playback" => ("the name of a table, and how many events", "playback('cpu', 10)"),
        _ => (
            "the name of a table, ranges, and a condition",
            "replay('cpu', ARRAY['[2024-01-01, 2024-01-02)'], usage > 90)",
        ),
    };
    Error::new(ErrorKind::UndefinedFunction, format!("{called} takes {takes}"))
        .with_hint(format!("SELECT * FROM {example}"))
}

#[cfg(test)]
mod tests;
