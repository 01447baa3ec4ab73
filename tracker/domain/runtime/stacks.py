"""What is known of software by name: how tuned it is, and its habits with memory."""

from __future__ import annotations

from dataclasses import dataclass

from tracker.domain.runtime.types import Stack


@dataclass(frozen=True, slots=True)
class Habits:
    """``level``: how tuned. ``fused_loss``: whether logits are never kept whole.

    ``four_bit``: how frozen 4-bit weights are stored. ``fp32_residual``: whether 4-bit training
    keeps what flows between layers in fp32; None: not known, taken to be so.
    """

    level: Stack
    fused_loss: bool = False
    four_bit: str = "nf4"
    fp32_residual: bool | None = None


# By what each project documents of itself; speeds are calibrated, not stated here.
_HABITS = {
    Stack.OPTIMISED.value: Habits(Stack.OPTIMISED, fused_loss=False, fp32_residual=False),
    Stack.TYPICAL.value: Habits(Stack.TYPICAL),
    Stack.NAIVE.value: Habits(Stack.NAIVE),
    "llm-foundry": Habits(Stack.OPTIMISED),
    "megatron": Habits(Stack.OPTIMISED),
    "megatron-2021": Habits(Stack.OPTIMISED),
    "zero3-2021": Habits(Stack.NAIVE),
    "nemo": Habits(Stack.OPTIMISED),
    "olmo-core": Habits(Stack.OPTIMISED),
    "torchtitan": Habits(Stack.OPTIMISED),
    "tinyllama": Habits(Stack.OPTIMISED),
    "torchtune": Habits(Stack.OPTIMISED, fused_loss=True, fp32_residual=False),
    "unsloth": Habits(Stack.OPTIMISED, fused_loss=True, fp32_residual=False),
    "litgpt": Habits(Stack.TYPICAL, fp32_residual=False),
    "xtuner": Habits(Stack.OPTIMISED),
    "llama-factory": Habits(Stack.TYPICAL, fp32_residual=False),
    "hf": Habits(Stack.TYPICAL, fp32_residual=True),
    "tensorrt-llm": Habits(Stack.OPTIMISED),
    "vllm": Habits(Stack.OPTIMISED),
    "vllm-0.5": Habits(Stack.TYPICAL),
    "llama.cpp": Habits(Stack.TYPICAL),
    "mlc-llm": Habits(Stack.TYPICAL),
    "exllama": Habits(Stack.TYPICAL),
    "hf-deepspeed": Habits(Stack.TYPICAL, four_bit="int4", fp32_residual=False),
}

STACKS = frozenset(_HABITS)


def stack_habits(name: str) -> Habits:
    """The habits of a level or a named stack; of a stack not known those of a typical one."""
    return _HABITS.get(name, _HABITS[Stack.TYPICAL.value])
