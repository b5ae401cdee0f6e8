import { strict as assert } from "node:assert";
import { ClosingBoundary, readBoundary } from "./closing_boundary.ts";

Deno.test("readBoundary() reads plain and quoted ones, and refuses what is none", () => {
  const boundaries: [string, string | undefined][] = [
    ["multipart/form-data; boundary=abc", "abc"],
    ['multipart/form-data; charset=utf-8; Boundary="a b"; x=y', "a b"],
    ["multipart/form-data", undefined],
    ["multipart/form-data; boundary=", undefined],
    ['multipart/form-data; boundary=""', undefined],
    ['multipart/form-data; boundary="', undefined],
    ["multipart/form-data; boundary=\u00ff", undefined],
    [`multipart/form-data; boundary=${"a".repeat(201)}`, undefined],
  ];
  for (const [type, expected] of boundaries) assert.equal(readBoundary(type), expected, type);
});

Deno.test("ClosingBoundary finds the end wherever the body is cut", () => {
  const form = new TextEncoder().encode("--b\r\nx: y\r\n\r\n--b-\r\n--b\r\n\r\n\r\n--b--");
  const body = new TextEncoder().encode("\r\n--b--\r\n");
  const whole = new Uint8Array([...form, ...body]);
  for (let size = 1; size <= whole.length; size++) {
    const closing = new ClosingBoundary("b");
    let length = 0;
    for (let at = 0;; at += size) {
      const taken = closing.push(whole.subarray(at, at + size));
      length += taken ?? size;
      if (taken !== undefined) break;
    }
    assert.equal(length, form.length, `pieces of ${size} bytes`);
  }
});

Deno.test("ClosingBoundary takes a form that is nothing but its end", () => {
  assert.equal(new ClosingBoundary("b").push(new TextEncoder().encode("--b--\r\n--b--")), 5);
});
