"""The fields that matter of config.json files, as the owners of the models published them."""

from __future__ import annotations

from typing import Any


def config(kind: str, sizes: str, **rest: Any) -> dict[str, Any]:
    """A config.json with these whole numbers (``name=1 other=2``) and other fields."""
    numbers = {name: int(value) for name, value in (pair.split("=") for pair in sizes.split())}
    return {"model_type": kind, "torch_dtype": "bfloat16", **numbers, **rest}


LLAMA = config(
    "llama",
    "hidden_size=4096 intermediate_size=14336 num_hidden_layers=32 num_attention_heads=32"
    " num_key_value_heads=8 vocab_size=128256 max_position_embeddings=131072",
    tie_word_embeddings=False, attention_bias=False, mlp_bias=False, rms_norm_eps=1e-5,
    hidden_act="silu", rope_scaling={"rope_type": "llama3", "factor": 8.0},
)  # fmt: skip
MLA = "kv_lora_rank=512 qk_nope_head_dim=128 qk_rope_head_dim=64 v_head_dim=128 "

PUBLISHED: dict[str, dict[str, Any]] = {
    "Llama 3.1 8B": LLAMA,
    "Llama 3.2 1B": {
        **LLAMA, "hidden_size": 2048, "num_hidden_layers": 16, "intermediate_size": 8192,
        "head_dim": 64, "tie_word_embeddings": True,
    },
    "Mistral Nemo 12B": config(
        "mistral",
        "hidden_size=5120 intermediate_size=14336 num_hidden_layers=40 num_attention_heads=32"
        " num_key_value_heads=8 head_dim=128 vocab_size=131072",
    ),
    "Mixtral 8x7B": config(
        "mixtral",
        "hidden_size=4096 intermediate_size=14336 num_hidden_layers=32 num_attention_heads=32"
        " num_key_value_heads=8 vocab_size=32000 num_local_experts=8 num_experts_per_tok=2",
    ),
    "Qwen 7B": config(
        "qwen",
        "hidden_size=4096 intermediate_size=22016 num_hidden_layers=32 num_attention_heads=32"
        " kv_channels=128 vocab_size=151936",
        no_bias=True, tie_word_embeddings=False,
    ),
    "Qwen2.5 7B": config(
        "qwen2",
        "hidden_size=3584 intermediate_size=18944 num_hidden_layers=28 num_attention_heads=28"
        " num_key_value_heads=4 vocab_size=152064",
        tie_word_embeddings=False,
    ),
    "Qwen1.5 MoE A2.7B": config(
        "qwen2_moe",
        "hidden_size=2048 intermediate_size=5632 num_hidden_layers=24 num_attention_heads=16"
        " num_key_value_heads=16 vocab_size=151936 moe_intermediate_size=1408 num_experts=60"
        " shared_expert_intermediate_size=5632 num_experts_per_tok=4 decoder_sparse_step=1",
    ),
    "Qwen3 8B": config(
        "qwen3",
        "hidden_size=4096 intermediate_size=12288 num_hidden_layers=36 num_attention_heads=32"
        " num_key_value_heads=8 head_dim=128 vocab_size=151936",
        attention_bias=False, tie_word_embeddings=False,
    ),
    "Qwen3 30B A3B": config(
        "qwen3_moe",
        "hidden_size=2048 intermediate_size=6144 num_hidden_layers=48 num_attention_heads=32"
        " num_key_value_heads=4 head_dim=128 vocab_size=151936 moe_intermediate_size=768"
        " num_experts=128 num_experts_per_tok=8 decoder_sparse_step=1",
        mlp_only_layers=[], tie_word_embeddings=False,
    ),
    "Gemma 7B": config(
        "gemma",
        "hidden_size=3072 intermediate_size=24576 num_hidden_layers=28 num_attention_heads=16"
        " num_key_value_heads=16 head_dim=256 vocab_size=256000",
    ),
    "Gemma 2 9B": config(
        "gemma2",
        "hidden_size=3584 intermediate_size=14336 num_hidden_layers=42 num_attention_heads=16"
        " num_key_value_heads=8 head_dim=256 vocab_size=256000",
    ),
    # The file leaves out what are the defaults of its architecture.
    "Gemma 3 4B": {
        "model_type": "gemma3",
        "text_config": config(
            "gemma3_text", "hidden_size=2560 intermediate_size=10240 num_hidden_layers=34"
        ),
        "vision_config": config(
            "siglip_vision_model",
            "hidden_size=1152 image_size=896 intermediate_size=4304 num_attention_heads=16"
            " num_hidden_layers=27 patch_size=14",
        ),
    },
    "DeepSeek V2 Lite": config(
        "deepseek_v2",
        MLA + "hidden_size=2048 intermediate_size=10944 moe_intermediate_size=1408"
        " num_hidden_layers=27 num_attention_heads=16 num_key_value_heads=16 vocab_size=102400"
        " n_routed_experts=64 n_shared_experts=2 num_experts_per_tok=6 first_k_dense_replace=1"
        " moe_layer_freq=1",
        q_lora_rank=None, tie_word_embeddings=False,
    ),
    "DeepSeek V3": config(
        "deepseek_v3",
        MLA + "hidden_size=7168 intermediate_size=18432 moe_intermediate_size=2048"
        " num_hidden_layers=61 num_attention_heads=128 num_key_value_heads=128 vocab_size=129280"
        " n_routed_experts=256 n_shared_experts=1 num_experts_per_tok=8 first_k_dense_replace=3"
        " q_lora_rank=1536",
        tie_word_embeddings=False,
    ),
    "Llama 4 Maverick": {
        "model_type": "llama4",
        "text_config": config(
            "llama4_text",
            "hidden_size=5120 intermediate_size=8192 intermediate_size_mlp=16384"
            " num_hidden_layers=48 num_attention_heads=40 num_key_value_heads=8 head_dim=128"
            " vocab_size=202048 num_local_experts=128 num_experts_per_tok=1"
            " interleave_moe_layer_step=2",
        ),
        "vision_config": config("llama4_vision_model", "hidden_size=1408"),
    },
    "Phi 2": config(
        "phi",
        "hidden_size=2560 intermediate_size=10240 num_hidden_layers=32 num_attention_heads=32"
        " num_key_value_heads=32 vocab_size=51200",
        tie_word_embeddings=False,
    ),
    "Phi 4": config(
        "phi3",
        "hidden_size=5120 intermediate_size=17920 num_hidden_layers=40 num_attention_heads=40"
        " num_key_value_heads=10 vocab_size=100352",
        tie_word_embeddings=False,
    ),
    "Phi 3.5 MoE": config(
        "phimoe",
        "hidden_size=4096 intermediate_size=6400 num_hidden_layers=32 num_attention_heads=32"
        " num_key_value_heads=8 vocab_size=32064 num_local_experts=16 num_experts_per_tok=2",
        attention_bias=True, lm_head_bias=True, tie_word_embeddings=False,
    ),
    "GPT-2 XL": config(
        "gpt2", "n_embd=1600 n_layer=48 n_head=25 n_positions=1024 n_ctx=1024 vocab_size=50257"
    ),
    "GPT-J 6B": config(
        "gptj", "n_embd=4096 n_layer=28 n_head=16 n_positions=2048 vocab_size=50400",
        n_inner=None, tie_word_embeddings=False,
    ),
    "Pythia 12B": config(
        "gpt_neox",
        "hidden_size=5120 intermediate_size=20480 num_hidden_layers=36 num_attention_heads=40"
        " vocab_size=50688",
        tie_word_embeddings=False,
    ),
    "OPT 6.7B": config(
        "opt",
        "hidden_size=4096 ffn_dim=16384 num_hidden_layers=32 num_attention_heads=32"
        " vocab_size=50272 max_position_embeddings=2048 word_embed_proj_dim=4096",
    ),
    "BLOOM 7.1B": config("bloom", "n_embed=4096 n_layer=30 num_attention_heads=32"
        " vocab_size=250880"),
    "Falcon 7B": config(
        "falcon",
        "hidden_size=4544 num_hidden_layers=32 num_attention_heads=71 num_kv_heads=71"
        " vocab_size=65024",
        multi_query=True, new_decoder_architecture=False, parallel_attn=True, bias=False,
    ),
    "Falcon 40B": config(
        "falcon",
        "hidden_size=8192 num_hidden_layers=60 num_attention_heads=128 num_kv_heads=8"
        " vocab_size=65024",
        multi_query=True, new_decoder_architecture=True, parallel_attn=True, bias=False,
    ),
    "MPT 7B": config(
        "mpt", "d_model=4096 n_layers=32 n_heads=32 expansion_ratio=4 max_seq_len=2048"
        " vocab_size=50368", attn_config={"alibi": True}, no_bias=True,
    ),
    "StarCoder 15B": config(
        "gpt_bigcode",
        "n_embd=6144 n_layer=40 n_head=48 n_inner=24576 n_positions=8192 vocab_size=49152",
        multi_query=True,
    ),
    "StarCoder2 15B": config(
        "starcoder2",
        "hidden_size=6144 intermediate_size=24576 num_hidden_layers=40 num_attention_heads=48"
        " num_key_value_heads=4 vocab_size=49152",
        use_bias=True, tie_word_embeddings=False,
    ),
    "DBRX": config(
        "dbrx", "d_model=6144 n_layers=40 n_heads=48 vocab_size=100352 max_seq_len=32768",
        attn_config={"kv_n_heads": 8, "clip_qkv": 8},
        ffn_config={"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
    ),
    "gpt-oss 20B": config(
        "gpt_oss",
        "hidden_size=2880 intermediate_size=2880 num_hidden_layers=24 num_attention_heads=64"
        " num_key_value_heads=8 head_dim=64 vocab_size=201088 num_local_experts=32"
        " num_experts_per_tok=4 experts_per_token=4",
        attention_bias=True, tie_word_embeddings=False,
    ),
    "GLM-4 9B": config(
        "chatglm",
        "hidden_size=4096 ffn_hidden_size=13696 num_layers=40 num_attention_heads=32"
        " kv_channels=128 padded_vocab_size=151552 multi_query_group_num=2",
        multi_query_attention=True, add_qkv_bias=True, add_bias_linear=False,
    ),
    "GLM-4.5": config(
        "glm4_moe",
        "hidden_size=5120 intermediate_size=12288 moe_intermediate_size=1536 num_hidden_layers=92"
        " num_attention_heads=96 num_key_value_heads=8 head_dim=128 vocab_size=151552"
        " n_routed_experts=160 n_shared_experts=1 num_experts_per_tok=8 first_k_dense_replace=3",
        attention_bias=True, use_qk_norm=True, tie_word_embeddings=False,
    ),
    "Command R+": config(
        "cohere",
        "hidden_size=12288 intermediate_size=33792 num_hidden_layers=64 num_attention_heads=96"
        " num_key_value_heads=8 vocab_size=256000",
        use_qk_norm=True, attention_bias=False,
    ),
    "OLMo 2 7B": config(
        "olmo2",
        "hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 num_attention_heads=32"
        " num_key_value_heads=32 vocab_size=100352",
        tie_word_embeddings=False,
    ),
    "BERT large": config(
        "bert",
        "hidden_size=1024 intermediate_size=4096 num_hidden_layers=24 num_attention_heads=16"
        " vocab_size=30522 max_position_embeddings=512 type_vocab_size=2",
        hidden_act="gelu",
    ),
    "DistilBERT base": config(
        "distilbert",
        "dim=768 hidden_dim=3072 n_layers=6 n_heads=12 vocab_size=30522"
        " max_position_embeddings=512",
    ),
    "T5 11B": config(
        "t5", "d_model=1024 d_kv=128 d_ff=65536 num_layers=24 num_heads=128 vocab_size=32128"
    ),
    "Flan-T5 XL": config(
        "t5",
        "d_model=2048 d_kv=64 d_ff=5120 num_layers=24 num_decoder_layers=24 num_heads=32"
        " vocab_size=32128",
        feed_forward_proj="gated-gelu", tie_word_embeddings=False,
    ),
    "BART large": config(
        "bart",
        "d_model=1024 encoder_layers=12 decoder_layers=12 encoder_attention_heads=16"
        " encoder_ffn_dim=4096 num_hidden_layers=12 vocab_size=50265 max_position_embeddings=1024",
    ),
    "Whisper large v3": config(
        "whisper",
        "d_model=1280 encoder_layers=32 decoder_layers=32 encoder_attention_heads=20"
        " encoder_ffn_dim=5120 num_hidden_layers=32 vocab_size=51866 num_mel_bins=128"
        " max_source_positions=1500 max_target_positions=448",
    ),
    "ViT-B/16": config(
        "vit",
        "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12"
        " patch_size=16 image_size=224",
        id2label={str(number): "something" for number in range(1000)},
    ),
}  # fmt: skip
