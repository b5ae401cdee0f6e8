/** The routes of Stable Diffusion WebUI (AUTOMATIC1111) that its clients call, on the same jobs as all others. */

import type { Context } from "hono";
import { z } from "zod";
import { readJson } from "../http/body.ts";
import { badRequest } from "../contract/errors.ts";
import { validate } from "../contract/validate.ts";
import { shorten } from "../../generation/texts.ts";
import { base64Json, nameIgnored } from "../routes/image_item.ts";
import { type App, type AppEnv, engineOf, type Services } from "../services.ts";
import { mount } from "../routes/mount.ts";
import { checkpointOf, embeddingsOf, memoryOf, upscalersOf } from "./answers.ts";
import { unitModels, unitModules, UNITS_VERSION, unitTypes } from "./control_units.ts";
import { CurrentJobs } from "./current.ts";
import { enlarge } from "./extras.ts";
import { refuseIgnored } from "./fields.ts";
import { generateForWebui } from "./generate.ts";
import { latentModesOf } from "./hires.ts";
import { samplersOf, schedulesOf } from "./names.ts";
import { Options } from "./options.ts";
import { readStyles } from "./styles.ts";
import { pngInfo } from "./png_info.ts";

export const SDAPI = "/sdapi/v1";
/** Where WebUI's ControlNet extension has its own. */
export const CONTROLNET = "/controlnet";

/** What there is nothing of here, and how that is told. */
const NOTHING: Readonly<Record<string, unknown>> = {
  "sd-vae": [],
  "sd-modules": [],
  hypernetworks: [],
  "face-restorers": [],
  "realesrgan-models": [],
  scripts: { txt2img: [], img2img: [] },
  "script-info": [],
  "cmd-flags": {},
};

/** What can be asked for and changes nothing. */
const NO_CHANGE: readonly string[] = [
  ...["refresh-checkpoints", "refresh-loras", "refresh-vae", "refresh-embeddings", "skip"],
  // Models come and go by themselves, as jobs need them.
  ...["unload-checkpoint", "reload-checkpoint"],
];

const optionsSchema = z.looseObject({ sd_model_checkpoint: z.string().nullish() });

export function mountSdapi(app: App, services: Services): void {
  const { settings, queue, models } = services;
  const current = new CurrentJobs(queue);
  // Chosen for all, as there. The models of a fleet come with its workers.
  let choice: string | undefined;
  const chosen = () => choice === undefined ? models.first : models.pick(choice);
  const options = new Options();
  const styles = readStyles(settings.styles);
  const info = async (c: Context<AppEnv>) =>
    (await engineOf(services, chosen(), c.req.raw.signal)).info;
  const json = (c: Context<AppEnv>) =>
    readJson(c.req.raw, { maxBytes: settings.maxBodyBytes, share: c.get("share") });

  for (const [path, startsFromImages] of [["txt2img", false], ["img2img", true]] as const) {
    mount(app, `${SDAPI}/${path}`, {
      POST: (c) =>
        generateForWebui(c, {
          services,
          current,
          styles,
          startsFromImages,
          chosen: () => chosen().name,
        }),
    });
  }
  mount(app, `${SDAPI}/progress`, {
    GET: (c) => {
      const withImage = !/^(?:true|1)$/i.test(c.req.query("skip_current_image") ?? "");
      const { body, headers } = base64Json(current.progress(c.get("client"), withImage));
      return c.body(body, 200, headers);
    },
  });
  mount(app, `${SDAPI}/interrupt`, {
    POST: async (c) => {
      await current.interrupt(c.get("client"));
      return c.json({});
    },
  });
  mount(app, `${SDAPI}/options`, {
    GET: (c) => c.json(options.read(chosen().name)),
    POST: async (c) => {
      const given = validate(optionsSchema, await json(c));
      const { sd_model_checkpoint: wanted } = given;
      await models.seek(wanted);
      if (wanted && !models.find(wanted)) {
        const names = models.all.map((model) => `'${model.name}'`).join(", ");
        throw badRequest(
          `Cannot use the model '${shorten(wanted)}': this server has ${names}`,
          "sd_model_checkpoint",
        );
      }
      const ignored = options.fixed(given);
      refuseIgnored(ignored, settings);
      options.keep(given);
      nameIgnored(c, ignored, services);
      if (wanted) choice = wanted;
      return c.json(null);
    },
  });
  mount(app, `${SDAPI}/sd-models`, {
    GET: async (c) => {
      await models.settle();
      return c.json(models.all.map((model) => checkpointOf(model.name)));
    },
  });
  mount(app, `${SDAPI}/samplers`, { GET: async (c) => c.json(samplersOf(await info(c))) });
  mount(app, `${SDAPI}/schedulers`, { GET: async (c) => c.json(schedulesOf(await info(c))) });
  mount(app, `${SDAPI}/upscalers`, { GET: async (c) => c.json(upscalersOf(await info(c))) });
  mount(app, `${SDAPI}/prompt-styles`, { GET: (c) => c.json(styles) });
  mount(app, `${SDAPI}/latent-upscale-modes`, {
    GET: async (c) => c.json(latentModesOf(await info(c))),
  });
  mount(app, `${SDAPI}/loras`, {
    GET: async (c) => {
      await info(c);
      const offered = await chosen().loras.offered();
      return c.json(
        offered.map(({ name }) => ({ name, alias: name, path: name, metadata: {} })),
      );
    },
  });
  mount(app, `${SDAPI}/embeddings`, { GET: async (c) => c.json(embeddingsOf(await info(c))) });
  mount(app, `${CONTROLNET}/version`, { GET: (c) => c.json({ version: UNITS_VERSION }) });
  mount(app, `${CONTROLNET}/model_list`, {
    GET: async (c) => c.json({ model_list: unitModels(await info(c)) }),
  });
  mount(app, `${CONTROLNET}/module_list`, {
    GET: async (c) => c.json({ module_list: unitModules(await info(c)) }),
  });
  mount(app, `${CONTROLNET}/control_types`, {
    GET: async (c) => c.json({ control_types: unitTypes(await info(c)) }),
  });
  mount(app, `${SDAPI}/memory`, { GET: (c) => c.json(memoryOf()) });
  for (const [path, isBatch] of [["single-image", false], ["batch-images", true]] as const) {
    mount(app, `${SDAPI}/extra-${path}`, {
      POST: async (c) => enlarge(c, await json(c), { services, info: await info(c), isBatch }),
    });
  }
  mount(app, `${SDAPI}/png-info`, {
    POST: async (c) => c.json(await pngInfo(await json(c), c.req.raw.signal)),
  });
  for (const [path, value] of Object.entries(NOTHING)) {
    mount(app, `${SDAPI}/${path}`, { GET: (c) => c.json(value) });
  }
  for (const path of NO_CHANGE) mount(app, `${SDAPI}/${path}`, { POST: (c) => c.json({}) });
}
