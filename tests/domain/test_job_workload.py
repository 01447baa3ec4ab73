"""``[workload]`` of a job file: what is read, and what is refused in which words."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.catalogue import catalogue
from tests.support.estimating import FAMILY, HPC, LORA, SERVE, Shipped, job_of
from tracker import data
from tracker.domain.job import Basis, Job, JobError, NoEstimate, RuntimeEstimate, runtime_for
from tracker.domain.job_text import job_from_text, job_from_toml
from tracker.domain.job_workload import _KINDS, quantity
from tracker.domain.runtime.types import Family, Hpc, Inference, Method, Training

GIVEN = "[hours]\nA100-SXM-80GB = 10\n"


def task(job: Job) -> object:
    assert job.task is not None
    return job.task.workload


def changed(workload: str, **lines: str | None) -> str:
    """*workload* with keys set (as TOML) or, by None, left out."""
    kept = [line for line in workload.splitlines() if line.split(" =")[0] not in lines]
    added = [f"{key} = {value}" for key, value in lines.items() if value is not None]
    return "\n".join((*kept, *added))


def test_training_is_read_with_its_defaults() -> None:
    job = job_of(LORA)
    workload = task(job)
    assert isinstance(workload, Training)
    assert (workload.tokens, workload.seq_len, workload.method) == (5e7, 2048, Method.LORA)
    assert workload.model.name == "Llama 3.1 8B"
    assert (workload.precision, workload.batch, workload.checkpointing) == ("bf16", None, True)
    assert job.task is not None
    assert job.task.sharding_open
    assert not job.count_given


def test_samples_and_epochs_are_tokens() -> None:
    by_samples = task(job_of(changed(LORA, tokens=None, samples='"20k"', epochs="3")))
    assert isinstance(by_samples, Training)
    assert by_samples.tokens == 20_000 * 3 * 2048


def test_inference_offline_and_as_a_service() -> None:
    offline = job_of(SERVE)
    workload = task(offline)
    assert isinstance(workload, Inference)
    assert (workload.requests, workload.input_tokens, workload.output_tokens) == (1e6, 1024, 256)
    assert offline.task is not None
    assert offline.task.units == {"requests": 10**6, "tokens": 256 * 10**6}
    service = job_of(changed(SERVE, requests=None, request_rate="2.5", service_hours="100"))
    assert service.task is not None
    assert service.task.service_hours == 100
    assert service.task.units["requests"] == Decimal("2.5") * 100 * 3600


def test_a_family_and_hpc() -> None:
    family, hpc = task(job_of(FAMILY, GIVEN)), task(job_of(HPC))
    assert isinstance(family, Family)
    assert family.group == "vision_cnn"
    assert isinstance(hpc, Hpc)
    assert (hpc.flops, hpc.bytes_moved, hpc.precision) == (2e17, 0, "fp64")


def test_kind_hours_is_a_job_of_hours_alone() -> None:
    job = job_of('kind = "hours"', GIVEN)
    assert job.task is None
    assert runtime_for(job, "A100-SXM-80GB", catalogue()) == RuntimeEstimate(
        Decimal(10), Basis.STATED
    )


def test_models_by_numbers_and_by_config() -> None:
    by_params = task(job_of(changed(LORA, model='{ params = "7B" }')))
    assert isinstance(by_params, Training)
    assert by_params.model.guessed
    assert by_params.model.params == 7e9
    sizes = "layers = 32, width = 4096, heads = 32, kv_heads = 8, ffn = 14336, vocab = 128256"
    shape = f"{{ {sizes}, gated = true }}"
    by_shape = task(job_of(changed(LORA, model=shape)))
    assert isinstance(by_shape, Training)
    assert by_shape.model.params == pytest.approx(8.03e9, rel=0.01)
    config = {
        "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
        "vocab_size": 128256,
    }  # fmt: skip
    by_file = task(job_of(changed(LORA, model='"my.json"'), files={"my.json": json.dumps(config)}))
    assert isinstance(by_file, Training)
    assert by_file.model.params == pytest.approx(8.03e9, rel=0.01)


def test_a_rate_is_hours_of_what_the_workload_counts() -> None:
    job = job_of(FAMILY, "[hours.A100-SXM-80GB]\nsamples_per_second = 2000\n")
    assert job.hours["A100-SXM-80GB"].hours == round(Decimal(10**8) / 2000 / 3600, 9)
    tuned = job_of(LORA, "[hours.H100-SXM-80GB]\ntokens_per_second = 6000\n")
    assert tuned.hours["H100-SXM-80GB"].hours == round(Decimal(50_000_000) / 6000 / 3600, 9)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ({"kind": '"finetuning"'}, "is no kind of job; did you mean 'finetune'"),
        ({"kind": '"xyz"'}, "known: training, finetune, inference, family, hpc, hours"),
        ({"methood": '"lora"'}, "workload.methood: unknown key; did you mean 'method'"),
        ({"requests": "5"}, "workload.requests: unknown key"),
        ({"method": '"lorra"'}, "workload.method: 'lorra' is not known; did you mean 'lora'"),
        ({"method": None}, "workload.method: say which: full, lora, qlora"),
        ({"model": '"Lama 3.1 8B"'}, "did you mean Llama 3.1 8B"),
        ({"model": '"BERT base"'}, "use kind = family, group = nlp_encoder_train"),
        ({"model": '"none.json"'}, "workload.model: none.json: No such file"),
        ({"model": "7"}, "workload.model: name one"),
        ({"model": '{ params = "7" }'}, "7 parameters cannot be meant"),
        ({"model": "{ layers = 3, width = 4096 }"}, "workload.model.heads: is missing"),
        ({"model": '{ parms = "7B" }'}, "workload.model.parms: unknown key; did you mean 'params'"),
        ({"tokens": "0"}, "workload.tokens: 0 is not above 0"),
        ({"tokens": "50"}, "50 tokens, too few for kind = finetune (at least 10k); write k"),
        ({"tokens": '"50T"'}, "makes 50T tokens, more than any finetune has seen (at most 1T)"),
        ({"tokens": '"fifty"'}, "'fifty' is not a count such as 5000"),
        ({"tokens": None}, "workload.tokens: say how many"),
        ({"samples": "500"}, "workload.tokens: all of them are counted; samples beside it"),
        ({"seq_len": "4"}, "workload.seq_len: 4 tokens; write 4096 for 4k"),
        ({"seq_len": "2_000_000"}, "Llama 3.1 8B is made for 131072 tokens"),
        ({"precision": '"fp7"'}, "workload.precision: 'fp7' is not known; did you mean"),
        ({"optimiser": '"sgd"'}, "workload.optimiser: of adapters it is Adam"),
        ({"method": '"qlora"', "precision": '"fp8"'}, "contradict each other"),
        ({"method": '"full"', "trainable": '"1M"'}, "method = full trains all parameters"),
        ({"batch": "0"}, "workload.batch: 0 is not above 0"),
        ({"batch": "1.5"}, "workload.batch: "),
        ({"checkpointing": '"yes"'}, "workload.checkpointing: 'yes' is not true or false"),
        ({"stack": '"vlm"'}, "workload.stack: 'vlm' is not known; did you mean 'vllm'"),
    ],
    ids=str,
)  # fmt: skip
def test_mistakes_in_training_are_named(lines: dict[str, str | None], said: str) -> None:
    with pytest.raises(JobError) as caught:
        job_of(changed(LORA, **lines))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ({"requests": None}, "workload.requests: say how many"),
        ({"request_rate": "3"}, "workload.requests: request_rate and service_hours say it already"),
        ({"service_hours": "3"}, "workload.service_hours: goes with request_rate only"),
        ({"requests": None, "request_rate": "3", "concurrency": "4"}, "says it already"),
        ({"ttft_seconds": "5000"}, "give seconds, not milliseconds"),
        ({"ttft_seconds": "200"}, "give seconds, not milliseconds"),
        ({"tpot_seconds": "20"}, "give seconds, not milliseconds"),
        ({"tpot_seconds": "0"}, "workload.tpot_seconds: 0 is not above 0"),
        ({"input_tokens": '"200k"'}, "are more than the 131072 that Llama 3.1 8B holds"),
        ({"input_tokens": None}, "workload.input_tokens: is missing"),
        ({"method": '"lora"'}, "workload.method: unknown key"),
        ({"precision": '"int3"'}, "did you mean"),
    ],
    ids=str,
)  # fmt: skip
def test_mistakes_in_inference_are_named(lines: dict[str, str | None], said: str) -> None:
    with pytest.raises(JobError) as caught:
        job_of(changed(SERVE, **lines))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("workload", "rest", "said"),
    [
        (FAMILY, "", "known by a measurement; give hours"),
        (FAMILY, "[hours.A100]\nhours = 3\nlower_bound = true\n", "known by a measurement"),
        (changed(FAMILY, group='"vision_cn"'), GIVEN, "did you mean 'vision_cnn'"),
        (changed(FAMILY, samples=None), "[hours.A100]\nsamples_per_second = 3\n",
         "the workload does not say how many samples there are"),
        (FAMILY, "[hours.A100]\nsamples_per_second = 3\nhours = 3\n", "say the same thing"),
        (FAMILY, "[hours.A100]\nsamples_per_second = 0\n", "0 is not above 0"),
        (FAMILY, "[hours.A100]\nsamples_per_second = 1e-20\n", "h, more than ten years"),
        (changed(HPC, flops=None), "", "workload.flops: say how many operations"),
        (changed(HPC, flops="50"), "", "takes a GPU no second"),
        (changed(HPC, flops='"many"'), "", "'many' is not a count"),
        (changed(HPC, flops="[0, [3, 6], 17]"), "", "is not a count"),
        (changed(HPC, flops="true"), "", "True is not a count"),
        (changed(HPC, flops="0x" + 5000 * "f"), "", "a number of thousands of digits"),
        (changed(LORA, seq_len="0x" + 5000 * "f"), "", "a number of thousands of digits"),
        (changed(HPC, precision='"fp65"'), "", "did you mean 'fp64'"),
        ('kind = "hours"\nmodel = "x"', GIVEN, "workload.model: unknown key"),
        (LORA, "[hours]\nA100-SXM-80GB = 270\n", "are these minutes?"),
        (LORA, "[hours]\nA100-SXM-80GB = 0.2\n", "are these days"),
        (LORA, "[hours]\nA101 = 3\n", "unknown GPU 'A101'"),
    ],
)  # fmt: skip
def test_mistakes_in_other_jobs_are_named(workload: str, rest: str, said: str) -> None:
    with pytest.raises(JobError) as caught:
        job_of(workload, rest)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("model", "gpus", "said"),
    [
        ('"Llama 3.1 8B"', 3, "3 does not divide the 32 heads of Llama 3.1 8B; take 1, 2, 4, 8, 16 "
                              "or 32"),
        ('"Llama 3.1 8B"', 64, "64 does not divide the 32 heads"),
        ('"Falcon 7B"', 2, "2 does not divide the 71 heads of Falcon 7B; take 1 or 71"),
        ('"Phi 4"', 4, "4 neither divides the 10 KV heads of Phi 4 nor is a multiple of them; take "
                       "1, 2, 5, 10, 20 or 40"),
    ],
)  # fmt: skip
def test_tensor_parallelism_divides_the_heads(model: str, gpus: int, said: str) -> None:
    with pytest.raises(JobError) as caught:
        job_of(changed(SERVE, model=model, tensor_parallel=str(gpus)))
    assert str(caught.value).startswith(f"workload.tensor_parallel: {said}")


@pytest.mark.parametrize(
    ("model", "gpus"),
    [
        ('"Llama 3.1 8B"', 8),  # as many as KV heads
        ('"Llama 3.1 8B"', 16),  # more than KV heads: each is kept twice
        ('"DeepSeek V3"', 16),  # latent attention has no KV heads to divide
        ('{ params = "8B" }', 3),  # whose heads nobody said
    ],
)
def test_what_the_usual_software_accepts_is_accepted(model: str, gpus: int) -> None:
    edited = changed(SERVE, model=model, tensor_parallel=str(gpus))
    workload = task(job_of(edited))
    assert isinstance(workload, Inference)
    assert workload.tensor_parallel == gpus


def test_half_a_name_of_a_group_gets_all_that_begin_so() -> None:
    with pytest.raises(JobError, match="did you mean 'diffusion_inference' or 'diffusion_train'"):
        job_of(FAMILY.replace("vision_cnn", "diffusion"), GIVEN)


def test_the_page_names_every_group_of_measured_jobs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "jobs.md").read_text()
    groups = Shipped().estimator.calibration.groups()
    assert [group for group in groups if f"`{group}`" not in page] == []


def test_pretraining_takes_more_tokens_than_a_fine_tune() -> None:
    training = changed(LORA, kind='"training"', method='"full"')
    job_of(changed(training, tokens='"15T"'))
    with pytest.raises(JobError, match="too few for kind = training"):
        job_of(changed(training, tokens='"300k"'))
    with pytest.raises(JobError, match="more than any training has seen"):
        job_of(changed(training, tokens='"2000T"'))


def test_without_knowledge_a_workload_cannot_be_read() -> None:
    with pytest.raises(JobError, match="cannot be read here"):
        job_from_text(f'name = "j"\n[workload]\n{LORA}', catalogue())


@given(number=st.integers(1, 10**6), unit=st.sampled_from(["", "k", "M", "B", "T"]))
def test_counts_with_a_unit_are_exact(number: int, unit: str) -> None:
    times = {"": 1, "k": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}[unit]
    assert quantity(f"{number}{unit}", "x") == number * times
    assert quantity(f"{number}.5 {unit.lower()}", "x") == Decimal(2 * number + 1) * times / 2


@given(text=st.text(max_size=30))
def test_any_text_is_a_count_or_an_error_in_one_line(text: str) -> None:
    try:
        assert quantity(text, "x") > 0
    except JobError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("name", data.names("jobs", ".toml"))
def test_every_built_in_job_is_read_and_runs_somewhere(name: str) -> None:
    job = job_from_text(data.text(name), catalogue(), Shipped())
    assert f"jobs/{job.name}.toml" == name
    assert job.title
    assert job.description
    found = runtime_for(job, "H100-SXM-80GB", catalogue())
    assert isinstance(found, RuntimeEstimate)
    for given_hours in job.hours.values():
        assert given_hours.source, "hours that are shipped have a source"


_SCALARS = st.one_of(
    st.sampled_from(["Llama 3.1 8B", "Mixtral 8x7B", "bf16", "fp8", "nf4", "lora", "qlora", "full",
                     "fsdp", "tp", "vllm", "hf", "1M", "3B", "2k", "best", "recsys", "x.json", ""]),
    st.integers(-3, 10**13),
    st.decimals("0.0001", "100000", places=4),
    st.booleans(),
    st.just(Decimal("nan")),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(
        st.sampled_from(["params", "layers", "width", "heads", "vocab", "kv_heads", "experts",
                         "active_params", "head_dim", "ffn"]),
        st.one_of(st.integers(-1, 10**6), st.sampled_from(["7B", "300M", "32", "0"])),
        max_size=8,
    ),
)  # fmt: skip
_KINDS_AND_KEYS = st.sampled_from(sorted(_KINDS)).flatmap(
    lambda kind: st.tuples(
        st.just(kind),
        st.dictionaries(
            st.sampled_from([key for key in _KINDS[kind][0] if key != "kind"] or ["kind"]),
            _SCALARS,
        ),
    )
)
_SOUND = {
    "training": {"model": "Llama 3.1 8B", "tokens": "2B", "seq_len": 2048},
    "finetune": {"model": "Llama 3.1 8B", "method": "lora", "tokens": "2M", "seq_len": 512},
    "inference": {"model": "Qwen2.5 7B", "input_tokens": 100, "output_tokens": 10, "requests": 9},
    "family": {"group": "recsys"},
    "hpc": {"flops": "1T"},
    "hours": {},
}


@given(drawn=_KINDS_AND_KEYS, gpu=st.sampled_from(["H100-SXM-80GB", "T4-16GB", "MI300X-OAM-192GB"]))
@settings(max_examples=133, deadline=None)
def test_whatever_a_workload_says_it_is_a_job_or_one_line(
    drawn: tuple[str, dict[str, object]], gpu: str
) -> None:
    kind, keys = drawn
    workload = {**_SOUND[kind], **keys, "kind": kind}
    hours = {"A100": {"hours": 100}} if kind in ("family", "hours") else {}
    try:
        job = job_from_toml(
            {"name": "j", "workload": workload, "hours": hours}, catalogue(), Shipped()
        )
    except JobError as error:
        assert "\n" not in str(error)
        return
    found = runtime_for(job, gpu, catalogue())
    assert isinstance(found, NoEstimate) or found.hours > 0


SHAPE = "layers = 32, width = 4096, heads = 32, kv_heads = 8, ffn = 14336, vocab = 128256"


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (f'{{ params = "70B", {SHAPE} }}', "params: 7e+10, but the layers, width, ffn and vocab"),
        (f'{{ params = "800M", {SHAPE} }}', "params: 8e+08, but the layers"),
        (f'{{ params = "8B", active_params = "2B", {SHAPE} }}', "active_params: is of a mixture"),
        ('{ layers = 2, width = 1e20, heads = 8, vocab = 32000 }', "width: 1e+20 cannot be meant"),
        ('{ layers = 9e6, width = 9e6, heads = 1, vocab = 9 }', "layers: with the width"),
        ('{ layers = 2, width = 100, heads = 3, vocab = 32000 }', "heads: a width of 100 cannot"),
        ('{ layers = 2, width = 128, heads = 8, kv_heads = 3, vocab = 32000 }', "kv_heads: 8 head"),
        ('{ params = "7B", kv_heads = 8 }', "kv_heads: is of a shape; give layers, width, heads"),
        ('{ params = "7B", gated = true }', "gated: is of a shape; give layers, width, heads"),
    ],
)  # fmt: skip
def test_numbers_of_a_model_that_contradict_each_other_are_refused(
    model: str, complaint: str
) -> None:
    with pytest.raises(JobError, match=re.escape(f"workload.model.{complaint}")):
        job_of(changed(LORA, model=model))


def test_a_shape_with_its_own_count_of_parameters_is_taken() -> None:
    found = task(job_of(changed(LORA, model=f'{{ params = "8B", gated = true, {SHAPE} }}')))
    assert isinstance(found, Training)
    assert found.model.params == 8e9


def test_no_message_shows_how_a_number_is_held() -> None:
    with pytest.raises(JobError, match=r"tokens: not a finite number: NaN$"):
        job_of(changed(LORA, tokens="nan"))
    for text in ("gpus_needed = 1.5", "title = 2.5", "[limits]\nregions = [1.5]"):
        with pytest.raises(JobError, match=r"(1|2)\.5\]? is not") as told:
            job_from_text(f'name = "x"\n{text}\n[hours]\nA100 = 1\n')
        assert "Decimal" not in str(told.value)
