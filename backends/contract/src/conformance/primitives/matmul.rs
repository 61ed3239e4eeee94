use super::{Trials, dense, f32, gapped, strided, transposed};
use crate::conformance::trial::Trial;
use crate::op::MatMul;
use crate::{
    Attributes, DataType, Eltwise, MemoryDesc, Op, PostOp, PrimitiveDesc, PrimitiveDescBuilder, Result,
    ScratchpadMode,
};

pub(super) fn trials(list: &mut Trials) {
    shapes(list);
    layouts(list);
    biases(list);
    types(list);
    open_layouts(list);
}

fn shapes(list: &mut Trials) {
    for (name, src, weights) in [
        ("one", &[1, 1][..], &[1, 1][..]),
        ("primes", &[7, 5], &[5, 3]),
        ("aligned", &[16, 32], &[32, 16]),
        ("past_a_tile", &[33, 65], &[65, 17]),
        ("row", &[1, 40], &[40, 37]),
        ("column", &[37, 40], &[40, 1]),
        ("outer_product", &[9, 1], &[1, 11]),
        ("deep", &[2, 517], &[517, 3]),
        ("batch", &[3, 4, 5], &[3, 5, 6]),
        ("broadcast_batches", &[2, 1, 3, 4], &[1, 3, 4, 5]),
        ("broadcast_weights", &[4, 3, 5], &[1, 5, 2]),
        ("rank_5", &[2, 1, 2, 3, 4], &[1, 3, 2, 4, 2]),
        ("no_rows", &[0, 4], &[4, 3]),
        ("no_terms", &[2, 0], &[0, 3]),
        ("no_batches", &[0, 2, 3], &[1, 3, 2]),
    ] {
        list.add(format!("matmul/shape/{name}"), || Trial::of(matmul(f32(src), f32(weights), DataType::F32)));
    }
}

fn layouts(list: &mut Trials) {
    let f32_type = DataType::F32;
    let mut add = |name: &str, make: &dyn Fn() -> Result<PrimitiveDescBuilder>| {
        list.add(format!("matmul/layout/{name}"), || Trial::of(make()?));
    };
    let builder = || PrimitiveDesc::builder(Op::MatMul(MatMul));
    add("transposed_src", &|| Ok(matmul(transposed(&[13, 21], f32_type)?, f32(&[21, 10]), f32_type)));
    add("transposed_weights", &|| Ok(matmul(f32(&[13, 21]), transposed(&[21, 10], f32_type)?, f32_type)));
    add("both_transposed", &|| {
        Ok(matmul(transposed(&[2, 6, 9], f32_type)?, transposed(&[2, 9, 5], f32_type)?, f32_type))
    });
    add("transposed_dst", &|| {
        Ok(builder().src(f32(&[13, 21])).weights(f32(&[21, 10])).dst(transposed(&[13, 10], f32_type)?))
    });
    add("leading_dimensions", &|| {
        Ok(builder()
            .src(gapped(&[13, 21], f32_type, 3, 0)?)
            .weights(gapped(&[21, 10], f32_type, 6, 2)?)
            .dst(gapped(&[13, 10], f32_type, 1, 5)?))
    });
    // Heads of attention: [batch, sequence, heads, head size] seen as [batch, heads, sequence, head size].
    add("heads", &|| {
        let heads = |sequence| strided(&[2, 3, sequence, 4], f32_type, &[sequence * 12, 4, 12, 1], 0);
        Ok(builder().src(heads(5)?).weights(heads(6)?.permuted(&[0, 1, 3, 2])?).dst(strided(
            &[2, 3, 5, 6],
            f32_type,
            &[90, 30, 6, 1],
            0,
        )?))
    });
    add("repeated_weights", &|| {
        Ok(matmul(f32(&[3, 4, 5]), f32(&[1, 5, 6]).broadcast_to([3, 5, 6])?, f32_type))
    });
    add("no_neighbours", &|| {
        Ok(builder()
            .src(strided(&[5, 7], f32_type, &[30, 2], 1)?)
            .weights(strided(&[7, 6], f32_type, &[3, 40], 0)?)
            .dst(strided(&[5, 6], f32_type, &[2, 20], 0)?))
    });
}

fn biases(list: &mut Trials) {
    for (name, bias) in [
        ("columns", &[6][..]),
        ("rows", &[5, 1]),
        ("scalar", &[1]),
        ("full", &[2, 5, 6]),
        ("batches", &[2, 1, 1]),
    ] {
        list.add(format!("matmul/bias/{name}"), || {
            Trial::of(matmul(f32(&[2, 5, 8]), f32(&[2, 8, 6]), DataType::F32).bias(f32(bias)))
        });
    }
    list.add("matmul/bias/no_terms", || {
        Trial::of(matmul(f32(&[3, 0]), f32(&[0, 4]), DataType::F32).bias(f32(&[4])))
    });
}

fn types(list: &mut Trials) {
    use DataType::{BF16, F16, F32, S8, S32, U8};
    for data_type in [F16, BF16] {
        list.add(format!("matmul/{data_type}/plain"), || {
            Trial::of(matmul(dense(&[17, 48], data_type), dense(&[48, 20], data_type), data_type))
        });
        list.add(format!("matmul/{data_type}/to_f32"), || {
            Trial::of(matmul(dense(&[16, 32], data_type), dense(&[32, 16], data_type), F32))
        });
        list.add(format!("matmul/{data_type}/transposed_weights_bias_gelu"), || {
            let attributes = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::GeluErf));
            let builder =
                matmul(dense(&[2, 6, 16], data_type), transposed(&[2, 16, 9], data_type)?, data_type);
            Trial::of(builder.bias(dense(&[9], data_type)).attributes(attributes))
        });
    }
    for (left, right) in [(S8, S8), (U8, S8)] {
        list.add(format!("matmul/{left}_{right}_to_s32"), || {
            Ok(Trial::of(matmul(dense(&[9, 36], left), dense(&[36, 10], right), S32))?.exact())
        });
    }
    list.add("matmul/s8_s8_to_s8/saturates", || {
        Ok(Trial::of(matmul(dense(&[9, 20], S8), dense(&[20, 10], S8), S8))?.exact())
    });
    list.add("matmul/u8_s8_to_f32/bias", || {
        Trial::of(matmul(dense(&[4, 20], U8), dense(&[20, 7], S8), F32).bias(f32(&[7])))
    });
    list.add("matmul/user_scratchpad", || {
        let attributes = Attributes::default().with_scratchpad(ScratchpadMode::User);
        Trial::of(matmul(f32(&[24, 70]), f32(&[70, 33]), F32).attributes(attributes))
    });
    list.add("matmul/deterministic", || {
        let attributes = Attributes::default().with_deterministic(true);
        Trial::of(matmul(f32(&[3, 200]), f32(&[200, 5]), F32).attributes(attributes))
    });
}

fn open_layouts(list: &mut Trials) {
    // Panels of the library's choice, whose number no tile divides, and rows that lie in batches of one.
    for (name, src, weights) in [
        ("panels_1", &[1, 40][..], &[40, 1200][..]),
        ("panels_2", &[2, 45], &[45, 329]),
        ("panels_5", &[5, 192], &[192, 68]),
        ("panels_8", &[8, 23], &[23, 105]),
        ("panels_12", &[12, 114], &[114, 246]),
        ("batches_of_one", &[3, 1, 8], &[1, 8, 257]),
        ("many_batches_of_one", &[40, 1, 8], &[1, 8, 257]),
    ] {
        list.add(format!("matmul/open/{name}"), || {
            let attributes = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Sigmoid));
            let builder = matmul(f32(src), MemoryDesc::any(weights, DataType::F32), DataType::F32);
            Trial::of(builder.attributes(attributes))
        });
    }
    for data_type in [DataType::F32, DataType::F16] {
        list.add(format!("matmul/open/{data_type}/weights"), || {
            Trial::of(matmul(dense(&[10, 24], data_type), MemoryDesc::any([24, 19], data_type), data_type))
        });
        list.add(format!("matmul/open/{data_type}/all"), || {
            let any = |dims: [usize; 3]| MemoryDesc::any(dims, data_type);
            let builder = PrimitiveDesc::builder(Op::MatMul(MatMul));
            Trial::of(builder.src(any([2, 6, 18])).weights(any([2, 18, 21])).dst(any([2, 6, 21])))
        });
    }
}

/// A product with a row-major result.
pub(super) fn matmul(src: MemoryDesc, weights: MemoryDesc, to: DataType) -> PrimitiveDescBuilder {
    let builder = PrimitiveDesc::builder(Op::MatMul(MatMul)).src(src).weights(weights);
    let dims = builder.clone().build().map(|desc| desc.dst().dims().clone()).unwrap_or_default();
    builder.dst(MemoryDesc::new(dims, to))
}
