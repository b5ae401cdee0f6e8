"""Computes ops with torch on the CPU on request, as a yardstick for `denoise bench --peers`.

Requests are JSON lines on standard input, answers JSON lines on standard output; elements follow as raw f32.
`prepare` gives an op and the shapes of its inputs, whose elements come after the line; `run` computes it a number
of times; `result` gives the number of bytes of the result and then the result; `forget` frees it.
Layouts are those of denoise: tokens before heads, channels last.
"""

import json
import sys

import numpy as np
import torch
import torch.nn.functional as F


def prepare(op, inputs):
    """The function that computes `op`, without arguments, on tensors laid out as torch likes them."""
    if op == "matmul":
        a, b = inputs
        return lambda: a @ b
    if op == "linear":
        x, w = inputs
        return lambda: F.linear(x, w)
    if op == "attention":
        q, k, v = (each.transpose(1, 2).contiguous() for each in inputs)
        return lambda: F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
    if op == "conv2d":
        x, w = (each.permute(0, 3, 1, 2) for each in inputs)
        return lambda: F.conv2d(x, w, padding=1).permute(0, 2, 3, 1)
    raise ValueError(f"Cannot compute {op}: it is none of matmul, linear, attention, conv2d")


def read_tensor(shape):
    count = int(np.prod(shape))
    return torch.from_numpy(np.frombuffer(bytearray(sys.stdin.buffer.read(4 * count)), "<f4").reshape(shape))


def answer(payload=b""):
    sys.stdout.buffer.write(json.dumps({"bytes": len(payload)}).encode() + b"\n" + payload)
    sys.stdout.buffer.flush()


@torch.inference_mode()
def main():
    compute = result = None
    while line := sys.stdin.buffer.readline():
        request = json.loads(line)
        if request["do"] == "prepare":
            compute = prepare(request["op"], [read_tensor(shape) for shape in request["inputs"]])
            answer()
        elif request["do"] == "run":
            for _ in range(request["times"]):
                result = compute()
            answer()
        elif request["do"] == "result":
            answer(result.contiguous().numpy().tobytes())
        else:
            compute = result = None
            answer()


main()
