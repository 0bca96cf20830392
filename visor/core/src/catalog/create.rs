//! CREATE TABLE: makes a complete definition from the statement.

use std::collections::BTreeMap;

use stratalog_model::{
    ChronicleDefinition, ChronicleId, Collision, ColumnDefinition, ColumnId, ColumnType, Error,
    ErrorKind, Granularity, Result, SchemaVersion, TickScale, Tiering,
};

use super::{
    command::{NewChronicle, NewColumn},
    name, option,
};

/// Name of the tick column of a table that is declared without a timestamp column.
const TIME_COLUMN: &str = "time";

/// The definition of a new chronicle, with the id `id` and the creation time `now_ns`.
pub(crate) fn define(
    new: &NewChronicle,
    id: ChronicleId,
    now_ns: i64,
) -> Result<ChronicleDefinition> {
    let given = option::read(&new.options)?;
    for column in &new.columns {
        name::check("column", &column.name)?;
    }
    let mut columns = new.columns.clone();
    if new.primary_key.is_none() && !columns.iter().any(|c| c.column_type.is_timestamp()) {
        // Append the column after the columns of the statement, because INSERT and COPY without a
        // column list refer to the columns of the statement.
        columns.push(time_column(new)?);
    }
    let mut columns: Vec<ColumnDefinition> =
        (1..).map(ColumnId).zip(&columns).map(|(id, column)| column_of(id, column)).collect();

    let (key_columns, tick_column) = match &new.primary_key {
        Some(names) => key_of(new, names, &columns)?,
        None => (Vec::new(), default_tick(&columns).unwrap_or(ColumnId(0))),
    };
    let tick_column = match option::time_column(&new.options) {
        Some(name) => named_tick(new, name, &columns, tick_column)?,
        None => tick_column,
    };
    for column in &mut columns {
        if column.id == tick_column || key_columns.contains(&column.id) {
            column.nullable = false;
        }
    }

    let default_collision = Collision::default_of(new.primary_key.is_some());
    let granularity = given.granularity.unwrap_or_default();
    let coarsened = given.index_granularity.filter(|index| *index != granularity);
    if let Some(index) = coarsened {
        option::check_coarser(granularity, index)?;
    }
    let definition = ChronicleDefinition {
        id,
        database: new.database.clone(),
        schema: new.schema.clone(),
        name: new.name.clone(),
        tick_column,
        key_columns,
        keys_added: 0,
        indexes: Vec::new(),
        indexes_made: 0,
        primary_key: new.primary_key.is_some(),
        scale: scale(given.base_ns, now_ns, granularity)?,
        coarsened,
        collision: given.collision.unwrap_or(default_collision),
        late: given.late.unwrap_or_default(),
        time_source: given.time_source.unwrap_or_default(),
        acceptance_window_ms: given.acceptance_window_ms.flatten(),
        tiering: given.tiering.onto(Tiering::default()),
        durability: given.durability.unwrap_or_default(),
        schema_version: SchemaVersion(1),
        schema_versions: BTreeMap::from([(
            SchemaVersion(1),
            columns.iter().map(|column| column.id).collect(),
        )]),
        columns,
        comment: None,
        created_ns: now_ns,
    };
    definition.validate()?;
    check_granularity(&definition)?;
    debug_assert!(new.columns.len() <= definition.columns.len(), "a column is lost");
    debug_assert!(
        definition.primary_key || definition.key_columns.is_empty(),
        "a table without a key has key columns"
    );
    debug_assert_eq!(
        definition.index_granularity().ns().rem_euclid(granularity.ns()),
        0,
        "a tick lies in two groups of the index"
    );
    Ok(definition)
}

/// The base and granularity of the ticks: the base is the given time, or else the creation time
/// (F21).
fn scale(base_ns: Option<i64>, now_ns: i64, granularity: Granularity) -> Result<TickScale> {
    if let Some(given) = base_ns {
        let beyond = given.rem_euclid(granularity.ns());
        if beyond != 0 {
            let below = given.checked_sub(beyond);
            let multiple = below.unwrap_or(given.saturating_add(granularity.ns() - beyond));
            return Err(Error::new(
                ErrorKind::InvalidParameterValue,
                format!("base = '{given}ns' is not a multiple of the granularity {granularity}"),
            )
            .with_hint(format!("use '{multiple}ns'")));
        }
    }
    Ok(TickScale::starting_at(base_ns.unwrap_or(now_ns), granularity))
}

/// Makes the definition of a column that a statement declares.
pub(crate) fn column_of(id: ColumnId, column: &NewColumn) -> ColumnDefinition {
    ColumnDefinition {
        id,
        name: column.name.clone(),
        column_type: column.column_type.clone(),
        nullable: column.nullable,
        default_sql: column.default_sql.clone(),
        missing_value: column.missing_value.clone(),
        comment: None,
    }
}

fn time_column(new: &NewChronicle) -> Result<NewColumn> {
    debug_assert!(new.primary_key.is_none(), "a key names its time column itself");
    debug_assert!(
        !new.columns.iter().any(|column| column.column_type.is_timestamp()),
        "a table with a time column gets another time column"
    );
    if new.columns.iter().any(|column| column.name == TIME_COLUMN) {
        return Err(Error::new(
            ErrorKind::InvalidTableDefinition,
            format!(
                "table \"{}\" has no timestamp column, and none can be added because \"{TIME_COLUMN}\" has another type",
                new.name
            ),
        )
        .with_hint("give one column the type TIMESTAMPTZ or TIMESTAMP, or rename \"time\""));
    }
    Ok(NewColumn {
        name: TIME_COLUMN.to_string(),
        column_type: ColumnType::TimestampTz { precision: 9 },
        nullable: false,
        default_sql: Some("now()".to_string()),
        missing_value: None,
    })
}

/// The tick column of a table without a key: the first NOT NULL timestamp column, or else the first
/// timestamp column.
pub(crate) fn default_tick(columns: &[ColumnDefinition]) -> Option<ColumnId> {
    let mut times = columns.iter().filter(|column| column.column_type.is_timestamp());
    let first = times.clone().next();
    times.find(|column| !column.nullable).or(first).map(|column| column.id)
}

/// The tick column that the option `time_column` names. If the table has a key, the key names the
/// tick column (`of_key`).
fn named_tick(
    new: &NewChronicle,
    name: &str,
    columns: &[ColumnDefinition],
    of_key: ColumnId,
) -> Result<ColumnId> {
    let Some(column) = columns.iter().find(|column| column.name == name) else {
        return Err(Error::new(
            ErrorKind::UndefinedColumn,
            format!("column \"{name}\" named in time_column does not exist"),
        ));
    };
    let invalid = |message: String| Err(Error::new(ErrorKind::InvalidTableDefinition, message));
    if !column.column_type.is_timestamp() {
        return invalid(format!(
            "time_column \"{name}\" must be a timestamp or timestamptz, not {}",
            column.column_type
        ));
    }
    if new.primary_key.is_some() && column.id != of_key {
        return invalid(format!("time_column \"{name}\" is not the time of the primary key"));
    }
    Ok(column.id)
}

/// The key columns and the tick column of a PRIMARY KEY.
fn key_of(
    new: &NewChronicle,
    names: &[String],
    columns: &[ColumnDefinition],
) -> Result<(Vec<ColumnId>, ColumnId)> {
    let mut ids = Vec::with_capacity(names.len());
    for (at, name) in names.iter().enumerate() {
        if names.iter().take(at).any(|other| other == name) {
            return Err(Error::new(
                ErrorKind::DuplicateColumn,
                format!("column \"{name}\" appears twice in primary key constraint"),
            ));
        }
        let column = columns.iter().find(|column| column.name == *name).ok_or_else(|| {
            Error::new(
                ErrorKind::UndefinedColumn,
                format!("column \"{name}\" named in key does not exist"),
            )
        })?;
        ids.push(column);
    }
    // If the key has exactly one timestamp column, this column is the tick column, at any position
    // in the key.
    let mut times = ids.iter().enumerate().filter(|(_, column)| column.column_type.is_timestamp());
    if let (Some((at, _)), None) = (times.next(), times.next()) {
        let tick = ids.remove(at);
        ids.push(tick);
    }
    debug_assert_eq!(ids.len(), names.len(), "a column of the key is lost");
    let Some((tick, key)) = ids.split_last() else {
        return Err(Error::new(
            ErrorKind::InvalidTableDefinition,
            format!("the primary key of table \"{}\" names no column", new.name),
        ));
    };
    if !tick.column_type.is_timestamp() {
        let times = columns.iter().filter(|column| column.column_type.is_timestamp());
        let hint = match times.map(|column| column.name.as_str()).next() {
            Some(time) => {
                let others = names.iter().map(String::as_str).filter(|name| *name != time);
                let order: Vec<&str> = others.chain([time]).collect();
                format!("put the time column last: PRIMARY KEY ({})", order.join(", "))
            }
            None if tick.column_type == ColumnType::Date => format!(
                "declare \"{}\" as TIMESTAMP: a date is stored as midnight of the date",
                tick.name
            ),
            None if columns.iter().any(|column| column.name == TIME_COLUMN) => format!(
                "give \"{TIME_COLUMN}\" the type TIMESTAMPTZ or TIMESTAMP, and put the column last in the PRIMARY KEY"
            ),
            None => format!(
                "add a column \"time\" TIMESTAMPTZ, and declare PRIMARY KEY ({}, time)",
                names.join(", ")
            ),
        };
        return Err(Error::new(
            ErrorKind::InvalidTableDefinition,
            format!(
                "the last column of the primary key, \"{}\", must be a timestamp or timestamptz, not {}",
                tick.name, tick.column_type
            ),
        )
        .with_hint(hint));
    }
    debug_assert!(key.iter().all(|column| column.id != tick.id), "the tick is in the key twice");
    Ok((key.iter().map(|column| column.id).collect(), tick.id))
}

/// Checks that the tick column can represent the start of every tick.
///
/// ```text
///   unit of the column   |----1 s----|----1 s----|
///   granularity 1 s      T           T           T       every tick starts at a unit
///   granularity 1 ms     TttttttttttttttttttttttttT      values fall on capital letters only
///   granularity 1500 ms  T                 ?             refused: no second shows the start
/// ```
///
/// T is a tick that starts at a unit of the column; t is any other tick. The collision rule `next`
/// uses every free tick; under this rule, no tick may lie between two units.
fn check_granularity(definition: &ChronicleDefinition) -> Result<()> {
    let Some(tick) = definition.tick() else { return Ok(()) };
    let Some(unit_ns) = tick.column_type.timestamp_unit_ns() else { return Ok(()) };
    let granularity = definition.scale.granularity();
    if granularity.ns().rem_euclid(unit_ns) == 0 {
        return Ok(());
    }
    let coarser = Granularity::from_ns(unit_ns)?;
    if unit_ns.rem_euclid(granularity.ns()) != 0 {
        return Err(Error::new(
            ErrorKind::InvalidTableDefinition,
            format!(
                "granularity {granularity} does not fit the tick column \"{}\" of type {}: the type cannot show the start times of the ticks",
                tick.name, tick.column_type
            ),
        )
        .with_hint(format!("use a multiple or a divisor of {coarser}, or a finer column type")));
    }
    if definition.collision.moves_ticks() {
        return Err(Error::new(
            ErrorKind::InvalidTableDefinition,
            format!(
                "collision = '{}' with granularity {granularity} would use ticks that the tick column \"{}\" of type {} cannot show",
                definition.collision, tick.name, tick.column_type
            ),
        )
        .with_hint(format!("set granularity = '{coarser}', or give the column precision 9")));
    }
    Ok(())
}
