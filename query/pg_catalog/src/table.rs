//! Makes system tables available as tables of DataFusion. Each scan computes the rows again.

use std::sync::Arc;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider},
    common::Result,
    datasource::TableType,
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::Expr,
    physical_plan::{
        ExecutionPlan,
        stream::RecordBatchStreamAdapter,
        streaming::{PartitionStream, StreamingTableExec},
    },
};
use stratalog_functions::failed;

use crate::{CatalogContext, fill, rows::Rows, spec::Table};

/// A system table in the view of one session.
#[derive(Debug, Clone)]
pub(crate) struct SystemTable {
    table: &'static Arc<Table>,
    context: Arc<CatalogContext>,
}

impl SystemTable {
    pub(crate) fn new(table: &'static Arc<Table>, context: Arc<CatalogContext>) -> Self {
        Self { table, context }
    }

    fn batches(&self) -> stratalog_model::Result<Vec<RecordBatch>> {
        let mut batches: Vec<RecordBatch> = fill::fixed(self.table).into_iter().cloned().collect();
        let mut rows = Rows::new(self.table);
        fill::live(self.table, &self.context, &mut rows)?;
        batches.push(rows.finish()?);
        Ok(batches)
    }
}

/// The oid of a system table; `None` for any other table.
pub fn system_table_oid(table: &dyn TableProvider) -> Option<i64> {
    table.downcast_ref::<SystemTable>().map(|table| table.table.oid)
}

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.table.arrow)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let stream: Arc<dyn PartitionStream> = Arc::new(self.clone());
        let projected =
            projection.map(Vec::as_slice).map(<[usize]>::iter).map(|at| at.copied().collect());
        let projected: Option<Vec<usize>> = projected;
        Ok(Arc::new(StreamingTableExec::try_new(
            Arc::clone(&self.table.arrow),
            vec![stream],
            projected.as_ref(),
            None,
            false,
            limit,
        )?))
    }
}

impl PartitionStream for SystemTable {
    fn schema(&self) -> &SchemaRef {
        &self.table.arrow
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let table = self.clone();
        let batches = match table.batches() {
            Ok(batches) => batches.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) => vec![Err(failed(error))],
        };
        let schema = Arc::clone(&self.table.arrow);
        Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter(batches)))
    }
}
