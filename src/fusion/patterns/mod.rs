//! The patterns, a file for each group.

mod bmb;
mod conv;
mod conv_block;
mod conv_training;
mod conv_transpose;
mod matmul;
mod mlp;
mod movement;
mod norm;
mod pointwise;
mod pool;
mod rows;
mod sdp;
mod sdp_backward;
pub(super) mod shared;

use std::sync::LazyLock;

use super::pattern::Pattern;

/// All patterns in the order in which they choose.
pub(super) fn all() -> &'static [Pattern] {
    static ALL: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
        let groups = [
            sdp_backward::patterns(),
            sdp::patterns(),
            mlp::patterns(),
            conv_block::patterns(),
            bmb::patterns(),
            matmul::patterns(),
            conv::patterns(),
            conv_training::patterns(),
            conv_transpose::patterns(),
            pool::patterns(),
            norm::patterns(),
            rows::patterns(),
            movement::patterns(),
            pointwise::patterns(),
        ];
        let mut all: Vec<Pattern> = groups.into_iter().flatten().collect();
        all.sort_by_key(|pattern| std::cmp::Reverse(pattern.priority));
        all
    });
    &ALL
}
