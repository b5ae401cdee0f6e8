import assert from "node:assert/strict";
import { parsePrompt, type PromptSyntax } from "./parse_prompt.ts";

type Expected = readonly (readonly [text: string, weight: number] | "break")[];

function assertPieces(syntax: PromptSyntax, cases: readonly (readonly [string, Expected])[]): void {
  for (const [prompt, expected] of cases) {
    const pieces = parsePrompt(prompt, syntax);
    const texts = expected.map((piece) => (piece === "break" ? piece : piece[0]));
    assert.deepEqual(
      pieces.map((piece) => (piece === "break" ? piece : piece.text)),
      texts,
      prompt,
    );
    pieces.forEach((piece, i) => {
      const known = expected[i]!;
      if (piece === "break" || known === "break") return;
      assert.ok(
        Math.abs(piece.weight - known[1]) < 1e-9,
        `${prompt}: ${piece.weight}, ${known[1]}`,
      );
    });
  }
}

Deno.test("parsePrompt() takes a plain prompt as it is", () => {
  assertPieces("plain", [["(a:1.2) [b] BREAK \\(", [["(a:1.2) [b] BREAK \\(", 1]]]]);
});

Deno.test("parsePrompt() multiplies the weights of AUTOMATIC1111's brackets, escapes them and closes them at the end", () => {
  assertPieces("a1111", [
    ["a red fox", [["a red fox", 1]]],
    ["", []],
    ["a (red) fox", [["a ", 1], ["red", 1.1], [" fox", 1]]],
    ["a [red] fox", [["a ", 1], ["red", 1 / 1.1], [" fox", 1]]],
    ["a (red:1.3) fox", [["a ", 1], ["red", 1.3], [" fox", 1]]],
    ["a (red : .5 ) fox", [["a ", 1], ["red ", 0.5], [" fox", 1]]],
    ["((a:1.5) b)", [["a", 1.5 * 1.1], [" b", 1.1]]],
    ["(a [b] c:2)", [["a ", 2], ["b", 2 / 1.1], [" c", 2]]],
    ["(a:-1)", [["a", -1]]],
    ["(one)(two)", [["onetwo", 1.1]]],
    ["\\(a\\) \\[b\\] \\\\ c\\d", [["(a) [b] \\ cd", 1]]],
    ["(a (b", [["a ", 1.1], ["b", 1.1 * 1.1]]],
    ["[a", [["a", 1 / 1.1]]],
    ["a) b] c:1.2)", [["a) b] c:1.2)", 1]]],
    ["at 10:30 (noon)", [["at 10:30 ", 1], ["noon", 1.1]]],
    ["(a:1.2.3)", [["a:1.2.3)", 1.1]]],
    ["a BREAK b, BREAKFAST", [["a", 1], "break", ["b, BREAKFAST", 1]]],
    ["(a BREAK b:1.2)", [["a", 1.2], "break", ["b", 1.2]]],
    ["BREAK", ["break"]],
  ]);
});

Deno.test("parsePrompt() sets the weights of ComfyUI's parentheses, and takes brackets and BREAK as text", () => {
  assertPieces("comfyui", [
    ["a red fox", [["a red fox", 1]]],
    ["", []],
    ["a (red) fox", [["a ", 1], ["red", 1.1], [" fox", 1]]],
    ["a (red:1.3) fox", [["a ", 1], ["red", 1.3], [" fox", 1]]],
    ["((a))", [["a", 1.1 * 1.1]]],
    ["((a:1.5) b)", [["a", 1.5], [" b", 1.1]]],
    ["(a (b) c:2)", [["a ", 2], ["b", 2 * 1.1], [" c", 2]]],
    ["(a: 1e-1 )", [["a", 0.1]]],
    ["(a:b)", [["a:b", 1.1]]],
    ["[a] BREAK b", [["[a] BREAK b", 1]]],
    ["\\(a\\) (b\\):1.2)", [["(a) ", 1], ["b)", 1.2]]],
    ["a (b (c) d", [["a ", 1], ["(b (c) d", 1]]],
    ["a) (b) c", [["a) (b) c", 1]]],
  ]);
});

Deno.test("parsePrompt() refuses prompts of AUTOMATIC1111 that change from step to step, and nothing that looks like them", () => {
  for (const prompt of ["[a:b:0.5]", "x [a:10] y", "[a::.3]", "[cow|horse]", "([a:(b:1.2): 5 ])"]) {
    assert.throws(
      () => parsePrompt(prompt, "a1111"),
      /Cannot read the prompt: "\[.*\]" changes the prompt from step to step, which is not supp/,
      prompt,
    );
    parsePrompt(prompt, "comfyui");
  }
  for (
    const prompt of [
      "[a:b]",
      "[(a:1.2)]",
      "\\[a:0.5\\]",
      "(a|b)",
      "a|b:0.5",
      "[a] :0.5]",
      "(a:0.5)",
    ]
  ) {
    parsePrompt(prompt, "a1111");
  }
});

Deno.test("parsePrompt() refuses prompts that nest without an end, and weights beyond all use", () => {
  for (const syntax of ["a1111", "comfyui"] as const) {
    assert.throws(
      () => parsePrompt(`${"(".repeat(101)}a${")".repeat(101)}`, syntax),
      /Cannot read the prompt: more than 100 parentheses are open; write \\\( for one/,
    );
    assert.throws(
      () => parsePrompt("(a fox:2000)", syntax),
      /"a fox" weighs 2000, the limit is 1000/,
    );
  }
});
