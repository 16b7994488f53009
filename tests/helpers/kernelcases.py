"""Compiles the kernels for NVIDIA cards that need not be there.

    python tests/helpers/kernelcases.py [80 90 100] [--all] [--json]

prints, for each compilation: kernel, flags, dtypes, bucket and block sizes; target, shared memory,
registers, spilled bytes. Arguments get the specialisation of a usual launch: pointers and sizes
divisible by 16. Without `--all`, every configuration is compiled once for each kind of weight,
which is what the tests do. `kernelversions.py` runs this with several versions of Triton.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import triton

from vocabfreq.runtime import kernels, launch

VERSION = tuple(map(int, triton.__version__.split(".")[:2]))
TARGETS = (80, 90, 100) if VERSION >= (3, 3) else (80, 90)  # older ones do not know sm_100
SHARED = {80: 166_912, 90: 232_448, 100: 232_448}  # bytes that a block may have
POINTERS = {
    "scale": "*fp32", "target_ids": "*i64", "bitmask": "*i32", "temperature": "*fp32",
    "seed": "*i64", "step": "*i64", "keys": "*i64", "stats": "*fp32", "out": "*i64",
    "logsumexp": "*fp32", "logit_scale": "fp32", "soft_cap": "fp32",
}  # fmt: skip
WIDTHS = {"bf16": 2, "fp16": 2, "fp32": 4, "i8": 1, "u8": 1, "fp8e4nv": 1}
SAMPLING = {"temperature", "seed", "step", "stats", "logsumexp", "soft_cap"}
OPTIONAL = {"scale", "bias", "target_ids", "bitmask"}
ONE = {"stride_hh", "stride_lk", "stride_mw", "stride_t", "stride_out"}


@dataclass(frozen=True)
class Case:
    """One compilation.

    Attributes:
        kernel: its name in `kernels`.
        dtype: Triton's name of the dtype of hidden or logits.
        weight: the same of the weight.
        sample: draws instead of taking the maximum.
        optional: with scale, bias, map and grammar mask.
        bucket: rows of a batch in a program.
        config: blocks, warps and stages.
    """

    kernel: str
    dtype: str = "bf16"
    weight: str = "bf16"
    sample: bool = False
    optional: bool = True
    bucket: int = 16
    config: tuple[int, ...] = (0, 0, 4, 1)

    @property
    def name(self) -> str:
        """Unique, without spaces."""
        flags = ("sample" if self.sample else "greedy") + ("" if self.optional else "_plain")
        blocks = "x".join(map(str, self.config))
        return f"{self.kernel}-{flags}-{self.dtype}-{self.weight}-b{self.bucket}-{blocks}"


def cases(target: int, everything: bool = False) -> Iterator[Case]:
    """The compilations for a target: all of them, or each configuration once for each weight."""
    for dtype, weight in _pairs(target):
        sizes = 4 if dtype == "fp32" else 2, WIDTHS[weight]
        lists = {launch.configs(b, *sizes, target): b for b in launch.BUCKETS}
        pairs = (
            [(b, launch.configs(b, *sizes, target)) for b in launch.BUCKETS]
            if everything
            else [(b, configs) for configs, b in lists.items()]
        )
        for bucket, configs in pairs:
            for config, sample in product(configs, (False, True)):
                if everything or (dtype != "fp16" and sample == (WIDTHS[weight] > 1)):
                    yield Case("head_kernel", dtype, weight, sample, True, bucket, config)
    yield Case("head_kernel", optional=False, config=launch.configs(16, 2, 2, target)[0])
    for sample in (False, True):
        for dtype in ("bf16", "fp16", "fp32") if everything else ("bf16",):
            yield Case("logits_kernel", dtype, dtype, sample, config=_blocks("LOGITS"))
        yield Case("finish_kernel", sample=sample, config=_blocks("FINISH"))


def _pairs(target: int) -> tuple[tuple[str, str], ...]:
    """Dtypes of hidden and weight; float8 as bytes where the card cannot convert it."""
    float8 = "u8" if target < 89 else "fp8e4nv"
    same = ("bf16", "bf16"), ("fp16", "fp16"), ("fp32", "fp32")
    return (*same, ("bf16", "i8"), ("fp16", "i8"), ("bf16", float8), ("fp16", float8))


def _blocks(kind: str) -> tuple[int, int, int, int]:
    return getattr(launch, f"{kind}_BLOCK"), 0, getattr(launch, f"{kind}_WARPS"), 1


def compiled(case: Case, target: int) -> dict[str, Any]:
    """Compiles a case; its name, target, registers, spilled bytes and shared memory."""
    from triton.backends.compiler import GPUTarget

    function = getattr(kernels, case.kernel)
    signature, constants = _arguments(case, function.arg_names)
    divisible = [
        i
        for i, name in enumerate(function.arg_names)
        if signature[name][0] == "*" or (signature[name] == "i32" and name not in ("B", "tiles"))
    ]
    source = _source(function, signature, constants, divisible)
    options = {"num_warps": case.config[2], "num_stages": case.config[3]}
    binary = triton.compile(source, target=GPUTarget("cuda", target, 32), options=options)
    used = _usage(binary.asm["cubin"])
    return {"case": case.name, "target": target, "shared": binary.metadata.shared, **used}


def _source(
    function: Any, signature: dict[str, str], constants: dict[str, Any], divisible: list[int]
) -> Any:
    """The argument of `triton.compile`; how it is built changed with Triton 3.3."""
    from triton.backends import compiler
    from triton.compiler import ASTSource

    if VERSION >= (3, 3):
        attributes = {(i,): [["tt.divisibility", 16]] for i in divisible}
        return ASTSource(function, signature, constants, attributes)
    hints = compiler.AttrsDescriptor.from_hints(dict.fromkeys(divisible, 16))
    signature = {name: kind for name, kind in signature.items() if kind != "constexpr"}
    return ASTSource(function, signature, constants, hints)


def _arguments(case: Case, names: list[str]) -> tuple[dict[str, str], dict[str, Any]]:
    fixed: dict[str, Any] = {
        "BLOCK_B": case.bucket,
        "BLOCK_K": case.config[0],
        "BLOCK_H": case.config[1],
    }
    fixed |= {"BLOCK_T": case.config[0], "IDS": not case.sample} | dict.fromkeys(ONE, 1)
    fixed |= {} if case.sample else dict.fromkeys(SAMPLING)
    fixed |= {} if case.optional else dict.fromkeys(OPTIONAL)
    if case.kernel == "finish_kernel" and not case.sample:
        fixed["logits"] = None
    kinds = POINTERS | {"hidden": f"*{case.dtype}", "weight": f"*{case.weight}"}
    kinds |= {"bias": f"*{case.dtype}", "logits": f"*{case.dtype}"}
    if case.kernel == "finish_kernel":
        kinds["logits"] = "*fp32"
    signature = {n: "constexpr" if n in fixed else kinds.get(n, "i32") for n in names}
    return signature, {n: fixed[n] for n in names if n in fixed}


def _usage(cubin: bytes) -> dict[str, int]:
    """Registers and spilled bytes of a cubin, by the cuobjdump that Triton brings."""
    import triton.backends.nvidia as nvidia

    tool = Path(nvidia.__file__).parent / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        listed = subprocess.run(
            [tool, "--dump-resource-usage", file.name], check=True, capture_output=True, text=True
        ).stdout
    found = {key: int(value) for key, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", listed)}
    return {"registers": found["REG"], "spilled": found["STACK"] + found["LOCAL"]}


def report(targets: list[int], everything: bool) -> list[dict[str, Any]]:
    """Compiles the cases of the targets in a process for each core."""
    work = [(case, target) for target in targets for case in cases(target, everything)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(_try, *zip(*work, strict=True)))
    return [row | {"problem": problem(row)} for row in rows]


def problem(row: dict[str, Any]) -> str:
    """What is wrong with a row of the report, empty where nothing is."""
    if "error" in row:
        return str(row["error"])
    if row["spilled"]:
        return f"{row['spilled']} bytes spilled"
    return "" if row["shared"] <= SHARED[row["target"]] else f"{row['shared']} bytes shared"


def _try(case: Case, target: int) -> dict[str, Any]:
    try:
        return compiled(case, target)
    except Exception as error:  # any refusal is a row of the report, not its end
        return {"case": case.name, "target": target, "error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Prints the table, or JSON for the test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", type=int, default=list(TARGETS))
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = report(args.targets, args.all)
    if args.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(*row.values())


if __name__ == "__main__":
    main()
