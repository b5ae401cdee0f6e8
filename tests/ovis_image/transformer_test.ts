/** The Ovis-Image transformer against the reference. */
import { timestepConstant } from "../../models/blocks/embeddings.ts";
import { EMBEDDING_CHANNELS, modulationOf } from "../../models/families/flux1/modulation.ts";
import { flux1Transformer } from "../../models/families/flux1/transformer.ts";
import { OVIS_IMAGE_TRANSFORMER_CONFIG } from "../../models/families/ovis_image/config.ts";
import { DIFFUSERS_OVIS_IMAGE } from "../../models/families/ovis_image/names.ts";
import {
  ovisImageContext,
  ovisImagePlaces,
  ovisImageTables,
} from "../../models/families/ovis_image/transformer.ts";
import { hiddenSize } from "../../models/config.ts";
import { checkTransformer, gridOf } from "../support/transformer_run.ts";

Deno.test("the blocks of FLUX.1 with gates give the outputs of ovis_image/tiny, whose widths fill no vector", (t) =>
  checkTransformer(
    t,
    "ovis_image/tiny",
    OVIS_IMAGE_TRANSFORMER_CONFIG,
    (config, { graph, weights, latents, states, step, args }) => {
      const grids = [gridOf(args)];
      const timesteps = [500, args["timestep"] as number];
      const embedded = timestepConstant(graph, timesteps, EMBEDDING_CHANNELS);
      const tables = ovisImageTables(config, weights, embedded);
      return flux1Transformer(graph, config, weights, {
        context: ovisImageContext(config, weights, states),
        sample: latents,
        grids,
        places: ovisImagePlaces(states.dim(1), grids),
        kind: "swiglu",
        modulation: modulationOf(tables, step, hiddenSize(config)),
      });
    },
    DIFFUSERS_OVIS_IMAGE,
  ));
