/** The LongCat-Image transformer against the reference. */
import { timestepConstant } from "../../models/blocks/embeddings.ts";
import { hiddenSize } from "../../models/config.ts";
import { flux1Context } from "../../models/families/flux1/blocks.ts";
import { EMBEDDING_CHANNELS, modulationOf } from "../../models/families/flux1/modulation.ts";
import { flux1Transformer } from "../../models/families/flux1/transformer.ts";
import { LONGCAT_IMAGE_TRANSFORMER_CONFIG } from "../../models/families/longcat_image/config.ts";
import {
  longCatImagePlaces,
  longCatImageTables,
} from "../../models/families/longcat_image/transformer.ts";
import { checkTransformer, gridOf } from "../support/transformer_run.ts";

Deno.test("the blocks of FLUX.1 give the outputs of longcat_image/tiny, whose widths fill no vector", (t) =>
  checkTransformer(
    t,
    "longcat_image/tiny",
    LONGCAT_IMAGE_TRANSFORMER_CONFIG,
    (config, { graph, weights, latents, states, step, args }) => {
      const grids = [gridOf(args)];
      const timesteps = [500, args["timestep"] as number];
      const embedded = timestepConstant(graph, timesteps, EMBEDDING_CHANNELS);
      const tables = longCatImageTables(config, weights, embedded);
      return flux1Transformer(graph, config, weights, {
        context: flux1Context(config, weights, states),
        sample: latents,
        grids,
        places: longCatImagePlaces(states.dim(1), grids),
        modulation: modulationOf(tables, step, hiddenSize(config)),
      });
    },
  ));
