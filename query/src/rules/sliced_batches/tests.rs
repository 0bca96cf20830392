use arrow::{
    array::{Array as _, AsArray, Int64Array},
    datatypes::{Field, Int32Type, Schema},
};
use datafusion::{
    datasource::memory::MemorySourceConfig,
    execution::TaskContext,
    functions::{string::repeat, unicode::character_length},
    physical_expr::expressions::{col, lit},
    physical_plan::{collect, projection::ProjectionExpr},
};
use stratalog_functions::metered::metered;

use super::*;

fn call(
    function: Arc<datafusion::logical_expr::ScalarUDF>,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    schema: &Schema,
) -> Arc<dyn PhysicalExpr> {
    let options = Arc::default();
    Arc::new(ScalarFunctionExpr::try_new(function, arguments, schema, options).unwrap())
}

fn table(rows: i64) -> (Arc<Schema>, Arc<dyn ExecutionPlan>) {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let column: arrow::array::ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
    let plan = MemorySourceConfig::try_new_exec(&[vec![batch]], Arc::clone(&schema), None);
    (schema, plan.unwrap())
}

async fn projected(expr: Arc<dyn PhysicalExpr>, rows: i64) -> Vec<RecordBatch> {
    let (_, leaf) = table(rows);
    let column = ProjectionExpr::new(expr, "x".to_string());
    let plan = Arc::new(ProjectionExec::try_new(vec![column], leaf).unwrap());
    collect(slice(plan).unwrap(), Arc::new(TaskContext::default())).await.unwrap()
}

fn long(schema: &Schema) -> Arc<dyn PhysicalExpr> {
    call(metered(repeat()), vec![lit("x"), lit(1_i64 << 20)], schema)
}

#[tokio::test]
async fn long_rows_come_in_many_batches() {
    let (schema, _) = table(1);
    let counts = datafusion::physical_expr::expressions::binary(
        col("n", &schema).unwrap(),
        datafusion::logical_expr::Operator::Plus,
        lit(1_i64 << 20),
        &schema,
    );
    let expr = call(metered(repeat()), vec![lit("x"), counts.unwrap()], &schema);
    let batches = projected(expr, 100).await;
    assert!(batches.len() > 3, "{}", batches.len());
    let lengths: Vec<usize> = batches
        .iter()
        .flat_map(|batch| {
            let texts = arrow::compute::cast(batch.column(0), &DataType::Utf8View).unwrap();
            let texts = texts.as_string_view().clone();
            (0..texts.len()).map(|row| texts.value(row).len()).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(lengths, (0..100).map(|n| n + (1 << 20)).collect::<Vec<usize>>());
}

#[tokio::test]
async fn long_constants_come_in_many_batches() {
    let (schema, _) = table(1);
    let batches = projected(long(&schema), 100).await;
    assert!(batches.len() > 3, "{}", batches.len());
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 100);
}

#[tokio::test]
async fn constant_lists_come_in_many_batches() {
    let numbers = (0..1 << 17).map(Some).collect::<Vec<Option<i32>>>();
    let list = arrow::array::ListArray::from_iter_primitive::<Int32Type, _, _>([Some(numbers)]);
    let batches = projected(lit(ScalarValue::List(Arc::new(list))), 200).await;
    assert!(batches.len() > 2, "{}", batches.len());
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 200);
    let short =
        arrow::array::ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)])]);
    assert_eq!(projected(lit(ScalarValue::List(Arc::new(short))), 200).await.len(), 1);
}

#[test]
fn a_short_result_of_long_values_is_one_array() {
    let (schema, _) = table(1);
    let counts = col("n", &schema).unwrap();
    let texts = call(metered(repeat()), vec![lit("x".repeat(1 << 16)), counts], &schema);
    let length = call(character_length(), vec![texts], &schema);
    let column: arrow::array::ArrayRef =
        Arc::new(Int64Array::from_iter_values((0..1000).map(|n| n % 100)));
    let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
    let lengths = SlicedExpr::of(&length).evaluate(&batch).unwrap().into_array(1000).unwrap();
    let lengths = lengths.as_primitive::<Int32Type>();
    assert_eq!((lengths.len(), lengths.value(0), lengths.value(99)), (1000, 0, 99 << 16));
}

#[test]
fn short_expressions_stay_as_they_are() {
    let (schema, leaf) = table(1);
    let column = ProjectionExpr::new(col("n", &schema).unwrap(), "x".to_string());
    let plan: Arc<dyn ExecutionPlan> =
        Arc::new(ProjectionExec::try_new(vec![column], leaf).unwrap());
    assert!(slice(plan).unwrap().downcast_ref::<ProjectionExec>().is_some());
}
