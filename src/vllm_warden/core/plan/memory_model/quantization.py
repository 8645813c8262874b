"""How a checkpoint's weights are stored, from the quantization_config of its config.json."""

from __future__ import annotations

from collections.abc import Mapping

from vllm_warden.core.plan.memory_model.config_values import number, table
from vllm_warden.core.plan.memory_model.model_shape import Quantization

BITS_BY_METHOD = {"fp8": 8, "mxfp4": 4, "awq": 4, "awq_marlin": 4, "gptq": 4, "gptq_marlin": 4}
BITS_BY_METHOD |= {"bitsandbytes": 4, "modelopt": 8, "modelopt_fp4": 4, "nvfp4": 4, "fbgemm_fp8": 8}
NVFP4_GROUP = 16
MXFP4_GROUP = 32


def read_quantization(
    document: Mapping[str, object], config: Mapping[str, object]
) -> Quantization | None:
    """None for weights stored as they are computed with."""
    found = table(document, "quantization_config") or table(config, "quantization_config")
    found = found or table(document, "compression_config")
    method = found.get("quant_method")
    if not isinstance(method, str):
        return None
    if method == "compressed-tensors":
        return _compressed(found)
    algorithm = str(found.get("quant_algo", ""))
    if "FP4" in algorithm:
        return Quantization(method, 4, group_size=number(found, "group_size") or NVFP4_GROUP)
    return Quantization(
        method,
        number(found, "bits", "w_bit") or BITS_BY_METHOD.get(method, 8),
        block=_block(found.get("weight_block_size")),
        group_size=number(found, "group_size", "q_group_size")
        or (MXFP4_GROUP if method == "mxfp4" else 0),
    )


def _compressed(found: Mapping[str, object]) -> Quantization:
    """The first group of layers that has a scheme for its weights."""
    for group in table(found, "config_groups").values():
        weights = table(group, "weights") if isinstance(group, dict) else {}
        if weights:
            return Quantization(
                "compressed-tensors",
                number(weights, "num_bits") or 8,
                block=_block(weights.get("block_structure")),
                group_size=number(weights, "group_size"),
            )
    return Quantization("compressed-tensors", 8)


def _block(value: object) -> tuple[int, int]:
    match value:
        case [int(rows), int(columns)] if rows > 0 and columns > 0:
            return rows, columns
        case _:
            return 0, 0
