//! RANGE frames without an offset, which end at the peers of a row (rows with an equal sort key),
//! for any type of the ORDER BY. DataFusion refuses types without a difference, for example uuid.

use arrow::datatypes::DataType;
use datafusion::{
    common::{DFSchema, Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        Expr, ExprSchemable, WindowFrame, WindowFrameBound, WindowFrameUnits,
        expr_rewriter::FunctionRewrite,
    },
};

/// Rewrites RANGE frames without an offset to equivalent GROUPS frames. Runs before type coercion.
#[derive(Debug)]
pub struct PeerFrames;

impl FunctionRewrite for PeerFrames {
    fn name(&self) -> &str {
        "peer_frames"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::WindowFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        let frame = &call.params.window_frame;
        let compares_only =
            |by: &Expr| by.get_type(schema).is_ok_and(|data_type| has_no_difference(&data_type));
        let is_range = frame.units == WindowFrameUnits::Range
            && has_no_offset(&frame.start_bound)
            && has_no_offset(&frame.end_bound);
        if !is_range || !call.params.order_by.iter().any(|by| compares_only(&by.expr)) {
            return Ok(Transformed::no(Expr::WindowFunction(call)));
        }
        let (start, end) = (frame.start_bound.clone(), frame.end_bound.clone());
        call.params.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start, end);
        Ok(Transformed::yes(Expr::WindowFunction(call)))
    }
}

fn has_no_offset(bound: &WindowFrameBound) -> bool {
    match bound {
        WindowFrameBound::CurrentRow => true,
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => {
            offset.is_null()
        }
    }
}

fn has_no_difference(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
            | DataType::Struct(_)
    )
}
