//! The DataFusion state that all sessions share: functions in their layers, and all rules in their
//! order.

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    execution::{
        FunctionRegistry, SessionStateDefaults,
        context::QueryPlanner,
        runtime_env::RuntimeEnv,
        session_state::{SessionState, SessionStateBuilder},
    },
    logical_expr::expr_rewriter::FunctionRewrite,
    optimizer::AnalyzerRule,
    optimizer::analyzer::{
        function_rewrite::ApplyFunctionRewrites,
        resolve_grouping_function::ResolveGroupingFunction, type_coercion::TypeCoercion,
    },
    optimizer::{Optimizer, OptimizerRule, push_down_filter::PushDownFilter},
    physical_optimizer::PhysicalOptimizerRule,
    prelude::SessionConfig,
};
use stratalog_functions::{governor, metered::Metering};
use stratalog_model::Result;

use crate::{
    SEARCH_PATH_SCHEMA,
    errors::from_datafusion,
    rules::{
        aggregates::{
            aggregate_inputs::AggregateInputs, aggregate_orders::AggregateOrders, canonical_nan,
            distinct_bits, distinct_sums::DistinctSums, extremes, interval_aggregates, pairs,
            percentile, real_sums, signed_counts, sums, variances,
        },
        calendar::{
            aligned_times::AlignedTimes, date_shifts::DateShifts, date_trunc, far_times::FarTimes,
            fine_bins::FineBins, interval::IntervalOperators, lengths::IntervalComparisons,
            times::TimeOperators,
        },
        equality::{
            by_length::RowsByLength, float_keys::FloatKeys, jsonb_keys::JsonbKeys,
            list_nulls::ListNulls, records::CountedRecords,
        },
        functions::{
            aliases, bytes,
            calls::{self, OverloadResolution},
            concat_arguments::{self, ConcatArguments},
            domain, linear_search, rounding, series,
        },
        limits::{
            bounded_results, charged_aggregates, long_text,
            stoppable_rules::{self, ExpressionStopCheck},
        },
        operators::{
            array_membership::{self, ArrayMembership},
            checked_arithmetic::CheckedArithmetic,
            comparison_check::ComparisonCheck,
            like::LikeCalls,
            null_members::NullMembers,
            regular_expressions::RegularExpressions,
            smallint_shifts::SmallintShifts,
        },
        planner_defects::{
            cast_nulls::CastNulls, counted_sets::CountedSets, dependencies::HiddenDependencies,
            guarded_simplifier::GuardedSimplifier, push_down::CorrectedPushDown,
            union_names::UnionNames,
        },
        subqueries::{
            decorrelation::Decorrelation, lateral_rows::LateralRows, mark_joins::MarkJoins,
            outer_types::OuterTypes,
        },
        types::{
            array_calls::{self, RestoredArrays},
            cases::{self, RestoredCases},
            common_types::{self, CommonTypes, SetTypes, UnionTypes},
            digits::RoundedDigits,
            floats::{FloatPromotion, Quotients, RealOperands},
            jsonb_arrays::JsonbArrays,
            literals::{IntegerLiterals, IntegerOperands, JoinedOperands},
            named_casts::{self, NamedCasts},
            open_parameters::OpenParameters,
            relation_types::RelationTypes,
            wide_numerics::WideNumerics,
        },
        windows::{
            frames::{self, Frames},
            peers::PeerFrames,
            rank_types,
            row_order::WindowRowOrder,
            shift_types, sliding_windows,
            time_of_day_frames::TimeOfDayFrames,
            window_keys::WindowKeys,
        },
    },
    types::SqlTypes,
};

/// Scalar functions of DataFusion that are not registered. Their arguments determine the length of
/// an array, which could exceed any memory budget. The table functions with these names produce
/// their rows in batches, and stay.
const LEFT_OUT: &[&str] = &["range", "generate_series"];

/// The parts of the state that the query engine provides.
pub struct EngineParts {
    /// The DataFusion settings, for example the number of partitions and the batch size.
    pub config: SessionConfig,
    /// The memory and disk budgets.
    pub runtime: Arc<RuntimeEnv>,
    /// The planner for the engine's own plan nodes.
    pub query_planner: Arc<dyn QueryPlanner + Send + Sync>,
    /// The rules for physical plans, in the order of execution.
    pub physical_rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
}

impl std::fmt::Debug for EngineParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineParts").finish_non_exhaustive()
    }
}

/// Builds the state from which every session starts.
///
/// # Errors
/// An error if DataFusion refuses a function or a rule.
pub fn build(engine: EngineParts) -> Result<SessionState> {
    governor::install();
    let mut config = engine
        .config
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema("", SEARCH_PATH_SCHEMA)
        .with_information_schema(false);
    let options = config.options_mut();
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.recursion_limit =
        datafusion::common::config::ConfigNonZeroUsize::try_new(1000).map_err(from_datafusion)?;
    // DataFusion's top-k aggregation allocates a group for each row of the LIMIT, which could
    // exceed any budget.
    options.optimizer.enable_topk_aggregation = false;
    options.execution.time_zone = Some("UTC".to_string());
    // This check compares the nullability of columns. The logical and the physical plan derive
    // nullability by different rules.
    options.execution.skip_physical_aggregate_schema_check = true;
    // Functions of this project replace DataFusion's functions with the same name or alias.
    let ours: HashSet<String> =
        stratalog_functions::documentation().into_iter().map(|page| page.name).collect();
    let functions = SessionStateDefaults::default_scalar_functions()
        .into_iter()
        .filter(|function| !LEFT_OUT.contains(&function.name()) && !ours.contains(function.name()))
        .map(bounded_results::bound)
        .map(linear_search::linear)
        .map(concat_arguments::beside_text)
        .map(extremes::among_floats)
        .map(bytes::of_bytes)
        .map(date_trunc::extend)
        .map(rounding::round_to_even)
        .map(domain::checked)
        .map(aliases::with_names)
        .map(common_types::unified)
        .map(array_membership::of_any_digits)
        .collect();
    let mut expr_planners = SessionStateDefaults::default_expr_planners();
    expr_planners.insert(0, Arc::new(stratalog_functions::operators()));
    expr_planners.insert(0, Arc::new(IntervalOperators::default()));
    expr_planners.insert(0, Arc::new(TimeOperators::default()));
    expr_planners.insert(0, Arc::new(stratalog_functions::Extract));
    expr_planners.insert(0, Arc::new(stratalog_functions::JsonSubscripts::default()));
    expr_planners.insert(0, Arc::new(JoinedOperands));
    expr_planners.insert(0, Arc::new(OpenParameters));
    expr_planners.push(Arc::new(Quotients));
    expr_planners.push(Arc::new(RealOperands));
    expr_planners.push(Arc::new(IntegerOperands));
    let builder = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(engine.runtime)
        .with_expr_planners(expr_planners)
        .with_relation_planners(vec![Arc::new(RelationTypes)])
        .with_analyzer_rules(
            [
                Arc::new(LateralRows) as Arc<dyn AnalyzerRule + Send + Sync>,
                Arc::new(SetTypes),
                Arc::new(CountedSets),
                Arc::new(ResolveGroupingFunction::new()),
                Arc::new(RowsByLength::default()),
                Arc::new(IntegerLiterals),
                Arc::new(ComparisonCheck),
                Arc::new(FloatPromotion),
                Arc::new(UnionTypes),
                Arc::new(OuterTypes),
                Arc::new(TypeCoercion::new()),
            ]
            .into_iter()
            .map(stoppable_rules::analyzer_rule)
            .collect(),
        )
        .with_query_planner(engine.query_planner)
        .with_optimizer_rules(optimizer_rules())
        .with_physical_optimizer_rules(engine.physical_rules)
        .with_type_planner(Arc::new(SqlTypes))
        .with_scalar_functions(functions)
        .with_higher_order_functions(SessionStateDefaults::default_higher_order_functions())
        .with_aggregate_functions(
            SessionStateDefaults::default_aggregate_functions()
                .into_iter()
                .map(sums::checked)
                .map(real_sums::of_reals)
                .map(extremes::of_floats)
                .map(interval_aggregates::averages)
                .map(long_text::bounded)
                .map(percentile::exact)
                .map(aliases::with_aliases)
                .map(variances::in_steps)
                .map(pairs::in_steps)
                .map(distinct_bits::group_by_group)
                .map(sliding_windows::without_subtraction)
                .map(canonical_nan::of_results)
                .map(signed_counts::of_results)
                .map(charged_aggregates::with_memory_charge)
                .collect(),
        )
        .with_window_functions(
            SessionStateDefaults::default_window_functions()
                .into_iter()
                .map(rank_types::of_integers)
                .map(shift_types::of_defaults)
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
    state.add_analyzer_rule(Arc::new(JsonbArrays));
    let cases = RestoredCases;
    state.register_function_rewrite(Arc::new(cases)).map_err(from_datafusion)?;
    let make_array = state.udf("make_array").map_err(from_datafusion)?;
    let arrays = RestoredArrays { make_array };
    state.register_function_rewrite(Arc::new(arrays)).map_err(from_datafusion)?;
    let members = ArrayMembership;
    state.register_function_rewrite(Arc::new(members)).map_err(from_datafusion)?;
    let shifts = SmallintShifts;
    state.register_function_rewrite(Arc::new(shifts)).map_err(from_datafusion)?;
    let named_casts = NamedCasts;
    state.register_function_rewrite(Arc::new(named_casts)).map_err(from_datafusion)?;
    state.register_function_rewrite(Arc::new(ExpressionStopCheck)).map_err(from_datafusion)?;
    state.register_function_rewrite(Arc::new(FarTimes)).map_err(from_datafusion)?;
    let overloads = OverloadResolution { widths_are_known: false };
    state.register_function_rewrite(Arc::new(overloads)).map_err(from_datafusion)?;
    let inputs = AggregateInputs;
    state.register_function_rewrite(Arc::new(inputs)).map_err(from_datafusion)?;
    let peers = PeerFrames;
    state.register_function_rewrite(Arc::new(peers)).map_err(from_datafusion)?;
    state.register_function_rewrite(Arc::new(TimeOfDayFrames)).map_err(from_datafusion)?;
    state.register_function_rewrite(Arc::new(WindowRowOrder)).map_err(from_datafusion)?;
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
    state.register_udf(named_casts::function()).map_err(from_datafusion)?;
    state.register_udf(frames::offset_function()).map_err(from_datafusion)?;
    state.register_udf(cases::function()).map_err(from_datafusion)?;
    state.register_udf(array_calls::function()).map_err(from_datafusion)?;
    // Runs after literals have their types.
    state.register_function_rewrite(Arc::new(CommonTypes)).map_err(from_datafusion)?;
    state.register_function_rewrite(Arc::new(AlignedTimes)).map_err(from_datafusion)?;
    state.register_function_rewrite(Arc::new(DateShifts)).map_err(from_datafusion)?;
    let wide = WideNumerics;
    state.register_function_rewrite(Arc::new(wide)).map_err(from_datafusion)?;
    state.register_function_rewrite(Arc::new(LikeCalls::default())).map_err(from_datafusion)?;
    let null_members = NullMembers;
    state.register_function_rewrite(Arc::new(null_members)).map_err(from_datafusion)?;
    let concat_arguments = ConcatArguments;
    state.register_function_rewrite(Arc::new(concat_arguments)).map_err(from_datafusion)?;
    state.register_function_rewrite(Arc::new(CountedRecords)).map_err(from_datafusion)?;
    state.register_function_rewrite(Arc::new(RoundedDigits)).map_err(from_datafusion)?;
    let bins = FineBins;
    state.register_function_rewrite(Arc::new(bins)).map_err(from_datafusion)?;
    let lengths = IntervalComparisons::default();
    state.register_function_rewrite(Arc::new(lengths)).map_err(from_datafusion)?;
    // Type coercion adds casts, which depend on the session's time zone like the casts of the
    // statement.
    let mut rewrites = state.analyzer().function_rewrites().to_vec();
    rewrites.insert(0, Arc::new(OverloadResolution { widths_are_known: true }));
    state.add_analyzer_rule(Arc::new(ApplyFunctionRewrites::new(rewrites)));
    state.add_analyzer_rule(Arc::new(common_types::ValuesTypes));
    state.add_analyzer_rule(Arc::new(TypeCoercion::new()));
    state.add_analyzer_rule(Arc::new(Frames));
    // Runs before the next rule, because a subquery can distinguish equal values of jsonb.
    state.add_analyzer_rule(Arc::new(JsonbKeys::new(jsonb_key)));
    state.add_analyzer_rule(Arc::new(Decorrelation));
    state.add_analyzer_rule(Arc::new(MarkJoins));
    state.add_analyzer_rule(Arc::new(HiddenDependencies));
    state.add_analyzer_rule(Arc::new(FloatKeys::default()));
    state.add_analyzer_rule(Arc::new(WindowKeys));
    state.add_analyzer_rule(Arc::new(ListNulls));
    state.add_analyzer_rule(Arc::new(UnionNames));
    let array_agg = state.udaf("array_agg").map_err(from_datafusion)?;
    state.add_analyzer_rule(Arc::new(AggregateOrders::new(array_agg)));
    // This rule must be the last, so that no later rule adds calls.
    let metering = vec![Arc::new(Metering::default()) as Arc<dyn FunctionRewrite + Send + Sync>];
    state.add_analyzer_rule(Arc::new(ApplyFunctionRewrites::new(metering)));
    Ok(state)
}

/// DataFusion's optimizer rules, together with this project's rules.
fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let push_down = CorrectedPushDown(PushDownFilter::new());
    let push_down: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(push_down);
    let sums = DistinctSums::rule();
    let simplified = GuardedSimplifier::rule();
    let mut rules = Optimizer::new().rules;
    for rule in &mut rules {
        for ours in [&push_down, &sums, &simplified] {
            if rule.name() == ours.name() {
                *rule = Arc::clone(ours);
            }
        }
    }
    rules.insert(0, Arc::new(LikeCalls::default()));
    rules.push(Arc::new(CastNulls));
    rules.into_iter().map(stoppable_rules::optimizer_rule).collect()
}
