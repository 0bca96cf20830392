//! The state shared by all sessions: memory and disk budgets, functions, rules.

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    execution::{
        FunctionRegistry, SessionStateDefaults,
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        memory_pool::TrackConsumersPool,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
        session_state::{SessionState, SessionStateBuilder},
    },
    logical_expr::expr_rewriter::FunctionRewrite,
    optimizer::AnalyzerRule,
    optimizer::analyzer::{
        function_rewrite::ApplyFunctionRewrites,
        resolve_grouping_function::ResolveGroupingFunction, type_coercion::TypeCoercion,
    },
    optimizer::{Optimizer, OptimizerRule, push_down_filter::PushDownFilter},
    prelude::SessionConfig,
};
use stratalog_functions::{governor, metered::Metering};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    QuerySettings,
    errors::from_datafusion,
    rules::{
        aligned_times::AlignedTimes,
        bounded_results,
        by_length::RowsByLength,
        calls::{self, OverloadResolution},
        checked_arithmetic::CheckedArithmetic,
        common_types::{self, CommonTypes, SetTypes, UnionTypes},
        date_shifts::DateShifts,
        date_trunc,
        digits::RoundedDigits,
        domain,
        far_times::FarTimes,
        floats::FloatPromotion,
        interval::IntervalOperators,
        interval_aggregates,
        lengths::IntervalComparisons,
        like::LikeCalls,
        literals::{IntegerLiterals, IntegerOperands, JoinedOperands},
        long_text,
        open_parameters::OpenParameters,
        outer_types::OuterTypes,
        records::CountedRecords,
        regular_expressions::RegularExpressions,
        rounding, series,
        stoppable_rules::{self, ExpressionStopCheck},
        sums,
        times::TimeOperators,
    },
    service::memory::StatementPool,
    session::SEARCH_PATH_SCHEMA,
};

/// Omitted scalar functions of DataFusion: their arguments alone decide the length of one array,
/// beyond any budget. As table functions the same names stream.
const LEFT_OUT: &[&str] = &["range", "generate_series"];

/// The number of memory consumers in an out-of-memory error.
const CONSUMERS_NAMED: usize = 3;

/// The base state of every session.
///
/// # Errors
/// The spill directory cannot be made.
pub fn build(settings: &QuerySettings) -> Result<SessionState> {
    governor::install();
    let runtime = runtime(settings)?;
    let mut config = SessionConfig::new()
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema("", SEARCH_PATH_SCHEMA)
        .with_information_schema(false)
        // Scans have streams of their own; a round-robin repartition of one stream would lose its
        // order.
        .with_round_robin_repartition(false)
        .with_batch_size(settings.batch_rows_max)
        .with_target_partitions(settings.parallel_streams_max.max(1));
    let options = config.options_mut();
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.recursion_limit =
        datafusion::common::config::ConfigNonZeroUsize::try_new(1000).map_err(from_datafusion)?;
    // DataFusion's top-k aggregation allocates one group for each row of the LIMIT, beyond any
    // budget.
    options.optimizer.enable_topk_aggregation = false;
    options.execution.time_zone = Some("UTC".to_string());
    // The check compares the nullability of columns; the logical and the physical plan derive
    // nullability by different rules.
    options.execution.skip_physical_aggregate_schema_check = true;
    // Functions of this project replace DataFusion's functions with the same name or alias.
    let ours: HashSet<String> =
        stratalog_functions::documentation().into_iter().map(|page| page.name).collect();
    let functions = SessionStateDefaults::default_scalar_functions()
        .into_iter()
        .filter(|function| !LEFT_OUT.contains(&function.name()) && !ours.contains(function.name()))
        .map(bounded_results::bound)
        .map(crate::rules::linear_search::linear)
        .map(crate::rules::concat_arguments::beside_text)
        .map(crate::rules::extremes::among_floats)
        .map(crate::rules::bytes::of_bytes)
        .map(date_trunc::extend)
        .map(rounding::round_to_even)
        .map(domain::checked)
        .map(crate::rules::aliases::with_names)
        .map(common_types::unified)
        .map(crate::rules::array_membership::of_any_digits)
        .collect();
    let mut expr_planners = SessionStateDefaults::default_expr_planners();
    expr_planners.insert(0, Arc::new(stratalog_functions::operators()));
    expr_planners.insert(0, Arc::new(IntervalOperators::default()));
    expr_planners.insert(0, Arc::new(TimeOperators::default()));
    expr_planners.insert(0, Arc::new(stratalog_functions::Extract));
    expr_planners.insert(0, Arc::new(stratalog_functions::JsonSubscripts::default()));
    expr_planners.insert(0, Arc::new(JoinedOperands));
    expr_planners.insert(0, Arc::new(OpenParameters));
    expr_planners.push(Arc::new(crate::rules::floats::Quotients));
    expr_planners.push(Arc::new(crate::rules::floats::RealOperands));
    expr_planners.push(Arc::new(IntegerOperands));
    let builder = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_expr_planners(expr_planners)
        .with_analyzer_rules(
            [
                Arc::new(crate::rules::lateral_rows::LateralRows)
                    as Arc<dyn AnalyzerRule + Send + Sync>,
                Arc::new(SetTypes),
                Arc::new(crate::rules::counted_sets::CountedSets),
                Arc::new(ResolveGroupingFunction::new()),
                Arc::new(RowsByLength::default()),
                Arc::new(IntegerLiterals),
                Arc::new(crate::rules::comparison_check::ComparisonCheck),
                Arc::new(FloatPromotion),
                Arc::new(UnionTypes),
                Arc::new(OuterTypes),
                Arc::new(TypeCoercion::new()),
            ]
            .into_iter()
            .map(stoppable_rules::analyzer_rule)
            .collect(),
        )
        .with_query_planner(Arc::new(crate::as_of::WithAsOf))
        .with_optimizer_rules(optimizer_rules())
        .with_physical_optimizer_rules(crate::rules::physical::rules())
        .with_type_planner(Arc::new(crate::types::SqlTypes))
        .with_scalar_functions(functions)
        .with_higher_order_functions(SessionStateDefaults::default_higher_order_functions())
        .with_aggregate_functions(
            SessionStateDefaults::default_aggregate_functions()
                .into_iter()
                .map(sums::checked)
                .map(crate::rules::real_sums::of_reals)
                .map(crate::rules::extremes::of_floats)
                .map(interval_aggregates::averages)
                .map(long_text::bounded)
                .map(crate::rules::percentile::exact)
                .map(crate::rules::aliases::with_aliases)
                .map(crate::rules::variances::in_steps)
                .map(crate::rules::pairs::in_steps)
                .map(crate::rules::distinct_bits::group_by_group)
                .map(crate::rules::sliding_windows::without_subtraction)
                .map(crate::rules::canonical_nan::of_results)
                .map(crate::rules::charged_aggregates::with_memory_charge)
                .collect(),
        )
        .with_window_functions(
            SessionStateDefaults::default_window_functions()
                .into_iter()
                .map(crate::rules::ntile::of_integers)
                .collect(),
        )
        .with_table_function_list(
            SessionStateDefaults::default_table_functions()
                .into_iter()
                .flat_map(series::of_each_type)
                .collect(),
        );
    let mut state = builder.build();
    state.add_analyzer_rule(Arc::new(CheckedArithmetic::default()));
    state.add_analyzer_rule(Arc::new(crate::rules::jsonb_arrays::JsonbArrays));
    let cases = crate::rules::cases::RestoredCases;
    state.register_function_rewrite(Arc::new(cases)).map_err(from_datafusion)?;
    let make_array = state.udf("make_array").map_err(from_datafusion)?;
    let arrays = crate::rules::array_calls::RestoredArrays { make_array };
    state.register_function_rewrite(Arc::new(arrays)).map_err(from_datafusion)?;
    let members = crate::rules::array_membership::ArrayMembership;
    state.register_function_rewrite(Arc::new(members)).map_err(from_datafusion)?;
    let shifts = crate::rules::smallint_shifts::SmallintShifts;
    state.register_function_rewrite(Arc::new(shifts)).map_err(from_datafusion)?;
    let named_casts = crate::rules::named_casts::NamedCasts;
    state.register_function_rewrite(Arc::new(named_casts)).map_err(from_datafusion)?;
    state.register_function_rewrite(Arc::new(ExpressionStopCheck)).map_err(from_datafusion)?;
    state.register_function_rewrite(Arc::new(FarTimes)).map_err(from_datafusion)?;
    let overloads = OverloadResolution { widths_are_known: false };
    state.register_function_rewrite(Arc::new(overloads)).map_err(from_datafusion)?;
    let inputs = crate::rules::aggregate_inputs::AggregateInputs;
    state.register_function_rewrite(Arc::new(inputs)).map_err(from_datafusion)?;
    let peers = crate::rules::peers::PeerFrames;
    state.register_function_rewrite(Arc::new(peers)).map_err(from_datafusion)?;
    let times = crate::rules::time_of_day_frames::TimeOfDayFrames;
    state.register_function_rewrite(Arc::new(times)).map_err(from_datafusion)?;
    stratalog_functions::register(&mut state).map_err(from_datafusion)?;
    let jsonb_key = state.udf(stratalog_functions::JSONB_KEY).map_err(from_datafusion)?;
    let like = state.udf("regexp_like").map_err(from_datafusion)?;
    state
        .register_function_rewrite(Arc::new(RegularExpressions::new(like)))
        .map_err(from_datafusion)?;
    let registered = state.scalar_functions().clone();
    for function in registered.values().map(Arc::clone) {
        state
            .register_udf(calls::with_signatures(function, &registered))
            .map_err(from_datafusion)?;
    }
    state.register_udf(crate::rules::named_casts::function()).map_err(from_datafusion)?;
    state.register_udf(crate::rules::frames::offset_function()).map_err(from_datafusion)?;
    state.register_udf(crate::rules::cases::function()).map_err(from_datafusion)?;
    state.register_udf(crate::rules::array_calls::function()).map_err(from_datafusion)?;
    // After the literals have their types.
    state.register_function_rewrite(Arc::new(CommonTypes)).map_err(from_datafusion)?;
    state.register_function_rewrite(Arc::new(AlignedTimes)).map_err(from_datafusion)?;
    state.register_function_rewrite(Arc::new(DateShifts)).map_err(from_datafusion)?;
    let wide = crate::rules::wide_numerics::WideNumerics;
    state.register_function_rewrite(Arc::new(wide)).map_err(from_datafusion)?;
    state.register_function_rewrite(Arc::new(LikeCalls::default())).map_err(from_datafusion)?;
    let null_members = crate::rules::null_members::NullMembers;
    state.register_function_rewrite(Arc::new(null_members)).map_err(from_datafusion)?;
    let concat_arguments = crate::rules::concat_arguments::ConcatArguments;
    state.register_function_rewrite(Arc::new(concat_arguments)).map_err(from_datafusion)?;
    state.register_function_rewrite(Arc::new(CountedRecords)).map_err(from_datafusion)?;
    state.register_function_rewrite(Arc::new(RoundedDigits)).map_err(from_datafusion)?;
    let bins = crate::rules::fine_bins::FineBins;
    state.register_function_rewrite(Arc::new(bins)).map_err(from_datafusion)?;
    let lengths = IntervalComparisons::default();
    state.register_function_rewrite(Arc::new(lengths)).map_err(from_datafusion)?;
    // Type coercion adds casts. Such casts depend on the session's time zone like written casts.
    let mut rewrites = state.analyzer().function_rewrites().to_vec();
    rewrites.insert(0, Arc::new(OverloadResolution { widths_are_known: true }));
    state.add_analyzer_rule(Arc::new(ApplyFunctionRewrites::new(rewrites)));
    state.add_analyzer_rule(Arc::new(common_types::ValuesTypes));
    state.add_analyzer_rule(Arc::new(TypeCoercion::new()));
    state.add_analyzer_rule(Arc::new(crate::rules::frames::Frames));
    // Before the next rule: a subquery can tell equal values of jsonb apart.
    state.add_analyzer_rule(Arc::new(crate::rules::jsonb_keys::JsonbKeys::new(jsonb_key)));
    state.add_analyzer_rule(Arc::new(crate::rules::decorrelation::Decorrelation));
    state.add_analyzer_rule(Arc::new(crate::rules::mark_joins::MarkJoins));
    state.add_analyzer_rule(Arc::new(crate::rules::dependencies::HiddenDependencies));
    state.add_analyzer_rule(Arc::new(crate::rules::float_keys::FloatKeys::default()));
    state.add_analyzer_rule(Arc::new(crate::rules::window_keys::WindowKeys));
    state.add_analyzer_rule(Arc::new(crate::rules::list_nulls::ListNulls));
    state.add_analyzer_rule(Arc::new(crate::rules::union_names::UnionNames));
    let array_agg = state.udaf("array_agg").map_err(from_datafusion)?;
    state.add_analyzer_rule(Arc::new(crate::rules::aggregate_orders::AggregateOrders::new(
        array_agg,
    )));
    // The last rule: no later rule adds calls.
    let metering = vec![Arc::new(Metering::default()) as Arc<dyn FunctionRewrite + Send + Sync>];
    state.add_analyzer_rule(Arc::new(ApplyFunctionRewrites::new(metering)));
    Ok(state)
}

/// DataFusion's optimizer rules, with this project's rules among them.
fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let having = crate::rules::having::HavingFilters(PushDownFilter::new());
    let having: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(having);
    let sums = crate::rules::distinct_sums::DistinctSums::rule();
    let simplified = crate::rules::guarded_simplifier::GuardedSimplifier::rule();
    let mut rules = Optimizer::new().rules;
    for rule in &mut rules {
        for ours in [&having, &sums, &simplified] {
            if rule.name() == ours.name() {
                *rule = Arc::clone(ours);
            }
        }
    }
    rules.insert(0, Arc::new(LikeCalls::default()));
    rules.push(Arc::new(crate::rules::cast_nulls::CastNulls));
    rules.into_iter().map(stoppable_rules::optimizer_rule).collect()
}

fn runtime(settings: &QuerySettings) -> Result<Arc<RuntimeEnv>> {
    let disk = match &settings.spill_directory {
        Some(directory) => DiskManagerBuilder::default()
            .with_mode(DiskManagerMode::Directories(vec![directory.clone()]))
            .with_max_temp_directory_size(settings.spill_bytes_max),
        None => DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled),
    };
    let named = std::num::NonZeroUsize::new(CONSUMERS_NAMED).unwrap_or(std::num::NonZeroUsize::MIN);
    let pool = TrackConsumersPool::new(StatementPool::new(settings.memory_bytes_max), named);
    RuntimeEnvBuilder::new()
        .with_disk_manager_builder(disk)
        .with_memory_pool(Arc::new(pool))
        .build_arc()
        .map_err(|error| {
            Error::new(
                ErrorKind::Io,
                format!("cannot use the spill directory {:?}: {error}", settings.spill_directory),
            )
        })
}
