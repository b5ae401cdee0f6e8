import { strict as assert } from "node:assert";
import { CommanderError } from "commander";
import { OutOfMemoryError } from "../runtime/mod.ts";
import { describeFailure, UsageError } from "./failure.ts";

Deno.test("describeFailure() tells wrong usage, failure and cancelling apart", () => {
  const usage = new CommanderError(1, "commander.unknownOption", "error: unknown option '--x'");
  assert.deepEqual(describeFailure(usage), { sentence: "unknown option '--x'", status: 2 });
  assert.deepEqual(describeFailure(new UsageError("Cannot read x")), {
    sentence: "Cannot read x",
    status: 2,
  });
  assert.deepEqual(describeFailure(new Error("Cannot go on:\n  no disk")), {
    sentence: "Cannot go on: no disk",
    status: 1,
  });
  assert.equal(describeFailure(new DOMException("", "AbortError")).status, 130);
});

Deno.test("describeFailure() says what flags of other programs are called here", () => {
  const steps = new CommanderError(1, "commander.unknownOption", "error: unknown option '--steps'");
  const { sentence } = describeFailure(steps);
  assert.equal(sentence, "unknown option '--steps'; use --num-inference-steps");
});

Deno.test("describeFailure() calls settings what the command line calls them", () => {
  const error = new RangeError(
    "Cannot steer: controlStart must be below controlEnd, got mycontrolEnd",
  );
  assert.equal(
    describeFailure(error).sentence,
    "Cannot steer: --control-start must be below --control-end, got mycontrolEnd",
  );
});

Deno.test("describeFailure() names flags for parts, and leaves paths alone", () => {
  const error = new Error(
    'Cannot open "/m/parts.vae": name each with parts.vae and parts.tokenizer2',
  );
  assert.equal(
    describeFailure(error).sentence,
    'Cannot open "/m/parts.vae": name each with --vae and --tokenizer-2',
  );
});

Deno.test("describeFailure() keeps the lines of the table that says what memory is short of", () => {
  const error = new OutOfMemoryError("Cannot make 64x64:\nstage  together\ntext     3.0 MB", 2, 1);
  assert.deepEqual(describeFailure(error), { sentence: error.message, status: 1 });
});

Deno.test("describeFailure() says nothing more after help and version", () => {
  const help = new CommanderError(0, "commander.helpDisplayed", "(outputHelp)");
  assert.deepEqual(describeFailure(help), { sentence: "", status: 0 });
});

Deno.test("describeFailure() finds words for whatever was thrown", () => {
  for (const thrown of [new Error(""), "text", undefined, null, 5]) {
    const { sentence, status } = describeFailure(thrown);
    assert.ok(sentence.length > 0);
    assert.equal(status, 1);
  }
});
