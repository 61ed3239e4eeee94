//! Local response normalisation and its gradient.

use anydnn_backend::op::{Pooling, PoolingAlgorithm};
use anydnn_backend::{Arg, Attributes, DataType, Dims, MemoryDesc};

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::kinds::{LRN_ACROSS, LRN_WITHIN, arg, dnnl_backward_data, kind, query};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::primitive::{Facts, closed, describe, is_training, open, same_dims};
use crate::recipe::{Formula, Recipe, Tensor, settled};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes local response normalisation: `x * (k + alpha / size * sum of neighbours' squares)^-beta`, across channels or within each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_lrn_forward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    alg_kind: dnnl_alg_kind_t,
    src_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    local_size: dnnl_dim_t,
    alpha: f32,
    beta: f32,
    k: f32,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        is_training(prop_kind)?;
        // SAFETY: the caller passes null or descriptors that live.
        let (src, dst) = unsafe { (closed(src_desc, "src_desc")?, open(dst_desc, "dst_desc")?) };
        attr.check_plain()?;
        same_dims(&src, &dst, "dst_desc")?;
        let dst = settled(dst, &src)?;
        let lrn = Lrn::of(&src, alg_kind, local_size, [alpha, beta, k])?;
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        let base = lrn.base(recipe, &src)?;
        let mut f = Formula::new(src.dims());
        let (x, base) = (f.tensor(&src), f.tensor(&base));
        let base = lrn.shifted(&mut f, base);
        let factor = f.power(base, -beta);
        let y = f.mul(x, factor);
        f.result(y, &dst);
        recipe.formula(f)?;
        Ok(lrn.facts(prop_kind, alg_kind, local_size))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_lrn_forward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Describes the gradient of local response normalisation from its source.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_lrn_backward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    alg_kind: dnnl_alg_kind_t,
    diff_src_desc: const_dnnl_memory_desc_t,
    diff_dst_desc: const_dnnl_memory_desc_t,
    src_desc: const_dnnl_memory_desc_t,
    local_size: dnnl_dim_t,
    alpha: f32,
    beta: f32,
    k: f32,
    _hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let (diff_src, diff_dst, src) = unsafe {
            (
                open(diff_src_desc, "diff_src_desc")?,
                open(diff_dst_desc, "diff_dst_desc")?,
                closed(src_desc, "src_desc")?,
            )
        };
        attr.check_plain()?;
        same_dims(&src, &diff_src, "diff_src_desc")?;
        same_dims(&src, &diff_dst, "diff_dst_desc")?;
        let (diff_dst, diff_src) = (settled(diff_dst, &src)?, settled(diff_src, &src)?);
        let lrn = Lrn::of(&src, alg_kind, local_size, [alpha, beta, k])?;
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let diff_dst = recipe.operand(arg::DIFF_DST, (query::DIFF_DST, 0), diff_dst);
        let diff_src = recipe.operand(arg::DIFF_SRC, (query::DIFF_SRC, 0), diff_src);
        let base = lrn.base(recipe, &src)?;
        let inner = recipe.temporary(MemoryDesc::new(src.dims().clone(), DataType::F32));
        let mut f = Formula::new(src.dims());
        let (x, dy, w) = (f.tensor(&src), f.tensor(&diff_dst), f.tensor(&base));
        let w = lrn.shifted(&mut f, w);
        let steep = f.power(w, -beta - 1.0);
        let product = f.mul(x, dy);
        let product = f.mul(product, steep);
        f.result(product, &inner);
        recipe.formula(f)?;
        let around = lrn.averaged(recipe, &inner)?;
        let mut f = Formula::new(src.dims());
        let (x, dy, w, around) = (f.tensor(&src), f.tensor(&diff_dst), f.tensor(&base), f.tensor(&around));
        let w = lrn.shifted(&mut f, w);
        let factor = f.power(w, -beta);
        let direct = f.mul(dy, factor);
        let through = f.mul(x, around);
        let through = f.times(through, 2.0 * lrn.alpha * beta);
        let gradient = f.sub(direct, through);
        f.result(gradient, &diff_src);
        recipe.formula(f)?;
        Ok(lrn.facts(dnnl_backward_data, alg_kind, local_size))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_lrn_backward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

struct Lrn {
    /// The tensor as an image `[N, C, spatial..]` whose windows are the neighbourhoods.
    image: Dims,
    window: Dims,
    /// The factor of the average of squares: the window may be larger or smaller than what sums are divided by.
    alpha: f32,
    told: [f32; 3],
}

impl Lrn {
    fn of(src: &MemoryDesc, algorithm: dnnl_alg_kind_t, size: dnnl_dim_t, told: [f32; 3]) -> Outcome<Self> {
        let dims = src.dims();
        let size = usize::try_from(size).ok().filter(|&size| size > 0);
        let size = size.ok_or_else(|| Failure::invalid("local_size is not positive"))?;
        if src.rank() < 2 || (algorithm == LRN_WITHIN && !(3..=5).contains(&src.rank())) {
            return Err(Failure::invalid(format!("the source {dims} has too few or many dimensions")));
        }
        // Neighbours lie as far on both sides, so that windows are odd.
        let odd = (size - 1) / 2 * 2 + 1;
        let (image, window) = match algorithm {
            LRN_ACROSS => {
                let positions = dims[2..].iter().product::<usize>();
                (Dims::from([dims[0], 1, dims[1], positions]), Dims::from([odd, 1]))
            }
            LRN_WITHIN => (dims.clone(), dims[2..].iter().map(|_| odd).collect()),
            other => return Err(Failure::invalid(format!("{other:#x} is not an LRN algorithm"))),
        };
        let power = if algorithm == LRN_ACROSS { 1 } else { window.len() as i32 };
        let alpha = told[0] * (odd as f32 / size as f32).powi(power);
        Ok(Self { image, window, alpha, told })
    }

    /// The average of neighbours' squares.
    fn base(&self, recipe: &mut Recipe, src: &Tensor) -> Outcome<Tensor> {
        let squares = recipe.temporary(MemoryDesc::new(src.dims().clone(), DataType::F32));
        let mut f = Formula::new(src.dims());
        let x = f.tensor(src);
        let square = f.mul(x, x);
        f.result(square, &squares);
        recipe.formula(f)?;
        self.averaged(recipe, &squares)
    }

    /// The average over neighbours, those outside counting as zero.
    fn averaged(&self, recipe: &mut Recipe, dense: &Tensor) -> Outcome<Tensor> {
        let result = recipe.temporary(dense.desc.clone());
        let pads: Dims = self.window.iter().map(|n| n / 2).collect();
        let op = Pooling::new(PoolingAlgorithm::AverageIncludePadding, self.window.clone())
            .with_pads(pads.clone(), pads);
        let (from, to) = (dense.dense_as(self.image.clone())?, result.dense_as(self.image.clone())?);
        recipe.step(op, &[(Arg::SRC, &from), (Arg::DST, &to)], &Attributes::default())?;
        Ok(result)
    }

    fn shifted(&self, f: &mut Formula, average: usize) -> usize {
        let scaled = f.times(average, self.alpha);
        f.plus(scaled, self.told[2])
    }

    fn facts(&self, prop: dnnl_prop_kind_t, algorithm: dnnl_alg_kind_t, size: dnnl_dim_t) -> Facts {
        let [alpha, beta, k] = self.told;
        Facts::new(kind::LRN, prop)
            .algorithm(algorithm)
            .integer(query::LOCAL_SIZE, size)
            .float(query::ALPHA, alpha)
            .float(query::BETA, beta)
            .float(query::K, k)
    }
}
