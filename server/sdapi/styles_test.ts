import assert from "node:assert/strict";
import { parseCsv, styled } from "./styles.ts";

Deno.test("parseCsv() reads quoted cells, and lines of both kinds", () => {
  const text = 'name,prompt\r\nink,"a, ""b""\nc"\n\nlast,\n';
  assert.deepEqual(parseCsv(text), [["name", "prompt"], ["ink", 'a, "b"\nc'], ["last", ""]]);
});

Deno.test("styled() puts a style behind a prompt, or the prompt into it", () => {
  const styles = ["ink", "a {prompt} of $& paper", ""];
  assert.equal(styled("fox", styles), "a fox, ink of $& paper");
  assert.equal(styled("", ["ink"]), "ink");
});
