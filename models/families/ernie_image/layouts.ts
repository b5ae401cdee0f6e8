/** ERNIE-Image in single files, which have the names of diffusers. */
import { basename } from "../../../platform/mod.ts";
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { FLUX2_VAE_FORMAT } from "../../autoencoders/kl/format.ts";
import {
  type ComponentFormat,
  countLayers,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { MINISTRAL3_FORMAT } from "../../text_encoders/ministral3.ts";

const TRANSFORMER: ComponentFormat = {
  name: "an ERNIE-Image transformer",
  component: "transformer",
  className: "ErnieImageTransformer2DModel",
  architecture: "ernie_image",
  namings: [{ probes: ["layers.0.adaLN_sa_ln.weight", "x_embedder.proj.weight"] }],
  config: transformerConfig,
};

/** Source of what shapes do not tell: transformer/config.json of ERNIE-Image. */
function transformerConfig(tensors: TensorSource): JsonObject {
  const [dim, channels] = shapeOf(tensors, "x_embedder.proj.weight", 2) as [number, number];
  const headDim = shapeOf(tensors, "layers.0.self_attention.norm_q.weight", 1)[0]!;
  const text = tensors.find("text_proj.weight") && shapeOf(tensors, "text_proj.weight", 2)[1]!;
  return {
    _class_name: TRANSFORMER.className,
    hidden_size: dim,
    num_attention_heads: dim / headDim,
    num_layers: countLayers(tensors, "layers."),
    ffn_hidden_size: shapeOf(tensors, "layers.0.mlp.gate_proj.weight", 2)[0]!,
    in_channels: channels,
    text_in_dim: text ?? dim,
  };
}

/** Single files, which only their names tell apart: ERNIE-Image-Turbo's have `turbo` in them. */
export const ERNIE_IMAGE_FILES: FamilyFiles = {
  formats: [TRANSFORMER, MINISTRAL3_FORMAT, FLUX2_VAE_FORMAT],
  defaults: (_, path) => {
    const repositories = ["baidu/ERNIE-Image", "baidu/ERNIE-Image-Turbo"];
    return {
      className: "ErnieImagePipeline",
      settings: {},
      scheduler: {
        _class_name: "FlowMatchEulerDiscreteScheduler",
        num_train_timesteps: 1000,
        shift: 4,
      },
      repositories: /turbo/i.test(basename(path)) ? repositories.reverse() : repositories,
    };
  },
};
