//! The functions in `pg_proc`. First come the functions that exist both here and in PostgreSQL,
//! with PostgreSQL's oids, and then the functions that PostgreSQL does not have.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{LazyLock, OnceLock},
};

use datafusion::execution::SessionStateDefaults;

use crate::{
    column_type::{BASE_TYPES, type_name},
    oid,
    spec::FUNCTIONS,
};

/// A function with the values of its row in `pg_proc`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Procedure {
    pub(crate) oid: i64,
    pub(crate) name: String,
    /// The kind: `f` for a function, `a` for an aggregate, `w` for a window function.
    pub(crate) kind: &'static str,
    pub(crate) strict: bool,
    pub(crate) returns_set: bool,
    pub(crate) volatility: &'static str,
    pub(crate) parallel: &'static str,
    pub(crate) leakproof: bool,
    pub(crate) cost: f64,
    pub(crate) rows: f64,
    pub(crate) variadic: i64,
    pub(crate) defaults: i64,
    pub(crate) result: i64,
    pub(crate) parameters: Vec<i64>,
    pub(crate) source: String,
    pub(crate) all_parameters: Option<Vec<i64>>,
    pub(crate) modes: Option<Vec<String>>,
    pub(crate) names: Option<Vec<String>>,
    written: [Option<String>; 3],
}

impl Procedure {
    fn read(line: &'static str) -> Option<Self> {
        let mut words = line.split('\t');
        let number = |word: Option<&'static str>| word?.parse::<i64>().ok();
        let float = |word: Option<&'static str>| word?.parse::<f64>().ok();
        let list = |text: &str| text.split(' ').filter_map(|word| word.parse().ok()).collect();
        let mut read = Self {
            oid: number(words.next())?,
            name: words.next()?.to_string(),
            kind: words.next()?,
            strict: words.next()? == "t",
            returns_set: words.next()? == "t",
            volatility: words.next()?,
            parallel: words.next()?,
            leakproof: words.next()? == "t",
            cost: float(words.next())?,
            rows: float(words.next())?,
            variadic: number(words.next())?,
            defaults: number(words.next())?,
            result: number(words.next())?,
            parameters: list(words.next()?),
            source: words.next()?.to_string(),
            ..Self::default()
        };
        let mut given = || words.next().filter(|word| !word.is_empty());
        read.all_parameters = given().map(list);
        read.modes = given().map(|modes| modes.split(' ').map(str::to_string).collect());
        read.names = given().map(|names| names.split(',').map(str::to_string).collect());
        read.written = [given(), given(), given()].map(|text| text.map(str::to_string));
        Some(read)
    }

    /// Makes the row of a function that PostgreSQL does not have, from its documentation.
    fn beyond_postgresql(oid: i64, name: String, kind: &'static str, page: Page) -> Self {
        Self {
            oid,
            name,
            kind,
            volatility: "s",
            parallel: "s",
            result: 2_276,
            source: page.description,
            written: [page.parameters.clone(), page.parameters, None],
            ..Self::default()
        }
    }

    /// The parameters as SQL text.
    pub(crate) fn arguments(&self) -> String {
        let [arguments, _, _] = &self.written;
        arguments.clone().unwrap_or_else(|| self.types())
    }

    /// The parameters as SQL text, without their defaults.
    pub(crate) fn identity_arguments(&self) -> String {
        let [_, arguments, _] = &self.written;
        arguments.clone().unwrap_or_else(|| self.types())
    }

    fn types(&self) -> String {
        let names: Vec<String> =
            self.parameters.iter().map(|number| type_name(*number, None)).collect();
        names.join(", ")
    }

    /// The result type as SQL text.
    pub(crate) fn result(&self) -> String {
        let [_, _, result] = &self.written;
        result.clone().unwrap_or_else(|| {
            let set = if self.returns_set { "SETOF " } else { "" };
            format!("{set}{}", type_name(self.result, None))
        })
    }
}

/// The documentation of a function that PostgreSQL does not have.
#[derive(Debug, Default)]
struct Page {
    description: String,
    parameters: Option<String>,
}

/// The names of the functions that need a session. All sessions have the same functions, so the
/// first session sets the names.
static OF_SESSIONS: OnceLock<Vec<&'static str>> = OnceLock::new();

/// Sets the names of the functions that need a session. Called when a session is created; only the
/// first call has an effect.
pub(crate) fn register_names(names: Vec<&'static str>) {
    OF_SESSIONS.get_or_init(|| names);
}

/// All functions that exist here: their kind and documentation, by name.
fn known_functions() -> BTreeMap<String, (&'static str, Page)> {
    let mut known: BTreeMap<String, (&str, Page)> = BTreeMap::new();
    for page in stratalog_functions::documentation() {
        let signature = page.signatures.into_iter().next();
        let parameters = signature.and_then(|signature| {
            let (_, parameters) = signature.split_once('(')?;
            Some(parameters.trim_end_matches(')').to_string())
        });
        known.insert(page.name, ("f", Page { description: page.description, parameters }));
    }
    let mut add = |kind, names: &mut dyn Iterator<Item = &str>| {
        for name in names {
            known.entry(name.to_string()).or_insert((kind, Page::default()));
        }
    };
    add("f", &mut OF_SESSIONS.get().into_iter().flatten().copied());
    add("f", &mut SERIES.into_iter());
    for function in SessionStateDefaults::default_scalar_functions() {
        let aliases = function.aliases().iter().map(String::as_str);
        add("f", &mut std::iter::once(function.name()).chain(aliases));
    }
    for function in SessionStateDefaults::default_aggregate_functions() {
        let aliases = function.aliases().iter().map(String::as_str);
        add("a", &mut std::iter::once(function.name()).chain(aliases));
    }
    for function in SessionStateDefaults::default_window_functions() {
        add("w", &mut std::iter::once(function.name()));
    }
    known
}

/// Functions that are not registered in DataFusion, because the planner or a rewrite handles them.
const SERIES: [&str; 18] = [
    "bool_and",
    "bool_or",
    "every",
    "generate_series",
    "generate_subscripts",
    "json_agg",
    "json_array_elements",
    "json_object_agg",
    "json_object_keys",
    "jsonb_agg",
    "jsonb_array_elements",
    "jsonb_array_elements_text",
    "jsonb_object_agg",
    "jsonb_object_keys",
    "string_to_table",
    "timezone",
    "transaction_timestamp",
    "unnest",
];

/// The names of the functions that belong to types: for example, functions for input and output.
/// `pg_type` refers to these functions.
fn of_types() -> HashSet<&'static str> {
    let own = BASE_TYPES.iter().flat_map(|base| {
        let in_out = [base.input, base.output, base.receive, base.send];
        in_out.into_iter().chain([
            base.modifier_in,
            base.modifier_out,
            base.analyze,
            base.subscript,
        ])
    });
    own.chain([
        "bthandler",
        "array_in",
        "array_out",
        "array_recv",
        "array_send",
        "array_typanalyze",
    ])
    .collect()
}

/// All functions in the order of `pg_proc`: first PostgreSQL's functions, and then the functions
/// that PostgreSQL does not have.
pub(crate) static PROCEDURES: LazyLock<Vec<Procedure>> = LazyLock::new(|| {
    let mut known = known_functions();
    let of_types = of_types();
    let mut found: HashSet<String> = HashSet::new();
    let mut all: Vec<Procedure> = Vec::new();
    for procedure in FUNCTIONS.lines().filter_map(Procedure::read) {
        if known.contains_key(&procedure.name) || of_types.contains(procedure.name.as_str()) {
            found.insert(procedure.name.clone());
            all.push(procedure);
        }
    }
    known.retain(|name, _| !found.contains(name));
    let own = known.into_iter().zip(oid::FUNCTION_FIRST..);
    all.extend(
        own.map(|((name, (kind, page)), oid)| Procedure::beyond_postgresql(oid, name, kind, page)),
    );
    all
});

static BY_OID: LazyLock<HashMap<i64, &'static Procedure>> =
    LazyLock::new(|| PROCEDURES.iter().map(|procedure| (procedure.oid, procedure)).collect());

static BY_NAME: LazyLock<HashMap<&'static str, &'static Procedure>> = LazyLock::new(|| {
    // If several functions have the same name, the first one is found.
    PROCEDURES.iter().rev().map(|procedure| (procedure.name.as_str(), procedure)).collect()
});

/// The function with this oid.
pub(crate) fn procedure(oid: i64) -> Option<&'static Procedure> {
    BY_OID.get(&oid).copied()
}

/// The first function with this name.
pub(crate) fn procedure_of_name(name: &str) -> Option<&'static Procedure> {
    BY_NAME.get(name).copied()
}
