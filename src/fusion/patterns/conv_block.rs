//! Residual blocks of convolutions, and stages of several blocks.

use super::shared::{QUANTIZED, bias, converted, quantized_weights};
use crate::formula::{Expr, Step, any, it, op, steps, times};
use crate::fusion::pattern::Pattern;
use crate::graph::OpKind::{Add, Convolution, Dequantize, Quantize, ReLU};

/// The most blocks of a stage behind its first: the longest stage of ResNeXt-101 has 23.
const MOST_BLOCKS: usize = 36;

pub(super) fn patterns() -> Vec<Pattern> {
    let stage =
        |first: Vec<Step>, others: Vec<Vec<Step>>| any().then_all(first).repeat(1..=MOST_BLOCKS, others);
    vec![
        Pattern::new(
            "conv_block/int8_stage",
            135,
            &["stages of ResNet-50, ResNet-34 and ResNeXt-101, quantised"],
            stage(
                vec![times(1..=1, vec![int8(Shortcut::Projection), int8(Shortcut::Identity)])],
                vec![int8(Shortcut::Identity)],
            ),
        ),
        Pattern::new(
            "conv_block/int8_projection",
            134,
            &["block with a convolution on its shortcut (ResNet-50, ResNet-34, ResNeXt-101), quantised"],
            any().then_all(int8(Shortcut::Projection)),
        ),
        Pattern::new(
            "conv_block/int8_identity",
            133,
            &["block with a plain shortcut (ResNet-50, ResNet-34, ResNeXt-101), quantised"],
            any().then_all(int8(Shortcut::Identity)),
        ),
        Pattern::new(
            "conv_block/stage",
            132,
            &["stages of ResNet-50, ResNet-34 and ResNeXt-101"],
            stage(
                vec![times(1..=1, vec![floats(Shortcut::Projection), floats(Shortcut::Identity)])],
                vec![floats(Shortcut::Identity)],
            ),
        ),
        Pattern::new(
            "conv_block/projection",
            131,
            &["block with a convolution on its shortcut (ResNet-50, ResNet-34, ResNeXt-101)"],
            any().then_all(floats(Shortcut::Projection)),
        ),
        Pattern::new(
            "conv_block/identity",
            130,
            &["block with a plain shortcut (ResNet-50, ResNet-34, ResNeXt-101)"],
            any().then_all(floats(Shortcut::Identity)),
        ),
    ]
}

/// What a block adds to the result of its convolutions.
#[derive(Clone, Copy)]
enum Shortcut {
    /// Its source.
    Identity,
    /// A convolution of its source.
    Projection,
}

/// A block of floats: one or two convolutions with `ReLU`, a last one, the shortcut and `ReLU`.
fn floats(shortcut: Shortcut) -> Vec<Step> {
    let conv = || op(Convolution).of([it(), any()]).then(bias());
    let path = it().repeat(1..=2, vec![steps![conv(), ReLU]]).then(conv());
    let shortcut = match shortcut {
        Shortcut::Identity => it(),
        Shortcut::Projection => conv(),
    };
    steps![op(Add).of([path, shortcut]), ReLU]
}

/// The same, every tensor between convolutions stored quantised.
fn int8(shortcut: Shortcut) -> Vec<Step> {
    let dequantize = || op(Dequantize).of([it()]).reads(QUANTIZED);
    let product = |src: Expr| op(Convolution).of([src, quantized_weights()]).each(converted()).then(bias());
    let block = |first: Expr, shortcut: Expr| {
        // The first convolution's source is dequantised for it alone or for the shortcut as well.
        let behind = || product(dequantize());
        let path = product(first).then(ReLU).then(Quantize);
        let path = path.repeat(0..=1, vec![steps![behind(), ReLU, Quantize]]).then(behind());
        op(Add).of([path, shortcut])
    };
    let own = match shortcut {
        Shortcut::Identity => block(dequantize(), dequantize()),
        // A projection may be quantised before it is added.
        Shortcut::Projection => block(
            dequantize(),
            product(dequantize()).then(times(0..=1, vec![steps![Quantize, dequantize()]])),
        ),
    };
    let shared = match shortcut {
        Shortcut::Identity => block(it(), it()),
        Shortcut::Projection => {
            block(it(), product(it()).then(times(0..=1, vec![steps![Quantize, dequantize()]])))
        }
    };
    steps![times(1..=1, vec![steps![own], steps![dequantize(), shared]]), ReLU, Quantize]
}
