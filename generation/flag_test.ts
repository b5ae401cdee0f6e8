import { strict as assert } from "node:assert";
import { address, boolean, duration, integer, memory, nonNegative, positive } from "./flag.ts";

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
    assert.throws(() => port(text), RangeError, text);
  }
});

Deno.test("positive() accepts numbers above 0", () => {
  assert.equal(positive("1.5"), 1.5);
  for (const text of ["0", "-1", "", "Infinity", "x"]) {
    assert.throws(() => positive(text), RangeError, text);
  }
});

Deno.test("nonNegative() accepts numbers of at least 0", () => {
  assert.equal(nonNegative("3.5"), 3.5);
  for (const text of ["", "-1", "x", "Infinity", "NaN"]) {
    assert.throws(() => nonNegative(text), RangeError, text);
  }
});

Deno.test("boolean() reads words for yes and no", () => {
  assert.equal(boolean("True"), true);
  assert.equal(boolean("off"), false);
  assert.throws(() => boolean("maybe"), RangeError);
});

Deno.test("memory() reads units, and GiB without one", () => {
  assert.equal(memory("8"), 8 * 2 ** 30);
  assert.equal(memory("6.5g"), 6.5 * 2 ** 30);
  assert.equal(memory("900M"), 900 * 2 ** 20);
  assert.equal(memory("2 GiB"), 2 * 2 ** 30);
  assert.equal(memory("64kb"), 65536);
  for (const text of ["", "0", "-1", "8X", "G"]) {
    assert.throws(() => memory(text), RangeError, text);
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
    assert.throws(() => duration(text), RangeError, text);
  }
});

Deno.test("address() takes web addresses, without the slash at their end", () => {
  assert.equal(address(" https://a.example/denoise/ "), "https://a.example/denoise");
  assert.equal(address("http://127.0.0.1:30000"), "http://127.0.0.1:30000");
  for (const text of ["", "a.example", "ftp://a.example", "https://a.example/?b", "http://u@a"]) {
    assert.throws(() => address(text), RangeError, text);
  }
});
