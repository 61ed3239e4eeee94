//! For every pattern a graph that comes out as exactly one partition of it, and one like it that does not.

use std::fmt::Write as _;

use super::text;
use crate::fusion::{Policy, partition, patterns};

/// A pattern, a graph it takes whole, and near misses: what to write instead of what.
struct Case(&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// The sources of the gradients of attention: query and key give scores of 4x4 for two heads.
macro_rules! backward {
    () => {
        "q f32 1x2x4x8; k f32 1x2x4x8; v f32 1x2x4x8; f f32 1; m f32 1x1x4x4; o f32 1x2x4x8; l f32 1x2x4x1; "
    };
}

/// Weights of a block of convolutions.
macro_rules! block {
    () => {
        "x f32 1x4x5x5; w1 f32 4x4x1x1; w2 f32 4x4x1x1; w3 f32 4x4x1x1; w4 f32 4x4x1x1; "
    };
}

/// The same, quantised.
macro_rules! int8_block {
    () => {
        "x s8 1x4x5x5; w1 s8 4x4x1x1; w2 s8 4x4x1x1; w3 s8 4x4x1x1; \
         v1 Dequantize w1; v2 Dequantize w2; v3 Dequantize w3; "
    };
}

const CASES: &[Case] = &[
    Case(
        "matmul/post_ops",
        "x f32 4x8; w f32 8x6; b f32 6; r f32 4x6; c boolean 4x6; a MatMul x w; d BiasAdd a b data_format=NXC; \
         e Add r d; s Sigmoid e; h Multiply e s; i Select c h r; j:bf16 TypeCast i",
        &[
            // The product is wanted outside, or made wider by what rides on it.
            ("e Add r d", "e Add r d; out d; out j"),
            ("r f32 4x6", "r f32 2x4x6"),
        ],
    ),
    Case(
        "matmul/dropout",
        "x f32 4x8; w f32 8x6; s s64 1; p f32 1; a MatMul x w; d,mask Dropout a s s p; e ReLU d; out e; out mask",
        &[("e ReLU d", "e ReLU a")],
    ),
    Case(
        "matmul/views",
        "x f32 2x4x6; w f32 6x6; a MatMul x w; b StaticReshape a shape=[2,4,2,3]; \
         c StaticTranspose b order=[0,2,1,3]; d Reorder c",
        &[("d Reorder c", "d SoftMax c")],
    ),
    Case(
        "matmul/int8",
        "x u8 4x8; w f32 8x6; r s8 4x6; b f32 6; xf Dequantize x; wq:s8 Quantize w; wf Dequantize wq; \
         xb:bf16 TypeCast xf; wb:bf16 TypeCast wf; bb:bf16 TypeCast b; a MatMul xb wb bb; \
         rf Dequantize r; rb:bf16 TypeCast rf; e Add a rb; t StaticTranspose e order=[1,0]; f:f32 TypeCast t; \
         g:s8 Quantize f",
        &[
            // Integers of 32 bits are no quantised source.
            ("x u8 4x8", "x s32 4x8"),
            ("t StaticTranspose e", "out e; t StaticTranspose e"),
        ],
    ),
    Case(
        "matmul/int8_weights",
        "x f32 4x8; w u4 8x6; s f32 1x6; wf DynamicDequantize w s qtype=per_group group_shape=[8,1]; a MatMul x wf; \
         e ReLU a",
        &[("e ReLU a", "e ReLU a; h Exp wf")],
    ),
    Case(
        "conv/post_ops",
        "x f32 1x4x5x5; w f32 6x4x3x3; g f32 6; b f32 6; r f32 1x6x3x3; c Convolution x w; d BiasAdd c b; \
         n BatchNormInference d g g g g; s Sigmoid n; h Multiply s n; e Add h r; f Clamp e min=0.0 max=6.0; i:f16 TypeCast f",
        &[("d BiasAdd c b;", "d BiasAdd c b; z Exp d;")],
    ),
    Case(
        "conv/depthwise",
        "x f32 1x4x5x5; w f32 6x4x1x1; b f32 6; c Convolution x w; d BiasAdd c b; r ReLU d; \
         v f32 6x1x3x3; e Convolution r v groups=6; f BiasAdd e b; g ReLU f",
        &[
            ("w f32 6x4x1x1", "w f32 6x4x2x2"),
            ("v f32 6x1x3x3; e Convolution r v groups=6", "v f32 6x3x3x3; e Convolution r v groups=2"),
            ("r ReLU d", "r ReLU d; s Exp r"),
        ],
    ),
    Case(
        "conv/int8",
        "x u8 1x4x5x5; w s8 6x4x3x3; r s8 1x6x3x3; b f32 6; xf Dequantize x; wf Dequantize w; c Convolution xf wf; \
         d BiasAdd c b; rf Dequantize r; e Add d rf; f ReLU e; g StaticReshape f shape=[1,54]; h:u8 Quantize g",
        &[("f ReLU e", "f ReLU e; out e; out h")],
    ),
    Case(
        "conv/int8_weights",
        "x f32 1x4x5x5; w f32 6x4x3x3; wq:s8 Quantize w; wf Dequantize wq; c Convolution x wf; f ReLU c",
        &[("wq:s8 Quantize w; wf Dequantize wq", "wf Exp w")],
    ),
    Case(
        "conv/backward_weights_bias",
        "x f32 1x4x5x5; d f32 1x6x3x3; w ConvolutionBackwardWeights x d weights_shape=[6,4,3,3]; b BiasAddBackward d",
        &[("b BiasAddBackward d", "e Exp d; b BiasAddBackward e")],
    ),
    Case(
        "conv_block/identity",
        concat!(
            block!(),
            "b f32 4; a Convolution x w1; ab BiasAdd a b; ar ReLU ab; c Convolution ar w2; cr ReLU c; \
             d Convolution cr w3; s Add d x; t ReLU s"
        ),
        &[
            ("s Add d x", "s Multiply d x"),
            ("s Add d x", "y f32 1x4x5x5; s Add d y"),
            ("cr ReLU c", "cr Tanh c"),
        ],
    ),
    Case(
        "conv_block/projection",
        concat!(
            block!(),
            "a Convolution x w1; ar ReLU a; c Convolution ar w2; p Convolution x w4; s Add p c; t ReLU s"
        ),
        &[("t ReLU s", "t Tanh s"), ("p Convolution x w4", "y f32 1x4x5x5; p Convolution y w4")],
    ),
    Case(
        "conv_block/stage",
        concat!(
            block!(),
            "a Convolution x w1; ar ReLU a; c Convolution ar w2; p Convolution x w4; s Add p c; t ReLU s; \
             a2 Convolution t w1; ar2 ReLU a2; c2 Convolution ar2 w2; s2 Add c2 t; t2 ReLU s2; \
             a3 Convolution t2 w1; ar3 ReLU a3; c3 Convolution ar3 w2; s3 Add c3 t2; t3 ReLU s3"
        ),
        &[("s3 Add c3 t2", "s3 Add c3 t2; out t2; out t3")],
    ),
    Case(
        "conv_block/int8_identity",
        concat!(
            int8_block!(),
            "xf Dequantize x; a Convolution xf v1; ar ReLU a; aq:u8 Quantize ar; af Dequantize aq; \
             c Convolution af v2; cr ReLU c; cq:u8 Quantize cr; cf Dequantize cq; d Convolution cf v3; \
             yf Dequantize x; s Add d yf; t ReLU s; tq:u8 Quantize t"
        ),
        &[("yf Dequantize x", "y s8 1x4x5x5; yf Dequantize y"), ("cr ReLU c", "cr Tanh c")],
    ),
    Case(
        "conv_block/int8_projection",
        concat!(
            int8_block!(),
            "xf Dequantize x; a Convolution xf v1; ar ReLU a; aq:u8 Quantize ar; af Dequantize aq; \
             c Convolution af v2; p Convolution xf v3; pq:s8 Quantize p; pf Dequantize pq; s Add c pf; t ReLU s; tq:u8 Quantize t"
        ),
        &[("ar ReLU a", "ar Exp a")],
    ),
    Case(
        "conv_block/int8_stage",
        concat!(
            int8_block!(),
            "u1 Dequantize w1; u2 Dequantize w2; \
             xf Dequantize x; a Convolution xf v1; ar ReLU a; aq:u8 Quantize ar; af Dequantize aq; \
             c Convolution af v2; p Convolution xf v3; s Add c p; t ReLU s; tq:u8 Quantize t; \
             tf Dequantize tq; a2 Convolution tf u1; ar2 ReLU a2; aq2:u8 Quantize ar2; af2 Dequantize aq2; \
             c2 Convolution af2 u2; tg Dequantize tq; s2 Add c2 tg; t2 ReLU s2; tq2:u8 Quantize t2"
        ),
        &[("s2 Add c2 tg", "s2 Maximum c2 tg")],
    ),
    Case(
        "conv_transpose/post_ops",
        "x f32 1x4x5x5; w f32 4x6x3x3; b f32 6; c ConvTranspose x w; d BiasAdd c b; r Tanh d",
        &[("r Tanh d", "r SoftMax d")],
    ),
    Case(
        "conv_transpose/int8",
        "x u8 1x4x5x5; w s8 4x6x3x3; r s8 1x6x7x7; xf Dequantize x; wf Dequantize w; c ConvTranspose xf wf; \
         rf Dequantize r; e Add c rf; q:u8 Quantize e",
        &[("x u8 1x4x5x5", "x s32 1x4x5x5")],
    ),
    Case(
        "mlp/gated",
        "x f32 4x8; u f32 8x6; g f32 8x6; d f32 6x8; a MatMul x u; b MatMul x g; s Sigmoid b; w Multiply s b; \
         m Multiply a w; y MatMul m d",
        &[("b MatMul x g", "z f32 4x8; b MatMul z g"), ("m Multiply a w", "m Add a w")],
    ),
    Case(
        "mlp/gate",
        "x f32 4x8; u f32 8x6; g f32 8x6; a MatMul x u; b MatMul x g; s GELU b; m Multiply s a",
        &[("m Multiply s a", "m Multiply s a; out a; out m")],
    ),
    Case(
        "mlp/quantized_gated",
        "x f16 4x8; u s4 8x6; g s4 8x6; d s4 6x8; s f16 1; uf DynamicDequantize u s; gf DynamicDequantize g s; \
         df DynamicDequantize d s; a MatMul x uf; b MatMul x gf; c ReLU b; m Multiply c a; y MatMul m df",
        &[("m Multiply c a", "m Maximum c a")],
    ),
    Case(
        "mlp/quantized_gate",
        "x f16 4x8; u s4 8x6; g s4 8x6; s f16 1; uf DynamicDequantize u s; gf DynamicDequantize g s; \
         a MatMul x uf; b MatMul x gf; c ReLU b; m Multiply c a",
        &[("uf DynamicDequantize u s", "uf DynamicDequantize u s; t Exp uf")],
    ),
    Case(
        "bmb/binary_matmul_binary",
        "x f32 4x8; y f32 4x8; v f32 8x2; u f32 2x8; b f32 8; s Add x y; a MatMul s v; c MatMul a u; d Add c b; e Multiply d x; \
         f Add e s; a2 MatMul f v; c2 MatMul a2 u; d2 Multiply c2 x; f2 Add d2 f",
        &[("a2 MatMul f v", "h SoftMax f; a2 MatMul h v")],
    ),
    Case(
        "pool/post_ops",
        "x f32 1x4x4x4; r f32 1x4x3x3; p AvgPool x; a Add p r; b Multiply a r",
        &[("a Add p r", "z Exp p; a Add p r")],
    ),
    Case(
        "pool/int8",
        "x u8 1x4x4x4; r u8 1x4x3x3; xf Dequantize x; p MaxPool xf; rf Dequantize r; a Add p rf; t StaticReshape a shape=[4,9]; \
         q:u8 Quantize t",
        &[("q:u8 Quantize t", "q Exp t")],
    ),
    Case(
        "bn/post_ops",
        "x f32 1x4x3x3; g f32 4; n BatchNormInference x g g g g; r ReLU n",
        &[("r ReLU n", "r SoftMax n")],
    ),
    Case(
        "bn/int8",
        "x s8 1x4x3x3; g f32 4; xf Dequantize x; n BatchNormInference xf g g g g; r ReLU n; q:s8 Quantize r",
        &[("r ReLU n", "r Tanh n")],
    ),
    Case(
        "bn/backward_relu",
        "x f32 1x4x3x3; d f32 1x4x3x3; g f32 4; r ReLUBackward x d; a,b,c BatchNormTrainingBackward x r g g g",
        &[("r ReLUBackward", "r TanhBackward")],
    ),
    Case(
        "layernorm/post_ops",
        "x f32 4x8; g f32 8; n RMSNorm x g; r Multiply n x; q:u8 Quantize r",
        &[("n RMSNorm x g", "n,s RMSNorm x g; out s; out q")],
    ),
    Case(
        "groupnorm/post_ops",
        "x f32 2x4x3x3; g f32 4; n GroupNorm x g g groups=2 keep_stats=false; r ReLU n; c:bf16 TypeCast r",
        &[("r ReLU n", "r ReLU n; z Exp n")],
    ),
    Case(
        "softmax/post_ops",
        "x f32 4x8; s SoftMax x; m Multiply s x; c:f16 TypeCast m",
        &[("s SoftMax x", "s,l SoftMax x; out l; out c")],
    ),
    Case(
        "reduction/post_ops",
        "x f32 4x8; r ReduceSum x axes=[1] keep_dims=true; s Sqrt r; t Add s s",
        &[("t Add s s", "t Add s x")],
    ),
    Case(
        "interpolate/post_ops",
        "x f32 1x4x3x3; i Interpolate x sizes=[6,6]; s Abs i",
        &[("s Abs i", "s SoftMax i")],
    ),
    Case("reorder/add", "x f32 4x8; y f32 4x8; r Reorder x; a Add y r", &[("a Add y r", "a Multiply y r")]),
    Case(
        "reorder/int8",
        "x s8 4x8; y s8 4x8; xf Dequantize x; r Reorder xf; yf Dequantize y; a Add yf r; q:s8 Quantize a",
        &[("a Add yf r", "a Multiply yf r")],
    ),
    Case(
        "concat/int8",
        "x s8 4x8; y s8 4x8; z s8 4x8; xf Dequantize x; yf Dequantize y; zf Dequantize z; c Concat xf yf zf; q:s8 Quantize c",
        &[("zf Dequantize z", "zf TypeCast z")],
    ),
    Case(
        "quantize/typecast",
        "x bf16 4x8; c:f32 TypeCast x; q:u8 Quantize c",
        &[("q:u8 Quantize c", "q:f16 TypeCast c")],
    ),
    Case(
        "shuffle/channels",
        "x f32 1x4x3x3; a StaticReshape x shape=[1,2,2,3,3]; b StaticTranspose a order=[0,2,1,3,4]; \
         c StaticReshape b shape=[1,4,3,3]",
        &[("order=[0,2,1,3,4]", "order=[0,2,3,1,4]")],
    ),
    Case(
        "pointwise/post_ops",
        "x f32 4x8; y f32 4x8; r Reciprocal x; m Multiply y r; a Add m y; e Exp a; z Subtract a e; c:f16 TypeCast z",
        &[("e Exp a", "e Exp a; out a; out c")],
    ),
    Case(
        "pointwise/dropout",
        "x f32 4x8; s s64 1; p f32 1; r GELU x; d Dropout r s s p",
        &[("d Dropout r s s p", "d Dropout r s s p; z Exp r")],
    ),
    Case(
        "sdp/float",
        "q bf16 1x2x4x8; k bf16 1x2x4x8; v bf16 1x2x4x8; f f32 1; n s32 1; s:f32 MatMul q k transpose_b=true; t Divide s f; \
         r GenIndex t axis=2; c GenIndex t axis=3; r2 Add r n; r3 Subtract r2 n; g GreaterEqual r3 c; w Select g t f; \
         p,l SoftMax w axis=-1; b:bf16 TypeCast p; o MatMul b v; x StaticTranspose o order=[0,2,1,3]; \
         y StaticReshape x shape=[1,4,16]; out l; out y",
        &[("g GreaterEqual r3 c", "z s32 1; g GreaterEqual r3 z"), ("out l;", "out l; out w;")],
    ),
    Case(
        "sdp/float",
        "q f32 1x2x4x8; k f32 1x2x8x4; v f32 1x2x4x8; f f32 1; m f32 1x1x4x4; c boolean 4x4; z s64 1; d f32 1; s MatMul q k; \
         t Multiply f s; a Divide t f; b Tanh a; e Multiply b f; u Add m e; w Select c u f; p SoftMax w axis=-1; \
         r,mask Dropout p z z d; o MatMul r v; out o; out mask",
        &[("p SoftMax w axis=-1", "p SoftMax w axis=-1; out p")],
    ),
    Case(
        "sdp/gqa",
        "q f32 1x4x3x8; k f32 1x2x5x8; v f32 1x2x5x8; f f32 1; m f32 1x1x3x5; q5 StaticReshape q shape=[1,2,2,3,8]; \
         k5 StaticReshape k shape=[1,2,1,5,8]; v5 StaticReshape v shape=[1,2,1,5,8]; m5 StaticReshape m shape=[1,1,1,3,5]; \
         s MatMul q5 k5 transpose_b=true; t Multiply s f; u Add t m5; p SoftMax u axis=-1; o MatMul p v5; \
         y StaticReshape o shape=[1,4,3,8]",
        &[("p SoftMax u axis=-1", "p Sigmoid u")],
    ),
    Case(
        "sdp/mqa",
        "q f32 12x8; k f32 8x5; v f32 5x8; m f32 4x3x5; s MatMul q k; t StaticReshape s shape=[4,3,5]; u Add t m; \
         p SoftMax u axis=-1; w StaticReshape p shape=[12,5]; o MatMul w v; y StaticReshape o shape=[4,3,8]",
        &[("p SoftMax u axis=-1", "p LogSoftmax u axis=-1")],
    ),
    Case(
        "sdp/int8",
        "q u8 1x2x4x8; k s8 1x2x4x8; v s8 1x2x4x8; f f32 1; m f32 1x1x4x4; qf Dequantize q; kf Dequantize k; vf Dequantize v; \
         s MatMul qf kf transpose_b=true; t Divide s f; u Add t m; p SoftMax u axis=-1; pq:u8 Quantize p; pf Dequantize pq; \
         o MatMul pf vf; x StaticTranspose o order=[0,2,1,3]; y StaticReshape x shape=[1,4,16]; z:s8 Quantize y",
        &[("pq:u8 Quantize p", "pq:u8 Quantize p; out p; out z")],
    ),
    Case(
        "sdp/compressed_kv",
        "q f16 1x2x4x8; k s4 1x2x8x4; v u8 1x2x4x8; ks f16 1x2x2x4; vs f16 1x2x4x2; vz s8 1x2x4x2; m f16 1x1x4x4; \
         kf DynamicDequantize k ks qtype=per_group group_shape=[1,1,4,1]; \
         vf DynamicDequantize v vs vz qtype=per_group group_shape=[1,1,1,4]; \
         s MatMul q kf; u Add s m; p SoftMax u axis=-1; o MatMul p vf",
        &[("p SoftMax u axis=-1", "p SoftMax u axis=-1; h Exp kf")],
    ),
    Case(
        "sdp/compressed_k",
        "q f16 1x2x4x8; k s4 1x2x8x4; v f16 1x2x4x8; ks f16 1; kf DynamicDequantize k ks; s MatMul q kf; \
         p SoftMax s axis=-1; o MatMul p v",
        &[("o MatMul p v", "o MatMul p v; h Exp kf")],
    ),
    Case(
        "sdp/compressed_v",
        "q f16 1x2x4x8; k f16 1x2x8x4; v s8 1x2x4x8; vs f16 1; vf DynamicDequantize v vs; s MatMul q k; \
         p SoftMax s axis=-1; o MatMul p vf",
        &[("o MatMul p vf", "o MatMul p vf; h Exp vf")],
    ),
    Case(
        "sdp/backward",
        concat!(
            backward!(),
            "s MatMul q k transpose_b=true; t Multiply s f; u Add t m; e Subtract u l; p Exp e; pb:f32 TypeCast p; \
             dv MatMul pb o transpose_a=true; dp MatMul o v transpose_b=true; ds SoftMaxBackward dp p axis=-1; \
             dt Multiply ds f; dq MatMul dt k; dk MatMul dt q transpose_a=true; \
             dm ReduceSum ds axes=[1] keep_dims=true; out dq; out dk; out dv; out dm"
        ),
        &[
            // Of the probabilities' gradient nothing is left, or they are wanted outside.
            ("dk MatMul dt q transpose_a=true;", "dk Exp q;"),
            ("out dv;", "out dv; out p;"),
        ],
    ),
    Case(
        "sdp/backward",
        concat!(
            backward!(),
            "z s64 1; d f32 1; s MatMul q k transpose_b=true; e Subtract s l; p Exp e; pd Dropout p z z d; \
             dv MatMul pd o transpose_a=true; dp MatMul o v transpose_b=true; dd Dropout dp z z d; \
             ds SoftMaxBackward dd p axis=-1; dq MatMul ds k; dk MatMul ds q transpose_a=true; - End ds; \
             out ds; out dq; out dk; out dv"
        ),
        &[("dd Dropout dp z z d", "dd Exp dp")],
    ),
    Case(
        "sdp/gqa_backward",
        "q f32 1x2x2x4x8; k f32 1x2x1x4x8; v f32 1x2x1x4x8; o f32 1x2x2x4x8; l f32 1x2x2x4x1; f f32 1; \
         s MatMul q k transpose_b=true; t Divide s f; e Subtract t l; p Exp e; \
         dw MatMul p o transpose_a=true; dv ReduceSum dw axes=[2] keep_dims=true; dp MatMul o v transpose_b=true; \
         ds SoftMaxBackward dp p axis=-1; dt Divide ds f; dq MatMul dt k; dj MatMul dt q transpose_a=true; \
         dk ReduceSum dj axes=[2] keep_dims=true; - End ds; out dq; out dk; out dv; out ds",
        &[("dt Divide ds f", "dt Tanh ds")],
    ),
];

/// The names of the partitions' patterns.
fn names(text: &str) -> (Vec<&'static str>, String) {
    let graph = text::graph(text);
    let parts = partition(&graph, Policy::Fusion);
    (parts.partitions.iter().map(|part| part.pattern).collect(), parts.describe(&graph))
}

#[test]
fn every_pattern_takes_its_graph_whole() {
    let mut wrong = String::new();
    for Case(pattern, text, _) in CASES {
        let (names, words) = names(text);
        if names != [*pattern] {
            let _ = write!(wrong, "{pattern}:\n{words}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn near_misses_are_left_alone() {
    let mut wrong = String::new();
    for Case(pattern, text, misses) in CASES {
        for (from, to) in *misses {
            assert!(text.contains(from), "{pattern}: {from}");
            let (names, words) = names(&text.replacen(from, to, 1));
            if names == [*pattern] {
                let _ = write!(wrong, "{pattern} with {to}:\n{words}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_pattern_has_a_case() {
    let missing: Vec<_> = patterns::all()
        .iter()
        .map(|pattern| pattern.name)
        .filter(|name| !CASES.iter().any(|case| case.0 == *name && !case.2.is_empty()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    let mut names: Vec<_> = patterns::all().iter().map(|pattern| pattern.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), patterns::all().len(), "names are unique");
}
