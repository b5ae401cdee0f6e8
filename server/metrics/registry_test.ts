import { strict as assert } from "node:assert";
import { Counter, Gauge, Histogram } from "./registry.ts";

Deno.test("Counter.text() has one line for each combination of labels, escaped", () => {
  const counter = new Counter("a_total", "Some help.", ["x", "y"]);
  assert.equal(counter.text(), "");
  counter.add("1", "2");
  counter.add("1", "2");
  counter.add('"\\\n', "");
  assert.equal(
    counter.text(),
    "# HELP a_total Some help.\n# TYPE a_total counter\n" +
      'a_total{x="1",y="2"} 2\na_total{x="\\"\\\\\\n",y=""} 1\n',
  );
});

Deno.test("Gauge.text() reads its numbers when it is asked", () => {
  let value = 1;
  const gauge = new Gauge("g", "Help.", [], () => [[[], value]]);
  value = 2.5;
  assert.equal(gauge.text(), "# HELP g Help.\n# TYPE g gauge\ng 2.5\n");
});

Deno.test("Histogram.text() adds up its buckets, to infinity", () => {
  const histogram = new Histogram("h", "Help.", ["k"], [1, 2]);
  for (const value of [0.5, 1, 1.5, 9]) histogram.observe(value, "a");
  assert.equal(
    histogram.text(),
    "# HELP h Help.\n# TYPE h histogram\n" +
      'h_bucket{k="a",le="1"} 2\nh_bucket{k="a",le="2"} 3\nh_bucket{k="a",le="+Inf"} 4\n' +
      'h_sum{k="a"} 12\nh_count{k="a"} 4\n',
  );
});
