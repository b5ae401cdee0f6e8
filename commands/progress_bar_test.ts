import { strict as assert } from "node:assert";
import { describeProgress, duration, loadingBar, ProgressBar } from "./progress_bar.ts";

Deno.test("ProgressBar draws over itself on a terminal and takes itself away", () => {
  let written = "";
  const bar = new ProgressBar({ isTerminal: true, write: (text) => void (written += text) });
  bar.show(0.5, "Working", "1/2");
  bar.show(0.5, "Working", "1/2");
  assert.equal(written, `\r\x1b[KWorking ${"█".repeat(12)}${"░".repeat(12)} 1/2`);
  bar.clear();
  assert.ok(written.endsWith("1/2\r\x1b[K"));
});

Deno.test("ProgressBar keeps to a row of the terminal", () => {
  for (
    const [columns, line] of [[30, "Working ███░░░ some 1/2 words"], [12, "Working som"]] as const
  ) {
    let written = "";
    const write = (text: string) => void (written += text);
    new ProgressBar({ isTerminal: true, columns: () => columns, write })
      .show(0.5, "Working", "some 1/2 words");
    assert.equal(written, `\r\x1b[K${line}`);
  }
});

Deno.test("ProgressBar writes nothing where there is no terminal", () => {
  let written = "";
  const bar = new ProgressBar({ isTerminal: false, write: (text) => void (written += text) });
  bar.show(0.5, "Working");
  bar.clear();
  assert.equal(written, "");
});

Deno.test("ProgressBar writes lines now and then where there is no terminal and they are wanted", async () => {
  let written = "";
  const bar = new ProgressBar({ isTerminal: false, write: (text) => void (written += text) }, 20);
  bar.show(0.1, "org/model", "1/10 GB");
  await new Promise((resolve) => setTimeout(resolve, 25));
  bar.show(0.5, "org/model", "5/10 GB");
  bar.show(0.6, "org/model", "6/10 GB");
  bar.clear();
  assert.equal(written, "org/model 50 % 5/10 GB\n");
});

Deno.test("loadingBar() goes on while kernels are compiled and weights come in", () => {
  let written = "";
  const bar = new ProgressBar({ isTerminal: true, write: (text) => void (written += text) });
  const show = loadingBar(bar);
  const lines = ([
    ["download", 0.5],
    ["kernels", 0.25, 1, 4],
    ["weights", 0.5],
    ["weights", 1],
    ["kernels", 0.75, 3, 4],
    ["kernels", 1, 4, 4],
  ] as const).map(([stage, fraction, done, total]) => {
    written = "";
    show({ stage, fraction, ...(done && total && { done, total }) });
    const filled = written.split("█").length - 1;
    return [filled / 24, written.replace("\r\x1b[K", "").replaceAll(/[█░]/g, "")];
  });
  assert.deepEqual(lines, [
    [12 / 24, "Fetching "],
    [6 / 24, "Loading  compiling kernels 1/4"],
    [9 / 24, "Loading  compiling kernels 1/4"],
    [15 / 24, "Loading  compiling kernels 1/4"],
    [21 / 24, "Loading  compiling kernels 3/4"],
    [1, "Loading "],
  ]);
});

Deno.test("describeProgress() counts steps and tells the time that is left", () => {
  const progress = { step: 12, totalSteps: 20, fraction: 0.6 };
  assert.equal(describeProgress({ ...progress, stage: "denoise" }), "12/20 steps");
  assert.equal(
    describeProgress({ ...progress, stage: "denoise", etaSeconds: 3 }),
    "12/20 steps, 3.0 s left",
  );
  assert.equal(describeProgress({ ...progress, stage: "decode" }), "decoding");
  assert.equal(
    describeProgress({ stage: "compile", step: 12, totalSteps: 57, fraction: 0 }),
    "compiling kernels 12/57",
  );
});

Deno.test("duration() chooses units for people", () => {
  const cases: [seconds: number, text: string][] = [
    [0.84, "0.8 s"],
    [9.96, "10 s"],
    [59.6, "1 min 0 s"],
    [200, "3 min 20 s"],
    [7500, "2 h 5 min"],
  ];
  for (const [seconds, text] of cases) assert.equal(duration(seconds), text);
});
