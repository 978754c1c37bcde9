#!/usr/bin/env python3
# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Time MMDiT's double-stream block, forward and backward, beside the same block in PyTorch.

The block of PyTorch uses scaled_dot_product_attention and runs eagerly and compiled. One sequence of text and image tokens, float32, all
gradients: of the tokens, the conditioning and the parameters. All three take turns; a ratio is the median of the ratios of the rounds,
KnapFormer's time over PyTorch's, below 1 where KnapFormer is faster.

  perf/pytorch_block.py                                                     # 4096 tokens, d 768, 12 heads
  perf/pytorch_block.py --tokens 1024 --text-tokens 256 --rounds 21 --threads 1
  perf/pytorch_block.py --check tests/data/double_stream_block.h5          # the block of PyTorch against known numbers

Needs PyTorch 2.4 or newer, and --check h5py.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("pytorch_block.py: PyTorch is missing; install it, e.g. with `pip install torch`")


def rotate(x, rotation):
    """Pairs of neighbours turned by the angle of their token; x [heads, tokens, d_head]."""
    pairs = x.unflatten(-1, (-1, 2))
    if not torch.compiler.is_compiling():  # eagerly the fastest; the compiler has no complex numbers
        return torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * torch.view_as_complex(rotation)).flatten(-2)
    (a, b), (cos, sin) = pairs.unbind(-1), rotation.unbind(-1)
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)


class Stream(torch.nn.Module):
    """What text or image tokens have for themselves."""

    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.mod = torch.nn.Linear(d_model, 6 * d_model)
        self.qkv = torch.nn.Linear(d_model, 3 * d_model)
        self.q_scale = torch.nn.Parameter(torch.ones(d_model // heads))
        self.k_scale = torch.nn.Parameter(torch.ones(d_model // heads))
        self.proj = torch.nn.Linear(d_model, d_model)
        self.up = torch.nn.Linear(d_model, 4 * d_model)
        self.down = torch.nn.Linear(4 * d_model, d_model)

    def modulated(self, x, scale, shift):
        return (1 + scale) * F.layer_norm(x, x.shape[-1:], eps=1e-6) + shift

    def heads_of(self, x, modulation):
        qkv = self.qkv(self.modulated(x, modulation[1], modulation[0]))
        q, k, v = qkv.unflatten(-1, (3, self.heads, -1)).permute(1, 2, 0, 3)
        width = q.shape[-1:]
        return F.rms_norm(q, width, self.q_scale, 1e-6), F.rms_norm(k, width, self.k_scale, 1e-6), v

    def rest(self, x, mixed, modulation):
        x = x + modulation[2] * self.proj(mixed)
        hidden = F.gelu(self.up(self.modulated(x, modulation[4], modulation[3])), approximate="tanh")
        return x + modulation[5] * self.down(hidden)


class DoubleStreamBlock(torch.nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.text, self.image = Stream(d_model, heads), Stream(d_model, heads)

    def forward(self, text, image, conditioning, rotation):
        silu = F.silu(conditioning)
        text_mod, image_mod = self.text.mod(silu).chunk(6, -1), self.image.mod(silu).chunk(6, -1)
        parts = zip(self.text.heads_of(text, text_mod), self.image.heads_of(image, image_mod))
        q, k, v = (torch.cat(part, 1) for part in parts)
        mixed = F.scaled_dot_product_attention(rotate(q, rotation)[None], rotate(k, rotation)[None], v[None])[0]
        mixed = mixed.transpose(0, 1).flatten(1)
        return (self.text.rest(text, mixed[: len(text)], text_mod),
                self.image.rest(image, mixed[len(text):], image_mod))


def random_problem(options):
    torch.manual_seed(0)
    block = DoubleStreamBlock(options.d_model, options.heads)
    image_tokens = options.tokens - options.text_tokens
    inputs = [torch.randn(n, options.d_model, requires_grad=True) for n in (options.text_tokens, image_tokens)]
    inputs.append(torch.randn(options.d_model, requires_grad=True))
    angles = torch.rand(options.tokens, options.d_model // options.heads // 2) * 6.28
    rotation = torch.stack((angles.cos(), angles.sin()), -1)
    cotangents = [torch.randn_like(x) for x in inputs[:2]]
    return block, inputs, rotation, cotangents


def step(block, inputs, rotation, cotangents):
    """One forward and backward pass; the seconds it took."""
    for tensor in [*inputs, *block.parameters()]:
        tensor.grad = None
    start = time.perf_counter()
    torch.autograd.backward(block(*inputs, rotation), cotangents)
    return time.perf_counter() - start


def flops(options):
    """Of matrix products and attention, forward and backward; a backward pass of attention makes five products."""
    products = 2 * options.tokens * 12 * options.d_model**2
    attention = 4 * options.tokens**2 * options.d_model
    return 3 * products + 3.5 * attention


class KnapFormer:
    """perf/bench_block with --serve: times one step for every line that it reads."""

    def __init__(self, options):
        command = [options.program, "--serve", f"--tokens={options.tokens}", f"--text-tokens={options.text_tokens}",
                   f"--d-model={options.d_model}", f"--heads={options.heads}"]
        environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "OMP_PROC_BIND": "false",
                       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                            env=environment)
        except OSError as error:
            sys.exit(f"pytorch_block.py: {options.program}: {error}; build it with KNAPFORMER_ENABLE_PERF=ON")

    def step(self):
        self.process.stdin.write("step\n")
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"pytorch_block.py: {self.process.args[0]} ended with status {self.process.wait()}")
        return float(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(options):
    torch.set_num_threads(options.threads)
    block, *rest = random_problem(options)
    contenders = {"eager": lambda: step(block, *rest)}
    if not options.eager_only:
        compiled = torch.compile(block)
        contenders["compiled"] = lambda: step(compiled, *rest)
    ours = KnapFormer(options)
    contenders["KnapFormer"] = ours.step
    for name, run in contenders.items():
        print(f"warming up {name}", file=sys.stderr, flush=True)
        for _ in range(2):
            run()
    seconds = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(options.rounds):
        for name in names[number % len(names):] + names[:number % len(names)]:
            seconds[name].append(contenders[name]())
    ours.close()

    blas = "MKL" if torch.backends.mkl.is_available() else "another BLAS"
    print(f"double-stream block, forward + backward: {options.tokens} tokens, {options.text_tokens} of them text, "
          f"d {options.d_model}, {options.heads} heads, float32, {options.threads} threads, median of {options.rounds} rounds")
    print(f"PyTorch {torch.__version__} with {blas}, oneDNN {'on' if torch.backends.mkldnn.is_available() else 'off'}, "
          f"{torch.backends.cpu.get_cpu_capability()}; {flops(options) / 1e9:.1f} GFLOP of products and attention")
    print(f"{'':12}{'seconds':>9}{'GFLOP/s':>9}   KnapFormer/it")
    for name in names:
        ratio = statistics.median(a / b for a, b in zip(seconds["KnapFormer"], seconds[name]))
        median = statistics.median(seconds[name])
        print(f"{name:12}{median:9.4f}{flops(options) / median / 1e9:9.1f}{ratio:12.3f}")


def check(path):
    """Outputs and gradients of the block above against the numbers in an HDF5 file, which has several sequences."""
    import h5py
    torch.set_default_dtype(torch.float64)
    names = {"mod": "{}_mod/lin", "qkv": "{}_attn/qkv", "proj": "{}_attn/proj", "up": "{}_mlp/0", "down": "{}_mlp/2",
             "q_scale": "{}_attn/norm/query_norm/scale", "k_scale": "{}_attn/norm/key_norm/scale"}

    def place(name):
        stream, part, *kind = name.split(".")
        return "/".join([names[part].format({"text": "txt", "image": "img"}[stream]), *kind])

    with h5py.File(path) as file:
        def read(name):
            return torch.tensor(file[name][()])
        d_model = int(file.attrs["d_model"])
        block = DoubleStreamBlock(d_model, d_model // int(file.attrs["d_head"]))
        for name, parameter in block.named_parameters():
            parameter.data.copy_(read(f"param/{place(name)}"))
        x, conditioning = read("input/x").requires_grad_(), read("input/vec").requires_grad_()
        modality, table = read("input/modality"), read("input/rope_cos_sin")
        width = table.shape[1] // 4
        rotation = torch.stack((table[:, :width], table[:, 2 * width:3 * width]), -1)
        worst, begin = 0.0, 0
        out = torch.zeros_like(x)
        for i, length in enumerate(read("input/seq_lens").tolist()):
            rows = torch.arange(begin, begin + length)
            text, image = rows[modality[rows] == 0], rows[modality[rows] == 1]
            made = block(x[text], x[image], conditioning[i], rotation[torch.cat([text, image])])
            out = out.index_put((torch.cat([text, image]),), torch.cat(made))
            begin += length
        out.backward(read("grad/output"))
        found = {"output": out, "grad/input/x": x.grad, "grad/input/vec": conditioning.grad}
        found.update({f"grad/param/{place(name)}": p.grad for name, p in block.named_parameters()})
        for name, value in found.items():
            expected = read(name)
            error = ((value - expected).abs().max() / expected.abs().max()).item()
            worst = max(worst, error)
            if not error < 1e-10:
                sys.exit(f"{name}: off by {error:.1e} of its largest value")
    print(f"{len(found)} arrays agree with {path}; the largest error is {worst:.1e} of the largest value")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/perf/bench_block"))
    parser.add_argument("--tokens", type=int, default=4096, help="of the sequence, text and image (default: %(default)s)")
    parser.add_argument("--text-tokens", type=int, default=512)
    parser.add_argument("--d-model", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="(default: a core each)")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--eager-only", action="store_true", help="not compiled, which takes a minute and a C++ compiler")
    parser.add_argument("--check", metavar="FILE", help="compare the block of PyTorch with FILE and stop")
    options = parser.parse_args()
    if options.check:
        check(options.check)
        return
    if not 0 < options.text_tokens < options.tokens or options.rounds < 1:
        parser.error("there must be text and image tokens, and a round")
    compare(options)


if __name__ == "__main__":
    main()
