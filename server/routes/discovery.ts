/** What is served: models, their tasks, the server's version. */

import type { Context } from "hono";
import type { ModelInfo } from "../../engine/types.ts";
import { ApiError } from "../contract/errors.ts";
import { acceptsImage, outputTypes } from "../../generation/task.ts";
import type { ServedModel } from "../served_models.ts";
import type { App, AppEnv, Services } from "../services.ts";
import type { ServerSettings } from "../settings.ts";
import { version } from "../../generation/version.ts";
import { modelCard, precisionName } from "./model_card.ts";
import { engineOf } from "../request_context.ts";
import { mount } from "./mount.ts";

/** Mounts the discovery routes. */
export function mountDiscovery(app: App, services: Services): void {
  const { settings } = services;
  const info = () => services.engine.engine.info;
  const card = (model: ServedModel) => modelCard(model, settings, services.enhancer !== undefined);
  const named = (c: Context<AppEnv>) => {
    const id = c.req.param("id") ?? "";
    const model = services.models.find(id);
    if (model) return model;
    throw new ApiError(404, `The model '${id}' does not exist`, {
      param: "model",
      code: "model_not_found",
    });
  };

  mount(app, "/v1/models", {
    GET: (c) => {
      // The first says what is the matter with it; others are listed when they can be told of.
      const [first, ...others] = services.models.all;
      const known = others.filter(({ engine }) => engine.status === "ready");
      return c.json({ object: "list", data: [first, ...known].map(card) });
    },
  });
  for (const change of ["load", "unload"] as const) {
    mount(app, `/v1/models/:id{.+}/${change}`, {
      POST: async (c) => {
        const model = named(c);
        await (await engineOf(services, model, c.req.raw.signal))[change]();
        return c.json(card(model));
      },
    });
  }
  mount(app, "/v1/models/:id{.+}", {
    GET: async (c) => {
      const model = named(c);
      await engineOf(services, model, c.req.raw.signal);
      return c.json(card(model));
    },
  });
  mount(app, "/models", { GET: (c) => c.json(flatRecord(info(), settings)) });
  mount(app, "/model_info", {
    GET: async (c) => c.json(modelInfo(info(), settings, (await services.ffmpeg()).description)),
  });
  mount(app, "/v1/model_info", { GET: (c) => c.json({ model_path: settings.modelPath }) });
  mount(app, "/server_info", {
    GET: (c) =>
      c.json({
        model_path: settings.modelPath,
        served_model_name: settings.servedModelName,
        tp_size: null,
        dp_size: 1,
        version,
      }),
  });
}

function flatRecord(info: ModelInfo, settings: ServerSettings) {
  return {
    model_path: settings.modelPath,
    num_gpus: settings.numGpus,
    task_type: info.taskType,
    supported_task_types: info.supportedTaskTypes,
    dit_precision: precisionName(info.ditPrecision),
    vae_precision: precisionName(info.vaePrecision),
    vae_decode_precision: null,
    pipeline_name: info.pipelineName,
    pipeline_class: info.pipelineClass,
  };
}

function modelInfo(info: ModelInfo, settings: ServerSettings, videoEncoder: string) {
  return {
    model_path: settings.modelPath,
    is_generation: true,
    model_type: "diffusion",
    architectures: [info.pipelineClass],
    has_image_understanding: acceptsImage(info.supportedTaskTypes),
    has_audio_understanding: false,
    task_type: info.taskType,
    supported_task_types: info.supportedTaskTypes,
    output_types: outputTypes(info.supportedTaskTypes),
    is_image_gen: outputTypes([info.taskType])[0] === "IMAGE",
    video_encoder: videoEncoder,
  };
}
