/** LoRAs that are damaged, hostile or of another model: refused with all that is wrong, and nothing half-read. */
import { strict as assert } from "node:assert";
import { madeUpComponent } from "../../tests/support/adaptable.ts";
import {
  type FileOptions,
  loraFile,
  numbers,
  readBytes,
  readTensors,
  type Tensors,
} from "../../tests/support/lora_files.ts";
import { randomTensor } from "../../tests/support/lora_reference.ts";
import { encodeSafetensors, withFolder } from "../../tests/support/safetensors.ts";
import { ORIGINAL_WAN } from "../families/wan/layouts.ts";
import { LoraError } from "./lora_error.ts";
import { readLora } from "./read_lora.ts";
import type { Lora, LoraTensor } from "./types.ts";

const WAN = madeUpComponent("Wan", {
  "blocks.0.attn1.to_q": [8, 8],
  "blocks.0.attn1.to_k": [8, 8],
  "patch_embedding": [8, 4, 1, 2, 2],
}, [ORIGINAL_WAN]);

const Q = "transformer.blocks.0.attn1.to_q";
const K = "transformer.blocks.0.attn1.to_k";
const DOWN = randomTensor([2, 8], 1);
const UP = randomTensor([8, 2], 2);
const GOOD: Tensors = { [`${Q}.lora_A.weight`]: DOWN, [`${Q}.lora_B.weight`]: UP };

async function assertRefused(
  reading: Promise<Lora>,
  message: RegExp,
  problems?: readonly (string | RegExp)[],
): Promise<LoraError> {
  let found: LoraError | undefined;
  await assert.rejects(reading, (error) => {
    assert.ok(error instanceof LoraError, String(error));
    assert.match(error.message, message);
    assert.match(error.message, /^Cannot /);
    assert.ok(error.message.length < 1000, `a message of ${error.message.length} characters`);
    found = error;
    return true;
  });
  if (problems) {
    assert.equal(found!.problems.length, problems.length, found!.problems.join("\n"));
    problems.forEach((problem, i) => assert.match(found!.problems[i]!, new RegExp(problem)));
  }
  return found!;
}

function refuses(
  what: string,
  tensors: Tensors,
  message: RegExp,
  problems?: readonly (string | RegExp)[],
  options: FileOptions = {},
): void {
  Deno.test(`readLora() refuses ${what}`, async () => {
    await assertRefused(readTensors(tensors, [WAN], options), message, problems);
  });
}

function withValue(tensor: LoraTensor, index: number, bits: number): LoraTensor {
  const bytes = tensor.bytes.slice();
  if (tensor.dtype === "f32") new Uint32Array(bytes.buffer)[index] = bits;
  else new Uint16Array(bytes.buffer)[index] = bits;
  return { ...tensor, bytes };
}

refuses(
  "a rank far above what the weight can have, before it reads the factors",
  {
    [`${Q}.lora_A.weight`]: randomTensor([1025, 8], 1),
    [`${Q}.lora_B.weight`]: randomTensor([8, 1025], 2),
  },
  /lora_B.weight" of shape \[8, 1025\] has rank 1025, where 1024 is the most for a weight of \[8, 8\]/,
);

refuses(
  "an alpha in the header that is no number, where a module needs it",
  GOOD,
  /alpha in the metadata of ".*" is "None", not a number; give the alpha yourself: alpha=16 behind/,
  undefined,
  { metadata: { lora_alpha: "None" } },
);

refuses(
  "factors of another rank than the header says",
  GOOD,
  /has rank 2, the metadata of ".*" says 8, .* resized; give the alpha yourself/,
  undefined,
  {
    metadata: {
      lora_adapter_metadata: JSON.stringify({ "transformer.r": 8, "transformer.lora_alpha": 8 }),
    },
  },
);

const half = (shape: readonly number[], dtype: "f16" | "bf16") => randomTensor(shape, 3, { dtype });

refuses(
  "NaN and infinity of every type, naming all tensors",
  {
    [`${Q}.lora_A.weight`]: withValue(DOWN, 5, 0x7fc00000),
    [`${Q}.lora_B.weight`]: withValue(half([8, 2], "f16"), 15, 0xfc00),
    [`${K}.lora_A.weight`]: withValue(half([2, 8], "bf16"), 0, 0x7f80),
    [`${K}.lora_B.weight`]: UP,
  },
  /"transformer\.blocks\.0\.attn1\.to_q\.lora_A\.weight" has NaN or infinity at element 5, and 2 more/,
  [/to_q\.lora_A/, /to_q\.lora_B.* element 15/, /to_k\.lora_A.* element 0/],
);

refuses(
  "wrong shapes, naming all tensors and what they need",
  {
    [`${Q}.lora_A.weight`]: randomTensor([2, 9], 1),
    [`${Q}.lora_B.weight`]: UP,
    [`${K}.lora_A.weight`]: DOWN,
    [`${K}.lora_B.weight`]: randomTensor([8, 3], 1),
    ["transformer.patch_embedding.lora_A.weight"]: randomTensor([2, 16, 1, 1, 1], 1),
    ["transformer.patch_embedding.lora_B.weight"]: UP,
  },
  /to_q\.lora_A\.weight" is \[2, 9\], the module needs \[2, 8\], and 2 more/,
  [/to_q/, /to_k\.lora_A.* \[2, 8\].* needs \[3, 8\]/, /\[2, 16, 1, 1, 1\].* \[2, 4, 1, 2, 2\]/],
);

refuses(
  "rank 0",
  {
    [`${Q}.lora_A.weight`]: randomTensor([0, 8], 1),
    [`${Q}.lora_B.weight`]: randomTensor([8, 0], 1),
  },
  /has rank 0/,
);

for (
  const [what, tensors, partner] of [
    ["down without up", { [`${Q}.lora_A.weight`]: DOWN }, "lora_B or lora_up"],
    ["up without down", { [`${Q}.lora_up.weight`]: UP }, "lora_A or lora_down"],
    ["half a LoHa", {
      [`${Q}.hada_w1_a`]: UP,
      [`${Q}.hada_w1_b`]: DOWN,
      [`${Q}.hada_w2_a`]: UP,
    }, "hada_w2_b"],
    ["half a LoKr", { [`${Q}.lokr_w1`]: randomTensor([2, 2], 1) }, "lokr_w2_a"],
    ["half a LoKr factor", {
      [`${Q}.lokr_w1`]: randomTensor([2, 2], 1),
      [`${Q}.lokr_w2_b`]: randomTensor([2, 4], 1),
    }, "lokr_w2_a"],
  ] as const
) {
  refuses(what, tensors, new RegExp(`has no partner \\(${partner}\\)`));
}

refuses(
  "lengths without factors",
  { [`${Q}.dora_scale`]: randomTensor([8, 1], 1) },
  /no factors beside/,
); // deno-fmt-ignore
refuses(
  "lengths of the wrong number",
  { ...GOOD, [`${Q}.dora_scale`]: randomTensor([7, 1], 1) },
  /the module has 8 rows and 8 columns/,
);
refuses(
  "a LoKr that divides nothing",
  { [`${Q}.lokr_w1`]: randomTensor([3, 3], 1), [`${Q}.lokr_w2`]: randomTensor([3, 3], 1) },
  /which divides no weight of \[8, 8\]/,
);
refuses("an alpha that is NaN", { ...GOOD, [`${Q}.alpha`]: numbers(NaN) }, /alpha" is NaN/);
refuses(
  "an alpha in the metadata beyond f32",
  GOOD,
  /scaled by 5e\+99, which is no f32/,
  undefined,
  {
    metadata: { lora_alpha: "1e100" },
  },
);
refuses(
  "settings of rank 0",
  { [`${Q}.lokr_w1`]: randomTensor([2, 2], 1), [`${Q}.lokr_w2`]: randomTensor([4, 4], 1) },
  /scaled by Infinity/,
  undefined,
  { config: { peft_type: "LOKR", r: 0, alpha: 1 } },
);
refuses("an alpha of several numbers", { ...GOOD, [`${Q}.alpha`]: numbers(1, 2) }, /not a number/);
refuses(
  "an alpha for nothing",
  { [`${Q}.alpha`]: numbers(1) },
  /it changes nothing/,
);
refuses(
  "a type that is no number's",
  { ...GOOD, [`${Q}.lora_B.weight`]: { ...UP, dtype: "i32" as "f32" } },
  /is of type I32, not F32, F16 or BF16/,
);
refuses(
  "two names of one tensor",
  { ...GOOD, [`${Q}.lora_down.weight`]: DOWN },
  /lora_down\.weight" repeats ".*lora_A\.weight"/,
);
refuses(
  "two names of one module",
  {
    ...GOOD,
    "blocks.0.attn1.to_q.lora_A.weight": DOWN,
    "blocks.0.attn1.to_q.lora_B.weight": UP,
  },
  /are the same module/,
);
refuses(
  "several LoRAs in one file",
  {
    [`${Q}.lora_A.first.weight`]: DOWN,
    [`${Q}.lora_B.first.weight`]: UP,
    [`${Q}.lora_A.second.weight`]: DOWN,
  },
  /it holds 2 LoRAs \(first, second\)/,
);
refuses("whole weights", { [`${Q}.weight`]: randomTensor([8, 8], 1) }, /is a whole weight/);
refuses(
  "methods that are not applied to modules that it has",
  { ...GOOD, [`${K}.oft_blocks`]: DOWN },
  /oft_blocks" is OFT, which is not applied/,
);
refuses("a file without tensors", {}, /it holds no tensors/);

const NESTED = "[".repeat(200_000) + "]".repeat(200_000);
const PEFT_CONFIG = { peft_type: "LORA", r: 2, lora_alpha: 4 };
for (
  const [what, config, message] of [
    ["settings that are no JSON", "{", /it is not valid JSON/],
    ["settings that are a list", [], /it must hold a JSON object/],
    ["another method", { peft_type: "IA3" }, /it is of the method "IA3"/],
    [
      "an alpha that is text",
      { ...PEFT_CONFIG, lora_alpha: "4" },
      /lora_alpha is "4", not a number/,
    ],
    ["another rank", { ...PEFT_CONFIG, r: 3 }, /has rank 2, .* says 3/],
    ["trained biases", { ...PEFT_CONFIG, bias: "all" }, /bias is "all"/],
    ["whole modules", { ...PEFT_CONFIG, modules_to_save: ["x"] }, /modules_to_save is set/],
    ["PiSSA", { ...PEFT_CONFIG, init_lora_weights: "pissa_niter_4" }, /convert it to a plain/],
    ["DoRA without lengths", { ...PEFT_CONFIG, use_dora: true }, /no lora_magnitude_vector/],
    [
      "an expression for a pattern",
      { ...PEFT_CONFIG, alpha_pattern: { "(a+)+": 1 } },
      /the expression/,
    ],
    ["a method that nests deep", `{"peft_type":${NESTED}}`, /of the method \[{80}…/],
    ["a method that is no text", { peft_type: { toString: 1 } }, /of the method \{"toString":1\}/],
    ["settings of 2 MB", " ".repeat(2 ** 21), /it has 2097152 bytes/],
  ] as const
) {
  refuses(`${what} in adapter_config.json`, GOOD, message, undefined, { config });
}
refuses(
  "diffusers' metadata that is damaged",
  GOOD,
  /the metadata of ".*" cannot be|Cannot read the metadata of/,
  undefined,
  { metadata: { lora_adapter_metadata: "{" } },
);

Deno.test("readLora() refuses an alpha that is not above 0", async () => {
  for (const alpha of [0, -1, NaN, Infinity]) {
    await assert.rejects(readTensors(GOOD, [WAN], { alpha }), RangeError);
  }
});

Deno.test("readLora() refuses files that are missing, truncated, or no safetensors", async () => {
  const bytes = loraFile(GOOD);
  for (const length of [0, 5, 40, bytes.byteLength - 1]) {
    await assertRefused(
      readBytes(bytes.subarray(0, length), [WAN]),
      /Cannot read ".*\.safetensors"/,
    );
  }
  const pickle = new TextEncoder().encode("PK\x03\x04 a zip with a pickle in it");
  await assertRefused(
    readBytes(pickle, [WAN]),
    /it is a zip archive without the directory at its end, so it is cut off/,
  );
  const page = new TextEncoder().encode("<!DOCTYPE html><html><title>Sign in</title>");
  await assertRefused(readBytes(page, [WAN]), /it is a web page and not the file itself/);
  const nested = encodeSafetensors(`{"a":${"[".repeat(100_000)}`);
  await assertRefused(readBytes(nested, [WAN]), /its header is not JSON/);
  await assertRefused(readLora("/nowhere/a.safetensors", [WAN]), /it does not exist/);
  await withFolder({}, (folder) => assertRefused(readLora(folder, [WAN]), /folder/));
});

Deno.test("readLora() refuses 10,000 unknown keys with a list that ends", async () => {
  const tensors = Object.fromEntries(
    Array.from({ length: 10_000 }, (_, i) => [`mystery.${i}.lora_A.weight`, numbers(i)]),
  );
  const { message, problems } = await assertRefused(
    readTensors(tensors, [WAN]),
    /none of its 10000 keys leads to a module of this model \(Wan\); its keys are like "mystery\.0/,
  );
  assert.ok(message.length < 400);
  assert.equal(problems.length, 201);
  assert.match(problems[0]!, /"mystery\.0\.lora_A\.weight" is no module/);
  assert.equal(problems[200], "and 9800 more");
  await assertRefused(
    readTensors({ ...tensors, ...GOOD }, [WAN]),
    /only 1 of its 10001 modules are this model's/,
  );
});

/** Keys that are telling, and the family that they are of. */
const FAMILIES: readonly (readonly [family: string, key: string, columns?: number])[] = [
  ["SD 1", "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn2_to_k", 768],
  ["SD 2", "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn2.to_k", 1024],
  ["SDXL", "lora_unet_input_blocks_4_1_transformer_blocks_0_attn2_to_k", 2048],
  ["SDXL", "lora_unet_input_blocks_8_1_transformer_blocks_9_attn1_to_k"],
  ["SD 1 or SD 2", "lora_unet_mid_block_attentions_0_transformer_blocks_0_attn1_to_q"],
  ["SD 3", "lora_unet_joint_blocks_0_context_block_attn_qkv"],
  ["SD 3", "transformer.transformer_blocks.0.ff.net.0.proj"],
  ["FLUX.1", "transformer.single_transformer_blocks.0.proj_mlp"],
  ["FLUX.1", "double_blocks.0.processor.qkv_lora1"],
  ["FLUX.1", "lora_unet_double_blocks_0_img_mod_lin"],
  ["FLUX.1 or FLUX.2", "diffusion_model.double_blocks.0.img_attn.qkv"],
  ["FLUX.2", "transformer.single_transformer_blocks.0.attn.to_qkv_mlp_proj"],
  ["FLUX.3", "diffusion_model.single_blocks.0.q_proj"],
  ["FLUX.3", "lora_unet_content_mode_blocks_image_0_mlp_in"],
  ["FLUX.3", "transformer.single_transformer_blocks.0.ff.linear_out"],
  ["AuraFlow", "lora_unet_double_layers_0_attn_w2q"],
  ["AuraFlow", "transformer.joint_transformer_blocks.0.attn.to_q"],
  ["Ovis-Image", "diffusion_model.double_blocks.0.img_mlp.gate_proj"],
  ["Z-Image", "diffusion_model.layers.0.attention.qkv", 3840],
  ["Z-Image", "transformer.layers.0.attention.to_q"],
  ["Lumina 2", "lora_unet_layers_0_feed_forward_w1", 2304],
  ["Lumina 2", "transformer.layers.0.attn.to_q"],
  ["Z-Image or Lumina 2", "lora_unet_layers_0_attention_out"],
  ["ERNIE-Image", "diffusion_model.layers.0.self_attention.to_q"],
  ["ERNIE-Image", "lora_unet_layers_0_mlp_linear_fc2"],
  ["Ideogram 4", "diffusion_model.layers.0.adaln_modulation"],
  ["Ideogram 4", "conditional_transformer.layers.0.attention.o"],
  ["Qwen-Image", "transformer.transformer_blocks.0.img_mlp.net.2"],
  ["Qwen-Image", "lora_unet_transformer_blocks_0_txt_mod_1"],
  ["Qwen-Image-2.1", "diffusion_model.transformer_blocks.0.img_mlp.gate_layer"],
  ["Krea 2", "diffusion_model.blocks.0.attn.wq"],
  ["Krea 2", "transformer.transformer_blocks.0.ff.up"],
  ["Anima", "lora_unet_blocks_0_cross_attn_output_proj"],
  ["Anima", "diffusion_model.blocks.0.self_attn.q_proj"],
  ["HunyuanVideo", "lora_unet_double_blocks_0_img_mod_linear"],
  ["HunyuanVideo 1.5", "lora_unet_double_blocks_0_img_attn_q"],
  ["HunyuanVideo 1.5", "transformer.transformer_blocks.53.ff_context.net.2"],
  ["LTX-2", "diffusion_model.transformer_blocks.0.audio_to_video_attn.to_q"],
  ["LTX-2", "lora_unet_transformer_blocks_0_audio_attn1_to_k"],
  ["LTX-Video or LTX-2 or PixArt", "diffusion_model.transformer_blocks.0.attn2.to_q"],
  ["HiDream", "diffusion_model.double_stream_blocks.0.block.ff_t.w1"],
  ["a CLIP text encoder", "lora_te_text_model_encoder_layers_0_mlp_fc1"],
  ["a language model", "base_model.model.model.layers.0.self_attn.q_proj"],
];

for (const [family, key, columns = 8] of FAMILIES) {
  Deno.test(`readLora() says that ${key} looks like ${family}`, async () => {
    const tensors: Record<string, LoraTensor> = {
      [`${key}.lora_down.weight`]: randomTensor([2, columns], 1),
      [`${key}.lora_up.weight`]: UP,
    };
    if (key.includes("ff.net")) {
      tensors["transformer.transformer_blocks.0.attn.add_q_proj.lora_A.weight"] = DOWN;
    }
    const { message } = await assertRefused(readTensors(tensors, [WAN]), /looks like one for/);
    assert.ok(message.endsWith(`; it looks like one for ${family}`), message);
  });
}

Deno.test("readLora() says that Wan's keys look like Wan to another model, and refuses a stranger that shares names", async () => {
  const zImage = madeUpComponent("Z-Image", { "layers.0.attention.to_q": [8, 8] });
  await assertRefused(readTensors(GOOD, [zImage]), /\(Z-Image\); it looks like one for Wan/);
  // Blocks of the same names and sizes, of which this model has one in five.
  const flux2 = madeUpComponent("FLUX.2", { "transformer_blocks.0.attn.to_q": [8, 8] });
  const qwen: Record<string, LoraTensor> = {
    "transformer_blocks.0.img_mlp.net.2.lora_A.weight": DOWN,
  };
  for (let i = 0; i < 5; i++) {
    qwen[`transformer_blocks.${i}.attn.to_q.lora_A.weight`] = DOWN;
    qwen[`transformer_blocks.${i}.attn.to_q.lora_B.weight`] = UP;
  }
  await assertRefused(
    readTensors(qwen, [flux2]),
    /only 1 of its 6 modules are this model's \(FLUX\.2\); it looks like one for Qwen-Image/,
  );
});
