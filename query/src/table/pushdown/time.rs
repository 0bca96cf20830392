//! Conversion of comparisons between the tick column and constants to ranges of ticks.
//!
//! The column shows `floor((base + tick × granularity) ÷ unit) × unit` nanoseconds. A greater tick
//! never has a smaller value, so each comparison is a range of ticks. Constants may lie outside of
//! the range of ticks and of 64 bits, hence i128.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::{
    logical_expr::{Expr, Operator},
    scalar::ScalarValue,
};
use stratalog_model::{ChronicleDefinition, Grouping, Tick, TickRange, TickRanges, TickScale};

const DAY_NS: i128 = 86_400_000_000_000;

/// An expression over the tick that can be compared with constants. The expression never falls as
/// the tick rises.
#[derive(Debug, Clone, Copy)]
pub enum Axis {
    /// The tick column, as an instant.
    Time {
        /// The scale of the chronicle.
        scale: TickScale,
        /// Nanoseconds of the column's unit.
        unit_ns: i128,
        /// True for a type with time zone.
        zoned: bool,
    },
    /// The date of the tick column, in UTC.
    Date {
        /// The scale of the chronicle.
        scale: TickScale,
        /// Nanoseconds of the column's unit.
        unit_ns: i128,
    },
    /// The system column `_tick`.
    Tick,
    /// The system column `_group`.
    Group(Grouping),
}

/// The axis of the tick column.
pub fn axis_of_tick(definition: &ChronicleDefinition) -> Option<Axis> {
    let tick = definition.tick()?;
    let unit_ns = i128::from(tick.column_type.timestamp_unit_ns()?);
    let zoned = matches!(tick.column_type, stratalog_model::ColumnType::TimestampTz { .. });
    Some(Axis::Time { scale: definition.scale, unit_ns, zoned })
}

/// Reads `expr` as an [`Axis`]: the tick column, `_tick`, `_group`, or a cast of one of these columns
/// that keeps the order. `None` for other expressions.
pub fn axis(definition: &ChronicleDefinition, expr: &Expr) -> Option<Axis> {
    match expr {
        Expr::Alias(alias) => axis(definition, &alias.expr),
        Expr::Column(column) if column.name == "_tick" => Some(Axis::Tick),
        Expr::Column(column) if column.name == "_group" => Some(Axis::Group(definition.grouping())),
        Expr::Column(column) => {
            definition.tick().filter(|tick| tick.name == column.name)?;
            axis_of_tick(definition)
        }
        Expr::Cast(cast) => casted(axis(definition, &cast.expr)?, cast.field.data_type()),
        Expr::TryCast(cast) => casted(axis(definition, &cast.expr)?, cast.field.data_type()),
        _ => None,
    }
}

/// The axis after a cast that preserves instants: a cast to an equal or finer unit, between time
/// zones, or to a date in UTC. `None` for other casts.
fn casted(axis: Axis, to: &DataType) -> Option<Axis> {
    match (axis, to) {
        (Axis::Time { scale, unit_ns, zoned }, DataType::Timestamp(unit, zone)) => {
            let finer = time_unit_ns(*unit) <= unit_ns;
            let same_instant = match (zoned, zone.as_deref()) {
                (true, Some(_)) | (false, None) => true,
                (false, Some(zone)) => is_utc(zone),
                (true, None) => false,
            };
            (finer && same_instant).then_some(Axis::Time { scale, unit_ns, zoned: zone.is_some() })
        }
        (Axis::Time { scale, unit_ns, zoned: false }, DataType::Date32) => {
            Some(Axis::Date { scale, unit_ns })
        }
        (Axis::Tick | Axis::Group(_), DataType::Int64) => Some(axis),
        _ => None,
    }
}

impl Axis {
    /// The ticks for which the comparison `self op value` is true; `None` if the ticks cannot be
    /// computed exactly.
    pub fn compare(&self, op: Operator, value: &Expr) -> Option<TickRanges> {
        let Expr::Literal(value, _) = value else { return None };
        let at = self.position(value)?;
        let from = self.first_at_or_after(at);
        let after = self.first_at_or_after(at.checked_add(self.step())?);
        let ranges = match op {
            Operator::Eq | Operator::IsNotDistinctFrom => TickRange::new(from, after).into(),
            Operator::NotEq | Operator::IsDistinctFrom => {
                TickRanges::from(TickRange::new(from, after)).complement()
            }
            Operator::Lt => TickRange::new(Tick::MIN, from).into(),
            Operator::LtEq => TickRange::new(Tick::MIN, after).into(),
            Operator::Gt => TickRange::new(after, Tick::END).into(),
            Operator::GtEq => TickRange::new(from, Tick::END).into(),
            _ => return None,
        };
        Some(ranges)
    }

    /// Converts a constant to a position on the axis: nanoseconds since 1970, a tick, or a group.
    /// `None` for another type.
    fn position(&self, value: &ScalarValue) -> Option<i128> {
        match (self, value) {
            (Axis::Time { zoned, .. }, value) => {
                let (count, unit, zone) = timestamp(value)?;
                (zone == *zoned).then_some(i128::from(count) * time_unit_ns(unit))
            }
            (Axis::Date { .. }, ScalarValue::Date32(Some(days))) => {
                Some(i128::from(*days) * DAY_NS)
            }
            (Axis::Tick | Axis::Group(_), ScalarValue::Int64(Some(at))) => Some(i128::from(*at)),
            (Axis::Tick | Axis::Group(_), ScalarValue::Int32(Some(at))) => Some(i128::from(*at)),
            _ => None,
        }
    }

    fn step(&self) -> i128 {
        match self {
            Axis::Date { .. } => DAY_NS,
            Axis::Time { .. } | Axis::Tick | Axis::Group(_) => 1,
        }
    }

    /// The position of a tick on the axis: the column's value in nanoseconds since 1970, the tick,
    /// or the group of the tick.
    pub fn value_of(&self, tick: Tick) -> i128 {
        match self {
            Axis::Time { scale, unit_ns, .. } | Axis::Date { scale, unit_ns } => {
                let granularity = i128::from(scale.granularity().ns());
                let ns = i128::from(scale.base_ns()) + i128::from(tick.0) * granularity;
                ns.div_euclid(*unit_ns) * unit_ns
            }
            Axis::Tick => i128::from(tick.0),
            Axis::Group(groups) => i128::from(groups.group_of(tick.0)),
        }
    }

    /// The value of the column for a tick, as a number of the column's units; `None` if the number
    /// does not fit in 64 bits.
    pub fn count_of(&self, tick: Tick) -> Option<i64> {
        let unit_ns = match self {
            Axis::Time { unit_ns, .. } => *unit_ns,
            Axis::Date { .. } => DAY_NS,
            Axis::Tick | Axis::Group(_) => 1,
        };
        i64::try_from(self.value_of(tick).div_euclid(unit_ns)).ok()
    }

    /// The first tick whose position on this axis is at least `at`.
    pub fn first_at_or_after(&self, at: i128) -> Tick {
        match self {
            Axis::Time { scale, unit_ns, .. } | Axis::Date { scale, unit_ns } => {
                let whole = -((-at).div_euclid(*unit_ns));
                scale.bound_at_or_after(whole.saturating_mul(*unit_ns))
            }
            Axis::Tick => bound(at),
            Axis::Group(groups) => bound(groups.start(at)),
        }
    }
}

/// Converts a number to a tick; a number beyond the range of ticks becomes the nearest end of the
/// range.
fn bound(at: i128) -> Tick {
    match i64::try_from(at) {
        Ok(tick) => Tick(tick),
        Err(_) if at < 0 => Tick::MIN,
        Err(_) => Tick::END,
    }
}

/// The number of units, the unit, and whether the type has a time zone; `None` for NULL and for
/// other types.
pub fn timestamp(value: &ScalarValue) -> Option<(i64, TimeUnit, bool)> {
    match value {
        ScalarValue::TimestampSecond(Some(count), zone) => {
            Some((*count, TimeUnit::Second, zone.is_some()))
        }
        ScalarValue::TimestampMillisecond(Some(count), zone) => {
            Some((*count, TimeUnit::Millisecond, zone.is_some()))
        }
        ScalarValue::TimestampMicrosecond(Some(count), zone) => {
            Some((*count, TimeUnit::Microsecond, zone.is_some()))
        }
        ScalarValue::TimestampNanosecond(Some(count), zone) => {
            Some((*count, TimeUnit::Nanosecond, zone.is_some()))
        }
        _ => None,
    }
}

/// Length of a time unit in nanoseconds.
pub fn time_unit_ns(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// True for a name of the time zone UTC.
fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "+00:00" | "Z" | "Etc/UTC" | "GMT")
}
