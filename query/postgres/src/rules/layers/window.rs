//! Layers that wrap window functions.

use std::{fmt::Debug, hash::Hash, sync::Arc};

use arrow::{compute::SortOptions, datatypes::FieldRef};
use datafusion::{
    common::Result,
    logical_expr::{
        Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF,
        WindowUDFImpl,
        function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs},
    },
    physical_expr::PhysicalExpr,
};

/// A layer around a window function, with the overridable properties.
pub trait WindowLayer: Debug + Clone + Eq + Hash + Send + Sync + 'static {
    /// The Arrow field of the result: its type, nullability and metadata.
    fn field(&self, inner: &WindowUDF, arguments: WindowUDFFieldArgs<'_>) -> Result<FieldRef>;

    /// Creates an evaluator, which computes the results for the rows of a partition.
    fn evaluator(
        &self,
        inner: &WindowUDF,
        arguments: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        inner.partition_evaluator_factory(arguments)
    }
}

/// Wraps `function` in `layer`.
pub fn window(function: Arc<WindowUDF>, layer: impl WindowLayer) -> Arc<WindowUDF> {
    Arc::new(WindowUDF::new_from_impl(LayeredWindow { inner: function, layer }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct LayeredWindow<L> {
    inner: Arc<WindowUDF>,
    layer: L,
}

impl<L: WindowLayer> WindowUDFImpl for LayeredWindow<L> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn expressions(&self, arguments: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.inner().expressions(arguments)
    }

    fn partition_evaluator(
        &self,
        arguments: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        self.layer.evaluator(&self.inner, arguments)
    }

    fn field(&self, arguments: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        self.layer.field(&self.inner, arguments)
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.inner.inner().sort_options()
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.inner.inner().reverse_expr() {
            ReversedUDWF::Reversed(reversed) => {
                ReversedUDWF::Reversed(window(reversed, self.layer.clone()))
            }
            other => other,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn limit_effect(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(arguments)
    }
}
