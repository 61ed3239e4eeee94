"""PyTorch as a user writes it, operation by operation, on an NVIDIA GPU or the CPU; attention through its fused function."""

import torch
import torch.nn.functional as F

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "s64": torch.int64, "s8": torch.int8, "u8": torch.uint8,
         "f8_e4m3": torch.float8_e4m3fn, "f8_e5m2": torch.float8_e5m2}

UNARY = {"ReLU": torch.relu, "Tanh": torch.tanh, "Sigmoid": torch.sigmoid, "Exp": torch.exp, "Sqrt": torch.sqrt, "Abs": torch.abs,
         "HardSwish": F.hardswish, "Mish": F.mish, "Square": torch.square, "Log": torch.log, "Reciprocal": torch.reciprocal,
         "Reorder": torch.clone, "Round": torch.round}
BINARY = {"Add": torch.add, "BiasAdd": torch.add, "Multiply": torch.mul, "Subtract": torch.sub, "Divide": torch.div,
          "Maximum": torch.maximum, "Minimum": torch.minimum, "GreaterEqual": torch.ge}
REDUCE = {"ReduceSum": torch.sum, "ReduceMean": torch.mean, "ReduceMax": torch.amax, "ReduceMin": torch.amin}


class Torch:
    def __init__(self, gpu, threads):
        if gpu and not torch.cuda.is_available():
            raise RuntimeError(f"PyTorch {torch.__version__} sees no GPU: install a PyTorch with CUDA for the python3 of the system")
        self.device = torch.device("cuda" if gpu else "cpu")
        torch.set_grad_enabled(False)
        torch.backends.cudnn.benchmark = True
        if threads:
            torch.set_num_threads(threads)

    def version(self):
        where = torch.cuda.get_device_name() if self.device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
        return f"PyTorch {torch.__version__}, {where}"

    def prepare(self, ops, tensors, outputs, sets):
        # f32 means f32 where the case does not allow tf32.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = self.tf32
        self.sets = []
        constants = {tensor.id: self.place(tensor, 0) for tensor in tensors if tensor.constant}
        for number in range(sets):
            self.sets.append({tensor.id: self.place(tensor, number) for tensor in tensors if not tensor.constant})
        self.steps, self.out, self.next, self.constants = steps(ops, constants, {tensor.id: tensor.type for tensor in tensors}), outputs, 0, constants
        return "operation by operation"

    def place(self, tensor, number):
        if self.device.type == "cuda" and tensor.type not in ("u8", "s8"):
            return self.drawn(tensor, number)
        return torch.from_numpy(np.ascontiguousarray(tensor.values(number))).to(self.device).to(TYPES[tensor.type])

    def drawn(self, tensor, number):
        """The values of `Tensor.values`, computed where they are used."""
        mask = 0xFFFFFFFF
        x = torch.arange(math.prod(tensor.dims), dtype=torch.int64, device=self.device)
        x = x * 0x9E3779B9 & mask ^ tensor.seeds[number % len(tensor.seeds)]
        # Products of 64 bits overflow, but their lower 32 stay right.
        x = (x ^ x >> 16) * 0x7FEB352D & mask
        x = (x ^ x >> 15) * 0x846CA68B & mask
        x = x ^ x >> 16
        unit = (x >> 8).float() / 8388608 - 1
        return (unit * tensor.scale + tensor.offset).reshape(tensor.dims).to(TYPES[tensor.type])

    def once(self):
        values = dict(self.sets[self.next])
        self.next = (self.next + 1) % len(self.sets)
        for step, inputs, output in self.steps:
            values[output] = step(*[values[i] for i in inputs])
        return values

    def run(self, times):
        if self.device.type == "cpu":
            start = time.perf_counter()
            for _ in range(times):
                self.once()
            return time.perf_counter() - start, None
        torch.cuda.synchronize()
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start = time.perf_counter()
        first.record()
        for _ in range(times):
            self.once()
        last.record()
        torch.cuda.synchronize()
        return time.perf_counter() - start, first.elapsed_time(last) * 1e-3

    def outputs(self):
        self.next = 0
        values = self.once()
        return [values[out].float().cpu().numpy() for out in self.out]


def steps(ops, constants, kinds):
    """What to call, on which values, for which value."""
    ops, made = floats_of_eight_bits(integers(attention(ops), kinds), kinds), []
    for op in ops:
        function, inputs = translate(op, constants)
        made.append((function, inputs, op.outputs[0]))
    return made


def translate(op, constants):
    kind, fixed = op.kind, [constants.get(i) for i in op.inputs]
    varying = [i for i in op.inputs if i not in constants]
    if kind in UNARY:
        return UNARY[kind], op.inputs
    if kind in BINARY:
        return bound(BINARY[kind], fixed), varying
    if kind == "GELU":
        mode = "tanh" if op.get("mode") == "gelu_tanh" else "none"
        return (lambda x: F.gelu(x, approximate=mode)), op.inputs
    if kind == "MatMul":
        a, b = bool(op.get("transpose_a")), bool(op.get("transpose_b"))
        turned = lambda x, turn: x.mT if turn else x
        if len(fixed) == 3 and len(op.input_dims[0]) == 2:
            call = lambda x, w, bias: torch.addmm(bias, turned(x, a), turned(w, b))
        elif len(fixed) == 3:
            call = lambda x, w, bias: torch.matmul(turned(x, a), turned(w, b)) + bias
        else:
            call = lambda x, w: torch.matmul(turned(x, a), turned(w, b))
        return bound(call, fixed), varying
    if kind == "Integers":
        # Constant weights lie as its library wants them.
        fixed = [None if value is None else value.t().contiguous().t() for value in fixed]
        scale = op.attrs["scale"]
        return bound(lambda x, w: torch._int_mm(x, w) * scale, fixed), varying
    if kind == "Floats8":
        fixed = [None if value is None else value.t().contiguous().t() for value in fixed]
        one = torch.ones((), device=next(value for value in fixed if value is not None).device)
        return bound(lambda x, w: torch._scaled_mm(x, w, scale_a=one, scale_b=one, out_dtype=torch.bfloat16), fixed), varying
    if kind == "Attention":
        causal, grouped = op.attrs["causal"], op.attrs["grouped"]
        if grouped:
            # Where this version has no flag for it, keys and values are repeated as a user would.
            return (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)), op.inputs
        return (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)), op.inputs
    if kind == "Convolution":
        strides, dilations, pads = op.list("strides", [1, 1]), op.list("dilations", [1, 1]), op.list("pads_begin", [0, 0])
        groups = op.get("groups", 1)
        fixed[1] = fixed[1].permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
        bias = fixed[2] if len(fixed) > 2 else None
        def convolve(x):
            return F.conv2d(x.permute(0, 3, 1, 2), fixed[1], bias, strides, pads, dilations, groups).permute(0, 2, 3, 1)
        return convolve, varying
    if kind in ("MaxPool", "AvgPool"):
        kernel, strides, pads = op.list("kernel", []), op.list("strides", [1, 1]), op.list("pads_begin", [0, 0])
        if kind == "MaxPool":
            pool = lambda x: F.max_pool2d(x, kernel, strides, pads)
        else:
            pool = lambda x: F.avg_pool2d(x, kernel, strides, pads, count_include_pad=not op.get("exclude_pad"))
        return (lambda x: pool(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)), op.inputs
    if kind == "SoftMax":
        axis = op.get("axis", 1)
        return (lambda x: F.softmax(x, dim=axis)), op.inputs
    if kind in ("LayerNorm", "RMSNorm"):
        dims, axis, epsilon = op.input_dims[0], op.get("begin_norm_axis", -1), op.get("epsilon", 1e-5)
        shape, wanted = dims[axis:], TYPES[op.types[0]]
        affine = [value.to(wanted) for value in fixed[1:]]
        if kind == "RMSNorm":
            return (lambda x: F.rms_norm(x, shape, *affine, eps=epsilon)), op.inputs[:1]
        return (lambda x: F.layer_norm(x, shape, *affine, eps=epsilon)), op.inputs[:1]
    if kind == "BatchNormInference":
        gamma, beta, mean, variance = fixed[1:]
        epsilon = op.get("epsilon", 1e-5)
        def normalize(x):
            return F.batch_norm(x.permute(0, 3, 1, 2), mean, variance, gamma, beta, eps=epsilon).permute(0, 2, 3, 1)
        return normalize, op.inputs[:1]
    if kind in REDUCE:
        axes, keep = op.list("axes", []), bool(op.get("keep_dims"))
        return (lambda x: REDUCE[kind](x, dim=axes, keepdim=keep)), op.inputs
    if kind == "Recurrent":
        layer, dims = recurrent(op, *fixed[1:]), op.dims[0]
        steps, directions, batch, hidden = dims
        # [T, N, D * H] as [T, D, N, H]
        return (lambda x: layer(x)[0].view(steps, batch, directions, hidden).transpose(1, 2)), op.inputs[:1]
    if kind == "StaticReshape":
        dims = op.dims[0]
        return (lambda x: x.reshape(dims)), op.inputs
    if kind == "StaticTranspose":
        order = op.list("order", [])
        return (lambda x: x.permute(order)), op.inputs
    raise Refused(f"{kind} is not translated")


def recurrent(op, weights, state_weights, bias):
    """The layer as a module, whose gates have an order of their own."""
    cell, direction = op.get("cell"), op.get("direction", "forward")
    made = {"lstm": torch.nn.LSTM, "linear_gru": torch.nn.GRU, "tanh": torch.nn.RNN, "relu": torch.nn.RNN}.get(cell)
    if made is None or direction == "reverse":
        raise Refused(f"PyTorch has no {direction} layer of the cell {cell}")
    order = {"lstm": [0, 2, 3, 1], "linear_gru": [1, 0, 2]}.get(cell, [0])
    options = {"nonlinearity": cell} if made is torch.nn.RNN else {}
    count, hidden = weights.shape[0], state_weights.shape[2]
    layer = made(weights.shape[2], hidden, bidirectional=count == 2, device=weights.device, dtype=weights.dtype, **options)
    turned = lambda x: x.unflatten(0, (len(order), hidden))[order].flatten(0, 1)
    for way in range(count):
        of_input, of_state = bias[way].chunk(2)
        values = {"weight_ih": weights[way], "weight_hh": state_weights[way], "bias_ih": of_input, "bias_hh": of_state}
        for name, value in values.items():
            getattr(layer, f"{name}_l0{'_reverse' if way else ''}").data.copy_(turned(value))
    layer.flatten_parameters()
    return layer.eval()


def integers(ops, kinds):
    """The operations with each product of two tensors of bytes with one scale each as one, named Integers."""
    makers = {op.outputs[0]: op for op in ops}
    def stored(value):
        op = makers.get(value)
        fits = op is not None and op.kind == "Dequantize" and op.get("qtype", "per_tensor") == "per_tensor" and not any(op.list("zps", [0]))
        return op if fits else None
    dropped = set()
    for op in ops:
        both = [stored(value) for value in op.inputs[:2]]
        if op.kind != "MatMul" or None in both or len(op.inputs) != 2 or len(op.input_dims[0]) != 2:
            continue
        if any(kinds.get(one.inputs[0]) != "s8" for one in both):
            raise Refused("it multiplies no bytes without a sign")
        scale = math.prod(one.list("scales", [1.0])[0] for one in both)
        op.kind, op.inputs, op.attrs = "Integers", [one.inputs[0] for one in both], {"scale": scale}
        dropped.update(id(one) for one in both)
    return [op for op in ops if id(op) not in dropped]


def floats_of_eight_bits(ops, kinds):
    """The operations with each product of two tensors of such floats named Floats8."""
    for op in ops:
        types = [kinds.get(value) or "" for value in op.inputs[:2]]
        if op.kind != "MatMul" or not all(type.startswith("f8") for type in types):
            continue
        if len(op.inputs) != 2 or len(op.input_dims[0]) != 2 or types == ["f8_e5m2"] * 2:
            raise Refused("its products of floats of eight bits are of two matrices, one of them e4m3, without a bias")
        op.kind = "Floats8"
    return ops


def bound(call, fixed):
    """The call with its constants in place."""
    if all(value is None for value in fixed):
        return call
    def filled(*varying):
        rest = iter(varying)
        return call(*[next(rest) if value is None else value for value in fixed])
    return filled


def attention(ops):
    """The operations with each chain of attention as one, named Attention."""
    readers = {}
    for op in ops:
        for i in op.inputs:
            readers.setdefault(i, []).append(op)
    makers = {op.outputs[0]: op for op in ops}
    dropped, put = set(), {}
    for scores in ops:
        chain, mask = [scores], []
        if scores.kind != "MatMul" or not scores.get("transpose_b"):
            continue
        for kind in ("Divide", "Select", "SoftMax", "MatMul"):
            following = [op for op in readers.get(chain[-1].outputs[0], []) if op.kind == kind]
            if kind == "Select" and following:
                mask = [op for op in ops if op.kind in ("GenIndex", "GreaterEqual") and op.name.rsplit("_", 1)[0] == scores.name.rsplit("_", 1)[0]]
            elif not following and kind == "Select":
                continue
            if not following:
                break
            chain.append(following[0])
        else:
            last = chain[-1]
            q, k, v = scores.inputs[0], scores.inputs[1], last.inputs[1]
            grouped = len(last.dims[0]) == 5
            if grouped:
                # Without the reshapes around it.
                around = [makers[i] for i in (q, k, v)]
                q, k, v = (op.inputs[0] for op in around)
                after = readers[last.outputs[0]][0]
                dropped.update(id(op) for op in [*around, last])
                last = after
            last.kind, last.inputs = "Attention", [q, k, v]
            last.attrs = {"causal": len(mask) > 0, "grouped": grouped}
            dropped.update(id(op) for op in chain + mask if op is not last)
    return [op for op in ops if id(op) not in dropped]


serve(Torch)
