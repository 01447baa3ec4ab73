"""Shapes of the models that the measured tables name, for calibration and scoring.

From the configurations their makers published (config.json or the paper's table). A table's name
is matched without case, blanks and punctuation. The catalogue of models that users see is another.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tracker.domain.model import ModelShape

# pattern of the squeezed name: parameters and active ones (10^9), layers, width, vocabulary,
# heads, KV heads, inner width, gated, tied, head width, experts
_PLAIN: tuple[tuple[str, float, int, int, int, int, int, int, bool, bool, int | None], ...] = (
    ("(meta|hermes3)?llamav?31?8b", 8.03, 32, 4096, 128256, 32, 8, 14336, True, False, None),
    ("(meta|hermes3)?llamav?3.*7[01]b", 70.55, 80, 8192, 128256, 64, 8, 28672, True, False, None),
    (".*llamav?3.*405b.*|.*405b", 405.9, 126, 16384, 128256, 128, 8, 53248, True, False, None),
    ("llama321b", 1.24, 16, 2048, 128256, 32, 8, 8192, True, True, 64),
    ("llama323b", 3.21, 28, 3072, 128256, 24, 8, 8192, True, True, 128),
    ("codellama34b", 33.74, 48, 8192, 32000, 64, 8, 22016, True, False, None),
    ("tinyllama.*", 1.1, 22, 2048, 32000, 32, 4, 5632, True, False, None),
    ("llama2?v?2?7b.*|vicuna7b", 6.74, 32, 4096, 32000, 32, 32, 11008, True, False, None),
    ("llamav27b", 6.74, 32, 4096, 32000, 32, 32, 11008, True, False, None),
    ("llama(v)?2?13b.*", 13.02, 40, 5120, 32000, 40, 40, 13824, True, False, None),
    ("llama3[03]b", 32.5, 60, 6656, 32000, 52, 52, 17920, True, False, None),
    ("llama65b", 65.2, 80, 8192, 32000, 64, 64, 22016, True, False, None),
    ("llama(v)?270b.*", 68.98, 80, 8192, 32000, 64, 8, 28672, True, False, None),
    ("mistralnemo.*", 12.2, 40, 5120, 131072, 32, 8, 14336, True, False, 128),
    ("mistral7b.*", 7.24, 32, 4096, 32000, 32, 8, 14336, True, False, None),
    ("gptj.*", 6.05, 28, 4096, 50400, 16, 16, 16384, False, False, None),
    ("falcon7b", 7.22, 32, 4544, 65024, 71, 1, 18176, False, True, None),
    ("falcon40b", 41.8, 60, 8192, 65024, 128, 8, 32768, False, True, 64),
    ("falcon180b", 179.5, 80, 14848, 65024, 232, 8, 59392, False, True, 64),
    ("qwen18b", 1.84, 24, 2048, 151936, 16, 16, 5504, True, False, None),
    ("qwen7b", 7.72, 32, 4096, 151936, 32, 32, 11008, True, False, None),
    ("qwen14b", 14.2, 40, 5120, 152064, 40, 40, 13696, True, False, None),
    ("qwen72b", 72.3, 80, 8192, 152064, 64, 64, 24576, True, False, None),
    ("qwen2572b|qwen272b", 72.7, 80, 8192, 152064, 64, 8, 29568, True, False, None),
    ("qwen2?5?7b", 7.62, 28, 3584, 152064, 28, 4, 18944, True, False, None),
    ("yi34b", 34.4, 60, 7168, 64000, 56, 8, 20480, True, False, None),
    ("yi6b", 6.06, 32, 4096, 64000, 32, 4, 11008, True, False, None),
    ("gemma2b", 2.51, 18, 2048, 256000, 8, 1, 16384, True, True, 256),
    ("gemma7b", 8.54, 28, 3072, 256000, 16, 16, 24576, True, True, 256),
    ("gemma29b", 9.24, 42, 3584, 256000, 16, 8, 14336, True, True, 256),
    ("gemma22b", 2.61, 26, 2304, 256000, 8, 4, 9216, True, True, 256),
    ("gemma227b", 27.2, 46, 4608, 256000, 32, 16, 36864, True, True, 128),
    ("phi15.*", 1.42, 24, 2048, 51200, 32, 32, 8192, False, False, None),
    ("phi2", 2.78, 32, 2560, 51200, 32, 32, 10240, False, False, None),
    ("phi3mini.*", 3.82, 32, 3072, 32064, 32, 32, 8192, True, False, None),
    ("stablelmalpha3b", 3.64, 16, 4096, 50688, 32, 32, 16384, False, False, None),
    ("stablelmalpha7b", 7.87, 16, 6144, 50688, 48, 48, 24576, False, False, None),
    ("gpt35b", 5.0, 24, 4096, 50304, 32, 32, 16384, False, True, None),
    ("gpt320b", 20.0, 44, 6144, 50304, 48, 48, 24576, False, True, None),
    ("gpt3(175b)?|opt175b", 175.0, 96, 12288, 50304, 96, 96, 49152, False, True, None),
    ("nemotron8b", 8.5, 32, 4096, 256000, 32, 32, 16384, False, False, None),
    ("nemotron15b", 15.6, 32, 6144, 256000, 48, 8, 24576, False, False, None),
    ("nemotron22b", 22.0, 40, 6144, 256000, 48, 48, 24576, False, False, None),
    ("nemotron340b", 341.0, 96, 18432, 256000, 96, 8, 73728, False, False, 192),
    ("gpt17b", 1.7, 24, 2304, 51200, 24, 24, 9216, False, True, None),
    ("gpt36b", 3.6, 30, 3072, 51200, 32, 32, 12288, False, True, None),
    ("gpt75b", 7.5, 36, 4096, 51200, 32, 32, 16384, False, True, None),
    ("gpt184b", 18.4, 40, 6144, 51200, 48, 48, 24576, False, True, None),
    ("gpt391b", 39.1, 48, 8192, 51200, 64, 64, 32768, False, True, None),
    ("gpt761b", 76.1, 60, 10240, 51200, 80, 80, 40960, False, True, None),
    ("gpt1456b", 145.6, 80, 12288, 51200, 96, 96, 49152, False, True, None),
    ("gpt1746b", 174.6, 96, 12288, 51200, 96, 96, 49152, False, True, None),
    ("gpt3101b", 310.1, 96, 16384, 51200, 128, 128, 65536, False, True, None),
    ("gpt5296b", 529.6, 105, 20480, 51200, 128, 128, 81920, False, True, None),
    ("gpt10080b", 1008.0, 128, 25600, 51200, 160, 160, 102400, False, True, None),
    ("gpt2124m.*", 0.124, 12, 768, 50257, 12, 12, 3072, False, True, None),
    ("olmo332b", 32.2, 64, 5120, 100278, 40, 8, 27648, True, False, None),
    ("olmo37b", 7.3, 32, 4096, 100278, 32, 32, 11008, True, False, None),
    ("bloom.*176b|bloom", 176.2, 70, 14336, 250880, 112, 112, 57344, False, True, None),
    ("starcoder.*", 15.5, 40, 6144, 49152, 48, 1, 24576, False, True, None),
    ("mpt125m", 0.1245, 12, 768, 50368, 12, 12, 3072, False, True, None),
    ("mpt350m", 0.3665, 24, 1024, 50368, 16, 16, 4096, False, True, None),
    ("mpt760m", 0.7605, 24, 1536, 50368, 12, 12, 6144, False, True, None),
    ("mpt1b", 1.316, 24, 2048, 50368, 16, 16, 8192, False, True, None),
    ("mpt3b", 2.6518, 32, 2560, 50368, 20, 20, 10240, False, True, None),
    ("mpt7b", 6.6589, 32, 4096, 50368, 32, 32, 16384, False, True, None),
    ("mpt13b", 12.854, 40, 5120, 50368, 40, 40, 20480, False, True, None),
    ("mpt30b", 29.9752, 48, 7168, 50368, 64, 64, 28672, False, True, None),
    ("mpt70b", 64.8624, 80, 8192, 50368, 64, 64, 32768, False, True, None),
)  # fmt: skip

_EXPERTS: tuple[tuple[str, float, float, int, int, int, int, int, int, int], ...] = (
    ("mixtral8x7b.*", 46.7, 12.9, 32, 4096, 32000, 32, 8, 14336, 8),
    ("mixtral8x22b.*", 141.0, 39.0, 56, 6144, 32768, 48, 8, 16384, 8),
    ("llama4scout.*", 109.0, 17.0, 48, 5120, 202048, 40, 8, 8192, 16),
    ("llama4maverick.*", 400.0, 17.0, 48, 5120, 202048, 40, 8, 8192, 128),
    ("deepseekv3.*|deepseekr1.*", 671.0, 37.0, 61, 7168, 129280, 128, 128, 2048, 256),
)


_SUFFIXES = re.compile(r"-instruct|-it|-fp8|-lora|_lora|-99(\.9)?$")


def _squeezed(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", _SUFFIXES.sub("", name.lower()))


def shape_of(name: str, params_b: float | None) -> ModelShape | None:
    """The shape of a model as a table names it; made up of *params_b* (10^9) where not listed.

    None when neither is known. A table's own number of parameters replaces the listed one when it
    is within a tenth: it counts position embeddings and the like.
    """
    key = _squeezed(name)
    for pattern, total, active, layers, width, vocab, heads, kv, ffn, experts in _EXPERTS:
        if re.fullmatch(pattern, key):
            return ModelShape(
                name=name, params=total * 1e9, active_params=active * 1e9, layers=layers,
                width=width, vocab=vocab, heads=heads, kv_heads=kv, ffn=ffn, experts=experts,
                head_dim=128, kv_values_per_layer=576 if key.startswith("deepseek") else None,
            )  # fmt: skip
    for pattern, total, layers, width, vocab, heads, kv, ffn, gated, tied, head in _PLAIN:
        if re.fullmatch(pattern, key):
            shape = ModelShape(
                name=name, params=total * 1e9, layers=layers, width=width, vocab=vocab,
                heads=heads, kv_heads=kv, ffn=ffn, gated=gated, tied=tied, head_dim=head,
            )  # fmt: skip
            if params_b is not None and abs(params_b / total - 1) < 0.25:
                return replace(shape, params=params_b * 1e9)
            return shape
    if params_b is None:
        return None
    return ModelShape.of_params(name, params_b * 1e9)
