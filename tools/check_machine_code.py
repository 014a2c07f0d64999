#!/usr/bin/env python3
"""Reads the machine code of the CUDA kernels in a build folder and fails when it is not what was meant:
a kernel without its tensor instructions, one that calls a routine in their place (the 4-bit products that
newer devices only emulate), or registers spilled between them.

    tools/check_machine_code.py BUILD

Needs cuobjdump: that of a CUDA toolkit, or those that tests/requirements.txt names. Without it, or without
CUDA code in the build, nothing is checked: the last line says why, and the exit status is 77.
"""
import os
import pathlib
import re
import subprocess
import sys

# Object file; kernel or architecture; the instruction that it must have; whether calls may stand between
# (divisions in attention: its products are native on every device).
EXPECTED = [
    (re.compile(r"small_batch/small_batch\.cu"), re.compile(r"small_batch_kernel"), "IMMA", False),
    (re.compile(r"layer_chain/chain_"), re.compile(r"chain_kernel"), "IMMA", False),
    (re.compile(r"gemm/wgmma_int"), re.compile(r"sm_90a"), "IGMMA", False),
    (re.compile(r"/wgmma_half"), re.compile(r"sm_90a"), "HGMMA", False),
    (re.compile(r"/wgmma_e4m3"), re.compile(r"sm_90a"), "QGMMA", False),
    (re.compile(r"medium_batch/"), re.compile(r"MediumBatchShape.*Signed"), "IGMMA", False),
    (re.compile(r"medium_batch/"), re.compile(r"MediumBatchShape.*Half"), "HGMMA", False),
    (re.compile(r"attention/prefill\.cu"), re.compile(r"attend_warpgroups_kernel"), "HGMMA", True),
    (re.compile(r"gemm/mma_int"), re.compile(r"kernel"), "IMMA", False),
    (re.compile(r"gemm/int4/int4_mma"), re.compile(r"sm_8\d"), "IMMA.16864.S4.S4", False),
    (re.compile(r"/mma_half"), re.compile(r"kernel"), "HMMA", False),
    (re.compile(r"attention/(decode|prefill|packed/packed_attention)\.cu"), re.compile(r"attend_kernel"), "HMMA", True),
    (re.compile(r"attention/packed/packed_int8\.cu"), re.compile(r"attend_kernel"), "IMMA", True),
]
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,5}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")
MOST_SPILLS = 8  # loads and stores of local memory between the first and the last product
NEVER_SPILLS = {"IMMA.16864.S4.S4"}  # for these products: none, in the whole kernel


NOT_CHECKED = 77
PYTHON = pathlib.Path(__file__).parent.parent / "build" / "python"  # of tools/install_dependencies.sh --checks


def find_cuobjdump():
    """The path of cuobjdump, beside which nvdisasm lies; None where there is none."""
    folders = [*os.environ["PATH"].split(":"), "/usr/local/cuda/bin"]
    folders += PYTHON.glob("lib/python*/site-packages/nvidia/*/bin")
    candidates = [pathlib.Path(folder) / "cuobjdump" for folder in folders]
    return next((c for c in candidates if c.is_file() and (c.parent / "nvdisasm").is_file()), None)


def kernels(cuobjdump, path):
    """(architecture, name, instructions) of every kernel in an object file."""
    path_with_nvdisasm = {**os.environ, "PATH": f"{cuobjdump.parent}:{os.environ['PATH']}"}
    text = subprocess.run([cuobjdump, "-sass", path], capture_output=True, text=True, check=True, env=path_with_nvdisasm).stdout
    for part in re.split(r"\n\s*code for ", text)[1:]:
        architecture = part.split("\n", 1)[0].strip()
        for function in re.split(r"Function : ", part)[1:]:
            yield architecture, function.split("\n", 1)[0].strip(), INSTRUCTION.findall(function)


def faults_of(path, architecture, name, instructions):
    where = f"{path.name} ({architecture}): {name[:90]}"
    for file, kernel, product, calls_allowed in EXPECTED:
        if not file.search(str(path)) or not (kernel.search(name) or kernel.search(architecture)):
            continue
        products = [i for i, word in enumerate(instructions) if word.startswith(product)]
        if not products:
            # A kernel for one architecture is an empty shell on the others.
            if len(instructions) > 64:
                yield f"{where}: no {product}"
            continue
        loop = instructions[products[0]:products[-1]]
        calls = sum(word.startswith("CALL") for word in loop)
        spills = sum(word.startswith(("LDL", "STL")) for word in (instructions if product in NEVER_SPILLS else loop))
        if calls and not calls_allowed:
            yield f"{where}: {calls} calls between its products"
        if spills > (0 if product in NEVER_SPILLS else MOST_SPILLS):
            yield f"{where}: {spills} loads and stores of spilled registers between its products"


def main():
    build = pathlib.Path(sys.argv[1])
    cuobjdump = find_cuobjdump()
    objects = [path for path in sorted(build.glob("src/**/*.cu.o")) if any(file.search(str(path)) for file, *_ in EXPECTED)]
    if not cuobjdump or not objects:
        print(f"machine code: not checked ({'there is no cuobjdump' if objects else 'nothing was built for CUDA'})")
        return NOT_CHECKED
    count, faults = 0, []
    for path in objects:
        for architecture, name, instructions in kernels(cuobjdump, path):
            count += 1
            faults += faults_of(path, architecture, name, instructions)
    for fault in faults:
        print(fault)
    print(f"machine code: {count} kernels, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
