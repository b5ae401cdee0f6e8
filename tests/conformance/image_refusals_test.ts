/** Requests for images that are refused before any work. */
import { strict as assert } from "node:assert";
import { isErrorBody, testService } from "../fakes/service.ts";

const PATH = "/v1/images/generations";

/** Bodies that are refused: what is wrong, the body, the status, and a part of the message. */
const REFUSED: [title: string, body: unknown, status: number, message: string | RegExp][] = [
  ["a missing prompt", {}, 422, "Field required"],
  ["a prompt of the wrong type", { prompt: 5 }, 422, "should be a valid string, got 5"],
  ["a body that is a list", [1], 422, "should be a valid dictionary, got a list of 1"],
  ["a body that is null", null, 422, "Input should be a valid dictionary"],
  ["a blank prompt", { prompt: " \n" }, 400, "prompt is empty"],
  ["a prompt of 100 kB", { prompt: "a".repeat(100_000) }, 400, "100000 characters"],
  ["n as words", { prompt: "a", n: "two" }, 422, "should be a valid integer, got 'two'"],
  ["n as a fraction in text", { prompt: "a", n: "1.5" }, 422, "Input should be a valid integer"],
  ["n as a fraction", { prompt: "a", n: 1.5 }, 422, "Input should be a valid integer"],
  ["n beyond integers", { prompt: "a", n: 1e30 }, 422, /than or equal to 90071\d+, got 1e\+30$/],
  ["n of 0", { prompt: "a", n: 0 }, 400, "n must be between 1 and 10, got 0"],
  ["n of 11", { prompt: "a", n: 11 }, 400, "n must be between 1 and 10, got 11"],
  ["size as words", { prompt: "a", size: "big" }, 400, "positive WIDTHxHEIGHT"],
  ["size of zero", { prompt: "a", size: "0x64" }, 400, "positive WIDTHxHEIGHT"],
  ["size off the grid", { prompt: "a", size: "70x64" }, 400, "the nearest size is 64x64"],
  ["size too large", { prompt: "a", size: "1024x1024" }, 400, "the nearest size is 256x256"],
  ["width below 1", { prompt: "a", width: 0 }, 400, "width must be positive"],
  ["height off the grid", { prompt: "a", height: 50 }, 400, "multiples of 16"],
  ["steps of 0", { prompt: "a", num_inference_steps: 0 }, 400, "must be positive"],
  ["too many steps", { prompt: "a", num_inference_steps: 51 }, 400, "at most 50, got 51"],
  ["negative guidance", { prompt: "a", guidance_scale: -1 }, 400, "must be non-negative"],
  ["infinite guidance", '{"prompt":"a","guidance_scale":1e999}', 422, "finite number"],
  ["a negative seed", { prompt: "a", seed: -2 }, 400, "seed must be a non-negative int"],
  ["a seed as text", { prompt: "a", seed: "x" }, 422, "integer or a list"],
  ["an empty seed list", { prompt: "a", seed: [] }, 400, "seed list must not be empty"],
  [
    "a seed list of another length",
    { prompt: "a", seed: [1, 2], n: 3 },
    400,
    "Cannot use 2 seeds for 3 outputs",
  ],
  [
    "response_format",
    { prompt: "a", response_format: "x" },
    400,
    "response_format=x is not supported",
  ],
  [
    "output_quality",
    { prompt: "a", output_quality: "best" },
    400,
    /^output_quality must be one of \['default', 'maximum',/,
  ],
  ["quality", { prompt: "a", quality: "best" }, 400, /quality must be one of \['auto', 'exact',/],
  ["output_format", { prompt: "a", output_format: "gif" }, 400, "output_format must be one of"],
  ["background", { prompt: "a", background: "red" }, 400, "background must be one of"],
  [
    "a transparent JPEG",
    { prompt: "a", background: "transparent", output_format: "jpg" },
    400,
    "transparent background as JPEG",
  ],
  ["output_compression", { prompt: "a", output_compression: 101 }, 400, "between 0 and 100"],
  ["generator_device", { prompt: "a", generator_device: "tpu" }, 400, "must be one of"],
  ["service_tier", { prompt: "a", service_tier: "priority" }, 400, "must be one of"],
  [
    "enhance_prompt",
    { prompt: "a", enhance_prompt: true },
    400,
    "Prompt enhancement requires --prompt-enhancer-config",
  ],
  ["an unknown task", { prompt: "a", task_type: "T2X" }, 400, "Unknown task_type 'T2X'; choose"],
  [
    "an unsupported task",
    { prompt: "a", task_type: "ti2i" },
    400,
    "Unsupported task_type TI2I; this pipeline supports T2V, T2I",
  ],
  [
    "a task with another output",
    { prompt: "a", task_type: "t2v" },
    400,
    "task_type T2V produces VIDEO, but this endpoint produces IMAGE",
  ],
  ["output_path", { prompt: "a", output_path: "/etc" }, 400, "may not name paths"],
  ["perf_dump_path", { prompt: "a", perf_dump_path: "x" }, 400, "may not name paths"],
  ["extra_params", { prompt: "a", extra_params: "{" }, 400, "extra_params is not valid JSON"],
  ["extra_body", { prompt: "a", extra_body: [1] }, 400, "extra_body: it must be a JSON object"],
  ["a wrong type in extra_body", { prompt: "a", extra_body: { n: "x" } }, 422, "valid integer"],
  [
    "a LoRA with a key that nobody knows",
    { prompt: "a", loras: [{ path: "x", weight: 1 }] },
    422,
    /^Cannot read field 'loras\.0': Extra inputs are not permitted: 'weight'$/,
  ],
  ["malformed JSON", "{", 400, "Cannot read the body as JSON"],
  ["an empty body", "", 400, "it is empty"],
];

for (const [title, body, status, message] of REFUSED) {
  Deno.test(`POST ${PATH} refuses ${title} with ${status}, before any work`, async () => {
    await using service = await testService();
    const response = await service.post(PATH, body);
    const answer = await response.json();
    assert.equal(response.status, status, JSON.stringify(answer));
    assert.ok(isErrorBody(answer));
    const { error } = answer;
    if (typeof message === "string") assert.ok(error.message.includes(message), error.message);
    else assert.match(error.message, message);
    assert.equal(Array.isArray(answer.detail), status === 422);
    assert.equal(service.engine.requests.length, 0);
  });
}
