//! The backward pass: the gradient of x is the gradient of the result, rotated back, which needs nothing of x. The
//! gradients of cos and sin need x, which is kept if they are tracked.

use burn_core::backend::autodiff::Autodiff;
use burn_core::backend::autodiff::checkpoint::base::Checkpointer;
use burn_core::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_core::backend::autodiff::grads::Gradients;
use burn_core::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn_core::backend::flex::FlexTensor;
use burn_core::backend::tensor::FloatTensor;
use burn_core::backend::{Flex, TensorMetadata};
use rope_core::{Direction, Rope};

use crate::flex;
use crate::flex::operation::RotaryOperation;

impl<C: CheckpointStrategy> RotaryOperation for Autodiff<Flex, C> {
    fn rotary(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        rope: Rope,
    ) -> FloatTensor<Self> {
        let rows_are_tracked = cos.is_tracked() || sin.is_tracked();
        let ((x, x_node), (cos, cos_node), (sin, sin_node)) =
            (x.into_parts(), cos.into_parts(), sin.into_parts());
        let prepared = Rotary
            .prepare::<C>([x_node, cos_node, sin_node])
            .compute_bound();
        match prepared.stateful() {
            OpsKind::Tracked(tracked) => {
                let input = rows_are_tracked.then(|| x.clone());
                let y = flex::rotate(x, &cos, &sin, rope);
                let state = State {
                    cos,
                    sin,
                    input,
                    rope,
                };
                tracked.finish(state, y)
            }
            OpsKind::UnTracked(untracked) => untracked.finish(flex::rotate(x, &cos, &sin, rope)),
        }
    }
}

/// The step of the graph.
#[derive(Debug)]
struct Rotary;

/// The state of the step.
#[derive(Clone, Debug)]
struct State {
    cos: FlexTensor,
    sin: FlexTensor,
    /// x, if cos or sin are tracked.
    input: Option<FlexTensor>,
    rope: Rope,
}

impl Backward<Flex, 3> for Rotary {
    type State = State;

    fn backward(
        self,
        ops: Ops<State, 3>,
        gradients: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<Flex>(&ops.node);
        let State {
            cos,
            sin,
            input,
            rope,
        } = ops.state;
        let [x_node, cos_node, sin_node] = ops.parents;
        if let Some(x) = input {
            let shape = cos.shape().dims();
            let sums = flex::cos_sin_gradients(x, dy.clone(), shape, rope);
            for (node, sums) in [cos_node, sin_node].into_iter().zip(sums) {
                if let Some(node) = node {
                    gradients.register::<Flex>(node.id, sums);
                }
            }
        }
        if let Some(node) = x_node {
            let back = rope.with_direction(Direction::Transpose);
            gradients.register::<Flex>(node.id, flex::rotate(dy, &cos, &sin, back));
        }
    }
}
