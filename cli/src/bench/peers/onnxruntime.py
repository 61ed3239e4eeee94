"""ONNX Runtime on the CPU, with its default options: graphs become ONNX models."""

import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

OPSET = 20
TYPES = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16, "s64": TensorProto.INT64, "boolean": TensorProto.BOOL, "s8": TensorProto.INT8, "u8": TensorProto.UINT8}

UNARY = {"ReLU": "Relu", "Tanh": "Tanh", "Sigmoid": "Sigmoid", "Exp": "Exp", "Sqrt": "Sqrt", "Abs": "Abs", "HardSwish": "HardSwish",
         "Mish": "Mish", "Log": "Log", "Reciprocal": "Reciprocal", "Reorder": "Identity", "Round": "Round"}
BINARY = {"Add": "Add", "BiasAdd": "Add", "Multiply": "Mul", "Subtract": "Sub", "Divide": "Div", "Maximum": "Max", "Minimum": "Min",
          "GreaterEqual": "GreaterOrEqual"}
REDUCE = {"ReduceSum": "ReduceSum", "ReduceMean": "ReduceMean", "ReduceMax": "ReduceMax", "ReduceMin": "ReduceMin"}


class Model:
    """An ONNX model in the making. Images are [N, C, H, W] in ONNX: inputs and outputs of a graph of images are so too."""

    def __init__(self, ops, tensors, outputs):
        self.nodes, self.constants, self.tensors = [], [], {tensor.id: tensor for tensor in tensors}
        self.images = set()
        for op in ops:
            if op.get("data_format") == "NXC":
                self.images.update(i for i, dims in zip(op.inputs[:1] + op.outputs, op.input_dims[:1] + op.dims) if len(dims) == 4)
        # What is added to an image or follows from one is one.
        constant = {tensor.id for tensor in tensors if tensor.constant}
        for _ in ops:
            for op in ops:
                both = [i for i, dims in zip(op.inputs + op.outputs, op.input_dims + op.dims) if len(dims) == 4]
                if (op.kind in UNARY or op.kind in BINARY or op.kind == "Dequantize" and op.inputs[0] not in constant) and self.images.intersection(both):
                    self.images.update(both)
        for op in ops:
            self.add(op)
        self.outputs = outputs
        self.out_types = {out: (op.types[i], op.dims[i]) for op in ops for i, out in enumerate(op.outputs)}

    def order(self, tensor, dims):
        return [dims[0], dims[3], dims[1], dims[2]] if tensor in self.images else dims

    def name(self, tensor):
        return f"t{tensor}"

    def node(self, kind, inputs, outputs, **attrs):
        self.nodes.append(helper.make_node(kind, inputs, outputs, **attrs))

    def vector(self, name, values):
        self.constants.append(numpy_helper.from_array(np.array(values, dtype=np.int64), name))
        return name

    def add(self, op):
        inputs, out = [self.name(i) for i in op.inputs], self.name(op.outputs[0])
        kind = op.kind
        if kind in UNARY:
            self.node(UNARY[kind], inputs, [out])
        elif kind in BINARY:
            self.node(BINARY[kind], inputs, [out])
        elif kind == "GELU":
            self.node("Gelu", inputs, [out], approximate="tanh" if op.get("mode") == "gelu_tanh" else "none")
        elif kind == "Square":
            self.node("Mul", [inputs[0], inputs[0]], [out])
        elif kind == "Dequantize":
            told = self.tensors[op.inputs[0]]
            if len(told.dims) == 4 and told.constant:
                told.order = (3, 2, 0, 1)
            integer = np.uint8 if told.type == "u8" else np.int8
            self.constants.append(numpy_helper.from_array(np.array(op.list("scales", [])[0], dtype=np.float32), f"{out}_scale"))
            self.constants.append(numpy_helper.from_array(np.array(op.list("zps", [0])[0], dtype=integer), f"{out}_zero"))
            self.node("DequantizeLinear", [inputs[0], f"{out}_scale", f"{out}_zero"], [out])
        elif kind == "MatMul":
            for side in (0, 1):
                if op.get(f"transpose_{'ab'[side]}"):
                    rank = len(op.input_dims[side])
                    perm = [*range(rank - 2), rank - 1, rank - 2]
                    self.node("Transpose", [inputs[side]], [f"{out}_{side}"], perm=perm)
                    inputs[side] = f"{out}_{side}"
            if len(inputs) == 3:
                self.node("MatMul", inputs[:2], [f"{out}_m"])
                self.node("Add", [f"{out}_m", inputs[2]], [out])
            else:
                self.node("MatMul", inputs, [out])
        elif kind == "Convolution":
            if op.inputs[1] in self.tensors:
                self.tensors[op.inputs[1]].order = (3, 2, 0, 1)
            pads = op.list("pads_begin", [0, 0]) + op.list("pads_end", [0, 0])
            self.node("Conv", inputs, [out], strides=op.list("strides", [1, 1]), dilations=op.list("dilations", [1, 1]), pads=pads,
                      group=op.get("groups", 1))
        elif kind in ("MaxPool", "AvgPool"):
            pads = op.list("pads_begin", [0, 0]) + op.list("pads_end", [0, 0])
            attrs = {"kernel_shape": op.list("kernel", []), "strides": op.list("strides", [1, 1]), "pads": pads}
            if kind == "AvgPool":
                attrs["count_include_pad"] = 0 if op.get("exclude_pad") else 1
            self.node("MaxPool" if kind == "MaxPool" else "AveragePool", inputs, [out], **attrs)
        elif kind == "SoftMax":
            self.node("Softmax", inputs, [out], axis=op.get("axis", 1))
        elif kind == "LayerNorm":
            self.node("LayerNormalization", inputs, [out], axis=op.get("begin_norm_axis", -1), epsilon=op.get("epsilon", 1e-5))
        elif kind == "RMSNorm":
            self.node("SimplifiedLayerNormalization", inputs, [out], axis=op.get("begin_norm_axis", -1), epsilon=op.get("epsilon", 1e-5))
        elif kind == "BatchNormInference":
            self.node("BatchNormalization", inputs, [out], epsilon=op.get("epsilon", 1e-5))
        elif kind in REDUCE:
            axes = self.vector(f"{out}_axes", op.list("axes", []))
            self.node(REDUCE[kind], [inputs[0], axes], [out], keepdims=1 if op.get("keep_dims") else 0)
        elif kind == "Recurrent":
            cell, attrs = op.get("cell"), {"hidden_size": op.input_dims[2][2], "direction": op.get("direction", "forward")}
            if cell == "lstm":
                self.node("LSTM", inputs, [out], **attrs)
            elif cell in ("gru", "linear_gru"):
                self.node("GRU", inputs, [out], linear_before_reset=int(cell == "linear_gru"), **attrs)
            else:
                activation = {"tanh": "Tanh", "relu": "Relu", "logistic": "Sigmoid"}[cell]
                self.node("RNN", inputs, [out], activations=[activation] * op.input_dims[1][0], **attrs)
        elif kind == "StaticReshape":
            self.node("Reshape", [inputs[0], self.vector(f"{out}_shape", op.dims[0])], [out])
        elif kind == "StaticTranspose":
            self.node("Transpose", inputs, [out], perm=op.list("order", []))
        elif kind == "Select":
            self.node("Where", inputs, [out])
        elif kind == "GenIndex":
            axis, dims = op.get("axis"), op.dims[0]
            shape = [dims[axis] if i == axis else 1 for i in range(len(dims))]
            index = np.broadcast_to(np.arange(dims[axis], dtype=np.int64).reshape(shape), dims if len(dims) < 3 else shape)
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(index), out))
        else:
            raise Refused(f"{kind} is not translated")

    def build(self):
        inputs = []
        for tensor in self.tensors.values():
            if tensor.type not in TYPES:
                raise Refused(f"{tensor.type} is not translated")
            if tensor.constant:
                values = tensor.values().transpose(getattr(tensor, "order", range(len(tensor.dims))))
                self.constants.append(constant(values, tensor.type, self.name(tensor.id)))
            else:
                inputs.append(helper.make_tensor_value_info(self.name(tensor.id), TYPES[tensor.type], self.order(tensor.id, tensor.dims)))
        outputs = []
        for out in self.outputs:
            told, dims = self.out_types[out]
            outputs.append(helper.make_tensor_value_info(self.name(out), TYPES[told], self.order(out, dims)))
        graph = helper.make_graph(self.nodes, "case", inputs, outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        return model.SerializeToString()


def constant(values, told, name):
    if told in ("s8", "u8"):
        return numpy_helper.from_array(np.ascontiguousarray(values), name)
    if told == "bf16":
        return helper.make_tensor(name, TensorProto.BFLOAT16, values.shape, values.reshape(-1).tolist())
    return numpy_helper.from_array(np.ascontiguousarray(values.astype(np.float16 if told == "f16" else np.float32)), name)


class OnnxRuntime:
    def __init__(self, gpu, threads):
        self.options = onnxruntime.SessionOptions()
        if threads:
            self.options.intra_op_num_threads = threads

    def version(self):
        return f"ONNX Runtime {onnxruntime.__version__}, CPU"

    def open(self, file, sets, outputs):
        """Takes a model from a file; inputs that nobody gave are zero."""
        self.session, self.bindings, self.model, self.keep, self.next = None, [], None, [], 0
        self.session = onnxruntime.InferenceSession(file, self.options, providers=["CPUExecutionProvider"])
        for told in sets:
            binding, given = self.session.io_binding(), {tensor["name"]: tensor for tensor in told}
            for own in self.session.get_inputs():
                tensor = given.get(own.name)
                if tensor is None:
                    dims = [dim if isinstance(dim, int) else 1 for dim in own.shape]
                    values = np.zeros(dims, NAMES[own.type])
                else:
                    if tensor["type"] not in NUMPY:
                        raise Refused(f"inputs of {tensor['type']} are not handed over")
                    values = np.fromfile(tensor["file"], NUMPY[tensor["type"]]).reshape(tensor["dims"])
                value = onnxruntime.OrtValue.ortvalue_from_numpy(values)
                binding.bind_ortvalue_input(own.name, value)
                self.keep.append(value)
            self.bindings.append((binding, None))
        self.unlike = outputs
        self.run(1)
        # Outputs of other ranks than the file declares are refused once they are bound, so these are bound for each run.
        ranks = {own.name: len(own.shape) for own in self.session.get_outputs()}
        made = zip(outputs, self.bindings[0][0].get_outputs())
        if all(len(value.shape()) == ranks[name] for name, value in made):
            self.unlike = []
            for binding, _ in self.bindings:
                bind(binding, outputs)
        self.next = 0
        return "the file itself"

    def prepare(self, ops, tensors, outputs, sets):
        self.session, self.bindings, self.unlike = None, [], []
        model = Model(ops, tensors, outputs)
        data = model.build()
        if len(data) > 2**31 - 2**20:
            raise Refused("a model of more than two GiB")
        try:
            self.session = onnxruntime.InferenceSession(data, self.options, providers=["CPUExecutionProvider"])
        except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented as error:
            raise Refused(str(error).splitlines()[0])
        except onnxruntime.capi.onnxruntime_pybind11_state.InvalidGraph as error:
            # Types that an operator has in no version; anything else is a mistake of the translation.
            if "bfloat16" not in str(error):
                raise
            raise Refused(str(error).splitlines()[0])
        self.model, self.keep = model, []
        for number in range(sets):
            binding = self.session.io_binding()
            for tensor in tensors:
                if tensor.constant:
                    continue
                values = tensor.values(number)
                if tensor.id in model.images:
                    values = values.transpose(0, 3, 1, 2)
                value = self.value(np.ascontiguousarray(values), tensor.type)
                binding.bind_ortvalue_input(model.name(tensor.id), value)
                self.keep.append(value)
            made = []
            for out in outputs:
                told, dims = model.out_types[out]
                value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(model.order(out, dims), dtype(told), "cpu", 0)
                binding.bind_ortvalue_output(model.name(out), value)
                made.append(value)
            self.bindings.append((binding, made))
        self.next = 0
        return ""

    def value(self, values, told):
        if told == "bf16":
            raise Refused("bf16 inputs are not translated")
        return onnxruntime.OrtValue.ortvalue_from_numpy(values.astype(dtype(told)), "cpu", 0)

    def run(self, times):
        run, bindings, options = self.session.run_with_iobinding, self.bindings, onnxruntime.RunOptions()
        start = time.perf_counter()
        for _ in range(times):
            binding = bindings[self.next][0]
            if self.unlike:
                bind(binding, self.unlike)
            run(binding, options)
            self.next = (self.next + 1) % len(bindings)
        return time.perf_counter() - start, None

    def outputs(self):
        self.next = 0
        self.run(1)
        if self.model is None:
            return [np.asarray(value).astype(np.float32) for value in self.bindings[0][0].copy_outputs_to_cpu()]
        found = []
        for out, value in zip(self.model.outputs, self.bindings[0][1]):
            values = value.numpy().astype(np.float32)
            found.append(values.transpose(0, 2, 3, 1) if out in self.model.images else values)
        return found


def bind(binding, outputs):
    """Lets ONNX Runtime make outputs of its own at the next run."""
    binding.clear_binding_outputs()
    for name in outputs:
        binding.bind_output(name, "cpu")


NUMPY = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "s64": np.int64, "s32": np.int32, "s8": np.int8, "u8": np.uint8, "boolean": np.bool_}
NAMES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64, "tensor(int64)": np.int64,
         "tensor(int32)": np.int32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_}


def dtype(told):
    if told == "bf16":
        raise Refused("bf16 results are not translated")
    return {"f32": np.float32, "f16": np.float16, "s8": np.int8, "u8": np.uint8}[told]


serve(OnnxRuntime)
