//! A graph of every fusion pattern in three sizes, to hold a fused partition against its operations one by one.

use anydnn::backend::Result;
use anydnn::graph::Graph;

/// The sizes by name.
const SIZES: [&str; 3] = ["small", "medium", "large"];

/// A pattern's graph as text, in which `{0}`, `{1}`, .. are the numbers of a size.
struct Row {
    pattern: &'static str,
    text: &'static str,
    sizes: [&'static [usize]; 3],
}

/// The cases, `PATTERN SIZE`.
pub(crate) fn cases() -> Vec<String> {
    let of_row = |row: &Row| SIZES.map(|size| format!("{} {size}", row.pattern));
    ROWS.iter().flat_map(of_row).collect()
}

/// The graph of a case; none where its name is no pattern's.
pub(crate) fn graph(case: &str) -> Option<Result<Graph>> {
    let (pattern, size) = case.split_once(' ')?;
    let row = ROWS.iter().find(|row| row.pattern == pattern)?;
    let at = SIZES.iter().position(|name| *name == size)?;
    let mut text = row.text.to_owned();
    for (i, number) in row.sizes[at].iter().enumerate() {
        text = text.replace(&format!("{{{i}}}"), &number.to_string());
    }
    Some(Graph::from_text(&text))
}

const fn row(pattern: &'static str, text: &'static str, sizes: [&'static [usize]; 3]) -> Row {
    Row { pattern, text, sizes }
}

/// Heads, rows and size of a head.
const ATTENTION: [&[usize]; 3] = [&[4, 32, 32], &[12, 128, 64], &[16, 384, 64]];
/// Groups, queries of each, rows, size of a head, and groups times queries.
const GROUPED: [&[usize]; 3] = [&[2, 2, 32, 32, 4], &[2, 4, 128, 64, 8], &[4, 4, 320, 64, 16]];
/// Rows, terms and columns of a product.
const PRODUCT: [&[usize]; 3] = [&[8, 64, 64], &[128, 512, 256], &[512, 768, 1024]];
/// Channels, extent, results and what remains of the extent by a kernel of three.
const IMAGE: [&[usize]; 3] = [&[16, 10, 16, 8], &[64, 30, 64, 28], &[128, 58, 128, 56]];
/// Rows and columns.
const ROWS_OF: [&[usize]; 3] = [&[16, 64], &[256, 768], &[4096, 1024]];

const ROWS: &[Row] = &[
    row(
        "sdp/float",
        "q f32 1x{0}x{1}x{2}; k f32 1x{0}x{1}x{2}; v f32 1x{0}x{1}x{2}; f f32 1 const; m f32 1x1x{1}x{1}; \
         s MatMul q k transpose_b=true; t Divide s f; u Add t m; p,l SoftMax u axis=-1 mode=inf_as_zero; o MatMul p v; \
         x StaticTranspose o order=[0,2,1,3]; y Reorder x; out l; out y",
        ATTENTION,
    ),
    row(
        "sdp/gqa",
        "q f32 1x{4}x{2}x{3}; k f32 1x{0}x{2}x{3}; v f32 1x{0}x{2}x{3}; f f32 1 const; \
         q5 StaticReshape q shape=[1,{0},{1},{2},{3}]; k5 StaticReshape k shape=[1,{0},1,{2},{3}]; \
         v5 StaticReshape v shape=[1,{0},1,{2},{3}]; s MatMul q5 k5 transpose_b=true; t Multiply s f; p SoftMax t axis=-1; \
         o MatMul p v5; y StaticReshape o shape=[1,{4},{2},{3}]",
        GROUPED,
    ),
    row(
        "sdp/mqa",
        "q f32 {3}x{2}; k f32 {2}x{1}; v f32 {1}x{2}; m f32 {0}x{1}x{1}; s MatMul q k; t StaticReshape s shape=[{0},{1},{1}]; \
         u Add t m; p SoftMax u axis=-1; w StaticReshape p shape=[{3},{1}]; o MatMul w v; y StaticReshape o shape=[{0},{1},{2}]",
        [&[4, 32, 32, 128], &[8, 128, 64, 1024], &[16, 320, 64, 5120]],
    ),
    row(
        "sdp/int8",
        "q u8 1x{0}x{1}x{2}; k s8 1x{0}x{1}x{2}; v s8 1x{0}x{1}x{2}; f f32 1 const; qf Dequantize q; kf Dequantize k; \
         vf Dequantize v; s MatMul qf kf transpose_b=true; t Divide s f; p SoftMax t axis=-1; pq:u8 Quantize p scales=[0.0039]; \
         pf Dequantize pq scales=[0.0039]; o MatMul pf vf; z:s8 Quantize o scales=[0.03]",
        ATTENTION,
    ),
    row(
        "sdp/compressed_kv",
        "q f32 1x{0}x{1}x{2}; k s8 1x{0}x{1}x{2}; v s8 1x{0}x{1}x{2}; ks f32 1; vs f32 1; kf DynamicDequantize k ks; \
         vf DynamicDequantize v vs; s MatMul q kf transpose_b=true; p SoftMax s axis=-1; o MatMul p vf",
        ATTENTION,
    ),
    row(
        "sdp/compressed_k",
        "q f32 1x{0}x{1}x{2}; k s8 1x{0}x{1}x{2}; v f32 1x{0}x{1}x{2}; ks f32 1; kf DynamicDequantize k ks; \
         s MatMul q kf transpose_b=true; p SoftMax s axis=-1; o MatMul p v",
        ATTENTION,
    ),
    row(
        "sdp/compressed_v",
        "q f32 1x{0}x{1}x{2}; k f32 1x{0}x{1}x{2}; v s8 1x{0}x{1}x{2}; vs f32 1; vf DynamicDequantize v vs; \
         s MatMul q k transpose_b=true; p SoftMax s axis=-1; o MatMul p vf",
        ATTENTION,
    ),
    row(
        "sdp/backward",
        "q f32 1x{0}x{1}x{2}; k f32 1x{0}x{1}x{2}; v f32 1x{0}x{1}x{2}; f f32 1 const; m f32 1x1x{1}x{1}; o f32 1x{0}x{1}x{2}; \
         d f32 1x{0}x{1}x{2}; l f32 1x{0}x{1}x1; s MatMul q k transpose_b=true; t Divide s f; u Add t m; e Subtract u l; p Exp e; \
         dv MatMul p d transpose_a=true; dp MatMul d v transpose_b=true; r Multiply o d; c ReduceSum r axes=[3] keep_dims=true; \
         g Subtract dp c; ds Multiply p g; dt Divide ds f; dq MatMul dt k; dk MatMul dt q transpose_a=true; out dq; out dk; out dv",
        ATTENTION,
    ),
    row(
        "sdp/gqa_backward",
        "q f32 1x{0}x{1}x{2}x{3}; k f32 1x{0}x1x{2}x{3}; v f32 1x{0}x1x{2}x{3}; f f32 1 const; o f32 1x{0}x{1}x{2}x{3}; \
         l f32 1x{0}x{1}x{2}x1; s MatMul q k transpose_b=true; t Divide s f; e Subtract t l; p Exp e; dw MatMul p o transpose_a=true; \
         dv ReduceSum dw axes=[2] keep_dims=true; dp MatMul o v transpose_b=true; ds SoftMaxBackward dp p axis=-1; dt Divide ds f; \
         dq MatMul dt k; dj MatMul dt q transpose_a=true; dk ReduceSum dj axes=[2] keep_dims=true; out dq; out dk; out dv",
        GROUPED,
    ),
    row(
        "mlp/gated",
        "x f32 {0}x{1}; u f32 {1}x{2} const; g f32 {1}x{2} const; d f32 {2}x{1} const; a MatMul x u; b MatMul x g; s Sigmoid b; \
         w Multiply s b; m Multiply a w; n MatMul m d; y Add n x",
        PRODUCT,
    ),
    row(
        "mlp/gate",
        "x f32 {0}x{1}; u f32 {1}x{2} const; g f32 {1}x{2} const; a MatMul x u; b MatMul x g; s GELU b; m Add s a",
        PRODUCT,
    ),
    row(
        "mlp/quantized_gated",
        "x f32 {0}x{1}; u s8 {1}x{2} const; g s8 {1}x{2} const; d s8 {2}x{1} const; s f32 1 const; uf DynamicDequantize u s; \
         gf DynamicDequantize g s; df DynamicDequantize d s; a MatMul x uf; b MatMul x gf; c ReLU b; m Multiply c a; y MatMul m df",
        PRODUCT,
    ),
    row(
        "mlp/quantized_gate",
        "x f32 {0}x{1}; u s8 {1}x{2} const; g s8 {1}x{2} const; s f32 1 const; uf DynamicDequantize u s; gf DynamicDequantize g s; \
         a MatMul x uf; b MatMul x gf; c ReLU b; m Multiply c a",
        PRODUCT,
    ),
    row(
        "bmb/binary_matmul_binary",
        "x f32 {0}x{1}; y f32 {0}x{1}; v f32 {1}x{2} const; u f32 {2}x{1} const; b f32 {1} const; s Add x y; a MatMul s v; \
         c MatMul a u; d Add c b; e Multiply d x; f Add e s",
        PRODUCT,
    ),
    row(
        "matmul/post_ops",
        "x f32 {0}x{1}; w f32 {1}x{2} const; b f32 {2} const; r f32 {0}x{2}; a MatMul x w; c BiasAdd a b; d GELU c; e Add d r",
        PRODUCT,
    ),
    row(
        "matmul/dropout",
        "x f32 {0}x{1}; w f32 {1}x{2} const; b f32 {2} const; z s64 1; d f32 1; a MatMul x w; c BiasAdd a b; e ReLU c; \
         y Dropout e z z d",
        PRODUCT,
    ),
    row(
        "matmul/views",
        "x f32 {0}x{1}; w f32 {1}x{2} const; a MatMul x w; c Tanh a; y StaticTranspose c order=[1,0]; z Reorder y",
        PRODUCT,
    ),
    row(
        "matmul/int8",
        "x u8 {0}x{1}; w s8 {1}x{2} const; b f32 {2} const; r s8 {0}x{2}; xf Dequantize x zps=[3]; wf Dequantize w; \
         c MatMul xf wf; d BiasAdd c b; rf Dequantize r; e Add d rf; f ReLU e; h:u8 Quantize f",
        PRODUCT,
    ),
    row(
        "matmul/int8_weights",
        "x f32 {0}x{1}; w s8 {1}x{2} const; b f32 {2} const; wf Dequantize w; c MatMul x wf b; d GELU c",
        PRODUCT,
    ),
    row(
        "conv_block/identity",
        "x f32 1x{0}x{1}x{1}; w f32 {0}x{0}x3x3 const; v f32 {0}x{0}x3x3 const; b f32 {0} const; \
         a Convolution x w pads_begin=[1,1] pads_end=[1,1]; c BiasAdd a b; d ReLU c; \
         e Convolution d v pads_begin=[1,1] pads_end=[1,1]; f ReLU e; g Convolution f w pads_begin=[1,1] pads_end=[1,1]; h Add g x; \
         y ReLU h",
        IMAGE,
    ),
    row(
        "conv_block/projection",
        "x f32 1x{0}x{1}x{1}; w f32 {2}x{0}x3x3 const; v f32 {2}x{2}x3x3 const; p f32 {2}x{0}x1x1 const; \
         a Convolution x w pads_begin=[1,1] pads_end=[1,1]; d ReLU a; e Convolution d v pads_begin=[1,1] pads_end=[1,1]; \
         g Convolution x p; h Add e g; y ReLU h",
        IMAGE,
    ),
    row(
        "conv_block/stage",
        "x f32 1x{0}x{1}x{1}; w f32 {2}x{0}x3x3 const; v f32 {2}x{2}x3x3 const; p f32 {2}x{0}x1x1 const; \
         a Convolution x w pads_begin=[1,1] pads_end=[1,1]; d ReLU a; e Convolution d v pads_begin=[1,1] pads_end=[1,1]; \
         g Convolution x p; h Add e g; y ReLU h; a2 Convolution y v pads_begin=[1,1] pads_end=[1,1]; d2 ReLU a2; \
         e2 Convolution d2 v pads_begin=[1,1] pads_end=[1,1]; h2 Add e2 y; y2 ReLU h2",
        IMAGE,
    ),
    row(
        "conv_block/int8_identity",
        "x u8 1x{0}x{1}x{1}; w s8 {0}x{0}x3x3 const; v s8 {0}x{0}x3x3 const; xf Dequantize x; wf Dequantize w; \
         a Convolution xf wf pads_begin=[1,1] pads_end=[1,1]; c ReLU a; d:u8 Quantize c; df Dequantize d; vf Dequantize v; \
         e Convolution df vf pads_begin=[1,1] pads_end=[1,1]; f ReLU e; g:u8 Quantize f; gf Dequantize g; uf Dequantize w; \
         h Convolution gf uf pads_begin=[1,1] pads_end=[1,1]; xr Dequantize x; s Add h xr; t ReLU s; y:u8 Quantize t",
        IMAGE,
    ),
    row(
        "conv_block/int8_projection",
        "x u8 1x{0}x{1}x{1}; w s8 {2}x{0}x3x3 const; v s8 {2}x{2}x3x3 const; p s8 {2}x{0}x1x1 const; xf Dequantize x; \
         wf Dequantize w; a Convolution xf wf pads_begin=[1,1] pads_end=[1,1]; c ReLU a; d:u8 Quantize c; df Dequantize d; \
         vf Dequantize v; e Convolution df vf pads_begin=[1,1] pads_end=[1,1]; f ReLU e; g:u8 Quantize f; gf Dequantize g; \
         uf Dequantize v; h Convolution gf uf pads_begin=[1,1] pads_end=[1,1]; x2 Dequantize x; pf Dequantize p; j Convolution x2 pf; \
         jq:s8 Quantize j; jf Dequantize jq; s Add h jf; t ReLU s; y:u8 Quantize t",
        IMAGE,
    ),
    row(
        "conv_block/int8_stage",
        "x u8 1x{0}x{1}x{1}; w s8 {2}x{0}x3x3 const; v s8 {2}x{2}x3x3 const; p s8 {2}x{0}x1x1 const; xf Dequantize x; \
         wf Dequantize w; a Convolution xf wf pads_begin=[1,1] pads_end=[1,1]; c ReLU a; d:u8 Quantize c scales=[0.0617]; df Dequantize d; \
         vf Dequantize v; e Convolution df vf pads_begin=[1,1] pads_end=[1,1]; f ReLU e; g:u8 Quantize f scales=[0.0617]; gf Dequantize g; \
         uf Dequantize v; h Convolution gf uf pads_begin=[1,1] pads_end=[1,1]; x2 Dequantize x; pf Dequantize p; j Convolution x2 pf; \
         jq:s8 Quantize j scales=[0.0617]; jf Dequantize jq; s Add h jf; t ReLU s; y:u8 Quantize t scales=[0.0617]; yf Dequantize y; v2 Dequantize v; \
         k Convolution yf v2 pads_begin=[1,1] pads_end=[1,1]; l ReLU k; m:u8 Quantize l scales=[0.0617]; mf Dequantize m; v3 Dequantize v; \
         n Convolution mf v3 pads_begin=[1,1] pads_end=[1,1]; o ReLU n; q:u8 Quantize o scales=[0.0617]; qf Dequantize q; v4 Dequantize v; \
         r Convolution qf v4 pads_begin=[1,1] pads_end=[1,1]; yr Dequantize y; z Add r yr; z2 ReLU z; z3:u8 Quantize z2 scales=[0.0617]",
        IMAGE,
    ),
    row(
        "conv/post_ops",
        "x f32 1x{1}x{1}x{0}; w f32 3x3x{0}x{2} const; g f32 {2} const; v f32 {2} const; b f32 {2} const; r f32 1x{3}x{3}x{2}; \
         c Convolution x w b data_format=NXC weights_format=XIO; n BatchNormInference c g b b v data_format=NXC; e Add n r; f ReLU e",
        IMAGE,
    ),
    row(
        "conv/depthwise",
        "x f32 1x{0}x{1}x{1}; w f32 {2}x{0}x1x1 const; c Convolution x w; r ReLU c; v f32 {2}x1x3x3 const; \
         e Convolution r v groups={2}; g ReLU e",
        IMAGE,
    ),
    row(
        "conv/int8",
        "x u8 1x{1}x{1}x{0}; w s8 3x3x{0}x{2} const; b f32 {2} const; r s8 1x{3}x{3}x{2}; xf Dequantize x zps=[3]; wf Dequantize w; \
         c Convolution xf wf data_format=NXC weights_format=XIO; d BiasAdd c b data_format=NXC; rf Dequantize r; e Add d rf; f ReLU e; \
         h:u8 Quantize f",
        IMAGE,
    ),
    row(
        "conv/int8_weights",
        "x f32 1x{1}x{1}x{0}; w s8 3x3x{0}x{2} const; wf Dequantize w; c Convolution x wf data_format=NXC weights_format=XIO; f ReLU c",
        IMAGE,
    ),
    row(
        "conv/training",
        "x f32 4x{0}x{1}x{1}; w f32 {2}x{0}x3x3; b f32 {2}; a f32 {2}; v f32 {2}; g f32 {2}; h f32 {2}; r f32 4x{2}x{3}x{3}; \
         c Convolution x w; d BiasAdd c b; y,na,nv,ba,bv BatchNormForwardTraining d a v g h epsilon=0.001 momentum=0.9; e Add y r; \
         z ReLU e; out d; out na; out nv; out ba; out bv; out z",
        IMAGE,
    ),
    row(
        "conv/backward",
        "x f32 4x{0}x{1}x{1}; c f32 4x{2}x{3}x{3}; z f32 4x{2}x{3}x{3}; d f32 4x{2}x{3}x{3}; w f32 {2}x{0}x3x3; a f32 {2}; v f32 {2}; \
         g f32 {2}; e ReLUBackward z d use_dst=true; f,dg,dh BatchNormTrainingBackward c e a v g epsilon=0.001; \
         dw ConvolutionBackwardWeights x f weights_shape=[{2},{0},3,3]; dx ConvolutionBackwardData f w dst_shape=[4,{0},{1},{1}]; \
         db BiasAddBackward f; out dx; out dw; out db; out dg; out dh",
        IMAGE,
    ),
    row(
        "conv/backward_data",
        "z f32 4x{2}x{3}x{3}; d f32 4x{2}x{3}x{3}; w f32 {2}x{0}x3x3; r f32 4x{0}x{1}x{1}; e ReLUBackward z d use_dst=true; \
         dx ConvolutionBackwardData e w dst_shape=[4,{0},{1},{1}]; y Add dx r",
        IMAGE,
    ),
    row(
        "conv_transpose/post_ops",
        "x f32 1x{0}x{1}x{1}; w f32 {0}x{2}x3x3 const; b f32 {2} const; c ConvTranspose x w; d BiasAdd c b; r ReLU d",
        IMAGE,
    ),
    row(
        "conv_transpose/int8",
        "x u8 1x{0}x{1}x{1}; w s8 {0}x{2}x3x3 const; b f32 {2} const; xf Dequantize x; wf Dequantize w; c ConvTranspose xf wf b; \
         d ReLU c; q:u8 Quantize d",
        IMAGE,
    ),
    row(
        "pool/post_ops",
        "x f32 1x{0}x{1}x{1}; p AvgPool x kernel=[3,3]; r f32 1x{0}x{3}x{3}; a Add p r; b ReLU a",
        IMAGE,
    ),
    row(
        "pool/int8",
        "x u8 1x{0}x{1}x{1}; xf Dequantize x; p MaxPool xf kernel=[3,3]; q:u8 Quantize p",
        IMAGE,
    ),
    row(
        "bn/post_ops",
        "x f32 4x{1}x{1}x{0}; g f32 {0} const; b f32 {0} const; n BatchNormInference x g b b g data_format=NXC; r ReLU n",
        IMAGE,
    ),
    row(
        "bn/int8",
        "x s8 4x{1}x{1}x{0}; g f32 {0} const; b f32 {0} const; xf Dequantize x; n BatchNormInference xf g b b g data_format=NXC; \
         r ReLU n; q:s8 Quantize r",
        IMAGE,
    ),
    row(
        "bn/training",
        "x f32 4x{0}x{1}x{1}; a f32 {0}; v f32 {0}; g f32 {0}; h f32 {0}; \
         y,na,nv,ba,bv BatchNormForwardTraining x a v g h epsilon=0.001 momentum=0.9; z ReLU y; out na; out nv; out ba; out bv; out z",
        IMAGE,
    ),
    row(
        "bn/backward_relu",
        "x f32 4x{0}x{1}x{1}; d f32 4x{0}x{1}x{1}; z f32 4x{0}x{1}x{1}; a f32 {0}; v f32 {0}; g f32 {0}; \
         e ReLUBackward z d use_dst=true; f,dg,dh BatchNormTrainingBackward x e a v g epsilon=0.001; out f; out dg; out dh",
        IMAGE,
    ),
    row(
        "layernorm/post_ops",
        "x f32 {0}x{1}; g f32 {1} const; b f32 {1} const; r f32 {0}x{1}; \
         n LayerNorm x g b keep_stats=false begin_norm_axis=-1; a Add n r; y GELU a",
        ROWS_OF,
    ),
    row(
        "groupnorm/post_ops",
        "x f32 4x{1}x{1}x{0}; g f32 {0} const; b f32 {0} const; \
         n GroupNorm x g b groups=4 keep_stats=false data_format=NXC; s Sigmoid n; y Multiply n s",
        IMAGE,
    ),
    row(
        "softmax/post_ops",
        "x f32 {0}x{1}; r f32 {1}; s SoftMax x axis=-1; a Multiply s r; q:u8 Quantize a",
        ROWS_OF,
    ),
    row(
        "reduction/post_ops",
        "x f32 {0}x{1}; r f32 {0}x1; s ReduceMean x axes=[1] keep_dims=true; a Add s r; y ReLU a",
        ROWS_OF,
    ),
    row(
        "interpolate/post_ops",
        "x f32 1x{0}x{1}x{1}; i Interpolate x mode=linear scales=[2.0,2.0] coordinate_transformation_mode=half_pixel; y ReLU i",
        IMAGE,
    ),
    row("reorder/add", "x f32 {0}x{1}; r f32 {0}x{1}; s Reorder x; y Add s r", ROWS_OF),
    row("reorder/int8", "x s8 {0}x{1}; xf Dequantize x; s Reorder xf; y:u8 Quantize s zps=[9]", ROWS_OF),
    row(
        "concat/int8",
        "x s8 {0}x{1}; y s8 {0}x{1}; xf Dequantize x; yf Dequantize y scales=[0.12]; c Concat xf yf axis=1; z:s8 Quantize c",
        ROWS_OF,
    ),
    row("quantize/typecast", "x bf16 {0}x{1}; y:f32 TypeCast x; z:u8 Quantize y", ROWS_OF),
    row(
        "quantize/dynamic",
        "x f32 {0}x{1}; zero f32 1 const; n f32 1 const; least f32 1 const; w f32 1 const; \
         a ReduceMin x axes=[0,1] keep_dims=false; low Minimum a zero; b ReduceMax x axes=[0,1] keep_dims=false; high Maximum b zero; \
         range Subtract high low; scale Divide range n; divisor Maximum scale least; below Subtract zero low; p Divide below divisor; \
         r Round p; point Clamp r min=0.0 max=255.0; d Divide x divisor; s Round d; m Add s point; q:u8 TypeCast m; \
         z:u8 TypeCast point; y Multiply scale w; out q; out y; out z",
        ROWS_OF,
    ),
    row(
        "shuffle/channels",
        "x f32 2x{0}x{1}x{1}; a StaticReshape x shape=[2,4,{4},{1},{1}]; b StaticTranspose a order=[0,2,1,3,4]; \
         c StaticReshape b shape=[2,{0},{1},{1}]",
        [&[16, 10, 16, 8, 4], &[64, 30, 64, 28, 16], &[128, 58, 128, 56, 32]],
    ),
    row(
        "pointwise/post_ops",
        "x f32 {0}x{1}; y f32 {0}x{1}; z f32 {1}; a Multiply x y; b Add a z; c Sigmoid b; d Multiply b c; e Maximum d x",
        ROWS_OF,
    ),
    row(
        "pointwise/int8",
        "x u8 {0}x{1}; y u8 {0}x{1}; xf Dequantize x zps=[3]; yf Dequantize y; a Add xf yf; r ReLU a; q:u8 Quantize r scales=[0.05]; \
         b Dequantize q scales=[0.05]; c Tanh b; s:u8 Quantize c",
        ROWS_OF,
    ),
    row(
        "pointwise/dropout",
        "x f32 {0}x{1}; z s64 1; d f32 1; a GELU x; y Dropout a z z d; b Add y x",
        ROWS_OF,
    ),
];

#[cfg(test)]
mod tests {
    use anydnn::fusion::{Policy, partition, patterns};

    use super::*;

    #[test]
    fn every_pattern_takes_its_graph_whole() {
        for case in cases() {
            let graph = graph(&case).expect("it is a case").unwrap_or_else(|error| panic!("{case}: {error}"));
            let parts = partition(&graph, Policy::Fusion);
            let names: Vec<_> = parts.partitions.iter().map(|part| part.pattern).collect();
            assert_eq!(names, [case.split(' ').next().unwrap_or_default()], "{}", parts.describe(&graph));
        }
    }

    #[test]
    fn every_pattern_has_a_graph() {
        for pattern in patterns() {
            assert!(ROWS.iter().any(|row| row.pattern == pattern.name), "{}", pattern.name);
        }
        assert!(graph("sdp/float tiny").is_none() && graph("sdp small").is_none());
    }
}
