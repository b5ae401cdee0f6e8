"""A small Qwen3-VL, and how its pictures are prepared."""

from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

TEXT = dict(vocab_size=912, hidden_size=256, intermediate_size=256, num_hidden_layers=9, num_attention_heads=2,
            num_key_value_heads=1, head_dim=128, max_position_embeddings=4096, rms_norm_eps=1e-6, rope_theta=5e6,
            rope_scaling={"rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True})
VISION = dict(depth=1, hidden_size=16, intermediate_size=20, num_heads=2, out_hidden_size=256, deepstack_visual_indexes=[0],
              num_position_embeddings=16)


def picture_processor():
    """As preprocessor_config.json of Qwen3-VL has it."""
    return Qwen2VLImageProcessorPil(patch_size=16, image_mean=[0.5] * 3, image_std=[0.5] * 3,
                                    size={"shortest_edge": 65536, "longest_edge": 16777216})
