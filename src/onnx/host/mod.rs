//! Operators computed on tensors in host memory: those that the graph has not or in part only, integers with all their digits, and elements
//! of any type that only move. Whatever else is known is computed by the host backend (`known.rs`). They are made to be right first: one
//! element after the other, in f64 and i64, but for integers (`whole.rs`).
#![allow(clippy::needless_for_each, reason = "changes of parallel lists read best as one line")]

mod activation;
mod attention;
mod call;
mod cast;
mod classical;
mod convolution;
mod einsum;
mod elementwise;
mod flex;
mod generate;
mod learning;
mod linear;
mod loss;
mod movement;
mod normalization;
mod numbers;
mod order;
mod padding;
mod pooling;
mod product;
mod quantization;
mod random;
mod recurrent;
mod reduction;
mod region;
mod resize;
mod sampling;
mod scatter;
mod signal;
mod stencils;
mod whole;

pub(super) use activation::unary;
pub(super) use attention::{attention, rotary_embedding};
pub(super) use call::Call;
pub(super) use cast::{bit_cast, cast};
pub(super) use classical::{
    imputer, label_encoder, linear_classifier, linear_regressor, normalizer, scaler, tree_classifier,
    tree_regressor,
};
pub(super) use convolution::{convolution_integer, deform, quantized_convolution};
pub(super) use einsum::{Terms, einsum};
pub(super) use elementwise::{binary, choose, clip, is_arithmetic, orders, variadic};
pub(super) use flex::{flex_scores, flex_values};
pub(super) use generate::{constant_of_shape, eye, mel, one_hot, range, window};
pub(super) use learning::{binarized, features, term_frequencies, tree_ensemble};
pub(super) use linear::{causal_convolution, linear_attention};
pub(super) use loss::{cross_entropy, negative_log_likelihood};
pub(super) use movement::{
    concat, depth_to_space, expand, gather, identity, reshape, reverse_sequence, slice, space_to_depth,
    split, squeeze, tile, transpose, triangle, unsqueeze,
};
pub(super) use normalization::{hardmax, local_response, lp, mean_variance, rms};
pub(super) use numbers::ints;
pub(super) use order::{arg, compress, cumulative, non_zero, top_k, unique};
pub(super) use padding::{center, column_to_image, pad};
pub(super) use pooling::{average, global_lp, lp_pool, max_pool, max_unpool};
pub(super) use product::{determinant, inverse, matmul, matmul_integer, quantized_matmul};
pub(super) use quantization::{dequantize, quantize};
pub(super) use random::{bernoulli, dropout, multinomial, random};
pub(super) use recurrent::{gru, lstm, rnn};
pub(super) use reduction::reduce;
pub(super) use region::{non_max_suppression, roi_align};
pub(super) use resize::{Lists, Resized, resize};
pub(super) use sampling::{affine_grid, grid_sample};
pub(super) use scatter::{
    element_places, gather_elements, gather_nd, list_places, scatter_elements, scatter_nd, tensor_scatter,
};
pub(super) use signal::{fourier, short_time_fourier};

use anydnn_backend::Result;

use crate::model::HostTensor;

/// Computes all outputs of a node.
pub(super) type Host = fn(&mut Call) -> Result<Vec<HostTensor>>;
