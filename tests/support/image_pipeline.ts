/** What tests of whole image pipelines have in common: the calls of a golden, its LoRA in any dialect, previews, refusals. */
import assert from "node:assert/strict";
import { readLora } from "../../models/lora/read_lora.ts";
import type { Lora, LoraComponent } from "../../models/lora/types.ts";
import {
  type ModelParts,
  openPipeline,
  type Pipeline,
  type PipelineRequest,
} from "../../models/mod.ts";
import { checkBudgets } from "./budgets.ts";
import { assertClose, Golden, type GoldenCall } from "./golden.ts";
import { checkImage } from "./golden_image.ts";
import { textRequest } from "./golden_request.ts";
import { readRenamed } from "./lora_files.ts";
import { openTestDevice } from "./model_run.ts";

/** Names of a LoRA's tensors for one way of naming them. */
type Rename = (key: string) => string;

/** kohya's names of modules that begin with `prefix`. */
export function kohya(prefix: string): Rename {
  return (key) => {
    const [, module, part] = /^(.*)\.lora_([AB])\.weight$/.exec(key.slice(prefix.length))!;
    const way = part === "A" ? "down" : "up";
    return `lora_unet_${module!.replaceAll(".", "_")}.lora_${way}.weight`;
  };
}

/** What trainers make of diffusers' names. */
export const DIFFUSERS_DIALECTS: readonly Rename[] = [
  (key) => key,
  (key) => key.replace("transformer.", "diffusion_model."),
  (key) => key.replace("transformer.", "base_model.model."),
  kohya("transformer."),
];

/** The request of a call: from text, from the image `given` by strength, by a mask. */
export function imageRequest(golden: Golden, call: GoldenCall): PipelineRequest {
  const { name, args, inputs } = call;
  const size = { width: args["width"] as number, height: args["height"] as number };
  return {
    ...textRequest(call),
    ...(inputs.includes("given") && {
      task: "TI2I" as const,
      images: [{ ...size, data: Uint8Array.from(golden.tensor(name, "given").data) }],
      strength: args["strength"] as number,
    }),
    ...(inputs.includes("mask") && {
      mask: [Uint8Array.from(golden.tensor(name, "mask").data)],
    }),
  };
}

export class ImagePipelineCases {
  readonly golden: Golden;
  readonly #requestOf: (golden: Golden, call: GoldenCall) => PipelineRequest;

  /** @param requestOf makes the request of a call, where not as usual */
  constructor(folder: string, requestOf = imageRequest) {
    this.golden = new Golden(folder);
    this.#requestOf = requestOf;
  }

  request(name: string): PipelineRequest {
    return this.#requestOf(this.golden, this.golden.call(name));
  }

  /** Checks latents and images of calls. */
  async check(t: Deno.TestContext, pipeline: Pipeline, names: readonly string[]): Promise<void> {
    for (const name of names) {
      await t.step(name, () => checkImage(this.golden, name, pipeline, this.request(name)));
    }
  }

  /** The golden's adapter, under the names of a dialect. */
  #lora({ adaptable }: Pipeline, rename: Rename): Promise<Lora> {
    return readRenamed(`${this.golden.folder}/adapter.safetensors`, adaptable, rename);
  }

  /** Checks that the adapter changes the same in every dialect. */
  async checkDialects(pipeline: Pipeline, dialects: readonly Rename[]): Promise<void> {
    const [first, ...others] = await Promise.all(
      dialects.map((rename) => this.#lora(pipeline, rename)),
    );
    for (const other of others) assert.deepEqual(other.changes, first!.changes);
  }

  /** Checks the image of the call `adapted`. */
  async checkAdapted(
    t: Deno.TestContext,
    pipeline: Pipeline,
    targets: readonly LoraComponent[] = ["transformer"],
  ): Promise<void> {
    const lora = await this.#lora(pipeline, (key) => key);
    await this.#checkLora(t, pipeline, "adapted", lora, targets);
  }

  /** Checks that call with the same adapter under the original names, which kohya's stand for too. */
  async checkOriginal(t: Deno.TestContext, pipeline: Pipeline): Promise<void> {
    const path = `${this.golden.folder}/adapter-original.safetensors`;
    const lora = await readLora(path, pipeline.adaptable);
    assert.deepEqual(lora.unmatchedKeys, []);
    const other = await readRenamed(path, pipeline.adaptable, kohya("diffusion_model."));
    assert.deepEqual(other.changes, lora.changes);
    await this.#checkLora(t, pipeline, "original", lora, ["transformer"]);
  }

  /** Checks the image of the call `adapted` with a LoRA, in a step. */
  async #checkLora(
    t: Deno.TestContext,
    pipeline: Pipeline,
    step: string,
    lora: Lora,
    targets: readonly LoraComponent[],
  ): Promise<void> {
    const { name, args } = this.golden.call("adapted");
    const strength = args["strength"] as number;
    const loras = [{ key: step, lora, strength, mode: "dynamic" as const, targets }];
    const request = { ...this.request(name), loras };
    await t.step(step, () => checkImage(this.golden, name, pipeline, request));
  }

  /** Checks what is refused of a call that is changed. */
  async checkRefusals(
    pipeline: Pipeline,
    name: string,
    cases: readonly (readonly [Partial<PipelineRequest>, RegExp])[],
  ): Promise<void> {
    for (const [change, message] of cases) {
      const request = { ...this.request(name), ...change };
      await assert.rejects(pipeline.generate(request), { name: "RangeError", message });
    }
  }

  async checkPreviews(pipeline: Pipeline, name: string): Promise<void> {
    const request = this.request(name);
    const previews: number[] = [];
    await pipeline.generate(request, {
      previews: 2,
      onPreview: (frame, index) => {
        assert.equal(frame.length, request.width * request.height * 3);
        previews.push(index);
      },
    });
    assert.deepEqual(previews, [0, 1]);
  }

  /** Checks that the call `guided` gives the same image within shares of the memory that it takes. */
  checkBudgets(shares: readonly number[] = [0.6, 0.45]): Promise<void> {
    const request = { ...this.request("guided"), numInferenceSteps: 2 };
    return checkBudgets(this.golden.folder, request, shares);
  }

  /** Checks the latents of a call made from other files; the tokenizer is the golden's. */
  async checkLatents(name: string, model: string, parts: ModelParts): Promise<void> {
    const device = await openTestDevice();
    using pipeline = await openPipeline(model, { tokenizer: this.golden.folder, ...parts });
    try {
      await pipeline.load(device);
      const { latents } = await pipeline.generate(this.request(name));
      const expected = this.golden.tensor(name, "latents");
      assertClose(name, { shape: expected.shape, data: latents }, expected, 1e-4);
    } finally {
      device.destroy();
    }
  }
}
