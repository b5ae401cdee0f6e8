import { strict as assert } from "node:assert";
import { InvalidArgumentError } from "commander";
import {
  address,
  boolean,
  duration,
  fieldOption,
  flagName,
  hosts,
  integer,
  lora,
  type LoraFlag,
  memory,
  nonNegative,
  normalizeArgs,
  origins,
  positive,
  seeds,
} from "./flags.ts";

Deno.test("normalizeArgs() takes underscores for dashes in names, never in values", () => {
  const args = ["serve", "--model_path", "a_b", "--output_path=c_d", "-x_y", "--", "__a"];
  assert.deepEqual(normalizeArgs(args), [
    "serve",
    "--model-path",
    "a_b",
    "--output-path=c_d",
    "-x_y",
    "--",
    "__a",
  ]);
});

Deno.test("normalizeArgs() knows the reference's other names", () => {
  assert.deepEqual(normalizeArgs(["--num_outputs_per_prompt", "2", "--output-file-path=a.png"]), [
    "--num-outputs",
    "2",
    "--output=a.png",
  ]);
});

Deno.test("flagName() parts words and the number at the end", () => {
  assert.equal(flagName("numFrames"), "--num-frames");
  assert.equal(flagName("guidanceScale2"), "--guidance-scale-2");
});

Deno.test("fieldOption() names other fields as flags, and values as they are", () => {
  const { long, description } = fieldOption("canny", {
    text: "What wins over `num_frames` and `size`, `cover` or not",
    kind: "text",
  });
  assert.equal(long, "--canny");
  assert.equal(description, "what wins over --num-frames and --size, cover or not");
});

Deno.test("origins() and hosts() collect what requests may bring, and refuse what they never do", () => {
  const first = origins("https://app.example/", undefined);
  assert.deepEqual(origins("app://obsidian.md", first), [
    "https://app.example/",
    "app://obsidian.md",
  ]);
  assert.deepEqual(origins("*", []), ["*"]);
  for (const text of ["app.example", "https://app.example/page", "https://", ""]) {
    assert.throws(() => origins(text, []), InvalidArgumentError, text);
  }
  assert.deepEqual(hosts("[::1]", hosts("images.example.org", [])), [
    "images.example.org",
    "[::1]",
  ]);
  for (const text of ["https://a.example", "a.example:443", "a.example/", ""]) {
    assert.throws(() => hosts(text, []), InvalidArgumentError, text);
  }
});

Deno.test("integer() names its greatest value to whoever exceeds it", () => {
  const highest = Number.MAX_SAFE_INTEGER;
  for (const text of ["18446744073709551615", "9007199254740993"]) {
    assert.throws(() => integer(-1)(text), new RegExp(`an integer from -1 to ${highest}`));
  }
  assert.throws(() => integer(-1)("1e3"), /an integer of at least -1/);
});

Deno.test("integer() accepts what lies in its range and refuses all else", () => {
  const port = integer(0, 65535);
  assert.equal(port("0"), 0);
  assert.equal(port(" 65535 "), 65535);
  for (const text of ["", "x", "1.5", "-1", "65536", "0x10", "1e3", "9".repeat(30)]) {
    assert.throws(() => port(text), InvalidArgumentError, text);
  }
});

Deno.test("positive() accepts numbers above 0", () => {
  assert.equal(positive("1.5"), 1.5);
  for (const text of ["0", "-1", "", "Infinity", "x"]) {
    assert.throws(() => positive(text), InvalidArgumentError, text);
  }
});

Deno.test("nonNegative() accepts numbers of at least 0", () => {
  assert.equal(nonNegative("3.5"), 3.5);
  for (const text of ["", "-1", "x", "Infinity", "NaN"]) {
    assert.throws(() => nonNegative(text), InvalidArgumentError, text);
  }
});

Deno.test("seeds() collects over arguments, with commas or spaces", () => {
  assert.deepEqual(seeds("3", seeds("1,2")), [1, 2, 3]);
  assert.deepEqual(seeds(" 1, 2 3 "), [1, 2, 3]);
  assert.throws(() => seeds("1,,x"), InvalidArgumentError);
});

Deno.test("boolean() reads words for yes and no", () => {
  assert.equal(boolean("True"), true);
  assert.equal(boolean("off"), false);
  assert.throws(() => boolean("maybe"), InvalidArgumentError);
});

Deno.test("memory() reads units, and GiB without one", () => {
  assert.equal(memory("8"), 8 * 2 ** 30);
  assert.equal(memory("6.5g"), 6.5 * 2 ** 30);
  assert.equal(memory("900M"), 900 * 2 ** 20);
  assert.equal(memory("2 GiB"), 2 * 2 ** 30);
  assert.equal(memory("64kb"), 65536);
  for (const text of ["", "0", "-1", "8X", "G"]) {
    assert.throws(() => memory(text), InvalidArgumentError, text);
  }
});

Deno.test("duration() reads lengths of time as milliseconds", () => {
  assert.equal(duration("0"), 0);
  assert.equal(duration("0d"), 0);
  assert.equal(duration("90s"), 90_000);
  assert.equal(duration(" 1.5 H "), 5_400_000);
  assert.equal(duration("7d"), 7 * 24 * 60 * 60 * 1000);
  assert.equal(duration("2w"), duration("14d"));
});

Deno.test("duration() refuses numbers without a unit, and nonsense", () => {
  for (const text of ["", "7", "-1d", "d", "1y", "1d12h", "1e3s", "9".repeat(30) + "w"]) {
    assert.throws(() => duration(text), InvalidArgumentError, text);
  }
});

Deno.test("lora() reads a path with strength, target and alpha, and leaves other colons to the path", () => {
  const cases: [text: string, lora: LoraFlag][] = [
    ["a.safetensors", { path: "a.safetensors" }],
    ["a.safetensors:0.8", { path: "a.safetensors", strength: 0.8 }],
    ["org/name:-1:transformer_2", { path: "org/name", strength: -1, target: "transformer_2" }],
    ["a.safetensors:all", { path: "a.safetensors", target: "all" }],
    ["C:\\x\\a.safetensors:1e-1", { path: "C:\\x\\a.safetensors", strength: 0.1 }],
    ["a:b", { path: "a:b" }],
    ["a.safetensors:alpha=16", { path: "a.safetensors", alpha: 16 }],
    ["a:0.5:all:alpha=0.5", { path: "a", strength: 0.5, target: "all", alpha: 0.5 }],
  ];
  for (const [text, expected] of cases) assert.deepEqual(lora(text), [expected]);
  assert.deepEqual(lora("b", lora("a")), [{ path: "a" }, { path: "b" }]);
  for (
    const text of [
      "",
      "a.safetensors:x",
      "a:1:x",
      "a.safetensors:1:transformer:2",
      "a:alpha=",
      "a:alpha=0",
    ]
  ) {
    assert.throws(() => lora(text), InvalidArgumentError, text);
  }
});

Deno.test("address() takes web addresses, without the slash at their end", () => {
  assert.equal(address(" https://a.example/denoise/ "), "https://a.example/denoise");
  assert.equal(address("http://127.0.0.1:30000"), "http://127.0.0.1:30000");
  for (const text of ["", "a.example", "ftp://a.example", "https://a.example/?b", "http://u@a"]) {
    assert.throws(() => address(text), InvalidArgumentError, text);
  }
});
